"""The gate at "done" through the gateway: told at the request after the answer, in all three formats."""

import itertools
import json
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from gateway.test_guidance_on_the_wire import answer, state
from pointsman.guidance import GuidancePolicy, ProviderSpec
from pointsman.stores.ledger import MemoryLedger
from pointsman.tiers import EscalationPolicy
from pointsman.vocabulary import Mode
from support.servers import ScriptedUpstream, gateway
from support.tool_histories import FORMATS, Turn, body, turn

SAID = "The last test run of this task failed"
EDIT: Turn = turn("edit", {"file_path": "a.py"}, "ok")
RED: Turn = turn("bash", {"command": "pytest -q"}, "F..\n1 failed, 2 passed in 0.02s")
GREEN: Turn = turn("bash", {"command": "pytest -q"}, "...\n3 passed in 0.02s")
READ: Turn = turn("bash", {"command": "cat notes.txt"}, "a note")


def history(wire: str, *parts: Turn | None) -> dict[str, Any]:
    """A request whose history is these turns; None: an answer of the model without calls."""
    _, field, write = FORMATS[wire]
    said: dict[str, Any] = {"role": "assistant", "content": "Done."}
    if wire == "responses":
        said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}
    items: list[Any] = []
    for number, part in enumerate(parts):
        written = [said] if part is None else write([*["x"] * number, part])[number:]
        items += written
    return body(wire, []) | {field: items}


def told(wire: str, requests: Sequence[dict[str, Any]], **settings: Any) -> tuple[list[bool], MemoryLedger]:
    """At which requests of one conversation the upstream first read the text, and what was recorded."""
    gate = ProviderSpec(provider="done_gate")
    policy = GuidancePolicy(mode=Mode.ON, default_providers=False, providers=(gate,), **settings)
    upstream, path = ScriptedUpstream(answer), FORMATS[wire][0]
    with upstream.running() as url:
        live = state(f"{url}/v1", policy)
        with gateway(live) as served, httpx.Client() as client:
            for request in requests:
                answered = client.post(served.url + path, json=request, headers={"x-session-id": "s"})
                assert answered.status_code == 200, answered.text
        ledger = live.runtime.ledger
    assert isinstance(ledger, MemoryLedger)
    counts = [0, *(each.body.count(SAID.encode()) for each in upstream.asked)]
    return [now > old for old, now in itertools.pairwise(counts)], ledger


def growing(wire: str, *parts: Turn | None) -> list[dict[str, Any]]:
    """The requests of a conversation: one before each answer, and one after its last part."""
    ends = [n for n, part in enumerate(parts) if part is None or not isinstance(part, str)]
    return [history(wire, *parts[:end]) for end in ends if end] + [history(wire, *parts)]


@pytest.mark.parametrize("wire", FORMATS)
@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (["fix it", EDIT, RED, None, "and?"], True),
        (["fix it", EDIT, GREEN, None, "and?"], False),
        (["fix it", EDIT, RED], False),  # still at work
        (["fix it", EDIT, RED, "stop, use the other file"], False),  # a person came between: it was not done
        (["fix it", RED, None, "and?"], False),  # nothing was edited
        (["what is this?", None, "and that?"], False),  # dialogue
        (["fix it", EDIT, GREEN, None, "thanks", None, "and?"], False),
    ],
)
def test_the_request_after_an_unchecked_end_is_told(
    wire: str, parts: list[Turn | None], expected: bool
) -> None:
    found, _ = told(wire, growing(wire, *parts))
    assert found == [*[False] * (len(found) - 1), expected]


@pytest.mark.parametrize("wire", ["chat", "messages"])
def test_a_reminder_of_the_client_before_the_answer_hides_no_end(wire: str) -> None:
    """Claude Code writes such messages into the middle of a conversation."""
    requests = growing(wire, "fix it", EDIT, RED, None, "and?")
    requests[-1][FORMATS[wire][1]].insert(-2, {"role": "system", "content": "Keep a list of tasks."})
    found, _ = told(wire, requests)
    assert found == [*[False] * (len(found) - 1), True]


def test_it_is_told_once_and_an_answer_without_work_is_no_end() -> None:
    parts: list[Turn | None] = [
        "fix it",
        EDIT,
        RED,
        None,
        "and?",
        None,
        "well?",
        READ,
        None,
        "so?",
        EDIT,
        RED,
        None,
    ]
    found, ledger = told("chat", [*growing("chat", *parts), history("chat", *parts, "again?")])
    assert found.count(True) == 1
    reasons = [
        reason.detail
        for entry in (record.decision for record in ledger.records())
        for reason in entry.reasons
        if reason.code == "guidance.done_gate"
    ]
    assert reasons == ["the last test run failed"]


@pytest.mark.parametrize("settings", [{"control": 1.0}, {"mode": Mode.OBSERVE}])
def test_the_control_group_and_observe_are_recorded_alone(settings: dict[str, Any]) -> None:
    wire = "chat"
    requests = growing(wire, "fix it", EDIT, RED, None, "and?")
    gate = ProviderSpec(provider="done_gate")
    policy = GuidancePolicy(**{"mode": Mode.ON, "default_providers": False, "providers": (gate,), **settings})
    upstream = ScriptedUpstream(answer)
    with upstream.running() as url:
        live = state(f"{url}/v1", policy)
        with gateway(live) as served, httpx.Client() as client:
            for request in requests:
                client.post(served.url + FORMATS[wire][0], json=request, headers={"x-session-id": "s"})
        ledger = live.runtime.ledger
    assert isinstance(ledger, MemoryLedger)
    assert not any(SAID.encode() in each.body for each in upstream.asked)
    hints = [
        hint
        for entry in (record.decision for record in ledger.records())
        if entry.guidance
        for hint in entry.guidance.hints
    ]
    assert [(hint.provider, hint.delivered) for hint in hints] == [("done_gate", False)]


@pytest.mark.parametrize("wire", FORMATS)
@pytest.mark.parametrize(
    ("parts", "control", "model"),
    [
        (["fix it", EDIT, RED, None, "and?"], 0.0, "large"),
        (["fix it", EDIT, GREEN, None, "and?"], 0.0, "small"),
        (["fix it", EDIT, RED, None, "and?"], 1.0, "small"),  # the control group of the escalation
    ],
)
def test_the_gate_raises_the_tier_where_escalation_is_on(
    wire: str, parts: list[Turn | None], control: float, model: str
) -> None:
    """A stronger model takes over at the request that is told, and for the rest of that user message."""
    policy = GuidancePolicy(
        mode=Mode.ON, default_providers=False, providers=(ProviderSpec(provider="done_gate"),)
    )
    upstream, path = ScriptedUpstream(answer), FORMATS[wire][0]
    requests = [*growing(wire, *parts), history(wire, *parts, READ)]
    with upstream.running() as url:
        live = state(f"{url}/v1", policy, EscalationPolicy(mode=Mode.ON, control=control))
        with gateway(live) as served, httpx.Client() as client:
            for request in requests:
                sent = request | {"model": "auto"}
                client.post(served.url + path, json=sent, headers={"x-session-id": "s"})
    models = [json.loads(each.body)["model"] for each in upstream.asked]
    assert models == [*["small"] * (len(requests) - 2), model, model]
    assert ("Another model worked on this task" in upstream.asked[-2].body.decode()) is (model == "large")

"""Every classifier that a configuration can name speaks through the gateway, in all three formats."""

import json
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from gateway.test_guidance_on_the_wire import answer, state
from pointsman.gateway._live_state import LiveState
from pointsman.guidance import GuidancePolicy, ProviderSpec
from pointsman.stores.ledger import MemoryLedger
from pointsman.vocabulary import Mode
from support.servers import ScriptedUpstream, gateway
from support.tool_histories import FORMATS, Call, Turn, body, turn

SAID = "Said by a provider."


def failing(count: int) -> list[Turn]:
    return [turn("bash", {"n": n}, f"cannot open file {n}", failed=True) for n in range(count)]


def working(count: int, tool: str = "edit") -> list[Turn]:
    return [turn(tool, {"n": n}, f"result {n}") for n in range(count)]


SAME: Turn = turn("bash", {"c": "ls"}, "a.py")
WRONG: Turn = turn("bash", {"c": "make"}, "missing separator in line 3", failed=True)

#: Classifier, turns of the model until it first speaks, and turns at which it stays quiet.
TABLE: dict[str, tuple[Any, list[Turn], list[Turn]]] = {
    "doom_loop": ({"name": "doom_loop", "min_repetitions": 2}, [SAME, SAME], [SAME, *working(1)]),
    "error_streak": ({"name": "error_streak", "threshold": 2}, failing(2), [*failing(1), *working(2)]),
    "error_rate": (
        {"name": "error_rate", "threshold": 2, "window": 4},
        [*failing(1), *working(1), WRONG],
        [*failing(1), *working(3)],
    ),
    "repeated_error": (
        {"name": "repeated_error", "threshold": 2},
        [turn("bash", {"n": n}, "no space left on device", failed=True) for n in range(2)],
        [WRONG, WRONG],
    ),
    "progress_stall": (
        {"name": "progress_stall", "stall_threshold": 2},
        [SAME, SAME, SAME],
        working(3),
    ),
    "pattern": (
        {"name": "pattern", "pattern_type": "progress_stall"},
        [SAME, *[SAME] * 5],
        working(6),
    ),
    "high_tool_count": (
        {"name": "high_tool_count", "threshold": 4, "warning_ratio": 1.0},
        working(4),
        working(3),
    ),
    "single_tool_repeated": (
        {"name": "single_tool_repeated", "window": 4, "threshold": 3},
        [*working(1), SAME, SAME, SAME],
        [SAME, SAME, *working(2)],
    ),
    "sequential_when_parallel": (
        {"name": "sequential_when_parallel", "independent_tools": ["read"], "threshold": 2},
        working(2, "read"),
        [[Call("read", {"n": 1}, "a"), Call("read", {"n": 2}, "b")]],
    ),
    "sequential_when_parallel, an agent's own names": (
        {"name": "sequential_when_parallel"},
        working(3, "Read"),
        working(3, "Bash"),
    ),
    "large_output": (
        {"name": "large_output", "size_threshold": 100},
        [turn("bash", {}, "x" * 101)],
        [turn("bash", {}, "x" * 99)],
    ),
    "sensitive_content": (
        "sensitive_content",
        [turn("bash", {"c": "export API_KEY=abc"})],
        [turn("bash", {"max_tokens": 5})],
    ),
    "all": (
        {"all": [{"name": "error_streak", "threshold": 2}, {"name": "high_tool_count", "threshold": 3}]},
        [*working(1), *failing(2)],
        failing(2)[:1] + working(2),
    ),
    "any": (
        {"any": [{"name": "error_streak", "threshold": 9}, {"name": "large_output", "size_threshold": 100}]},
        [turn("bash", {}, "x" * 101)],
        failing(3),
    ),
    "not": (
        {"all": [{"not": "doom_loop"}, {"name": "error_streak", "threshold": 2}]},
        failing(2),
        working(2),
    ),
    "threshold": (
        {"name": "error_streak", "threshold": 2, "min_confidence": 0.75},
        failing(3),
        failing(2),
    ),
}


def state_of(url: str, *providers: ProviderSpec, **settings: Any) -> LiveState:
    policy = GuidancePolicy(mode=Mode.ON, default_providers=False, providers=providers, **settings)
    return state(f"{url}/v1", policy)


def said_at(
    wire: str, runs: Sequence[Sequence[Turn]], *providers: ProviderSpec, **settings: Any
) -> list[list[int]]:
    """For each run, numbers of the requests that brought a text: each has one turn more than the last."""
    upstream, path = ScriptedUpstream(answer), FORMATS[wire][0]
    found = []
    with (
        upstream.running() as url,
        gateway(state_of(url, *providers, **settings)) as served,
        httpx.Client() as client,
    ):
        for number, turns in enumerate(runs):
            for count in range(len(turns) + 1):
                sent = body(wire, ["do it", *turns[:count]])
                answered = client.post(served.url + path, json=sent, headers={"x-session-id": f"s{number}"})
                assert answered.status_code == 200
            asked = upstream.asked[-len(turns) - 1 :]
            counts = [each.body.count(SAID.encode()) for each in asked]
            found.append(
                [n for n, (old, now) in enumerate(zip([0, *counts], counts, strict=False)) if now > old]
            )
    return found


@pytest.mark.parametrize("wire", FORMATS)
@pytest.mark.parametrize("name", TABLE)
def test_a_classifier_speaks_when_it_fires_and_only_then(name: str, wire: str) -> None:
    classifier, hit, miss = TABLE[name]
    provider = ProviderSpec(classifier=classifier, text=SAID, max_fires_per_session=1)
    assert said_at(wire, [hit, miss], provider) == [[len(hit)], []]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, [2, 3, 4, 5, 6]),
        ({"cooldown_turns": 1}, [2, 4, 6]),
        ({"cooldown_turns": 3}, [2, 6]),
        ({"max_fires_per_session": 2}, [2, 3]),
        ({"min_confidence": 1.0}, [4, 5, 6]),
    ],
)
def test_limits_hold(limits: dict[str, Any], expected: list[int]) -> None:
    provider = ProviderSpec(classifier={"name": "error_streak", "threshold": 2}, text=SAID, **limits)
    assert said_at("chat", [failing(6)], provider) == [expected]


def test_a_control_session_is_decided_and_withheld() -> None:
    provider = ProviderSpec(classifier={"name": "error_streak", "threshold": 2}, text=SAID)
    assert said_at("chat", [failing(3)], provider, control=1.0) == [[]]


def test_what_spoke_is_recorded_without_its_text() -> None:
    provider = ProviderSpec(classifier="sensitive_content", provider="consultation_prompt")
    upstream = ScriptedUpstream(answer)
    with upstream.running() as url:
        live = state_of(url, provider)
        with gateway(live) as served, httpx.Client() as client:
            sent = body("chat", ["do it", turn("bash", {"c": "cat secret"})])
            headers = {"x-session-id": "one", "x-pointsman-debug": "1"}
            client.post(served.url + "/v1/chat/completions", json=sent, headers=headers)
        ledger = live.runtime.ledger
        assert isinstance(ledger, MemoryLedger)
        (decision,) = [record.decision for record in ledger.records()]
    assert decision.guidance is not None
    (hint,) = decision.guidance.hints
    assert (hint.provider, hint.classifier, hint.confidence, hint.delivered, hint.text, hint.version) == (
        "consultation_prompt",
        "sensitive_content",
        0.9,
        True,
        "",
        provider.version,
    )
    assert b"Stop retrying" in upstream.asked[0].body
    assert json.loads(upstream.asked[0].body)["model"]


def test_a_class_that_raises_is_counted_each_time_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    provider = ProviderSpec(classifier={"entry_point": "support.own_guidance:Broken"}, text=SAID)
    upstream = ScriptedUpstream(answer)
    with (
        upstream.running() as url,
        gateway(state_of(url, provider)) as served,
        httpx.Client() as client,
    ):
        for count in range(3):
            sent = body("messages", ["do it", *working(count)])
            answered = client.post(served.url + "/v1/messages", json=sent, headers={"x-session-id": "one"})
            assert answered.status_code == 200
        metrics = client.get(served.url + "/metrics").text
    assert 'pointsman_abstained_total{reason="guidance.abstained.broken"} 3' in metrics
    told = [
        record.getMessage() for record in caplog.records if "guidance.abstained.broken" in record.getMessage()
    ]
    assert len(told) == 1
    assert "KeyError" in told[0]

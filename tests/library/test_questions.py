"""The questions of the library beside ``decide``: capabilities of a task, guidance of a run."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from langchain_core.messages import HumanMessage

from pointsman import Pointsman
from pointsman.decision.policy import Policy
from pointsman.errors import MalformedRequest, TooLarge
from pointsman.guidance import GuidancePolicy
from pointsman.tiers import builtin_profile
from pointsman.vocabulary import Mode, ModelQuery, ModelReply

FAILED = "Error: command not found: pytset"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    capabilities = [
        {
            "name": name,
            "instructions": f"Activate when the user asks about the {name}",
            "examples": [{"query": query, "result": True, "reason": ""} for query in examples],
        }
        for name, examples in (
            ("weather", ["What's the weather like?", "will it rain today?"]),
            ("invoices", ["send the invoice to Acme", "which invoices are unpaid?"]),
        )
    ]
    (tmp_path / "capabilities.json").write_text(json.dumps(capabilities))
    written = tmp_path / "pointsman.toml"
    written.write_text(
        '[capabilities]\nfile = "capabilities.json"\nstrategy = "local"\n[ledger]\npath = "ledger.sqlite"\n'
    )
    return written


@pytest.mark.parametrize(
    ("task", "name"), [("Will it rain in Rome?", "weather"), ("list the unpaid invoices", "invoices")]
)
def test_capabilities_of_a_task(file: Path, task: str, name: str) -> None:
    with Pointsman.from_config(file) as pointsman:
        selected = pointsman.select(task)
        again = asyncio.run(pointsman.select_async(task))
        assert pointsman.runtime.ledger.count() == 0
        decided = pointsman.decide(task).capabilities
    assert selected is not None
    assert selected == again
    assert selected.selected == (name,)
    assert set(selected.scores) == {"weather", "invoices"}
    assert decided is not None
    assert (decided.selected, decided.scores) == (selected.selected, selected.scores)


def test_without_capabilities_there_is_nothing_to_select() -> None:
    assert Pointsman().select("Will it rain?") is None


def run(calls: int) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "run the tests"}]
    for number in range(calls):
        function = {"name": "bash", "arguments": '{"c": "pytset"}'}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": FAILED},
        ]
    return {"model": "auto", "messages": messages}


def library(mode: Mode) -> Pointsman:
    def refuse(query: ModelQuery) -> ModelReply:
        raise AssertionError(f"nobody should be asked: {query}")

    guidance = None if mode is Mode.OFF else GuidancePolicy(mode=mode, control=0.0)
    return Pointsman(Policy(profile=builtin_profile("default"), guidance=guidance), ask=refuse)


def test_a_stuck_run_is_told_once_and_as_by_decide() -> None:
    guided, deciding = library(Mode.ON), library(Mode.ON)
    for calls in range(6):
        hint = guided.guide(run(calls), session="one")
        decided = deciding.decide(run(calls), session="one").guidance
        assert hint is not None
        assert hint == decided
        assert bool(hint.injection) is (calls == 3)
    assert guided.runtime.ledger.count() == 0


def test_asynchronous_guidance_shares_the_session() -> None:
    guided = library(Mode.ON)
    said = [asyncio.run(guided.guide_async(run(calls), session="one")) for calls in range(5)]
    assert [bool(each and each.injection) for each in said] == [False, False, False, True, False]


def test_guidance_that_is_off_says_nothing() -> None:
    assert library(Mode.OFF).guide(run(3)) is None


FAILED_CALL = SimpleNamespace(
    role="assistant",
    model_dump=lambda **_: {
        "role": "assistant",
        "tool_calls": [{"id": "c1", "function": {"name": "bash", "arguments": "pytset"}}],
    },
)


@pytest.mark.parametrize("whole", [False, True], ids=["messages", "body"])
def test_an_object_of_an_sdk_is_the_message_it_stands_for(whole: bool) -> None:
    messages: list[Any] = [{"role": "user", "content": "run the tests"}, FAILED_CALL]
    messages.append({"role": "tool", "tool_call_id": "c1", "content": FAILED})
    decided = Pointsman().decide({"model": "auto", "messages": messages} if whole else messages)
    assert [step.tool_name for step in decided.input.steps] == ["bash"]


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (b'{"model": "auto", "messages": []}', "bytes of int"),
        (["Hello!"], "list of str"),
        (
            [{"role": "user", "content": "hi"}, SimpleNamespace(type="human", content="hi")],
            "list of SimpleNamespace",
        ),
        ([SimpleNamespace(role="user", content="hi")], "list of SimpleNamespace"),
        ({"messages": ["hi"]}, "list of str"),
        ({"messages": [SimpleNamespace(type="human", content="hi")]}, "list of SimpleNamespace"),
    ],
)
def test_what_holds_no_messages_is_refused(request_: Any, kind: str) -> None:
    with pytest.raises(MalformedRequest, match=f"which have roles, not a {kind}"):
        Pointsman().decide(request_)


HALF = "prove \ud83d it"


@pytest.mark.parametrize("format_", ["chat", "responses", "messages"])
@pytest.mark.parametrize("request_", [HALF, [{"role": "user", "content": HALF}]], ids=["text", "messages"])
def test_half_a_character_is_decided_as_a_replacement_character(format_: str, request_: Any) -> None:
    """What JavaScript cuts inside an emoji, and ``json.loads`` reads so."""
    points = Pointsman()
    whole = points.decide("prove \ufffd it")
    decided = points.decide(request_, format=format_, session="s\ud83d", caller="c\ud83d")
    assert decided.tier == whole.tier
    assert decided.input.characters == whole.input.characters
    assert decided.input.session == "c\ufffd/s\ufffd"
    assert points.explain(request_, format=format_).decision.tier == whole.tier


def test_tools_with_half_a_character_are_read() -> None:
    body = run(3)
    body["messages"][-1]["content"] += " \ud83d"
    body["tools"] = [{"type": "function", "function": {"name": "bash", "description": "\ud83d"}}]
    decided = Pointsman().decide(body)
    assert [step.tool_name for step in decided.input.steps] == ["bash"] * 3
    assert decided.input.tools == 1


def test_a_body_nested_too_deep_is_named_as_such() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(TooLarge, match="nested too deep"):
        Pointsman().decide({"messages": [{"role": "user", "content": deep}]})


@pytest.mark.parametrize("format_", ["chat", "responses", "messages"])
def test_messages_of_langchain_are_refused(format_: str) -> None:
    given: list[Any] = [HumanMessage("prove it")]
    with pytest.raises(MalformedRequest, match="not a list of HumanMessage"):
        Pointsman().decide(given, format=format_)


def test_a_session_may_be_named_by_any_id(caplog: pytest.LogCaptureFixture) -> None:
    session: Any = UUID(int=7)
    decided = Pointsman().decide("Hello!", session=session)
    assert decided.input.session == str(session)
    assert not caplog.records


def test_a_file_in_place_of_a_policy_is_named_the_door_for_it() -> None:
    file: Any = "pointsman.toml"
    with pytest.raises(TypeError, match=r"Pointsman\.from_config\('pointsman\.toml'\) reads one"):
        Pointsman(file)


def test_an_outcome_of_another_type_is_named_by_its_field() -> None:
    points = Pointsman()
    decision: Any = points.decide("Hello!")
    good: Any = "good"
    with pytest.raises(ValueError, match=r"got `Decision` - at `\$\.decision`"):
        points.record_outcome(decision, 1.0)
    with pytest.raises(ValueError, match=r"got `str` - at `\$\.score`"):
        points.record_outcome(decision.id, good)
    points.record_outcome(decision.id, 1)


def test_a_score_may_be_any_real_number() -> None:
    """NumPy's mean, and whether a test passed: no ledger could write the one, or read the other again."""
    points = Pointsman()
    decision = points.decide("Hello!").id
    scores: list[Any] = [True, np.float64(0.5), np.float32(0.25)]
    for score in scores:
        points.record_outcome(decision, score)
    assert [repr(each.score) for each in points.runtime.ledger.outcomes(decision)] == ["1.0", "0.5", "0.25"]

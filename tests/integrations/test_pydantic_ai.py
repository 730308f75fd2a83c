"""A model for each step of a Pydantic AI agent, with the library's own test models."""

import asyncio
import logging
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.messages import (
    ImageUrl,
    ModelMessage,
    ModelRequest,
    SystemPromptPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from pointsman import Pointsman
from pointsman.factory import default_policy
from pointsman.guidance import GuidancePolicy, Mode
from pointsman.integrations.pydantic_ai import Routing, _messages, _with_text
from support.hosts import HARD, PATIENCE, FailingPoints, SlowPoints, not_there, two_models


def model(name: str) -> TestModel:
    return TestModel(model_name=name, custom_output_text=name, call_tools=[])


class Stuck:
    """A model whose tool fails again and again, and what it was sent."""

    def __init__(self, calls: int = 8) -> None:
        self.calls = calls
        self.shown: list[list[ModelMessage]] = []
        self.model = FunctionModel(self.answer, model_name="stuck")

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.shown.append(messages)
        if len(self.shown) <= self.calls:
            return ModelResponse(parts=[ToolCallPart("edit", {"path": f"f{len(self.shown)}"})])
        return ModelResponse(parts=[TextPart("done")])

    def hints(self) -> list[int]:
        """How many hints each request held."""
        return [str(messages).count("<pointsman") for messages in self.shown]


def edit(path: str) -> str:
    """Edit a file."""
    return "Error: no such file or directory"


def test_each_step_is_asked_of_the_model_of_its_tier(tmp_path: Path) -> None:
    with two_models(tmp_path) as points:
        routing = Routing({"small": model("small"), "large": model("large")}, points, timeout=PATIENCE)
        agent = Agent(model("own"), capabilities=[routing], instructions="Help.")
        said = [asyncio.run(agent.run(text)).output for text in ("Hello!", HARD)]
        points.runtime.ledger.flush()
        given = [each.input for each in points.runtime.ledger.decisions(limit=None)]
    assert said == ["small", "large"]
    assert {each.format for each in given} == {"chat"}
    assert len({each.session for each in given}) == 2  # each run is a conversation


def test_a_run_is_one_session_and_tiers_name_models_too(tmp_path: Path) -> None:
    with two_models(tmp_path) as points:
        routing = Routing({"complex": model("strong")}, points, timeout=PATIENCE)
        agent = Agent(model("own"), capabilities=[routing])
        first = asyncio.run(agent.run("Hello!", conversation_id="mine"))
        asyncio.run(agent.run("And now?", message_history=first.all_messages(), conversation_id="mine"))
        points.runtime.ledger.flush()
        given = [each.input for each in points.runtime.ledger.decisions(limit=None)]
    assert [(each.session, each.user_message) for each in given] == [("mine", 2), ("mine", 1)]


def test_a_streamed_run_is_routed_too(tmp_path: Path) -> None:
    async def streamed(agent: Agent[None, str]) -> str:
        async with agent.run_stream(HARD) as result:
            return await result.get_output()

    with two_models(tmp_path) as points:
        routing = Routing({"large": model("large")}, points, timeout=PATIENCE)
        assert asyncio.run(streamed(Agent(model("own"), capabilities=[routing]))) == "large"


def test_a_stuck_agent_gets_a_hint_that_its_history_does_not_keep(tmp_path: Path) -> None:
    stuck = Stuck()
    with two_models(tmp_path) as points:
        agent = Agent(stuck.model, capabilities=[Routing({}, points, timeout=PATIENCE)], tools=[edit])
        result = asyncio.run(agent.run("Fix the bug"))
        points.runtime.ledger.flush()
        decided = list(points.runtime.ledger.decisions(limit=None))
    hints = stuck.hints()
    assert result.output == "done"
    assert hints[:3] == [0, 0, 0]
    assert hints[-1] >= 1
    assert hints == sorted(hints)  # what was added stays at its message
    assert "<pointsman" not in str(result.all_messages())
    last = stuck.shown[-1]
    told = [part for each in last if isinstance(each, ModelRequest) for part in each.parts]
    assert all(isinstance(part, ToolReturnPart) for part in told[1:])  # inside the tool's result
    assert any(each.injections for each in decided)
    assert {step.tool_name for each in decided for step in each.input.steps} == {"edit"}


def test_without_hints_nothing_is_added(tmp_path: Path) -> None:
    stuck = Stuck()
    with two_models(tmp_path) as points:
        routing = Routing({}, points, hints=False, timeout=PATIENCE)
        asyncio.run(Agent(stuck.model, capabilities=[routing], tools=[edit]).run("Fix the bug"))
        points.runtime.ledger.flush()
        decided = list(points.runtime.ledger.decisions(limit=None))
    assert set(stuck.hints()) == {0}
    assert not any(each.injections for each in decided)  # nothing is recorded as given that was not
    assert any(each.guidance and each.guidance.firings for each in decided)


def test_a_configured_stop_ends_the_run(tmp_path: Path) -> None:
    stopping = GuidancePolicy(mode=Mode.ON, escalate=("stop",), control=0.0)
    policy = replace(default_policy(), guidance=stopping)
    stuck = Stuck(calls=40)
    routing = Routing({}, Pointsman(policy), timeout=PATIENCE)
    result = asyncio.run(Agent(stuck.model, capabilities=[routing], tools=[edit]).run("Fix the bug"))
    assert result.output.startswith("Pointsman stopped this run: ")
    assert len(stuck.shown) < 20


IMAGE = ImageUrl("http://127.0.0.1/a.png")


@pytest.mark.parametrize(
    ("message", "texts"),
    [
        (ModelRequest(parts=[UserPromptPart("Hi")]), ["Hi\n\nHint."]),
        (ModelRequest(parts=[UserPromptPart([IMAGE, "Hi"])]), [[IMAGE, "Hi", "Hint."]]),
        (ModelRequest(parts=[ToolReturnPart("t", "out", "c1")]), ["out\n\nHint."]),
        (ModelRequest(parts=[ToolReturnPart("t", {"a": 1}, "c1")]), [{"a": 1}, "Hint."]),
        (ModelRequest(parts=[UserPromptPart("Hi"), SystemPromptPart("Be.")]), ["Hi", "Be.", "Hint."]),
        (ModelResponse(parts=[TextPart("Mine")]), ["Mine"]),  # a model's own words stay as they are
        (ModelRequest(parts=[]), []),
    ],
    ids=["words", "a picture", "a result", "a result of a shape", "a system prompt", "an answer", "none"],
)  # fmt: skip
def test_where_a_hint_goes_in_a_message(message: Any, texts: list[Any]) -> None:
    before = str(message)
    changed: Any = _with_text(message, "Hint.")
    assert [part.content for part in changed.parts] == texts
    assert str(message) == before


def test_a_message_as_messages_of_chat_completions() -> None:
    parts: list[Any] = [SystemPromptPart("Be short."), UserPromptPart([IMAGE, "Hi"])]
    assert list(_messages(ModelRequest(parts=parts))) == [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Hi"},
    ]


@pytest.mark.parametrize("points", [FailingPoints, SlowPoints, not_there], ids=["raises", "slow", "absent"])
def test_the_agent_goes_on_with_its_own_model(points: Any, caplog: pytest.LogCaptureFixture) -> None:
    timeout = 0.01 if points is SlowPoints else PATIENCE
    routing = Routing({"complex": model("strong")}, points, timeout=timeout)
    agent = Agent(model("own"), capabilities=[routing])
    with closing(routing.host), caplog.at_level(logging.WARNING, "pointsman.integrations"):
        assert [asyncio.run(agent.run(HARD)).output for _ in range(2)] == ["own", "own"]
    assert sum("goes on with its own choice" in each.getMessage() for each in caplog.records) == 1

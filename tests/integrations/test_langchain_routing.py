"""The middleware that chooses models, in a real agent of LangChain's with models that follow a script."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from pointsman import Pointsman
from pointsman.integrations.langchain import guidance_middleware, routing_middleware
from pointsman.vocabulary import Tier
from support.hosts import HARD, PATIENCE, FailingPoints, SlowPoints, not_there, two_models


class Named(BaseChatModel):
    """Answers with its name, after so many calls of a tool."""

    name: str = ""
    calls: int = 0

    @property
    def _llm_type(self) -> str:
        return "named"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> "Named":
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        made = sum(isinstance(each, AIMessage) for each in messages)
        call = {"name": "edit", "args": {"n": made}, "id": f"c{made}", "type": "tool_call"}
        said = AIMessage("", tool_calls=[call]) if made < self.calls else AIMessage(str(self.name))
        return ChatResult(generations=[ChatGeneration(message=said)])


@tool
def edit(n: int) -> str:
    """Edit a file."""
    return "done"


def said(agent: Any, text: str, *, is_async: bool = False, thread: str = "") -> str:
    """What an agent answers in the end."""
    state = {"messages": [HumanMessage(text)]}
    config = {"configurable": {"thread_id": thread}} if thread else {}
    end = asyncio.run(agent.ainvoke(state, config)) if is_async else agent.invoke(state, config)
    return str(end["messages"][-1].content)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_each_call_is_asked_of_the_model_of_its_tier(tmp_path: Path, is_async: bool) -> None:
    models = {"small": Named(name="small"), "large": Named(name="large", calls=2)}
    with two_models(tmp_path) as points:
        routing = routing_middleware(models, points, timeout=PATIENCE)
        agent = create_agent(Named(name="own"), [edit], system_prompt="Help.", middleware=[routing])
        assert said(agent, "Hello!", is_async=is_async) == "small"
        assert said(agent, HARD, is_async=is_async) == "large"
        routing.host.close()
        points.runtime.ledger.flush()
        given = [each.input for each in points.runtime.ledger.decisions(limit=None)]
    assert [each.tools for each in given] == [1] * 4
    assert [each.user_message for each in given] == [1] * 4
    assert [len(each.steps) for each in given] == [1, 1, 0, 0]  # the latest first


def test_a_thread_is_a_session_beside_guidance(tmp_path: Path) -> None:
    models = {"small": Named(name="small"), "large": Named(name="large")}
    with two_models(tmp_path) as points:
        routing = routing_middleware(models, points, timeout=PATIENCE)
        both: list[Any] = [guidance_middleware(), routing]
        agent = create_agent(Named(name="own"), [edit], middleware=both, checkpointer=InMemorySaver())
        assert [said(agent, text, thread="t1") for text in ("Hello!", HARD)] == ["small", "large"]
        routing.host.close()
        points.runtime.ledger.flush()
        given = [each.input for each in points.runtime.ledger.decisions(limit=None)]
    assert [(each.session, each.user_message) for each in given] == [("t1", 2), ("t1", 1)]


@pytest.mark.parametrize("points", [FailingPoints, SlowPoints, not_there], ids=["raises", "slow", "absent"])
def test_the_agent_goes_on_with_its_own_model(points: Any, caplog: pytest.LogCaptureFixture) -> None:
    timeout = 0.01 if points is SlowPoints else PATIENCE
    routing = routing_middleware({"complex": Named(name="strong")}, points, timeout=timeout)
    agent = create_agent(Named(name="own"), [edit], middleware=[routing])
    with closing(routing.host), caplog.at_level(logging.WARNING, "pointsman.integrations"):
        assert [said(agent, HARD) for _ in range(2)] == ["own", "own"]
    assert sum("goes on with its own choice" in each.getMessage() for each in caplog.records) == 1


def test_tiers_are_found_as_they_are_printed_and_names_nobody_has_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    models = {Tier.SIMPLE: Named(name="small"), "MEDIUM": Named(name="small"), "complx": Named(name="large")}
    routing = routing_middleware(models, Pointsman, timeout=PATIENCE)
    agent = create_agent(Named(name="own"), [], middleware=[routing])
    with closing(routing.host):
        assert [said(agent, text) for text in ("Hello!", "Hello!", HARD)] == ["small", "small", "own"]
    [told] = [each.getMessage() for each in caplog.records if each.name == "pointsman.integrations"]
    assert told.startswith('LangChain never asks the models named "complx": neither a tier (simple, medium,')


def test_a_model_is_named_as_create_agent_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("langchain.chat_models.init_chat_model", lambda name: Named(name=name))
    routing = routing_middleware({"simple": "maker:small"}, Pointsman, timeout=PATIENCE)
    with closing(routing.host):
        assert said(create_agent(Named(name="own"), [], middleware=[routing]), "Hello!") == "maker:small"

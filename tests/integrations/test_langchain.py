"""The LangChain middleware, in a real agent with a model that follows a script."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from pointsman.errors import MissingExtra
from pointsman.guidance import DecisionPoint, GuidancePolicy, Mode, ProviderSpec
from pointsman.integrations.langchain import guidance_middleware
from pointsman.integrations.langchain.middleware import read_message
from pointsman.vocabulary import Message, Role, ToolCall, ToolResult


class Scripted(BaseChatModel):
    """Calls a tool a number of times, then answers. Keeps what it was shown."""

    calls: int = 5
    argument: str = ""
    shown: list[list[BaseMessage]]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> "Scripted":
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.shown.append(messages)
        number = len(self.shown)
        call = {
            "name": "edit",
            "args": {"n": number, "note": self.argument},
            "id": f"c{number}",
            "type": "tool_call",
        }
        said = AIMessage("", tool_calls=[call]) if number <= self.calls else AIMessage("done")
        return ChatResult(generations=[ChatGeneration(message=said)])


@tool
def edit(n: int, note: str = "") -> str:
    """Edit a file."""
    return "Error: no such file"


def go() -> dict[str, Any]:
    return {"messages": [HumanMessage("go")]}


def agent(model: Scripted, policy: GuidancePolicy | None = None, **more: Any) -> Any:
    stronger = more.pop("stronger_model", None)
    return create_agent(
        model, [edit], middleware=[guidance_middleware(policy, stronger_model=stronger)], **more
    )


def hints(model: Scripted) -> list[bool]:
    return ["pointsman" in str(messages[-1].content) for messages in model.shown]


@pytest.mark.parametrize(
    ("classifier", "point", "expected"),
    [
        ("sensitive_content", DecisionPoint.POST_TOOL_RESULT, [False, True, True, False]),
        (
            {"name": "high_tool_count", "threshold": 2},
            DecisionPoint.PRE_TOOL_SELECTION,
            [False, False, True, False],
        ),
        (
            {"entry_point": "support.own_guidance:Always"},
            DecisionPoint.PRE_RENDER,
            [True, False, False, False],
        ),
    ],
)
def test_providers_of_ones_own_speak_at_their_point(
    classifier: Any, point: DecisionPoint, expected: list[bool]
) -> None:
    spec = ProviderSpec(classifier=classifier, text="Be brief.", point=point, max_fires_per_session=2)
    policy = GuidancePolicy(mode=Mode.ON, default_providers=False, providers=(spec,))
    model = Scripted(calls=3, shown=[], argument="password")
    agent(model, policy).invoke(go())
    assert hints(model) == expected


def test_the_model_sees_the_hint_once_and_the_history_never_has_it() -> None:
    model = Scripted(shown=[])
    end = agent(model).invoke(go())
    assert hints(model) == [False, False, False, True, False, False]
    assert isinstance(model.shown[3][-1], ToolMessage)  # inside the last message, not one of its own
    assert end["messages"][-1].content == "done"
    assert not any("pointsman" in str(message.content) for message in end["messages"])
    assert not any(key.startswith("pointsman") for key in end)  # private state stays private


async def invoke_async(model: Scripted) -> None:
    await agent(model).ainvoke(go())


def test_asynchronous_agents_too() -> None:
    import asyncio

    model = Scripted(shown=[])
    asyncio.run(invoke_async(model))
    assert hints(model) == [False, False, False, True, False, False]


def test_a_checkpointer_keeps_what_was_said() -> None:
    model = Scripted(calls=3, shown=[])
    made = agent(model, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "t"}}
    made.invoke(go(), config)
    model.shown.clear()
    made.invoke(go(), config)  # the person spoke: a new streak
    assert hints(model) == [False, False, False, True]


def test_the_control_group_is_drawn_by_thread() -> None:
    policy = GuidancePolicy(mode=Mode.ON, control=0.5)
    told = set()
    for thread in range(12):
        model = Scripted(calls=3, shown=[])
        config = {"configurable": {"thread_id": f"t{thread}"}}
        agent(model, policy, checkpointer=InMemorySaver()).invoke(go(), config)
        told.add(any(hints(model)))
    assert told == {True, False}


def test_a_stronger_model_takes_over() -> None:
    weak, strong = Scripted(calls=99, shown=[]), Scripted(calls=0, shown=[])
    policy = GuidancePolicy(mode=Mode.ON, escalate=("raise_tier",))
    end = agent(weak, policy, stronger_model=strong).invoke(go())
    assert (len(weak.shown), len(strong.shown)) == (6, 1)
    assert end["messages"][-1].content == "done"


def test_a_configured_stop_ends_the_run() -> None:
    model = Scripted(calls=99, shown=[])
    end = agent(model, GuidancePolicy(mode=Mode.ON, escalate=("stop",))).invoke(go())
    assert len(model.shown) == 6
    assert end["messages"][-1].content == "Stopped by Pointsman: still stuck (6 consecutive errors)."


class Judge(Scripted):
    """Answers questions of model classifiers with one word; sleeps first where it is slow."""

    word: str = "yes"
    slow: bool = False

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.shown.append(messages)
        if self.slow:
            await asyncio.Event().wait()
        if self.word == "raise":
            raise OSError("down")
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self.word))])


def brief(timeout_ms: int) -> GuidancePolicy:
    spec = ProviderSpec(
        classifier={"name": "llm", "model": "small", "timeout_ms": timeout_ms},
        text="Be brief.",
        point=DecisionPoint.POST_TOOL_RESULT,
    )
    return GuidancePolicy(mode=Mode.ON, default_providers=False, providers=(spec,))


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize(
    ("judge", "told"),
    [
        (Judge(word="Yes.", shown=[]), True),
        (Judge(word="no", shown=[]), False),
        (Judge(word="", shown=[]), False),
        (Judge(word="raise", shown=[]), False),
        (Judge(slow=True, shown=[]), False),
        (None, False),
    ],
)
def test_a_model_classifier_asks_the_judge_and_fails_open(how: str, judge: Judge | None, told: bool) -> None:
    model = Scripted(calls=1, shown=[])
    policy = brief(timeout_ms=10 if judge and judge.slow else 60_000)
    made: Any = create_agent(model, [edit], middleware=[guidance_middleware(policy, judge_model=judge)])
    end = asyncio.run(made.ainvoke(go())) if how == "async" else made.invoke(go())
    assert end["messages"][-1].content == "done"
    assert hints(model) == [False, told]
    if judge:
        system, question = judge.shown[-1]
        assert "exactly one of these" in str(system.content)
        assert isinstance(question, HumanMessage)


@pytest.mark.parametrize(
    ("message", "read"),
    [
        (HumanMessage("hi"), Message(Role.USER, ("hi",))),
        (SystemMessage("be kind"), Message(Role.SYSTEM, ("be kind",))),
        (
            ToolMessage("boom", tool_call_id="1", status="error"),
            Message(Role.TOOL, results=(ToolResult("1", "boom", is_error=True),)),
        ),
        (ToolMessage("fine", tool_call_id="1"), Message(Role.TOOL, results=(ToolResult("1", "fine"),))),
        (
            AIMessage("", tool_calls=[{"name": "a", "args": {"x": 1}, "id": "1", "type": "tool_call"}]),
            Message(Role.ASSISTANT, ("",), (ToolCall("1", "a", '{"x":1}'),)),
        ),
        (
            AIMessage(
                "",
                invalid_tool_calls=[
                    {"name": "a", "args": "{", "id": "1", "error": None, "type": "invalid_tool_call"}
                ],
            ),
            Message(Role.ASSISTANT, ("",), (ToolCall("1", "a", "{"),)),
        ),
    ],
)
def test_messages_are_read(message: BaseMessage, read: Message) -> None:
    assert read_message(message) == read


def test_without_langchain_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pointsman.integrations.langchain.middleware", None)
    with pytest.raises(MissingExtra) as raised:
        guidance_middleware()
    assert raised.value.hint == "pip install 'pointsman[langchain]'"

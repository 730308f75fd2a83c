"""A scripted model, and contract checks of chat models and session stores."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from enum import Enum
from typing import Any, Final, Literal

from pointsman.errors import UpstreamError, UpstreamTimeout
from pointsman.guidance import GuidanceContext
from pointsman.stores.sessions import SessionStore
from pointsman.trajectory import (
    Event,
    Session,
    ToolInvoked,
    ToolResult,
    TrajectoryAnalysis,
    TrajectoryAnalysisConfig,
    TrajectoryBuilder,
)
from pointsman.upstreams import ChatModel
from pointsman.vocabulary import Prompt, ToolCall

__all__ = [
    "HANG",
    "REPLY",
    "Scene",
    "ScriptedModel",
    "build_context",
    "build_context_with_errors",
    "build_trajectory",
    "chat_model_checks",
    "session_store_checks",
]


class _Hang(Enum):
    HANG = "hang"


#: In a script: no answer until the caller's time is over.
HANG: Final = _Hang.HANG

Reply = str | UpstreamError | Literal[_Hang.HANG]

#: What a model of scene ``reply`` says.
REPLY: Final = "I would call it medium."

#: ``reply`` says ``REPLY``; the others give no text, fail, never answer, and break off in the middle.
Scene = Literal["reply", "empty", "fail", "hang", "break"]


class ScriptedModel:
    """Gives the answers of a script, one each time, and records the requests in ``asked``.

    >>> model = ScriptedModel("SIMPLE", UpstreamError("down"), HANG)
    """

    def __init__(self, *script: Reply | Callable[[Prompt], Reply]) -> None:
        """Take the answers: a text to return, an error to raise, or ``HANG``. The last one repeats.

        A function of the prompt gives any of the three.
        """
        self._script: Final = script
        self.asked: Final[list[Prompt]] = []

    async def complete(self, prompt: Prompt, *, timeout: float) -> str:
        """Answer according to the script."""
        self.asked.append(prompt)
        if not self._script:
            raise UpstreamError("the script is empty")
        entry = self._script[min(len(self.asked), len(self._script)) - 1]
        answer = entry(prompt) if callable(entry) else entry
        if answer is HANG:
            await asyncio.sleep(timeout)
            raise UpstreamTimeout("the scripted model hangs")
        if isinstance(answer, UpstreamError):
            raise answer
        if not answer.strip():
            raise UpstreamError("the scripted model gave no text")
        return answer


Make = Callable[[Scene], ChatModel]


def chat_model_checks() -> Iterator[Callable[[Make], Coroutine[Any, Any, None]]]:
    """Yield checks; each makes models with an upstream that follows a scene."""
    yield from (
        _a_reply_comes_back,
        _no_text_is_a_failure,
        _a_failure_is_an_upstream_error,
        _a_hanging_model_times_out,
        _a_broken_answer_is_no_answer,
        _a_model_can_be_asked_at_the_same_time,
    )


async def _a_reply_comes_back(make: Make) -> None:
    assert "medium" in (await make("reply").complete(_prompt(), timeout=30)).lower()


async def _no_text_is_a_failure(make: Make) -> None:
    assert type(await _failure(make("empty"))) is UpstreamError


async def _a_failure_is_an_upstream_error(make: Make) -> None:
    assert isinstance(await _failure(make("fail")), UpstreamError)


async def _a_hanging_model_times_out(make: Make) -> None:
    assert isinstance(await _failure(make("hang"), timeout=0.05), UpstreamTimeout)


async def _a_broken_answer_is_no_answer(make: Make) -> None:
    assert isinstance(await _failure(make("break")), UpstreamError)


async def _a_model_can_be_asked_at_the_same_time(make: Make) -> None:
    model = make("reply")
    replies = await asyncio.gather(*(model.complete(_prompt(), timeout=30) for _ in range(5)))
    assert len(replies) == 5


def _prompt() -> Prompt:
    return Prompt(system="Which tier?", text="What is 2+2?")


async def _failure(model: ChatModel, timeout: float = 30) -> UpstreamError:
    try:
        text = await model.complete(_prompt(), timeout=timeout)
    except UpstreamError as error:
        return error
    raise AssertionError(f"a failure came back as {text!r}")


# Builders of trajectories and of contexts, for tests of classifiers and providers.


def build_trajectory(*events: Event, config: TrajectoryAnalysisConfig | None = None) -> TrajectoryAnalysis:
    """Return the run after some events.

    Args:
        events: What happened, oldest first: ``ToolInvoked``, ``UserSpoke``, ``ProgressMade``, ...
        config: Thresholds, detectors and indicators; by default the built-in ones.
    """
    builder = TrajectoryBuilder.from_config(config or TrajectoryAnalysisConfig())
    for event in events:
        builder.on_event(event)
    return builder.build()


def build_context(
    *events: Event,
    config: TrajectoryAnalysisConfig | None = None,
    pending: tuple[ToolCall | ToolInvoked, ...] = (),
    prompt: object = None,
    last_response: str = "",
) -> GuidanceContext:
    """Return the moment after some events, in a session that has seen them.

    Args:
        events: What happened, oldest first.
        config: As for ``build_trajectory``.
        pending: Calls that the model has made and that have not run.
        prompt: What the agent is about to be sent.
        last_response: What the model said last.
    """
    return GuidanceContext(
        session=Session(events=list(events)),
        trajectory=build_trajectory(*events, config=config),
        prompt=prompt,
        pending_tool_calls=pending,
        last_response=last_response,
    )


def build_context_with_errors(count: int, *, tool: str = "test") -> GuidanceContext:
    """Return the moment after ``count`` failed calls of a tool, each with another argument and error."""
    return build_context(
        *(ToolInvoked(tool, {"attempt": n}, ToolResult.error(f"failure {n}")) for n in range(count))
    )


# Contract checks of every session store.


def session_store_checks() -> Iterator[Callable[[SessionStore], None]]:
    """Yield checks; each wants a new, empty store with room for a hundred sessions."""
    yield from (
        _nothing_is_known_at_first,
        _what_was_put_last_comes_back,
        _any_bytes_and_any_name_will_do,
        _sessions_are_apart,
        _what_is_forgotten_is_unknown,
        _every_session_is_listed,
    )


def _nothing_is_known_at_first(store: SessionStore) -> None:
    assert store.get("s") is None
    assert not store.forget("s")
    assert list(store.sessions()) == []


def _what_was_put_last_comes_back(store: SessionStore) -> None:
    store.put("s", b"first")
    assert store.get("s") == b"first"
    store.put("s", b"second")
    assert store.get("s") == b"second"
    assert store.get("s") == b"second"


def _any_bytes_and_any_name_will_do(store: SessionStore) -> None:
    for name in ("a b", "ü/日本語", "x" * 512, "*", "pointsman:session:", "'; --", "nul\0"):
        memory = b"\x00\xff" + name.encode()
        store.put(name, memory)
        assert store.get(name) == memory
    store.put("empty", b"")
    assert store.get("empty") == b""


def _sessions_are_apart(store: SessionStore) -> None:
    for number in range(100):
        store.put(f"s{number}", str(number).encode())
    assert [store.get(f"s{number}") for number in range(100)] == [str(n).encode() for n in range(100)]


def _what_is_forgotten_is_unknown(store: SessionStore) -> None:
    store.put("s", b"memory")
    store.put("t", b"other")
    assert store.forget("s")
    assert store.get("s") is None
    assert not store.forget("s")
    assert store.get("t") == b"other"
    store.put("s", b"again")
    assert store.get("s") == b"again"


def _every_session_is_listed(store: SessionStore) -> None:
    for name in ("s", "t", "u"):
        store.put(name, b"memory")
    store.forget("t")
    listed = dict(store.sessions())
    assert set(listed) == {"s", "u"}
    assert all(isinstance(put_at, float) for put_at in listed.values())

"""A scripted model, and contract checks of every chat model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from enum import Enum
from typing import Any, Final, Literal

from pointsman.errors import UpstreamError, UpstreamTimeout
from pointsman.upstreams.chat_model_port import ChatModel
from pointsman.vocabulary import Prompt

__all__ = ["HANG", "REPLY", "Scene", "ScriptedModel", "chat_model_checks"]


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
    """Gives the answers of a script, one each time, and keeps in ``asked`` what it was asked.

    >>> model = ScriptedModel("SIMPLE", UpstreamError("down"), HANG)
    """

    def __init__(self, *script: Reply | Callable[[Prompt], Reply]) -> None:
        """Take the answers: a text to return, an error to raise, or ``HANG``. The last one repeats.

        A function of the prompt gives any of the three.
        """
        self._script: Final = script
        self.asked: Final[list[Prompt]] = []

    async def complete(self, prompt: Prompt, *, timeout: float) -> str:
        """Answer as the script says."""
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
    """Yield checks; each makes models whose upstream behaves as a scene says."""
    yield _a_reply_comes_back
    yield _no_text_is_a_failure
    yield _a_failure_is_an_upstream_error
    yield _a_hanging_model_times_out
    yield _a_broken_answer_is_no_answer
    yield _a_model_can_be_asked_at_the_same_time


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

"""The moment of a request: which decision points it is at, and the available inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pointsman.guidance._context import DecisionPoint
from pointsman.guidance._ladder import Firing
from pointsman.trajectory import Conversation, ToolInvoked
from pointsman.vocabulary import Role, ToolCall

#: Messages looked at from the end of a history for the latest words of the model.
_RECENT: Final = 64


class Moment(NamedTuple):
    """A moment of a conversation, for providers of one's own."""

    points: tuple[DecisionPoint, ...]
    messages: int = -1  # in the history; the same again is the same request again. -1: always a new moment
    pending: tuple[ToolCall | ToolInvoked, ...] = ()
    prompt: str = ""
    last_response: str = ""
    recorded: Mapping[str, Firing] | None = None  # of a recorded one: what spoke, by version

    @property
    def asks(self) -> bool:
        """Whether a model is about to be asked, which makes a turn."""
        return self.messages >= 0 or not _BESIDE.issuperset(self.points)


_BESIDE: Final = frozenset({DecisionPoint.PRE_TOOL_EXECUTION, DecisionPoint.PRE_RESPONSE, DecisionPoint.DONE})


_BESIDE_WORK: Final = frozenset({Role.ASSISTANT, Role.SYSTEM})


def moment_of(
    history: Conversation, *, offers_tools: bool = True, prompt: str = "", with_answer: bool = True
) -> Moment:
    """Return the moment of a request, decoding no more than the latest turn of its history.

    Args:
        history: Of the request.
        offers_tools: Whether the model may call tools; otherwise it is about to give its final answer.
        prompt: The user's words.
        with_answer: Whether to look for the latest words of the model, which may be earlier in the history.
    """
    last = len(history) - 1
    calls, answered = _latest_calls(history)
    open_calls = tuple(call for call in calls if call.id not in answered)
    points = []
    if answered:
        points.append(DecisionPoint.POST_TOOL_RESULT)
    if open_calls:
        points.append(DecisionPoint.PRE_TOOL_EXECUTION)
    if last >= 0 and history[last].role is Role.USER and not history[last].results:
        points.append(DecisionPoint.PRE_RENDER)
        if _follows_an_end(history):
            points.append(DecisionPoint.DONE)
    points.append(DecisionPoint.PRE_TOOL_SELECTION if offers_tools else DecisionPoint.PRE_RESPONSE)
    answer = _latest_answer(history) if with_answer else ""
    return Moment(tuple(points), last + 1, open_calls or calls, prompt, answer)


def _latest_calls(history: Conversation) -> tuple[tuple[ToolCall, ...], frozenset[str]]:
    """The calls at the end of a history, and the ids of those that have a result."""
    at, answered = len(history) - 1, set()
    while at >= 0 and history[at].results and not history[at].calls:
        answered |= {result.call_id for result in history[at].results}
        at -= 1
    calls: list[ToolCall] = []
    while at >= 0 and history[at].calls and not history[at].results:
        calls[:0] = history[at].calls
        at -= 1
    return tuple(calls), frozenset(answered)


def _follows_an_end(history: Conversation) -> bool:
    """Whether the latest message follows an answer that ended work with tools; false in mere dialogue."""
    at, answers = len(history) - 2, 0
    # Claude Code puts reminders of the role "system" between a result and the answer.
    while at >= 0 and history[at].role in _BESIDE_WORK and not history[at].calls:
        answers += history[at].role is Role.ASSISTANT
        at -= 1
    return answers > 0 and at >= 0 and bool(history[at].results)


def _latest_answer(history: Conversation) -> str:
    """The latest words of the model."""
    for at in range(len(history) - 1, max(-1, len(history) - 1 - _RECENT), -1):
        message = history[at]
        if message.role is Role.ASSISTANT and message.texts:
            return "\n".join(message.texts)
    return ""

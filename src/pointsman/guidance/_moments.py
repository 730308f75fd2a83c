"""The moment of a request: which decision points it is at, and what is at hand there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pointsman.guidance._context import DecisionPoint
from pointsman.guidance._ladder import Firing
from pointsman.trajectory import Conversation, ToolInvoked
from pointsman.vocabulary import Message, Role, ToolCall

__all__ = ["Moment", "moment_of"]

#: Messages looked at from the end of a history, for the latest calls and the latest answer.
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


_BESIDE: Final = frozenset({DecisionPoint.PRE_TOOL_EXECUTION, DecisionPoint.PRE_RESPONSE})


def moment_of(history: Conversation, *, offers_tools: bool = True, prompt: str = "") -> Moment:
    """Return the moment at which a request stands.

    Args:
        history: Of the request.
        offers_tools: Whether the model may call tools; otherwise it is about to give its final answer.
        prompt: The user's words.
    """
    count = len(history)
    tail = [history[index] for index in range(count - 1, max(-1, count - 1 - _RECENT), -1)]
    calls, answered = _latest_calls(tail)
    open_calls = tuple(call for call in calls if call.id not in answered)
    points = []
    if answered:
        points.append(DecisionPoint.POST_TOOL_RESULT)
    if open_calls:
        points.append(DecisionPoint.PRE_TOOL_EXECUTION)
    if tail and tail[0].role is Role.USER and not tail[0].results:
        points.append(DecisionPoint.PRE_RENDER)
    points.append(DecisionPoint.PRE_TOOL_SELECTION if offers_tools else DecisionPoint.PRE_RESPONSE)
    answers = (message.texts for message in tail if message.role is Role.ASSISTANT and message.texts)
    return Moment(tuple(points), count, open_calls or calls, prompt, "\n".join(next(answers, ())))


def _latest_calls(tail: list[Message]) -> tuple[tuple[ToolCall, ...], frozenset[str]]:
    """The calls at the end of a history, given from its end, and the ids of those that have a result."""
    place, answered = 0, set()
    while place < len(tail) and tail[place].results and not tail[place].calls:
        answered |= {result.call_id for result in tail[place].results}
        place += 1
    calls: list[ToolCall] = []
    while place < len(tail) and tail[place].calls and not tail[place].results:
        calls[:0] = tail[place].calls
        place += 1
    return tuple(calls), frozenset(answered)

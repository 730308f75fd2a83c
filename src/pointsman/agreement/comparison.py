"""Compare two whole answers to one request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from pointsman.agreement.answers import final_answer, same_answer
from pointsman.agreement.calls import call_arguments, canonical_calls, canonical_text
from pointsman.agreement.policy import Compared
from pointsman.wire.conversation import Call, Completion, Shape, StopReason, Text, Tool

__all__ = ["Agreement", "compare", "is_whole"]

#: An answer that ended otherwise was cut, refused or paused: it never agrees.
_WHOLE: Final = frozenset({StopReason.END, StopReason.TOOLS, StopReason.SEQUENCE})


class Agreement(msgspec.Struct, frozen=True, gc=False):
    """Whether two answers agree, on what, and in words."""

    agreed: bool
    compared: Compared
    detail: str


def compare(
    first: Completion, second: Completion, *, tools: Sequence[Tool] = (), shape: Shape | None = None
) -> Agreement:
    """Compare two answers: calls where either has some, else structured output, else a short final answer.

    Args:
        first: one model's whole answer.
        second: the other's.
        tools: that the request offered; their schemas normalise arguments.
        shape: of structured output, if the request asked for it.
    """
    for completion in (first, second):
        if not is_whole(completion):
            return _nothing(f"an answer ended by {completion.stop.value}")
    calls, others = _calls(first), _calls(second)
    if calls or others:
        return _compare_calls(calls, others, tools)
    text, other = _text(first), _text(second)
    if shape is not None:
        return _compare_structured(text, other, shape)
    answer, another = final_answer(text), final_answer(other)
    if answer is None or another is None:
        return _nothing("free text cannot be compared")
    same = same_answer(answer, another)
    detail = "same final answer" if same else "different final answers"
    return Agreement(agreed=same, compared=Compared.ANSWER, detail=detail)


def is_whole(completion: Completion) -> bool:
    """Whether an answer came to its end: it was not cut, refused or paused."""
    return completion.stop in _WHOLE


def _nothing(detail: str) -> Agreement:
    return Agreement(agreed=False, compared=Compared.NOTHING, detail=detail)


def _compare_calls(calls: list[Call], others: list[Call], tools: Sequence[Tool]) -> Agreement:
    first, second = canonical_calls(calls, tools), canonical_calls(others, tools)
    same = first is not None and first == second
    if same:
        detail = f"same {_called(calls)}"
    elif first is None or second is None:
        detail = "a call was cut, or its arguments are not a JSON object"
    elif Counter(call.name for call in calls) == Counter(call.name for call in others):
        detail = f"different arguments of {', '.join(dict.fromkeys(f'`{call.name}`' for call in calls))}"
    else:
        detail = f"{_names(calls)} against {_names(others)}"
    return Agreement(agreed=same, compared=Compared.CALLS, detail=detail)


def _compare_structured(text: str, other: str, shape: Shape) -> Agreement:
    first, second = canonical_text(text, shape.schema), canonical_text(other, shape.schema)
    if first is None or second is None:
        return Agreement(agreed=False, compared=Compared.STRUCTURED, detail="an answer is not JSON")
    same = first == second
    detail = "equal JSON" if same else "different JSON"
    return Agreement(agreed=same, compared=Compared.STRUCTURED, detail=detail)


def _calls(completion: Completion) -> list[Call]:
    return [part for part in completion.parts if isinstance(part, Call)]


def _text(completion: Completion) -> str:
    return "".join(part.text for part in completion.parts if isinstance(part, Text))


def _called(calls: Sequence[Call]) -> str:
    """Which tools are called, with how many arguments in all: "call of `edit_file`, 2 arguments"."""
    count = sum(len(call_arguments(call) or ()) for call in calls if not call.custom)
    arguments = "1 argument" if count == 1 else f"{count or 'no'} arguments"
    several = f"{len(calls)} calls" if len(calls) > 1 else "call"
    return f"{several} of {', '.join(dict.fromkeys(f'`{call.name}`' for call in calls))}, {arguments}"


def _names(calls: Sequence[Call]) -> str:
    return ", ".join(f"`{call.name}`" for call in calls) or "no tool"

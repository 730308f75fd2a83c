"""Where the tokens of prompts went: an estimate, from the sum of each prompt and the lengths of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pointsman.audit.session import Request, Session

__all__ = ["unused_tools", "where"]

#: Characters of a token, for English and code; a rule of thumb of the providers.
_CHARACTERS: Final = 4
#: A prompt that is shorter than this share of the one before begins anew.
_ANEW: Final = 0.6

_SYSTEM: Final = "system prompt and tool descriptions"
_KINDS: Final = ("the person's words", "answers", "tool arguments", "tool results")


def where(requests: Sequence[Request]) -> dict[str, int]:
    """Divide the tokens of all prompts by what they consist of.

    The first prompt of a conversation without the person's words is taken as the system prompt with the
    descriptions of tools, which every later prompt repeats. The rest of a prompt is divided in proportion to
    the lengths of the texts before it.
    """
    sums = dict.fromkeys((_SYSTEM, *_KINDS), 0)
    agents: dict[str, _Conversation] = {}
    for request in requests:
        agents.setdefault(request.agent, _Conversation()).take(request, sums)
    return sums


class _Conversation:
    """What stands in the prompts of one agent."""

    def __init__(self) -> None:
        self._base = self._latest = 0
        self._texts = dict.fromkeys(_KINDS, 0)

    def take(self, request: Request, sums: dict[str, int]) -> None:
        """Divide one prompt, then add what came after it."""
        tokens = request.usage.input_tokens
        if request.prompt is not None:
            self._texts[_KINDS[0]] += len(request.prompt)
        if request.new_context or tokens < _ANEW * self._latest:
            self._texts = dict.fromkeys(_KINDS, 0) | {_KINDS[0]: len(request.prompt or "")}
        if not self._base:
            self._base = max(tokens - sum(self._texts.values()) // _CHARACTERS, 0)
        self._latest = tokens
        base = min(self._base, tokens)
        rest, length = tokens - base, sum(self._texts.values())
        sums[_SYSTEM] += base if length else tokens
        for kind, characters in self._texts.items():
            sums[kind] += round(rest * characters / length) if length else 0
        self._texts[_KINDS[1]] += request.text_length
        self._texts[_KINDS[2]] += sum(len(call.arguments) for call in request.calls)
        self._texts[_KINDS[3]] += sum(call.result_length for call in request.calls)


def unused_tools(session: Session, called: Mapping[str, object]) -> dict[str, int]:
    """Tools that the agent was offered and never called: tokens of their descriptions in all its prompts."""
    main = sum(not request.agent for request in session.requests)
    return {
        name: characters // _CHARACTERS * main
        for name, characters in session.tools_offered.items()
        if name not in called
    }

"""Learns the lines that clients repeat in their messages, in this process; it stores no words.

A client is known by the caller's key, by its name and by how its system prompt begins. Of each the latest
messages are remembered as hashes of the lines at their edges. The same requests in the same order teach the
same.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Final, NamedTuple

import msgspec

from pointsman.remembering import Bounded
from pointsman.text.extract import Extracted
from pointsman.text.wrappers import BILLING, edge_lines, may_repeat
from pointsman.vocabulary import HELPER, AgentRequest

__all__ = ["ClientTexts"]

#: Different messages that must hold a line before it counts as repeated, and how many are remembered.
_OFTEN: Final = 3
_MESSAGES: Final = 8
#: Clients remembered: 256 hashes of 8 messages each, so less than 10 MB in all.
_CLIENTS: Final = 128
#: Characters of a system prompt that tell one client from another; directories and dates follow.
_BEGINNING: Final = 400

_NOTHING: Final[frozenset[int]] = frozenset()


class _Learned(NamedTuple):
    messages: tuple[tuple[str, frozenset[int]], ...] = ()  # place of each, and its lines
    repeated: frozenset[int] = _NOTHING


class ClientTexts:
    """Repeated lines of the clients of this process, bounded by number of clients, messages and lines."""

    def __init__(self) -> None:
        self.clients = Bounded[tuple[str, str, str], _Learned](_CLIENTS)

    def with_repeated(self, request: AgentRequest) -> AgentRequest:
        """Return a request with the lines that its client is known to repeat."""
        known = self.clients.get(_client(request))
        if known is None or not known.repeated:
            return request
        return msgspec.structs.replace(request, repeated=known.repeated)

    def learn(self, request: AgentRequest, words: Extracted) -> None:
        """Learn from a person's message that an agent has sent; the same message counts once."""
        text = words.whole or words.text
        if not text or not may_repeat(text) or not _is_agents(request):
            return
        key = _client(request)
        messages = self.clients.get(key, _Learned()).messages
        place = f"{request.session}#{words.index}"
        if any(known == place for known, _ in messages):  # a loop of tool calls, or a message sent again
            return
        lines = edge_lines(text)
        if any(known == lines for _, known in messages):  # "go on", said twice: as a client's line would be
            return
        messages = (*messages, (place, lines))[-_MESSAGES:]
        counts = Counter(chain.from_iterable(lines for _, lines in messages))
        repeated = frozenset(line for line, count in counts.items() if count >= _OFTEN)
        self.clients.keep(key, _Learned(messages, repeated))


def _is_agents(request: AgentRequest) -> bool:
    """Whether a request is of a conversation: text that a program sends by a template is its task."""
    return bool(
        request.system
        and request.role is not HELPER
        and (request.role or request.tools or len(request.history) > 2)
    )


def _client(request: AgentRequest) -> tuple[str, str, str]:
    system = request.system[:_BEGINNING]
    if system.startswith(BILLING):
        system = system.partition("\n")[2]
    return request.caller, request.client, system

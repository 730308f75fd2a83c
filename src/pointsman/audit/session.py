"""What every log is read into: sessions, their requests, tool calls and token counts, with their certainty.

A ``Session`` holds texts while it is analysed and is then dropped, one at a time. Texts are cut to ``KEPT``
characters, so that the memory that a session needs does not depend on what its tools printed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

import msgspec

from pointsman.catalogue import CatalogueEntry
from pointsman.vocabulary import END_OF_TIME, Purpose
from pointsman.wire.format import count
from pointsman.wire.project import folder_name

__all__ = [
    "HOUSEKEEPING",
    "KEPT",
    "OWN_LEDGER",
    "Certainty",
    "Request",
    "Session",
    "SessionFacts",
    "Tokens",
    "ToolUse",
    "Usage",
    "believable",
    "cut",
    "local",
]

#: Characters kept of one text: its beginning and its end, where errors, exit codes and summaries are.
KEPT: Final = 8_000
#: The client of sessions of Pointsman's own ledger.
OWN_LEDGER: Final = "pointsman"


def cut(text: str) -> str:
    """Return a text of at most about ``KEPT`` characters: beginning, the count of omitted characters, end."""
    if len(text) <= KEPT:
        return text
    return f"{text[: KEPT // 2]}\n[{len(text) - KEPT} characters left out]\n{text[-KEPT // 2 :]}"


def local(at: float) -> datetime:
    """A time in the zone of this machine, by which days are counted."""
    return datetime.fromtimestamp(at, UTC).astimezone()


class Certainty(StrEnum):
    """How a number in a log came about."""

    LOGGED = "logged"  # the provider's own count, written by the client
    AT_LEAST = "at_least"  # the client wrote it before the answer had ended
    ESTIMATED = "estimated"  # derived from lengths of texts, or rounded by the client
    UNKNOWN = "unknown"  # the log does not have it


class Tokens(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Tokens of requests. ``input_tokens`` are whole prompts: cache reads and writes are parts of them."""

    input_tokens: int = 0
    cached_tokens: int = 0  # read from the provider's prompt cache
    written_tokens: int = 0  # written to it, as far as the log has it
    written_1h_tokens: int = 0  # of these, with a lifetime of an hour
    output_tokens: int = 0  # as logged, reasoning included
    output_at_most: int = 0  # upper bound; equal to ``output_tokens`` where that is complete

    def counts(self) -> dict[str, int]:
        """The tokens alone, by field."""
        return {name: getattr(self, name) for name in Tokens.__struct_fields__}


class Usage(Tokens, frozen=True, gc=False, kw_only=True):
    """Tokens of one request."""

    input_certainty: Certainty = Certainty.LOGGED
    output_certainty: Certainty = Certainty.LOGGED


class ToolUse(msgspec.Struct, frozen=True, gc=False):
    """One tool call and its result."""

    id: str
    name: str
    arguments: str  # JSON text, cut
    result: str | None = None  # text, cut; None: the log holds no result
    is_error: bool | None = None  # what the client says of it; None: the text must tell
    result_length: int = 0  # characters, before it was cut
    at: float = 0.0  # seconds since the epoch, when the result came; 0: unknown


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a model, and its result."""

    id: str  # the provider's id of the answer where there is one
    at: float = 0.0  # seconds since the epoch, when the answer was logged; 0: unknown
    model: str = ""  # "" where the log does not name it
    provider: str = ""  # as the client names it; "" where it does not
    purpose: Purpose = Purpose.TOOL_ITERATION
    agent: str = ""  # id of the sub-agent that sent it; "" for the session's own agent
    prompt: str | None = None  # what the person (or the parent agent) said before it, cut; None: nothing new
    text: str = ""  # the visible answer, cut
    text_length: int = 0  # characters of the visible answer, before it was cut
    usage: Usage = Usage()
    calls: tuple[ToolUse, ...] = ()
    cost: float | None = None  # dollars, as the client or the export says; None: it says nothing
    rate: float = 1.0  # how many times the list price its tokens cost, as in fast mode
    fees: float = 0.0  # dollars beside those of tokens, where the log has no cost
    subscription: bool = False  # paid by a subscription: the cost is what it would have cost
    new_context: bool = False  # the first request after a compaction: its cache is cold for a reason

    @property
    def is_main(self) -> bool:
        """Whether the session's own agent sent it to do the person's work."""
        return not self.agent and self.purpose in WORK


#: Purposes that any model can fill; a compaction is none of them, for the work goes on from it.
HOUSEKEEPING: Final = frozenset({Purpose.TITLE, Purpose.TOPIC, Purpose.SUMMARY, Purpose.PROBE})
#: Purposes that are the person's work, in the main conversation; the others are helper calls of the client.
WORK: Final = frozenset({Purpose.MESSAGE, Purpose.TOOL_ITERATION, Purpose.PLAN, Purpose.EDIT})


class SessionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A session of a client, without its requests."""

    id: str
    client: str  # a source's name: "claude-code", "codex" …
    version: str = ""  # of the client; "" where the log does not say
    project: str = ""  # working directory, or the name that the export has; "" unknown
    files: tuple[str, ...] = ()  # what was read
    not_logged: tuple[str, ...] = ()  # kinds of requests that this client does not log
    notes: tuple[str, ...] = ()  # what was wrong with the file, for a person
    parent: str = ""  # id of the session that it was forked from or that started it
    prices: tuple[CatalogueEntry, ...] = ()  # that a ledger's configuration states

    @property
    def project_name(self) -> str:
        """Last part of the project's path; "(none)" where the log names no project."""
        return folder_name(self.project) or "(none)"


class Session(SessionFacts, frozen=True, kw_only=True):
    """One session of one client, its requests in the order in which they happened."""

    requests: tuple[Request, ...] = ()
    #: Where the log lists them: characters of each description.
    tools_offered: dict[str, int] = msgspec.field(default_factory=dict)

    @property
    def started(self) -> float:
        """Seconds since the epoch of the first request with a time; 0 without any."""
        return min((each.at for each in self.requests if each.at), default=0.0)

    @property
    def ended(self) -> float:
        """Seconds since the epoch of the last request."""
        return max((each.at for each in self.requests), default=0.0)


#: More dollars than one request can cost.
_MOST_DOLLARS: Final = 1e6


def believable(session: Session) -> Session:
    """Return the session without times, counts and costs that no request has, and with a note of them.

    Anyone may have written a line of a log. Values left out count as unknown.
    """
    requests = tuple(map(_believable, session.requests))
    doubtful = sum(a is not b for a, b in zip(requests, session.requests, strict=True))
    if not doubtful:
        return session
    note = (
        f"{', '.join(session.files[:1]) or session.id}: a time, count or cost that no request has, in "
        f"{doubtful:,} of {len(requests):,} requests: it counts as unknown"
    )
    return msgspec.structs.replace(session, requests=requests, notes=(*session.notes, note))


def _believable(request: Request) -> Request:
    wrong: dict[str, object] = {}
    if not 0 <= request.at < END_OF_TIME:
        wrong["at"] = 0.0
    if None in map(count, request.usage.counts().values()):
        wrong["usage"] = Usage(input_certainty=Certainty.UNKNOWN, output_certainty=Certainty.UNKNOWN)
    if request.cost is not None and not 0 <= request.cost <= _MOST_DOLLARS:
        wrong["cost"] = None
    if not 0 <= request.fees <= _MOST_DOLLARS:
        wrong["fees"] = 0.0
    return msgspec.structs.replace(request, **wrong) if wrong else request

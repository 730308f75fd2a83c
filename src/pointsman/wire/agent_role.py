"""Recognises role and purpose of a request within an agent, by the marks of the clients in ``wire.clients``.

The role is read only from text that the agent's code writes: headers, the beginning of the system prompt, and
which fields are there. The purpose is read from the beginning of the last user message as well, because
Claude Code's compaction differs from its main conversation by nothing else: in requests of that client alone,
and in the text that it writes itself. Results of tools are never read, nor is a text next to a person's
words, as some clients send results: they may come from a file or a web page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from pointsman.text.wrappers import BILLING
from pointsman.vocabulary import SYSTEM, USER, AgentRequest, AgentRole, History, Message, Purpose
from pointsman.wire.body import Body
from pointsman.wire.clients import CLIENTS, Client, Mark

__all__ = ["SUBAGENT_HEADERS", "RequestRole", "read_role"]

#: Sent by sub-agents alone.
SUBAGENT_HEADERS: Final = tuple(name for client in CLIENTS for name in client.subagents)
#: Header and value by which a client states a sub-agent.
_STATED_SUBAGENTS: Final = tuple(pair for client in CLIENTS for pair in client.stated_subagents)
_SUBAGENT_NAMES: Final = frozenset((*SUBAGENT_HEADERS, *(name for name, _ in _STATED_SUBAGENTS)))
_BILLED_SUBAGENT: Final = "cc_is_subagent=true"
#: Tokens of output up to which an agent's call without tools counts as small. Titles, labels and checks of a
#: command ask for 1 to 512; an agent's main requests ask for 8,000 or more.
_SMALL: Final = 1_024
_OUTPUT_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
#: Characters of a system prompt in which marks are looked for: Claude Code says two lines of its own before.
_BEGINNING: Final = 400
#: Items at the end of a history among which the last words are looked for: Codex puts settings behind them.
_LAST: Final = 8
_MARKS: Final = tuple(mark for client in CLIENTS for mark in client.marks)
#: Whose words a mark looks for. No two clients have the same mark: each names its client.
_CLIENT_OF: Final = {mark: client for client in CLIENTS for mark in client.marks if mark.words}
#: How a text begins that a client puts beside what a person says.
_REMINDER: Final = "<system-reminder>\n"
#: Characters at the beginning of a text in which the words of a mark are looked for, and in a system message:
#: Claude Code lists its sub-agents in the same message before it says that it plans.
_WORDS: Final = 160
_NOTE: Final = 32_000
#: All texts that marks look for in words: most requests hold none of them.
_SAID: Final = tuple(text for mark in _MARKS for text in mark.words)
#: The same of what the system says.
_NOTES: Final = tuple({note for mark in _MARKS for note in mark.notes})
_NOTHING: Final = Message(SYSTEM)  # where no message is found
_MARK_HEADERS: Final = frozenset(mark.header[0] for mark in _MARKS if mark.header)
#: Beginnings of system prompts whose marks are remembered, 2 MB at most: an agent sends its own each time.
_PROMPTS: Final = 1_024


class RequestRole(NamedTuple):
    """Role and purpose of a request within an agent, and the mark that identifies them."""

    role: AgentRole | None = None  # None where nothing tells
    purpose: Purpose | None = None
    mark: str = ""  # for a person; empty for the main conversation


class _Seen(NamedTuple):
    """What marks are compared with."""

    system: str  # its first ``_BEGINNING`` characters
    instructions: str  # all of it
    words: tuple[str, ...]  # how the texts of the last message begin, where a user sends it
    own: str  # that of them which asks in a client's own words, if one does
    notes: Sequence[str]  # how texts of the system's messages behind or just before it begin
    output: int  # most tokens of an answer; 0: not said
    headers: Mapping[bytes, bytes]  # by name in lower case


def _last(history: History) -> tuple[Message, list[str]]:
    """Return the last message, and how texts of the system behind or just before it begin that hold a note.

    At most ``_LAST`` items are looked at.
    """
    last: Message | None = None
    notes: list[str] = []
    count = len(history)
    for index in range(count - 1, max(count - _LAST, 0) - 1, -1):
        message = history[index]
        if message.role is not SYSTEM:
            if not (message.texts or message.calls or message.results):
                continue  # an item that is no message, such as Codex's change of settings
            if last is not None:
                break
            last = message
        else:
            notes += [text[:_NOTE] for text in message.texts if any(map(text[:_NOTE].__contains__, _NOTES))]
    return last or _NOTHING, notes


_UNKNOWN: Final = RequestRole()
_TURN: Final = RequestRole(AgentRole.MAIN, Purpose.MESSAGE)
_ITERATION: Final = RequestRole(AgentRole.MAIN, Purpose.TOOL_ITERATION)


def read_role(
    headers: Mapping[bytes, bytes], request: AgentRequest, body: Body, *, is_agent: bool
) -> RequestRole:
    """Return the role of a request; all None if no mark matches.

    Args:
        headers: The caller's, by name in lower case.
        request: The request as it was read.
        body: The body itself.
        is_agent: A header names the session, as only agents do.
    """
    last, notes = _last(request.history)
    system = request.system[:_BEGINNING]
    goes_on = bool(last.results)
    words = [text[:_WORDS].lstrip() for text in last.texts] if last.role is USER else []
    subagent = _subagent(headers, system)
    # Claude Code puts the words of a compaction into the message with the results of the tools before it.
    says = "".join(words).startswith(_SAID) or (len(words) > 1 and any(map(_says, words)))
    names_kind = not _MARK_HEADERS.isdisjoint(headers)
    compared = _compared(system, bool(request.tools), goes_on, says, bool(notes), names_kind)
    mark: Mark | None = None
    if compared:
        own = words[0] if len(words) == 1 else _own(words, goes_on=goes_on) if words else ""
        limit = _output_limit(body)
        seen = _Seen(system, request.system, tuple(words), own, notes, limit, headers)
        mark = next((each for each in compared if _matches(each, seen)), None)
    if subagent:
        work = Purpose.TOOL_ITERATION if goes_on else Purpose.MESSAGE
        return RequestRole(AgentRole.SUBAGENT, mark.purpose if mark else work, subagent)
    if mark is not None:
        return _of(mark)
    if not is_agent:
        return _UNKNOWN
    if not goes_on and not request.tools and 0 < (limit := _output_limit(body)) <= _SMALL:
        shown = f"no tools and at most {limit} tokens of output"
        return RequestRole(AgentRole.HELPER, Purpose.HELPER, shown)
    return _ITERATION if goes_on else _TURN


def _says(text: str) -> bool:
    return text.startswith(_SAID)


@lru_cache(_PROMPTS)
def _compared(
    system: str, offers: bool, goes_on: bool, says: bool, notes: bool, names_kind: bool
) -> tuple[Mark, ...]:
    """Return the marks, of some thirty, that a request may have: for most requests there are none.

    Args:
        system: The beginning of its system prompt.
        offers: It offers tools.
        goes_on: Its last message holds results of tools, so it is no new turn of the conversation.
        says: A text of its last message begins with the words of any mark.
        notes: A system message behind or just before the last message holds the note of any mark.
        names_kind: It has a header that any mark looks at.
    """
    return tuple(
        mark
        for mark in _MARKS
        if not (offers and mark.without_tools)
        and not (goes_on and mark.is_main)
        and (says or not mark.words)
        and (notes or not mark.notes)
        and (names_kind or not mark.header)
        and (not mark.system or any(text in system for text in mark.system))
    )


def _matches(mark: Mark, seen: _Seen) -> bool:
    """Whether a request has all that one of the marks of ``_compared`` asks for."""
    if mark.words and not _has_words(mark, seen):
        return False
    if mark.output and not 0 < seen.output <= mark.output:
        return False
    if mark.header and mark.header[1] not in seen.headers.get(mark.header[0], b""):
        return False
    if mark.notes and not any(note in text for text in seen.notes for note in mark.notes):
        return False
    return mark.inside in seen.instructions


def _has_words(mark: Mark, seen: _Seen) -> bool:
    """Whether a client's text holds the words of its mark.

    A mode of the main conversation is sent with a person's words, in a reminder before or behind them.
    """
    if not mark.is_main:
        return seen.own.startswith(mark.words) and _is_from(_CLIENT_OF[mark], seen)
    words = seen.words
    if not any(text.startswith(mark.words) for text in words) or not _is_from(_CLIENT_OF[mark], seen):
        return False
    before = next((place for place, text in enumerate(words) if not text.startswith(_REMINDER)), len(words))
    return any(text.startswith(mark.words) for text in (*words[: before + 1], words[-1]))


def _own(words: Sequence[str], *, goes_on: bool) -> str:
    """Return the one of several texts that is the client's own request; empty if there is no such text.

    It is the only one that is no reminder. With results of tools it is the last: Claude Code adds its request
    to the message that holds them. Otherwise the texts are a person's and those of attached files.
    """
    spoken = [text for text in words if not text.startswith(_REMINDER)]
    return spoken[-1] if spoken and (goes_on or len(spoken) == 1) else ""


def _is_from(client: Client, seen: _Seen) -> bool:
    """Whether a request is known to be a client's."""
    headers = seen.headers
    return (
        any(name in headers for name in client.headers)
        or bool(client.agent and headers.get(b"user-agent", b"").startswith(client.agent))
        or any(text in seen.system for text in client.system)
    )


def _of(mark: Mark) -> RequestRole:
    if mark.is_main:
        return RequestRole(
            AgentRole.MAIN, mark.purpose, "" if mark.purpose is Purpose.MESSAGE else mark.shown
        )
    return RequestRole(AgentRole.HELPER, mark.purpose, mark.shown)


def _subagent(headers: Mapping[bytes, bytes], system: str) -> str:
    """The mark of a sub-agent; empty for any other role."""
    if not _SUBAGENT_NAMES.isdisjoint(headers):
        for name in SUBAGENT_HEADERS:
            if name in headers:
                return f"header {name.decode()}"
        for name, value in _STATED_SUBAGENTS:
            if headers.get(name) == value:
                return f"header {name.decode()}: {value.decode()}"
    if system.startswith(BILLING) and _BILLED_SUBAGENT in system.partition("\n")[0]:
        return f"{_BILLED_SUBAGENT} in the system prompt"
    return ""


def _output_limit(body: Body) -> int:
    """Most tokens of an answer, by the first member that gives a plain count; 0 if no member does."""
    for name in _OUTPUT_LIMITS:
        value = body.member(name)
        if value is None:
            continue
        digits = bytes(value)
        if digits.isdigit() and len(digits) < 10 and (limit := int(digits)):  # digits of any real limit
            return limit
    return 0

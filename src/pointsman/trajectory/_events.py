"""Events of an agent's run, for programs with a custom loop.

The gateway makes these from a request's history; a library user dispatches them directly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Protocol

import msgspec

from pointsman.text.extract import digest
from pointsman.trajectory._failures import outcome_of, salient_line, signature_of
from pointsman.trajectory.agent_tools import PLANNING, READING_ON
from pointsman.trajectory.step import ERROR, OK, Step
from pointsman.vocabulary import ToolResult

# Arguments of a tool call in one canonical form, so that two equal calls compare equal.
#
# Two calls mean the same when they differ only in the order of keys, in white space, or in ids that a client
# invents anew for every call.


#: Keys that differ between two otherwise equal calls, in the spellings that clients and MCP servers use.
VOLATILE_KEYS: Final = frozenset(
    {
        "call_id",
        "callid",
        "correlation_id",
        "idempotency_key",
        "nonce",
        "request_id",
        "requestid",
        "span_id",
        "timestamp",
        "tool_call_id",
        "trace_id",
        "traceparent",
    }
)
#: Keys in which some clients make the model explain the call; prose, and worded anew each time.
NARRATION_KEYS: Final = frozenset({"description", "explanation", "justification", "reason", "thought"})
#: Narration is dropped only beside a shell command: elsewhere a description may be the payload itself.
COMMAND_KEYS: Final = frozenset({"command", "cmd"})
_DROPPABLE: Final = VOLATILE_KEYS | NARRATION_KEYS
#: Above this many characters arguments are compared as they are: decoding them costs more than it finds.
MAX_CANONICAL: Final = 65_536

#: Words in the names of tools that exist to be called until something changes.
POLL_WORDS: Final = frozenset({"heartbeat", "monitor", "ping", "poll", "sleep", "status", "wait", "watch"})

#: Characters of a result in which the source of an argument is looked for.
MAX_SOURCE: Final = 20_000
#: Characters a string must have to mean anything: shorter ones are found in any text.
SHORTEST: Final = 4

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder(order="sorted").encode
#: In this order: decoded JSON is a dict, and asking for the abstract class takes five times as long.
_MAPPINGS: Final = (dict, Mapping)
#: Words of an identifier, in snake case or camel case.
IDENTIFIER_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SLEEP: Final = re.compile(r"\bsleep\s+\d|\bwatch\s+-")
_NAME: Final = 200  # characters of a tool's name that are looked at
_SHELL_HEAD: Final = 1_000  # characters of the arguments in which a waiting command is looked for


def canonical_arguments(arguments: str | Mapping[str, object]) -> str:
    """Return arguments with sorted keys and no volatile ids; malformed JSON with white space folded."""
    if isinstance(arguments, str):
        if len(arguments) > MAX_CANONICAL:
            return arguments
        try:
            value = _decode(arguments)
        except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
            return " ".join(arguments.split())
    else:
        value = arguments
    try:
        return _encode(_stable(value)).decode()
    except (TypeError, ValueError, RecursionError):  # a library user's own objects
        return repr(value)


def comes_from(arguments: str, result: str) -> bool:
    """True when a string among canonical arguments was in the result before: the call had to wait for it."""
    if not result:
        return False
    before = result[:MAX_SOURCE]
    pieces = arguments[:MAX_SOURCE].split('"')  # strings stand at odd places; a key is followed by a colon
    for value, behind in zip(pieces[1::2], pieces[2::2], strict=False):
        if value in before and len(value) >= SHORTEST and behind[:1] != ":":
            return True
    return False


def _stable(value: object) -> object:
    if not isinstance(value, _MAPPINGS):
        return value
    try:
        if _DROPPABLE.isdisjoint(map(str.lower, value)):
            return value  # nearly always; the rest costs three times as much
    except TypeError:  # a library user's mapping whose keys are not text
        return value
    lowered = {key: key.lower() for key in value}
    dropped = VOLATILE_KEYS if COMMAND_KEYS.isdisjoint(lowered.values()) else _DROPPABLE
    return {key: item for key, item in value.items() if lowered[key] not in dropped}


def is_polling(tool_name: str, arguments: str) -> bool:
    """True for a call meant to be repeated: a tool named for waiting, or a shell command that sleeps."""
    if _named_for_polling(tool_name[:_NAME]):
        return True
    waits = "sleep" in arguments or "watch" in arguments  # a tenth of the pattern's cost
    return waits and _SLEEP.search(arguments, 0, _SHELL_HEAD) is not None


@lru_cache(maxsize=1024)
def _named_for_polling(name: str) -> bool:
    if name.lower() in READING_ON:
        return True
    return any(word.lower() in POLL_WORDS for word in IDENTIFIER_WORDS.findall(name))


# Indicators of progress in a tool result.
#
# Two more signs need no text and are kept by the trajectory itself: a call and result it has not seen before
# (a new file, a new resource), and a user message.


#: Characters read at the end of a result: test runners and builds put their summary last.
SUMMARY: Final = 400


class ProgressIndicator(Protocol):
    """One sign of progress. Must be pure and quick: it runs on every successful call."""

    @property
    def name(self) -> str:
        """Stable name, shown in steps."""

    def shows(self, tool_name: str, end: str, /) -> bool:
        """True when the end of this successful result (``SUMMARY`` characters) shows progress."""


@dataclass(frozen=True, slots=True)
class TextIndicator:
    """Progress when the end of a result matches one pattern and not another."""

    name: str
    words: tuple[str, ...]  # one of these must be there, or the pattern is not tried: it costs ten times more
    pattern: re.Pattern[str]
    unless: re.Pattern[str]

    def shows(self, tool_name: str, end: str, /) -> bool:  # noqa: ARG002 - the protocol's shape
        """True when the summary matches and nothing in it speaks against."""
        if not any(map(end.__contains__, self.words)):
            return False
        return self.pattern.search(end) is not None and self.unless.search(end) is None


@dataclass(frozen=True, slots=True)
class PlanIndicator:
    """A tool for the plan was used: an item was added or ticked off."""

    name: str = "plan_step_completed"
    tools: frozenset[str] = PLANNING

    def shows(self, tool_name: str, end: str, /) -> bool:  # noqa: ARG002 - the protocol's shape
        """True for a plan tool."""
        return tool_name.lower() in self.tools


#: Summary formats of pytest, unittest, jest, go, cargo, Maven, Gradle, tsc, make and docker, each with what
#: the same tool prints on failure. Source: docs/explanation/guidance.md, "What counts as stuck".
DEFAULT_INDICATORS: Final[tuple[ProgressIndicator, ...]] = (
    TextIndicator(
        "test_passed",
        (" pass", "OK", "ok\t", "ok  ", "result: ok", "Tests run:"),
        re.compile(
            r"\b[1-9]\d* pass(?:ed|ing)\b|^OK\b|^ok\s+\S+|test result: ok|Tests run: [1-9]", re.MULTILINE
        ),
        re.compile(r"\b[1-9]\d* fail|\bFAILED\b|^FAIL\b|(?:Failures|Errors): [1-9]", re.MULTILINE),
    ),
    TextIndicator(
        "build_succeeded",
        ("BUILD SUCC", "uild succ", "piled succ", "Finished "),
        re.compile(
            r"\bBUILD SUCCESS|\bbuild (?:succeeded|successful)|compiled successfully|^Finished ",
            re.IGNORECASE | re.MULTILINE,
        ),
        re.compile(r"\bBUILD FAIL", re.IGNORECASE),
    ),
    PlanIndicator(),
)


def progress_in(tool_name: str, result: str, indicators: Sequence[ProgressIndicator]) -> str:
    """Name of the first indicator that a successful result shows, or ""."""
    end = result[-SUMMARY:]
    for indicator in indicators:
        if indicator.shows(tool_name, end):
            return indicator.name
    return ""


#: Characters of a tool's name that are kept; providers allow 64 to 128.
MAX_NAME: Final = 128


class ToolInvoked(msgspec.Struct, frozen=True):
    """A tool was called and answered. ``turn`` None: a separate turn, after the one before."""

    tool_name: str
    params: str | Mapping[str, object] = ""  # JSON text as the model wrote it, or the decoded object
    result: ToolResult | None = None
    turn: int | None = None
    position: int = 0  # place in a parallel batch, from 0
    batch: int = 1  # calls in the batch
    at: float = 0.0  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class UserSpoke:
    """A user message: a new attempt, which ends any earlier loop."""

    at: float = 0.0  # seconds since the epoch


@dataclass(frozen=True, slots=True)
class ProgressMade:
    """The agent's own loop knows of progress that no result shows: a plan step done, a goal reached."""

    indicator: str = "plan_step_completed"


@dataclass(frozen=True, slots=True)
class ToolRecommended:
    """The agent was instructed to use a tool."""

    tool_name: str


#: A recorded run replays its steps as they are.
Event = ToolInvoked | UserSpoke | ProgressMade | ToolRecommended | Step


@dataclass(slots=True)
class Session:
    """The smallest session there can be: it stores dispatched events and notifies listeners."""

    events: list[object] = field(default_factory=list)
    listeners: list[Callable[[object], None]] = field(default_factory=list)

    def dispatch(self, event: object) -> None:
        """Record an event and pass it on."""
        self.events.append(event)
        for listener in self.listeners:
            listener(event)


def step_of(
    event: ToolInvoked,
    *,
    turn: int,
    before: str,
    indicators: Sequence[ProgressIndicator],
    poll_tools: frozenset[str],
) -> Step:
    """Reduce a call to facts and hashes.

    Args:
        event: the call and its result.
        turn: used where the event names none.
        before: text of the result before this call.
        indicators: signs of progress to look for in the result.
        poll_tools: names of tools that may be repeated, in addition to the built-in ones.
    """
    arguments, name, result = canonical_arguments(event.params), event.tool_name, event.result
    text = message = signature = progress = ""
    outcome = OK
    if result:
        text = result.text
        outcome = outcome_of(text, result.is_error)
    if outcome is OK:
        progress = progress_in(name, text, indicators)
    elif outcome is ERROR:
        message = salient_line(text)
        signature = signature_of(message) if message else ""
    return Step(
        name[:MAX_NAME],
        digest(arguments),
        digest(text) if result else "",
        len(text),
        outcome,
        signature,
        message,
        turn if event.turn is None else event.turn,
        event.position,
        event.batch,
        polling=name in poll_tools or is_polling(name, arguments),
        derived=comes_from(arguments, before),
        progress=progress,
        at=event.at,
    )

"""Arguments of a tool call in one canonical form, so that two equal calls compare equal.

Two calls mean the same when they differ only in the order of keys, in white space, or in ids that a client
invents anew for every call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from pointsman.trajectory.agent_tools import READING_ON

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
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
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
    return any(word.lower() in POLL_WORDS for word in _WORDS.findall(name))

"""Reads an agent's project, its working directory as its environment block names it, and its caller's span.

A project is the hash of the caller's key and the directory. Only the last part of the directory is stored, as
the project's name in the ledger. A caller that names no directory is one project by its key and its program.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple

from pointsman.decoding import whole_text
from pointsman.remembering import remembered
from pointsman.vocabulary import AgentRequest, Role
from pointsman.wire.clients import CLIENTS

__all__ = [
    "TraceParent",
    "client_of",
    "folder_name",
    "named_project",
    "project_key",
    "read_project",
    "read_traceparent",
    "traceparent_of",
    "working_directory",
]

#: What stands before the directory, the longer ones first: "Primary working directory: " holds another.
_BEFORE: Final = tuple(
    sorted({folder for client in CLIENTS for folder in client.folders}, key=lambda text: (-len(text), text))
)
#: How the first message of a person begins in which an agent writes down its environment.
_BLOCKS: Final = ("<environment_context>", "<env>", "This is the Qwen Code.")
#: Characters of such a block that are read.
_BLOCK: Final = 8_000
#: Messages among which such a block is looked for.
_FIRST: Final = 6
#: Characters of a path that is taken for one: Linux allows 4,096 bytes.
_LONGEST: Final = 4_096
#: Keys kept by what they are made of: to make one costs 2 µs.
_KEPT: Final = 256
#: What ``project_key`` returns.
_KEY: Final = re.compile("[pc]-[0-9a-f]{16}")
#: Characters of a program's name.
_NAME: Final = 40
#: Characters of a folder's name.
_FOLDER: Final = 80
#: Bytes of a ``User-Agent`` that is remembered.
_LONGEST_AGENT: Final = 512


def read_project(request: AgentRequest, caller: str, client: str) -> tuple[str, str]:
    """Return the key of the project of a request, and the name of its folder; empty if none is named.

    Args:
        request: Its system prompt or its first messages name the directory.
        caller: Name of the caller's key; empty if none is asked for.
        client: The program, as ``client_of`` gives it.
    """
    directory = working_directory(request)
    key = project_key(caller, directory, client) if directory or caller or client else ""
    return key, folder_name(directory)


@lru_cache(_KEPT)
def project_key(caller: str, directory: str, client: str = "") -> str:
    """Return ``p-`` and 16 hex digits for a directory, ``c-`` and as many for a caller without one."""
    said = directory.rstrip("/\\") or directory or client
    data = f"{caller}\0{said}".encode("utf-8", "surrogatepass")
    return ("p-" if directory else "c-") + blake2b(data, digest_size=8).hexdigest()


def folder_name(directory: str) -> str:
    """Return the last part of a directory, for a person: the path that leads there is private.

    >>> folder_name("/home/ana/shop/")
    'shop'
    """
    last = directory.rstrip("/\\").replace("\\", "/").rpartition("/")[2][:_FOLDER]
    return whole_text(last)


def named_project(name: str) -> str:
    """Return the key of a project that a program names: a directory, other words, or a key.

    A directory has the key that a gateway without callers' keys gives it. A key stays as it is, and so does
    one before the name of its folder.
    """
    key = name.partition("/")[0]
    return key if not name or _KEY.fullmatch(key) else project_key("", name)


def working_directory(request: AgentRequest) -> str:
    """Return the directory that an agent's environment block names; empty if there is none."""
    # The messages first: to find nothing in a system prompt of 28,000 characters takes 120 µs.
    history = request.history
    somebody_spoke = False
    for index in range(min(len(history), _FIRST)):
        role = history.role(index)
        if role is Role.ASSISTANT:
            break
        if role is Role.SYSTEM:
            # Before the first words it is long, and read as the system prompt already. Claude Code 2.1.330
            # names its environment in one behind them.
            if somebody_spoke and (found := _first_named(history[index].texts, ("",))):
                return found
            continue
        somebody_spoke = True
        if found := _first_named(history[index].texts, _BLOCKS):
            return found
    return _named_in(request.system)


def _first_named(texts: Sequence[str], begins: tuple[str, ...]) -> str:
    """Return the directory named in the first of some texts that begins so and names one."""
    named = (_named_in(text[:_BLOCK]) for text in texts if text.lstrip().startswith(begins))
    return next(filter(None, named), "")


def _named_in(text: str) -> str:
    for before in _BEFORE:
        at = text.find(before)
        if at >= 0:
            start = at + len(before)
            line = text[start : start + _LONGEST].partition("\n")[0]
            path = line.partition("</")[0].strip() if before.startswith("<") else line.strip()
            if path.startswith("/") or path[1:3] in {":\\", ":/"}:  # absolute, of Unix or of Windows
                return path
    return ""


def _client_of(user_agent: bytes) -> str:
    name = user_agent.partition(b"/")[0].partition(b" ")[0].decode("latin-1")
    plain = all(c.isascii() and (c.isalnum() or c in "._-") for c in name)
    return name if plain and len(name) <= _NAME else ""


#: The first word of a ``User-Agent`` without its version: "claude-cli"; or nothing.
client_of: Final = remembered(_client_of, _KEPT, _LONGEST_AGENT)


# The header ``traceparent``. Source: W3C Trace Context, Level 2, sections 3.2 and 4.
#: Version, trace id, parent id and flags. A later version may have more after them (section 4.3).
_PARTS: Final = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.{0,200})?")
_INVALID_VERSION: Final = b"ff"
_SAMPLED: Final = 1


class TraceParent(NamedTuple):
    """The caller's span."""

    trace_id: str  # 32 hex digits
    span_id: str  # 16 hex digits
    is_sampled: bool


def read_traceparent(value: bytes) -> str:
    """Return the header in the form of version 00, as it is recorded; empty if it is not valid."""
    found = _PARTS.fullmatch(value)
    if found is None:
        return ""
    version, trace, span, flags, more = found.groups()
    is_valid = version != _INVALID_VERSION and (not more or version != b"00")
    if not is_valid or not trace.strip(b"0") or not span.strip(b"0"):
        return ""
    return (b"00-%b-%b-%b" % (trace, span, flags)).decode("ascii")


def traceparent_of(recorded: str) -> TraceParent | None:
    """Return the parts of a recorded header; None if there is none."""
    if not recorded:
        return None
    _, trace, span, flags = recorded.split("-")
    return TraceParent(trace, span, bool(int(flags, 16) & _SAMPLED))

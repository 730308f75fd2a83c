"""Names of tools and ids of calls, for formats that take fewer characters or have no namespaces."""

from __future__ import annotations

import hashlib
import re
from typing import Final

import msgspec

__all__ = ["MAX_NAME", "call_id", "flat_name", "joined_name", "short", "wrapped"]

#: Characters of a function's name that OpenAI takes.
MAX_NAME: Final = 64
_VALID_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}").fullmatch
_VALID_ID: Final = re.compile(r"[a-zA-Z0-9_-]+").fullmatch
_INVALID: Final = re.compile(r"[^a-zA-Z0-9_-]")
_HASH: Final = 8  # hexadecimal digits that keep changed names apart


def flat_name(namespace: str, name: str) -> str:
    """Return the name of a tool where there are no namespaces: at most ``MAX_NAME`` letters, digits, _ and -.

    A name that has to be changed or cut ends in a hash, so that two never become one.
    """
    joined = f"{namespace}__{name}" if namespace else name
    if not joined or _VALID_NAME(joined):
        return joined
    return f"{_INVALID.sub('_', joined)[: MAX_NAME - _HASH - 1]}_{_digest(joined)}"


def joined_name(namespace: str, name: str) -> str:
    """Return the name under which a call is told to its caller: its own, or one without a namespace."""
    return flat_name(namespace, name) if namespace else name


def call_id(identifier: str) -> str:
    """Return the id of a call with letters, digits, _ and - alone: the same for the call and its result."""
    if _VALID_ID(identifier):
        return identifier
    return f"{_INVALID.sub('_', identifier)}_{_digest(identifier)}"  # two may differ in what is replaced


def short(text: str, limit: int) -> str:
    """Return an id of at most ``limit`` characters; one that is cut ends in a hash."""
    return text if len(text) <= limit else f"{text[: limit - _HASH - 1]}_{_digest(text)}"


def wrapped(text: str) -> str:
    """Return the input of a custom tool as the arguments of a function."""
    return msgspec.json.encode({"input": text}).decode()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]

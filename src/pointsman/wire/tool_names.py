"""Names of tools, ids of calls and input of custom tools, as formats with narrower rules take them."""

from __future__ import annotations

import hashlib
import re
from typing import Final

import msgspec

__all__ = ["MAX_NAME", "call_id", "flat_name", "wrapped"]

#: Characters of a function's name that OpenAI takes.
MAX_NAME: Final = 64
_INVALID: Final = re.compile(r"[^a-zA-Z0-9_-]")
_VALID_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_HASH: Final = 8  # hexadecimal digits that keep shortened names apart


def flat_name(namespace: str, name: str) -> str:
    """Return the name of a tool where there are no namespaces: at most ``MAX_NAME`` letters, digits, _ and -.

    A name that has to be changed or cut ends in a hash, so that two never become one.
    """
    joined = f"{namespace}__{name}" if namespace else name
    if not namespace or (len(joined) <= MAX_NAME and not _INVALID.search(joined)):
        return joined
    digest = hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    return f"{_INVALID.sub('_', joined)[: MAX_NAME - _HASH - 1]}_{digest}"


def call_id(identifier: str) -> str:
    """Return the id of a call with letters, digits, _ and - alone: the same for the call and its result."""
    if _VALID_ID.fullmatch(identifier):
        return identifier
    digest = hashlib.sha256(identifier.encode("utf-8", "replace")).hexdigest()[:_HASH]
    return f"{_INVALID.sub('_', identifier)}_{digest}"  # two ids may differ in the replaced characters alone


def wrapped(text: str) -> str:
    """Return the input of a custom tool as the arguments of a function."""
    return msgspec.json.encode({"input": text}).decode()

"""Tools of a request in any wire format; names of tools and ids of calls as each format takes them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from typing import Final

import msgspec

from pointsman.decoding import decode_items
from pointsman.remembering import remembered

__all__ = [
    "MAX_NAME",
    "call_id",
    "flat_name",
    "forbids_tools",
    "forced_tool",
    "joined_name",
    "offered_tools",
    "only_tools",
    "short",
    "tool_names",
    "wrapped",
]


class _Inner(msgspec.Struct, gc=False):
    name: str = ""
    description: str = ""


class _Tool(msgspec.Struct, gc=False):
    name: str = ""
    description: str = ""
    type: str = ""
    server_label: str = ""
    function: _Inner | None = None
    custom: _Inner | None = None

    @property
    def label(self) -> str:
        """The name a call of this tool will carry; for a provider's own tool, its type."""
        inner = self.function or self.custom
        return (inner.name if inner else "") or self.name or self.server_label or self.type

    @property
    def text(self) -> str:
        inner = self.function or self.custom
        return (inner.description if inner else "") or self.description


_NONE: Final = _Tool()
_decode_tools: Final = msgspec.json.Decoder(list[_Tool]).decode
_decode_tool: Final = msgspec.json.Decoder(_Tool).decode
_decode_choice: Final = msgspec.json.Decoder(_Tool | str).decode


def tool_names(tools: msgspec.Raw) -> tuple[str, ...]:
    """Names of the tools offered; a tool of an unknown shape has none."""
    return _remembered_names(bytes(tools))


def _tool_names(tools: bytes) -> tuple[str, ...]:
    try:
        read = _decode_tools(tools)
    except (msgspec.DecodeError, UnicodeError):  # no list, or one of them is of another shape
        read = [_read(item) for item in _items(tools)]
    names = [
        inner.name or tool.label if (inner := tool.function) is not None else tool.label for tool in read
    ]
    return tuple(filter(None, names))


def offered_tools(tools: msgspec.Raw) -> list[tuple[str, str]]:
    """Name and description of each tool that has a name, in order."""
    read = (_read(item) for item in _items(tools))
    return [(tool.label, tool.text) for tool in read if tool.label]


def forced_tool(choice: msgspec.Raw) -> str:
    """The one tool that ``tool_choice`` demands; empty when the model may choose."""
    demanded = _demanded(choice)
    if isinstance(demanded, str):
        return ""
    inner = demanded.function or demanded.custom
    return inner.name if inner else demanded.name


def forbids_tools(choice: msgspec.Raw) -> bool:
    """Whether ``tool_choice`` forbids all calls."""
    demanded = _demanded(choice)
    return (demanded if isinstance(demanded, str) else demanded.type) == "none"


def _demanded(choice: msgspec.Raw) -> _Tool | str:
    if not memoryview(choice):
        return ""
    try:
        demanded: _Tool | str = _decode_choice(choice)
    except (msgspec.DecodeError, UnicodeError):
        return ""
    return demanded


def only_tools(tools: bytes, kept: Collection[str]) -> bytes:
    """The list with the selected tools only, each byte for byte; unknown shapes stay."""
    items = (item for item in decode_items(tools) if (name := _read(item).label) in kept or not name)
    return b"[" + b",".join(bytes(item) for item in items) + b"]"


def _items(tools: msgspec.Raw | bytes) -> list[msgspec.Raw]:
    return decode_items(tools) if memoryview(tools)[:1].tobytes() == b"[" else []


#: An agent offers the same tools with every request. 8 MB at most.
_remembered_names: Final = remembered(_tool_names, 128, 64 << 10)


def _read(item: msgspec.Raw) -> _Tool:
    try:
        return _decode_tool(item)
    except (msgspec.DecodeError, UnicodeError):
        return _NONE


#: Characters of a function's name that OpenAI takes.
MAX_NAME: Final = 64
_VALID_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}").fullmatch
_VALID_ID: Final = re.compile(r"[a-zA-Z0-9_-]+").fullmatch
_INVALID: Final = re.compile(r"[^a-zA-Z0-9_-]")
_HASH: Final = 8  # hexadecimal digits that keep changed names apart


def flat_name(namespace: str, name: str) -> str:
    """Return the name of a tool without namespaces: at most ``MAX_NAME`` letters, digits, _ and -.

    A name that has to be changed or cut ends in a hash, so that two never become one.
    """
    joined = f"{namespace}__{name}" if namespace else name
    if not joined or _VALID_NAME(joined):
        return joined
    return f"{_INVALID.sub('_', joined)[: MAX_NAME - _HASH - 1]}_{_digest(joined)}"


def joined_name(namespace: str, name: str) -> str:
    """Return the name of a call for its caller: the tool's name, or one without a namespace."""
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

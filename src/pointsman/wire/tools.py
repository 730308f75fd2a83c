"""Tools of a request in any wire format: as they are read, named, and offered in another format.

A tool that a provider has built in and the caller runs is elsewhere a function with the same arguments: the
descriptions are Pointsman's, the arguments are those that the providers document.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from pointsman.decoding import UNREADABLE, decode_items, decoded_or
from pointsman.remembering import remembered
from pointsman.wire.conversation import Conversation, Tool

if TYPE_CHECKING:
    from pointsman.wire.constructs import Report


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
_Choice: TypeAlias = _Tool | str | None
decode_choice: Final[Callable[[msgspec.Raw], _Choice]] = msgspec.json.Decoder(_Choice).decode


def tool_names(tools: msgspec.Raw) -> tuple[str, ...]:
    """Names of the tools offered; a tool of an unknown shape has none."""
    return _remembered_names(bytes(tools))


def _tool_names(tools: bytes) -> tuple[str, ...]:
    try:
        read = _decode_tools(tools)
    except UNREADABLE:  # no list, or one of them is of another shape
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
    asked = demanded(choice)
    if isinstance(asked, str):
        return ""
    inner = asked.function or asked.custom
    return inner.name if inner else asked.name


def forbids_tools(choice: msgspec.Raw) -> bool:
    """Whether ``tool_choice`` forbids all calls."""
    asked = demanded(choice)
    return (asked if isinstance(asked, str) else asked.type) == "none"


def demanded(choice: msgspec.Raw) -> _Tool | str:
    """What ``tool_choice`` demands: a tool, or a word; empty if it is absent or of another shape."""
    if not memoryview(choice):
        return ""
    return decoded_or("", decode_choice, choice) or ""


def only_tools(tools: bytes, kept: Collection[str]) -> bytes:
    """The list with the selected tools only, each byte for byte; unknown shapes stay."""
    items = (item for item in decode_items(tools) if (name := _read(item).label) in kept or not name)
    return b"[" + b",".join(bytes(item) for item in items) + b"]"


def _items(tools: msgspec.Raw | bytes) -> list[msgspec.Raw]:
    return decode_items(tools) if memoryview(tools)[:1].tobytes() == b"[" else []


#: An agent offers the same tools with every request. 8 MB at most.
_remembered_names: Final = remembered(_tool_names, 128, 64 << 10)


def _read(item: msgspec.Raw) -> _Tool:
    return decoded_or(_NONE, _decode_tool, item)


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


#: The same of a tool outside of namespaces: an agent calls the same few in every request.
plain_name: Final = remembered(partial(flat_name, ""), 512, MAX_NAME)


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


# Tools that a provider runs itself or has a schema of its own for, in a request for another format.
_PLAIN: Final = frozenset({"function", "custom"})

#: Prefixes of the types of optional tools: the caller's other tools work without them.
_DISPENSABLE: Final = (
    "advisor",
    "code_execution",
    "code_interpreter",
    "image_generation",
    "programmatic_tool_calling",
    "shell",
    "tool_search",
    "web_fetch",
    "web_search",
)
#: The option of chat that is no entry of ``tools``: a model that searches always searches.
WEB_SEARCH: Final = "web_search_options"


def portable_tools(asked: Conversation, report: Report) -> tuple[Tool, ...]:
    """Return the tools as another format can be offered them. Changes are reported.

    Raises:
        Untranslatable: a tool that another provider runs is demanded, or nothing else is offered.
    """
    for tool in asked.tools:
        if tool.kind not in _PLAIN:
            return tuple(_portable(asked, report))
    return asked.tools


def _portable(asked: Conversation, report: Report) -> Iterator[Tool]:
    kept = [tool for tool in asked.tools if tool.kind in _PLAIN or as_function(tool)]
    for tool in asked.tools:
        if tool.kind in _PLAIN:
            yield tool
        elif found := as_function(tool):
            report.meet("client_tool", f'tools (type "{tool.kind}")')
            description, schema = found
            yield replace(tool, kind="function", description=description, schema=schema, raw=msgspec.Raw())
        elif kept and _is_merely_offered(tool, asked):
            report.meet("hosted_tool", f'tools (type "{tool.kind}")')
        else:
            construct = "toolset" if "_toolset_" in tool.kind else "server_tool"
            report.meet(construct, WEB_SEARCH if tool.kind == WEB_SEARCH else f'tools (type "{tool.kind}")')


def _is_merely_offered(tool: Tool, asked: Conversation) -> bool:
    if tool.kind == WEB_SEARCH or not tool.kind.startswith(_DISPENSABLE):
        return False
    choice = asked.choice
    return choice is None or choice.mode != "named" or choice.name not in {tool.name, tool.kind}


class _Format(msgspec.Struct, gc=False):
    type: str = ""
    syntax: str = ""
    definition: str = ""


class _Custom(msgspec.Struct, gc=False):
    format: _Format | None = None


_decode_custom: Final = msgspec.json.Decoder(_Custom).decode


def described(tool: Tool) -> str:
    """Return a tool's description; of a custom tool with the grammar that its input has to match."""
    if tool.kind != "custom" or not bytes(tool.raw):
        return tool.description
    form = _decode_custom(tool.raw).format
    if form is None or not form.definition:
        return tool.description
    grammar = f'The text in "input" must match this {form.syntax} grammar:\n{form.definition}'
    return f"{tool.description}\n\n{grammar}" if tool.description else grammar


#: Those of Responses, whose calls have items of their own there. Elsewhere each is a function of this name.
LOCAL_SHELL: Final = "local_shell"
SHELL: Final = "shell"
APPLY_PATCH: Final = "apply_patch"
COMPUTER: Final = "computer"
COMPUTER_PREVIEW: Final = "computer_use_preview"
_BUILT_IN: Final = frozenset({LOCAL_SHELL, SHELL, APPLY_PATCH, COMPUTER, COMPUTER_PREVIEW})

#: The date at the end of a type of Messages.
_DATE: Final = re.compile(r"(?<=_)\d{8}$")


def _object(required: tuple[str, ...], **properties: dict[str, Any]) -> msgspec.Raw:
    schema = {"type": "object", "properties": properties, "required": required}
    return msgspec.Raw(msgspec.json.encode(schema))


def _one_of(*words: str) -> dict[str, Any]:
    return {"type": "string", "enum": words}


def _list_of(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


_EDITS: Final = ("view", "create", "str_replace", "insert")
_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer"}
_NUMBERS: Final = _list_of(_NUMBER)
_TEXTS: Final = _list_of(_TEXT)
_PRESSES: Final = ("left_click", "right_click", "middle_click", "double_click", "triple_click")
_ACTION: Final = {
    "type": "object",
    "properties": {
        "type": _one_of(
            "click", "double_click", "drag", "keypress", "move", "screenshot", "scroll", "type", "wait"
        ),
        "x": _NUMBER,
        "y": _NUMBER,
        "button": _one_of("left", "right", "wheel", "back", "forward"),
        "keys": _TEXTS,
        "path": _list_of({"type": "object", "properties": {"x": _NUMBER, "y": _NUMBER}}),
        "scroll_x": _NUMBER,
        "scroll_y": _NUMBER,
        "text": _TEXT,
    },
    "required": ["type"],
}
_DESKTOP: Final = (
    "Act on a computer's screen with mouse and keyboard. Every action returns a screenshot of what it did."
)
_PATCH: Final = (
    "Create, update or delete one file. The diff is in the V4A format: lines begin with a space, + or -, "
    "and @@ stands before a part of the file; that of a new file has lines with + alone."
)
_ACTIONS: Final = (_DESKTOP, _object(("actions",), actions=_list_of(_ACTION)))

#: Description and arguments by type, of Messages without its date.
_FUNCTIONS: Final[Mapping[str, tuple[str, msgspec.Raw]]] = {
    "bash_": (
        "Run a command in a persistent shell. Set restart to start the shell anew.",
        _object((), command=_TEXT, restart={"type": "boolean"}),
    ),
    "text_editor_": (
        "View, create and edit files.",
        _object(
            ("command", "path"),
            command=_one_of(*_EDITS),
            path=_TEXT,
            file_text=_TEXT,
            old_str=_TEXT,
            new_str=_TEXT,
            insert_line=_NUMBER,
            insert_text=_TEXT,
            view_range=_NUMBERS,
        ),
    ),
    "memory_": (
        "Store and read files below /memories, which outlive the conversation.",
        _object(
            ("command",),
            command=_one_of(*_EDITS, "delete", "rename"),
            path=_TEXT,
            file_text=_TEXT,
            old_str=_TEXT,
            new_str=_TEXT,
            insert_line=_NUMBER,
            insert_text=_TEXT,
            old_path=_TEXT,
            new_path=_TEXT,
            view_range=_NUMBERS,
        ),
    ),
    "computer_": (
        f"{_DESKTOP} Coordinates are [x, y] in pixels from the upper left corner; durations are in seconds.",
        _object(
            ("action",),
            action=_one_of(
                *("screenshot", "cursor_position", "mouse_move", *_PRESSES, "left_click_drag"),
                *("left_mouse_down", "left_mouse_up", "scroll", "key", "hold_key", "type", "wait", "zoom"),
            ),
            coordinate=_NUMBERS,
            start_coordinate=_NUMBERS,
            region=_NUMBERS,
            text=_TEXT,
            duration={"type": "number"},
            scroll_direction=_one_of("up", "down", "left", "right"),
            scroll_amount=_NUMBER,
        ),
    ),
    COMPUTER: _ACTIONS,
    COMPUTER_PREVIEW: _ACTIONS,
    LOCAL_SHELL: (
        "Run a command on the local machine and return its output.",
        _object(
            ("command",),
            command=_TEXTS,
            working_directory=_TEXT,
            timeout_ms=_NUMBER,
            env={"type": "object", "additionalProperties": _TEXT},
        ),
    ),
    SHELL: (
        "Run commands in a shell on the local machine and return their output.",
        _object(("commands",), commands=_TEXTS, timeout_ms=_NUMBER, max_output_length=_NUMBER),
    ),
    APPLY_PATCH: (
        _PATCH,
        _object(
            ("type", "path"),
            type=_one_of("create_file", "update_file", "delete_file"),
            path=_TEXT,
            diff=_TEXT,
        ),
    ),
}


class _Place(msgspec.Struct, gc=False):
    type: str = ""


class _Whole(msgspec.Struct, gc=False):
    environment: _Place | str | None = None  # a word where a computer is meant
    display_width_px: int | None = None
    display_height_px: int | None = None
    display_width: int | None = None
    display_height: int | None = None


_decode: Final = msgspec.json.Decoder(_Whole).decode


def as_function(tool: Tool) -> tuple[str, msgspec.Raw] | None:
    """Return the description and the arguments of a tool that the caller runs; None for any other."""
    found = _FUNCTIONS.get(_DATE.sub("", tool.kind))
    if found is None or not bytes(tool.raw):
        return found
    whole = _decode(tool.raw)
    if isinstance(whole.environment, _Place) and whole.environment.type.startswith("container"):
        return None  # a shell on a machine of the provider's
    description, schema = found
    width = whole.display_width_px or whole.display_width
    height = whole.display_height_px or whole.display_height
    if width and height:
        description += f" The screen is {width} pixels wide and {height} high."
    return description, schema


class Offered(msgspec.Struct, frozen=True, gc=False):
    """A tool as the caller named it."""

    name: str
    namespace: str = ""
    custom: bool = False
    built_in: str = ""


def renamed_tools(tools: Iterable[Tool]) -> Mapping[str, Offered]:
    """Return the tools that other formats know by another name or as another kind, by that name."""
    found: dict[str, Offered] = {}
    for tool in tools:
        flat = flat_name(tool.namespace, tool.name)
        if tool.kind == "function":
            if flat == tool.name:
                continue
        elif tool.kind != "custom" and tool.kind not in _BUILT_IN:
            continue
        offered = Offered(
            tool.name, tool.namespace, tool.kind == "custom", tool.kind if tool.kind in _BUILT_IN else ""
        )
        found[flat] = offered
        if tool.namespace:
            found.setdefault(f"{tool.namespace}__{tool.name}", offered)
    return found

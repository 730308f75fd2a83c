"""Tools that a provider runs itself or has a schema of its own for, in a request for another format.

What another format cannot offer is left out where it is merely offered beside tools of the caller's: agents
offer a web search with every request. It is refused where the request is about it (docs/decisions/0125).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from pointsman.wire.constructs import Report
from pointsman.wire.conversation import Conversation, Tool

__all__ = ["LOCAL_SHELL", "described", "portable_tools"]

#: The tool of Responses that runs a command on the caller's machine. Elsewhere it is a function of this name.
LOCAL_SHELL: Final = "local_shell"

_PLAIN: Final = frozenset({"function", "custom"})

#: How the types of tools begin without which the caller's others still do their work.
_DISPENSABLE: Final = (
    "advisor",
    "apply_patch",
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
_DEMANDED: Final = "web_search_options"


def _object(required: tuple[str, ...], **properties: dict[str, Any]) -> msgspec.Raw:
    schema = {"type": "object", "properties": properties, "required": required}
    return msgspec.Raw(msgspec.json.encode(schema))


_EDITS: Final = ("view", "create", "str_replace", "insert")
_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer"}
_RANGE: Final = {"type": "array", "items": _NUMBER}
#: Tools that the caller runs, by the beginning of their type, with the description and arguments that their
#: provider has built in.
_OF_THE_CALLER: Final[dict[str, tuple[str, msgspec.Raw]]] = {
    "bash_": (
        "Run a command in a persistent shell. Set restart to start the shell anew.",
        _object((), command=_TEXT, restart={"type": "boolean"}),
    ),
    "text_editor_": (
        "View, create and edit files.",
        _object(
            ("command", "path"),
            command={"type": "string", "enum": _EDITS},
            path=_TEXT,
            file_text=_TEXT,
            old_str=_TEXT,
            new_str=_TEXT,
            insert_line=_NUMBER,
            insert_text=_TEXT,
            view_range=_RANGE,
        ),
    ),
    "memory_": (
        "Store and read files below /memories, which outlive the conversation.",
        _object(
            ("command",),
            command={"type": "string", "enum": [*_EDITS, "delete", "rename"]},
            path=_TEXT,
            file_text=_TEXT,
            old_str=_TEXT,
            new_str=_TEXT,
            insert_line=_NUMBER,
            insert_text=_TEXT,
            old_path=_TEXT,
            new_path=_TEXT,
            view_range=_RANGE,
        ),
    ),
    LOCAL_SHELL: (
        "Run a command on the local machine and return its output.",
        _object(
            ("command",),
            command={"type": "array", "items": _TEXT},
            working_directory=_TEXT,
            timeout_ms=_NUMBER,
            env={"type": "object", "additionalProperties": _TEXT},
        ),
    ),
}


def portable_tools(asked: Conversation, report: Report) -> tuple[Tool, ...]:
    """Return the tools as another format can be offered them. What is changed is reported.

    Raises:
        Untranslatable: a tool that another provider runs is demanded, or nothing else is offered.
    """
    for tool in asked.tools:
        if tool.kind not in _PLAIN:
            return tuple(_portable(asked, report))
    return asked.tools


def _portable(asked: Conversation, report: Report) -> Iterator[Tool]:
    kept = [tool for tool in asked.tools if tool.kind in _PLAIN or _of_the_caller(tool)]
    for tool in asked.tools:
        if tool.kind in _PLAIN:
            yield tool
        elif found := _of_the_caller(tool):
            report.meet("client_tool", f'tools (type "{tool.kind}")')
            description, schema = found
            yield replace(tool, kind="function", description=description, schema=schema, raw=msgspec.Raw())
        elif kept and _is_merely_offered(tool, asked):
            report.meet("hosted_tool", f'tools (type "{tool.kind}")')
        else:
            report.meet("server_tool", _DEMANDED if tool.kind == _DEMANDED else f'tools (type "{tool.kind}")')


def _of_the_caller(tool: Tool) -> tuple[str, msgspec.Raw] | None:
    return next((found for kind, found in _OF_THE_CALLER.items() if tool.kind.startswith(kind)), None)


def _is_merely_offered(tool: Tool, asked: Conversation) -> bool:
    if tool.kind == _DEMANDED or not tool.kind.startswith(_DISPENSABLE):
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

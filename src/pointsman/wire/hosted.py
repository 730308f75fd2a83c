"""Tools that a provider runs itself or has a schema of its own for, in a request for another format.

What another format cannot offer is left out where it is merely offered beside tools of the caller's: agents
offer a web search with every request. It is refused where the request is about it (docs/decisions/0125).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from pointsman.wire.client_tools import as_function
from pointsman.wire.constructs import Report
from pointsman.wire.conversation import Conversation, Tool

__all__ = ["described", "portable_tools"]

_PLAIN: Final = frozenset({"function", "custom"})

#: How the types of tools begin without which the caller's others still do their work.
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
_DEMANDED: Final = "web_search_options"


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
            report.meet(construct, _DEMANDED if tool.kind == _DEMANDED else f'tools (type "{tool.kind}")')


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

"""What an answer in the Responses format has to know of its request.

Other formats have neither custom tools nor namespaces: a custom tool goes to them as a function with one
string parameter ``input``, and a namespace becomes a part of the name. A call that comes back is the caller's
own again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.wire.conversation import Call, Conversation
from pointsman.wire.tool_names import flat_name

__all__ = ["NOTHING_ASKED", "Asked", "unwrapped"]

_decode_object: Final = msgspec.json.Decoder(dict[str, Any]).decode


class _Offered(msgspec.Struct, frozen=True, gc=False):
    """A tool as the caller named it."""

    name: str
    namespace: str = ""
    custom: bool = False


class Asked(msgspec.Struct, frozen=True):
    """The tools of a request by the names under which other formats know them, and what an answer repeats."""

    tools: Mapping[str, _Offered] = {}
    repeated: Mapping[str, Any] = {}

    @classmethod
    def of(cls, request: Conversation) -> Asked:
        """Read what matters of a request."""
        tools = {}
        for tool in request.tools:
            custom = tool.kind == "custom"
            if custom or tool.namespace:
                offered = _Offered(tool.name, tool.namespace, custom)
                tools[flat_name(tool.namespace, tool.name)] = offered
                if tool.namespace:
                    tools.setdefault(f"{tool.namespace}__{tool.name}", offered)
        return cls(tools, _repeated(request))

    def is_custom(self, name: str) -> bool:
        """Whether a function of this name is a custom tool of the caller's."""
        return name in self.tools and self.tools[name].custom

    def name(self, name: str) -> tuple[str, str]:
        """Return the caller's own name of a tool, and its namespace."""
        offered = self.tools.get(name)
        return (offered.name, offered.namespace) if offered else (name, "")

    def call(self, call: Call) -> Call:
        """Return a call as the caller knows its tool."""
        if call.namespace or call.name not in self.tools:
            return call
        offered = self.tools[call.name]
        custom = offered.custom and not call.custom
        arguments = unwrapped(call.arguments) if custom else call.arguments
        return Call(
            call.id, offered.name, arguments, custom=custom or call.custom, namespace=offered.namespace
        )


NOTHING_ASKED: Final = Asked()


def unwrapped(arguments: str) -> str:
    """Return the input of a custom tool from a function's arguments: these as they are if malformed."""
    try:
        found = _decode_object(arguments)
    except UNREADABLE:
        return arguments
    text = found.get("input") if len(found) != 1 else next(iter(found.values()))
    return text if isinstance(text, str) else arguments


def _repeated(request: Conversation) -> dict[str, Any]:
    """What a response repeats of its request, as far as the form holds it."""
    own = {
        "max_output_tokens": request.max_tokens,
        "parallel_tool_calls": request.parallel,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "reasoning": {"effort": request.effort, "summary": None} if request.effort else None,
    }
    return {**request.options, **{name: value for name, value in own.items() if value is not None}}

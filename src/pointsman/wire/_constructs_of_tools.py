"""Tools, and what becomes of each in another format: rows of ``constructs.CONSTRUCTS``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pointsman.wire.fates import CHAT, MESSAGES, RESPONSES, Construct, changed, exact, refused

__all__ = ["TOOLS"]

_HOSTED: Final = (
    "a search, a sandbox or the like, offered beside the caller's own tools and not demanded: left out, as "
    "the provider of the other format runs it itself"
)
_CLIENT: Final = (
    "a shell, editor, patch, computer or memory that the caller runs: a function with the same arguments"
)
_TOOLSET: Final = "its calls name a tool of the set, which no other format can: offer the tools one by one"
_NAME: Final = "one of over 64 characters or of others than letters, digits, _ and - ends in a hash, and back"
_TOOL_HINT: Final = (
    "left out: examples of input, who may call a tool, when it is loaded and how its input is streamed"
)

TOOLS: Final[Mapping[str, Construct]] = {
    "hosted_tool": Construct(
        {RESPONSES: "tools", MESSAGES: "tools"},
        {
            CHAT: changed(_HOSTED),
            RESPONSES: changed(_HOSTED),
            MESSAGES: changed(_HOSTED),
        },
    ),
    "client_tool": Construct(
        {RESPONSES: "tools", MESSAGES: "tools"},
        {
            CHAT: changed(_CLIENT),
            RESPONSES: changed(_CLIENT),
            MESSAGES: changed(_CLIENT),
        },
    ),
    "toolset": Construct(
        {MESSAGES: "tools"},
        {CHAT: refused(_TOOLSET), RESPONSES: refused(_TOOLSET)},
    ),
    "server_tool": Construct(
        {CHAT: "web_search_options", RESPONSES: "tools", MESSAGES: "tools"},
        {
            CHAT: refused("the provider of the other format runs this tool itself"),
            RESPONSES: refused("the provider of the other format runs this tool itself"),
            MESSAGES: refused("the provider of the other format runs this tool itself"),
        },
    ),
    "custom_tool": Construct(
        {RESPONSES: "tools"},
        {
            CHAT: changed('a function with one string parameter "input"'),
            MESSAGES: changed('a tool with one string parameter "input"'),
        },
    ),
    "namespace": Construct(
        {RESPONSES: "tools"},
        {
            CHAT: changed("joined to the name by two underscores"),
            MESSAGES: changed("joined to the name by two underscores"),
        },
    ),
    "tool_hint": Construct(
        {MESSAGES: "tools.input_examples"},
        {
            CHAT: changed(_TOOL_HINT),
            RESPONSES: changed(_TOOL_HINT),
        },
    ),
    "tool_name": Construct(
        {CHAT: "tools", RESPONSES: "tools", MESSAGES: "tools"},
        {
            CHAT: exact(_NAME),
            RESPONSES: exact(_NAME),
            MESSAGES: exact(_NAME),
        },
    ),
    "mcp_servers": Construct(
        {MESSAGES: "mcp_servers"},
        {
            CHAT: refused("the provider of the other format calls these servers itself"),
            RESPONSES: refused("the provider of the other format calls these servers itself"),
        },
    ),
    "container": Construct(
        {MESSAGES: "container"},
        {
            CHAT: refused("it belongs to a tool that the other provider runs itself"),
            RESPONSES: refused("it belongs to a tool that the other provider runs itself"),
        },
    ),
    "parallel_off": Construct(
        {
            CHAT: "parallel_tool_calls",
            RESPONSES: "parallel_tool_calls",
            MESSAGES: "disable_parallel_tool_use",
        },
        {},
    ),
}

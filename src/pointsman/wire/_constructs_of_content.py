"""What messages and tools hold, and what becomes of each in another format: rows of ``CONSTRUCTS``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pointsman.wire.fates import CHAT, MESSAGES, RESPONSES, Construct, changed, exact, refused

__all__ = ["CONTENT"]


# Tools, and what becomes of each in another format: rows of ``constructs.CONSTRUCTS``.
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


_COMPACTION: Final = "it is encrypted: the provider that compacted the conversation alone can read it"
_SUMMARY: Final = "the model is asked for a summary, which is sent back as the compacted conversation"
_COMPACTED: Final = (
    "the summary is a user's text, and what was said before it is left out, as its own provider does"
)
_FALLBACK: Final = "left out: it marks where another model took over, and holds no words"
_SHOWN: Final = "a block that only Messages has, such as a tool_reference, is shown as its JSON"
_PART: Final = "what a user or a tool says is not left out, and a part of this type is not known"

CONTENT: Final[Mapping[str, Construct]] = {
    "cache_control": Construct(
        {CHAT: "cache_control", MESSAGES: "cache_control"},
        {
            CHAT: changed("left out: OpenAI caches prefixes by itself"),
            RESPONSES: changed("left out: as chat"),
        },
    ),
    "is_error": Construct(
        {MESSAGES: "is_error"},
        {
            CHAT: changed('the result begins with "Error: "'),
            RESPONSES: changed('the result begins with "Error: "'),
        },
    ),
    "image_in_result": Construct(
        {MESSAGES: "tool_result.content", RESPONSES: "function_call_output.output"},
        {CHAT: changed("moved to a user message right behind the results")},
    ),
    "document": Construct(
        {CHAT: "file", RESPONSES: "input_file", MESSAGES: "document"},
        {},
    ),
    "document_url": Construct(
        {RESPONSES: "file_url", MESSAGES: "source.url"},
        {CHAT: refused("it takes the content of a file, not its address: send the file as base64")},
    ),
    "media_of_assistant": Construct(
        {CHAT: "content", RESPONSES: "input", MESSAGES: "content"},
        {
            CHAT: changed("left out: the assistant's messages are text there"),
            RESPONSES: changed("left out: the assistant's messages are text there"),
            MESSAGES: changed("left out: the assistant's messages are text there"),
        },
    ),
    "file_id": Construct(
        {CHAT: "file.file_id", RESPONSES: "file_id", MESSAGES: "source.file_id"},
        {
            CHAT: refused("an uploaded file is known to its own provider alone"),
            RESPONSES: refused("an uploaded file is known to its own provider alone"),
            MESSAGES: refused("an uploaded file is known to its own provider alone"),
        },
    ),
    "thinking_history": Construct(
        {CHAT: "reasoning_content", MESSAGES: "thinking", RESPONSES: "reasoning"},
        {
            CHAT: changed("left out: only the provider that wrote it can check it"),
            RESPONSES: changed("left out: only the provider that wrote it can check it"),
            MESSAGES: changed("left out: only the provider that wrote it can check it"),
        },
    ),
    "server_item": Construct(
        {RESPONSES: "input", MESSAGES: "content"},
        {
            CHAT: refused("it belongs to a tool that the other provider runs itself"),
            RESPONSES: refused("it belongs to a tool that the other provider runs itself"),
            MESSAGES: refused("it belongs to a tool that the other provider runs itself"),
        },
    ),
    "unknown_part": Construct(
        {CHAT: "content", RESPONSES: "content", MESSAGES: "content"},
        {
            CHAT: refused(_PART),
            RESPONSES: refused(_PART),
            MESSAGES: refused(_PART),
        },
    ),
    "item_reference": Construct(
        {RESPONSES: "input"},
        {
            CHAT: refused("the item is stored by another provider: send the item itself (store: false)"),
            MESSAGES: refused("the item is stored by another provider: send the item itself (store: false)"),
        },
    ),
    "compaction_item": Construct(
        {RESPONSES: "input"},
        {
            CHAT: refused(_COMPACTION),
            MESSAGES: refused(_COMPACTION),
        },
    ),
    "compaction_trigger": Construct(
        {RESPONSES: "input"}, {CHAT: changed(_SUMMARY), MESSAGES: changed(_SUMMARY)}
    ),
    "call_id": Construct(
        {CHAT: "tool_calls.id", RESPONSES: "call_id", MESSAGES: "tool_use.id"},
        {
            CHAT: exact("one of over 40 characters is cut and ends in a hash, alike everywhere"),
            RESPONSES: exact("one of over 64 characters is cut and ends in a hash, alike everywhere"),
            MESSAGES: exact(
                "characters but letters, digits, _ and - are replaced, and an id used twice gets a number"
            ),
        },
    ),
    "late_system": Construct(
        {CHAT: "messages", RESPONSES: "input", MESSAGES: "messages"},
        {
            CHAT: changed(
                "a system message after the first other one is a user's text in <system> marks, unless the "
                "model is OpenAI's: many chat templates refuse it there"
            ),
            MESSAGES: changed(
                "a system message after the first other one is a user's text in <system> marks"
            ),
        },
    ),
    "malformed_arguments": Construct(
        {CHAT: "tool_calls.function.arguments", RESPONSES: "function_call.arguments"},
        {MESSAGES: changed('what is no object stands as text in "_malformed_arguments"')},
    ),
    "image_detail": Construct(
        {CHAT: "image_url.detail", RESPONSES: "input_image.detail"},
        {MESSAGES: changed("left out: no such setting")},
    ),
    "document_type": Construct(
        {CHAT: "file.file_data", RESPONSES: "input_file.file_data"},
        {MESSAGES: refused("it reads PDF and plain text alone")},
    ),
    "no_messages": Construct(
        {CHAT: "messages", RESPONSES: "input"},
        {MESSAGES: refused("it needs at least one message that is not a system message")},
    ),
    "citations": Construct(
        {MESSAGES: "document.citations"},
        {
            CHAT: changed("left out: the answer cites nothing"),
            RESPONSES: changed("left out: the answer cites nothing"),
        },
    ),
    "compaction_block": Construct(
        {MESSAGES: "content"},
        {CHAT: changed(_COMPACTED), RESPONSES: changed(_COMPACTED)},
    ),
    "fallback_block": Construct(
        {MESSAGES: "content"},
        {CHAT: changed(_FALLBACK), RESPONSES: changed(_FALLBACK)},
    ),
    "result_block": Construct(
        {MESSAGES: "tool_result.content"},
        {CHAT: changed(_SHOWN), RESPONSES: changed(_SHOWN)},
    ),
    "participant": Construct(
        {CHAT: "messages.name"},
        {
            RESPONSES: changed("left out: a message has no name of who wrote it"),
            MESSAGES: changed("left out: a message has no name of who wrote it"),
        },
    ),
}

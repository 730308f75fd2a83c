"""What may become of a construct in another format, and the table of all constructs (``wire.constructs``)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from pointsman.vocabulary import WireFormat

CHAT, RESPONSES, MESSAGES = WireFormat.CHAT, WireFormat.RESPONSES, WireFormat.MESSAGES

#: Characters of all stop sequences that the gateway keeps: each piece of an answer is compared with them.
MOST_STOPS: Final = 1_024


class Kind(StrEnum):
    """What becomes of a construct."""

    EXACT = "exact"  # the same meaning in the other format's own words
    CHANGED = "changed"  # near enough, or left out as a hint may be; reported
    REFUSED = "refused"  # a 400 that names the field


class Fate(NamedTuple):
    """The treatment of a construct by one target."""

    kind: Kind
    how: str  # for a person: what is written instead, or why it is refused


class Construct(NamedTuple):
    """Something a request may hold."""

    fields: Mapping[WireFormat, str]  # the formats that have it, and the field that holds it there
    fates: Mapping[WireFormat, Fate]  # by target; formats that have it themselves are exact unless named


def exact(how: str) -> Fate:
    """Say how a target writes it."""
    return Fate(Kind.EXACT, how)


def changed(how: str) -> Fate:
    """Describe the replacement."""
    return Fate(Kind.CHANGED, how)


def refused(why: str) -> Fate:
    """Say why a target cannot take it."""
    return Fate(Kind.REFUSED, why)


_SAMPLING: Final = "left out for OpenAI's reasoning models, which take 1 alone; else as it is"
_KEPT_STOP: Final = "kept by the gateway, which cuts the answer there"
_LONG_STOP: Final = f"the stop sequences that the gateway has to keep have over {MOST_STOPS:,} characters"
_BUDGET: Final = (
    "an effort: low to 4,096 tokens, medium to 16,384, high beyond; none or minimal where thinking is "
    "switched off and the model knows the word"
)
_DROPPED: Final = 'left out and named; refused where the upstream has `unknown = "refuse"`'
_TASK: Final = "left out: nothing limits a whole task there; max_tokens holds"
_DISPLAY: Final = "left out: the upstream decides what it shows of its thinking"

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
_COMPACTION: Final = "it is encrypted: the provider that compacted the conversation alone can read it"
_SUMMARY: Final = "the model is asked for a summary, which is sent back as the compacted conversation"
_COMPACTED: Final = (
    "the summary is a user's text, and what was said before it is left out, as its own provider does"
)
_FALLBACK: Final = "left out: it marks where another model took over, and holds no words"
_SHOWN: Final = "a block that only Messages has, such as a tool_reference, is shown as its JSON"
_PART: Final = "what a user or a tool says is not left out, and a part of this type is not known"

#: Every construct by its id. Rows are added with the reader or writer that meets them.
CONSTRUCTS: Final[Mapping[str, Construct]] = {
    "top_k": Construct(
        {CHAT: "top_k", MESSAGES: "top_k"},
        {CHAT: changed("left out: no such setting"), RESPONSES: changed("left out: as chat")},
    ),
    "seed": Construct(
        {CHAT: "seed"},
        {MESSAGES: changed("left out: no such setting"), RESPONSES: changed("left out: as Messages")},
    ),
    "n": Construct(
        {CHAT: "n"}, dict.fromkeys((MESSAGES, RESPONSES), refused("it gives one answer to a request"))
    ),
    "logprobs": Construct(
        {CHAT: "logprobs"},
        {
            MESSAGES: refused("it reports no probabilities"),
            RESPONSES: refused("probabilities of an answer are not translated"),
        },
    ),
    "top_logprobs": Construct(
        {CHAT: "top_logprobs", RESPONSES: "top_logprobs"},
        {
            CHAT: refused("probabilities of an answer are not translated"),
            RESPONSES: refused("probabilities of an answer are not translated"),
            MESSAGES: refused("it reports no probabilities"),
        },
    ),
    "penalties": Construct(
        {CHAT: "frequency_penalty"},
        dict.fromkeys((MESSAGES, RESPONSES), changed("left out: no such setting")),
    ),
    "logit_bias": Construct(
        {CHAT: "logit_bias"}, dict.fromkeys((MESSAGES, RESPONSES), refused("it cannot weigh tokens"))
    ),
    "audio": Construct({CHAT: "audio"}, dict.fromkeys((MESSAGES, RESPONSES), refused("it has no sound"))),
    "stop": Construct(
        {CHAT: "stop", MESSAGES: "stop_sequences"},
        {
            RESPONSES: changed(_KEPT_STOP),
            CHAT: changed(f"{_KEPT_STOP}: for OpenAI's reasoning models, and beyond the fourth"),
        },
    ),
    "stop_length": Construct(
        {CHAT: "stop", MESSAGES: "stop_sequences"},
        dict.fromkeys((CHAT, RESPONSES, MESSAGES), refused(_LONG_STOP)),
    ),
    "verbosity": Construct(
        {CHAT: "verbosity", RESPONSES: "text.verbosity"},
        {CHAT: changed("left out: most servers refuse it"), MESSAGES: changed("left out: no such setting")},
    ),
    "thinking_budget": Construct(
        {CHAT: "thinking.budget_tokens", MESSAGES: "thinking.budget_tokens"},
        {
            CHAT: changed(_BUDGET),
            RESPONSES: changed(_BUDGET),
            MESSAGES: changed(
                "for Claude 4.7 and later, which take no budget: adaptive thinking and an effort"
            ),
        },
    ),
    "effort": Construct(
        {CHAT: "reasoning_effort", RESPONSES: "reasoning.effort", MESSAGES: "output_config.effort"},
        {
            MESSAGES: changed(
                "a thinking budget: low 2,048, medium 8,192, high and beyond 24,576 tokens, at most half of "
                "max_tokens where that is smaller; none and minimal: no thinking. Claude 4.6 and later: "
                "adaptive thinking and the same effort"
            )
        },
    ),
    "effort_max": Construct(
        {MESSAGES: "output_config.effort"},
        dict.fromkeys(
            (CHAT, RESPONSES),
            changed('"xhigh" and "max" are the highest effort that a model of this name knows'),
        ),
    ),
    "user": Construct(
        {CHAT: "user", RESPONSES: "user", MESSAGES: "metadata.user_id"},
        {
            CHAT: changed("longer than 64 characters: its SHA-256 digest"),
            RESPONSES: changed("longer than 64 characters: its SHA-256 digest"),
            MESSAGES: changed("longer than 256 characters: its SHA-256 digest"),
        },
    ),
    "json_object": Construct(
        {CHAT: "response_format", RESPONSES: "text.format"},
        {MESSAGES: refused("it takes a schema, not any JSON: send json_schema")},
    ),
    "json_schema": Construct(
        {CHAT: "response_format", RESPONSES: "text.format", MESSAGES: "output_config.format"}, {}
    ),
    "stored": Construct(
        {CHAT: "store", RESPONSES: "store"},
        dict.fromkeys((MESSAGES, CHAT), changed("left out: nothing is stored there")),
    ),
    "previous_response": Construct(
        {RESPONSES: "previous_response_id", MESSAGES: "thread"},
        dict.fromkeys((CHAT, RESPONSES, MESSAGES), refused("the conversation is not known here")),
    ),
    "background": Construct(
        {RESPONSES: "background"},
        dict.fromkeys((CHAT, MESSAGES), refused("it answers at once or not at all")),
    ),
    "metadata": Construct(
        {CHAT: "metadata", RESPONSES: "metadata"},
        {CHAT: changed("left out"), MESSAGES: changed("left out: it takes user_id alone")},
    ),
    "provider_hint": Construct(
        {CHAT: "prompt_cache_key", RESPONSES: "prompt_cache_key", MESSAGES: "speed"},
        dict.fromkeys(
            (CHAT, RESPONSES, MESSAGES),
            changed("left out: it tells its own provider how to serve, not what to answer"),
        ),
    ),
    "max_tokens": Construct(
        {CHAT: "max_completion_tokens", RESPONSES: "max_output_tokens", MESSAGES: "max_tokens"},
        {MESSAGES: exact("where the request names none: 16,384, or the thinking budget and 7,168 more")},
    ),
    "temperature": Construct(
        {CHAT: "temperature", RESPONSES: "temperature", MESSAGES: "temperature"},
        {
            CHAT: changed(_SAMPLING),
            RESPONSES: changed(_SAMPLING),
            MESSAGES: changed(
                "1 where it is higher, and while thinking: its range ends at 1; left out for Claude 4.7 and "
                "later, which takes none"
            ),
        },
    ),
    "top_p": Construct(
        {CHAT: "top_p", RESPONSES: "top_p", MESSAGES: "top_p"},
        {
            CHAT: changed(_SAMPLING),
            RESPONSES: changed(_SAMPLING),
            MESSAGES: changed(
                "left out beside a temperature, below 0.95 while thinking, and for Claude 4.7 and later"
            ),
        },
    ),
    "thinking_off": Construct(
        {CHAT: "reasoning_effort", RESPONSES: "reasoning.effort"},
        {MESSAGES: changed("no thinking: not with a forced tool, nor in a turn that began without it")},
    ),
    "blank_stop": Construct(
        {CHAT: "stop"},
        {RESPONSES: changed(_KEPT_STOP), MESSAGES: changed(f"one of white space alone is {_KEPT_STOP}")},
    ),
    "service_tier": Construct(
        {CHAT: "service_tier", RESPONSES: "service_tier", MESSAGES: "service_tier"},
        dict.fromkeys((CHAT, RESPONSES, MESSAGES), changed("left out: its tiers are others")),
    ),
    "prompt_template": Construct(
        {RESPONSES: "prompt"},
        dict.fromkeys((CHAT, MESSAGES), refused("the template is stored at the other provider")),
    ),
    "compaction": Construct(
        {MESSAGES: "compaction"},
        dict.fromkeys((CHAT, RESPONSES), refused("it cannot answer with a compacted conversation")),
    ),
    "context_management": Construct(
        {RESPONSES: "context_management", MESSAGES: "context_management"},
        dict.fromkeys((CHAT, RESPONSES, MESSAGES), changed("left out: the conversation is sent whole")),
    ),
    "task_budget": Construct(
        {MESSAGES: "output_config.task_budget"}, dict.fromkeys((CHAT, RESPONSES), changed(_TASK))
    ),
    "thinking_display": Construct(
        {MESSAGES: "thinking.display"}, dict.fromkeys((CHAT, RESPONSES), changed(_DISPLAY))
    ),
    "inference_geo": Construct(
        {MESSAGES: "inference_geo"},
        dict.fromkeys((CHAT, RESPONSES), refused("it does not promise where it computes")),
    ),
    "moderation": Construct(
        {CHAT: "moderation", RESPONSES: "moderation"},
        dict.fromkeys((CHAT, MESSAGES), refused("the provider of the other format moderates")),
    ),
    "unknown": Construct(
        {
            CHAT: "a field we do not know",
            RESPONSES: "a field we do not know",
            MESSAGES: "a field we do not know",
        },
        dict.fromkeys((CHAT, RESPONSES, MESSAGES), changed(_DROPPED)),
    ),
    # Content of messages.
    "cache_control": Construct(
        {CHAT: "cache_control", MESSAGES: "cache_control"},
        {
            CHAT: changed("left out: OpenAI caches prefixes by itself"),
            RESPONSES: changed("left out: as chat"),
        },
    ),
    "is_error": Construct(
        {MESSAGES: "is_error"}, dict.fromkeys((CHAT, RESPONSES), changed('the result begins with "Error: "'))
    ),
    "image_in_result": Construct(
        {MESSAGES: "tool_result.content", RESPONSES: "function_call_output.output"},
        {CHAT: changed("moved to a user message right behind the results")},
    ),
    "document": Construct({CHAT: "file", RESPONSES: "input_file", MESSAGES: "document"}, {}),
    "document_url": Construct(
        {RESPONSES: "file_url", MESSAGES: "source.url"},
        {CHAT: refused("it takes the content of a file, not its address: send the file as base64")},
    ),
    "media_of_assistant": Construct(
        {CHAT: "content", RESPONSES: "input", MESSAGES: "content"},
        dict.fromkeys(
            (CHAT, RESPONSES, MESSAGES), changed("left out: the assistant's messages are text there")
        ),
    ),
    "file_id": Construct(
        {CHAT: "file.file_id", RESPONSES: "file_id", MESSAGES: "source.file_id"},
        dict.fromkeys(
            (CHAT, RESPONSES, MESSAGES), refused("an uploaded file is known to its own provider alone")
        ),
    ),
    "thinking_history": Construct(
        {CHAT: "reasoning_content", MESSAGES: "thinking", RESPONSES: "reasoning"},
        dict.fromkeys(
            (CHAT, RESPONSES, MESSAGES), changed("left out: only the provider that wrote it can check it")
        ),
    ),
    "server_item": Construct(
        {RESPONSES: "input", MESSAGES: "content"},
        dict.fromkeys(
            (CHAT, RESPONSES, MESSAGES), refused("it belongs to a tool that the other provider runs itself")
        ),
    ),
    "unknown_part": Construct(
        {CHAT: "content", RESPONSES: "content", MESSAGES: "content"},
        dict.fromkeys((CHAT, RESPONSES, MESSAGES), refused(_PART)),
    ),
    "item_reference": Construct(
        {RESPONSES: "input"},
        dict.fromkeys(
            (CHAT, MESSAGES),
            refused("the item is stored by another provider: send the item itself (store: false)"),
        ),
    ),
    "compaction_item": Construct({RESPONSES: "input"}, dict.fromkeys((CHAT, MESSAGES), refused(_COMPACTION))),
    "compaction_trigger": Construct({RESPONSES: "input"}, dict.fromkeys((CHAT, MESSAGES), changed(_SUMMARY))),
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
        dict.fromkeys((CHAT, RESPONSES), changed("left out: the answer cites nothing")),
    ),
    "compaction_block": Construct(
        {MESSAGES: "content"}, dict.fromkeys((CHAT, RESPONSES), changed(_COMPACTED))
    ),
    "fallback_block": Construct({MESSAGES: "content"}, dict.fromkeys((CHAT, RESPONSES), changed(_FALLBACK))),
    "result_block": Construct(
        {MESSAGES: "tool_result.content"}, dict.fromkeys((CHAT, RESPONSES), changed(_SHOWN))
    ),
    "participant": Construct(
        {CHAT: "messages.name"},
        dict.fromkeys((RESPONSES, MESSAGES), changed("left out: a message has no name of who wrote it")),
    ),
    # Tools.
    "hosted_tool": Construct(
        {RESPONSES: "tools", MESSAGES: "tools"}, dict.fromkeys((CHAT, RESPONSES, MESSAGES), changed(_HOSTED))
    ),
    "client_tool": Construct(
        {RESPONSES: "tools", MESSAGES: "tools"}, dict.fromkeys((CHAT, RESPONSES, MESSAGES), changed(_CLIENT))
    ),
    "toolset": Construct({MESSAGES: "tools"}, dict.fromkeys((CHAT, RESPONSES), refused(_TOOLSET))),
    "server_tool": Construct(
        {CHAT: "web_search_options", RESPONSES: "tools", MESSAGES: "tools"},
        dict.fromkeys(
            (CHAT, RESPONSES, MESSAGES), refused("the provider of the other format runs this tool itself")
        ),
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
        dict.fromkeys((CHAT, MESSAGES), changed("joined to the name by two underscores")),
    ),
    "tool_hint": Construct(
        {MESSAGES: "tools.input_examples"}, dict.fromkeys((CHAT, RESPONSES), changed(_TOOL_HINT))
    ),
    "tool_name": Construct(
        {CHAT: "tools", RESPONSES: "tools", MESSAGES: "tools"},
        dict.fromkeys((CHAT, RESPONSES, MESSAGES), exact(_NAME)),
    ),
    "mcp_servers": Construct(
        {MESSAGES: "mcp_servers"},
        dict.fromkeys(
            (CHAT, RESPONSES), refused("the provider of the other format calls these servers itself")
        ),
    ),
    "container": Construct(
        {MESSAGES: "container"},
        dict.fromkeys((CHAT, RESPONSES), refused("it belongs to a tool that the other provider runs itself")),
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

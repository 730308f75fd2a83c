"""What happens to each construct of a translated request: exact, changed and reported, or refused.

This table is the source of behaviour, of the page ``docs/reference/translation.md`` and of the tests. A
reader puts a construct into the form of ``conversation``; a writer asks ``Report.meet`` what becomes of it.
Refused is what would have side effects or change the meaning of the answer; changed is what is a hint.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from pointsman.errors import CallerError, shown
from pointsman.vocabulary import WireFormat

__all__ = ["CONSTRUCTS", "Construct", "Fate", "Kind", "Report", "Untranslatable"]

CHAT, RESPONSES, MESSAGES = WireFormat.CHAT, WireFormat.RESPONSES, WireFormat.MESSAGES


class Untranslatable(CallerError):
    """The upstream's format cannot express something of the request; the message names it and says why."""


class Kind(StrEnum):
    """What becomes of a construct."""

    EXACT = "exact"  # the same meaning in the other format's own words
    CHANGED = "changed"  # near enough, or left out as a hint may be; reported
    REFUSED = "refused"  # a 400 that names the field


class Fate(NamedTuple):
    """What one target does with a construct."""

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
    """Say what is written instead."""
    return Fate(Kind.CHANGED, how)


def refused(why: str) -> Fate:
    """Say why a target cannot take it."""
    return Fate(Kind.REFUSED, why)


class Report:
    """What was changed on the way from one format to another."""

    __slots__ = ("changed", "source", "target")

    def __init__(self, source: WireFormat, target: WireFormat) -> None:
        self.source = source
        self.target = target
        self.changed: list[str] = []  # ids of constructs, each once, in the order they were met

    def meet_opaque(self, kind: str, field: str) -> None:
        """Refuse something that only its own format has; ``kind`` is its type."""
        self.meet(_OPAQUE.get(kind, "server_item"), field)

    def meet(self, construct: str, field: str = "") -> bool:
        """Look up what the target does with a construct of the request.

        Args:
            construct: its id, a key of ``CONSTRUCTS``.
            field: where it stands in the request, when that is more exact than the table's field.

        Returns:
            True when it is written exactly, False when it is changed or left out; that is then reported.

        Raises:
            Untranslatable: the target cannot express it.
        """
        found = CONSTRUCTS[construct]
        fate = found.fates.get(self.target)
        if fate is None or fate.kind is Kind.EXACT:
            return True
        where = shown(field or found.fields.get(self.source, construct))
        if fate.kind is Kind.REFUSED:
            raise Untranslatable(
                f'"{where}" cannot be sent to a model that speaks {self.target}: {fate.how}', param=where
            )
        if construct not in self.changed:
            self.changed.append(construct)
        return False


_HOSTED: Final = (
    "a search, a sandbox or the like, offered beside the caller's own tools and not demanded: left out, as "
    "the provider of the other format runs it itself"
)
_CLIENT: Final = "a shell, editor or memory that the caller runs: a function with the same arguments"

_SAMPLING: Final = "left out for OpenAI's reasoning models, which take 1 alone; else as it is"

_NAME: Final = "one of over 64 characters or of others than letters, digits, _ and - ends in a hash, and back"

_COMPACTION: Final = "it is encrypted: the provider that compacted the conversation alone can read it"
_SUMMARY: Final = "the model is asked for a summary, which is sent back as the compacted conversation"

#: Constructs of their own among what only its own format has, by type.
_OPAQUE: Final = {
    "item_reference": "item_reference",
    "compaction": "compaction_item",
    "compaction_summary": "compaction_item",
}

#: Every construct by its id. Rows are added beside the reader or writer that meets them.
CONSTRUCTS: Final[Mapping[str, Construct]] = {
    "cache_control": Construct(
        {CHAT: "cache_control", MESSAGES: "cache_control"},
        {
            CHAT: changed("left out: OpenAI caches prefixes by itself"),
            RESPONSES: changed("left out: as chat"),
        },
    ),
    "top_k": Construct(
        {CHAT: "top_k", MESSAGES: "top_k"},
        {CHAT: changed("left out: no such setting"), RESPONSES: changed("left out: as chat")},
    ),
    "seed": Construct(
        {CHAT: "seed"},
        {MESSAGES: changed("left out: no such setting"), RESPONSES: changed("left out: as Messages")},
    ),
    "n": Construct(
        {CHAT: "n"},
        {
            MESSAGES: refused("it gives one answer to a request"),
            RESPONSES: refused("it gives one answer to a request"),
        },
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
        {
            MESSAGES: changed("left out: no such setting"),
            RESPONSES: changed("left out: no such setting"),
        },
    ),
    "logit_bias": Construct(
        {CHAT: "logit_bias"},
        {MESSAGES: refused("it cannot weigh tokens"), RESPONSES: refused("it cannot weigh tokens")},
    ),
    "audio": Construct(
        {CHAT: "audio"},
        {MESSAGES: refused("it has no sound"), RESPONSES: refused("it has no sound")},
    ),
    "stop": Construct(
        {CHAT: "stop", MESSAGES: "stop_sequences"}, {RESPONSES: refused("it has no stop sequences")}
    ),
    "is_error": Construct(
        {MESSAGES: "is_error"},
        {
            CHAT: changed('the result begins with "Error: "'),
            RESPONSES: changed('the result begins with "Error: "'),
        },
    ),
    "verbosity": Construct(
        {CHAT: "verbosity", RESPONSES: "text.verbosity"},
        {
            CHAT: changed("left out: most servers refuse it"),
            MESSAGES: changed("left out: no such setting"),
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
    "thinking_budget": Construct(
        {CHAT: "thinking.budget_tokens", MESSAGES: "thinking.budget_tokens"},
        {
            CHAT: changed("an effort: low to 4,096 tokens, medium to 16,384, high beyond"),
            RESPONSES: changed("an effort: low to 4,096 tokens, medium to 16,384, high beyond"),
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
        {
            CHAT: changed('"xhigh" and "max" are the highest effort that a model of this name knows'),
            RESPONSES: changed('"xhigh" and "max" are the highest effort that a model of this name knows'),
        },
    ),
    "user": Construct(
        {CHAT: "user", RESPONSES: "user", MESSAGES: "metadata.user_id"},
        {
            CHAT: changed("longer than 64 characters: its SHA-256 digest"),
            RESPONSES: changed("longer than 64 characters: its SHA-256 digest"),
            MESSAGES: changed("longer than 256 characters: its SHA-256 digest"),
        },
    ),
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
    "server_tool": Construct(
        {CHAT: "web_search_options", RESPONSES: "tools", MESSAGES: "tools"},
        {
            CHAT: refused("the provider of the other format runs this tool itself"),
            RESPONSES: refused("the provider of the other format runs this tool itself"),
            MESSAGES: refused("the provider of the other format runs this tool itself"),
        },
    ),
    "server_item": Construct(
        {CHAT: "messages", RESPONSES: "input", MESSAGES: "content"},
        {
            CHAT: refused("it belongs to a tool that the other provider runs itself"),
            RESPONSES: refused("it belongs to a tool that the other provider runs itself"),
            MESSAGES: refused("it belongs to a tool that the other provider runs itself"),
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
    "parallel_off": Construct(
        {
            CHAT: "parallel_tool_calls",
            RESPONSES: "parallel_tool_calls",
            MESSAGES: "disable_parallel_tool_use",
        },
        {},
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
        {
            MESSAGES: changed("left out: nothing is stored there"),
            CHAT: changed("left out: nothing is stored there"),
        },
    ),
    "previous_response": Construct(
        {RESPONSES: "previous_response_id", MESSAGES: "thread"},
        {
            CHAT: refused("the conversation is not known here"),
            RESPONSES: refused("the conversation is not known here"),
            MESSAGES: refused("the conversation is not known here"),
        },
    ),
    "background": Construct(
        {RESPONSES: "background"},
        {
            CHAT: refused("it answers at once or not at all"),
            MESSAGES: refused("it answers at once or not at all"),
        },
    ),
    "metadata": Construct(
        {CHAT: "metadata", RESPONSES: "metadata"},
        {
            CHAT: changed("left out"),
            MESSAGES: changed("left out: it takes user_id alone"),
        },
    ),
    "provider_hint": Construct(
        {CHAT: "prompt_cache_key", RESPONSES: "prompt_cache_key", MESSAGES: "speed"},
        {
            CHAT: changed("left out: it tells its own provider how to serve, not what to answer"),
            RESPONSES: changed("left out: it tells its own provider how to serve, not what to answer"),
            MESSAGES: changed("left out: it tells its own provider how to serve, not what to answer"),
        },
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
    "blank_stop": Construct(
        {CHAT: "stop"},
        {
            RESPONSES: refused("it has no stop sequences"),
            MESSAGES: refused("a stop sequence of white space alone is not accepted"),
        },
    ),
    "service_tier": Construct(
        {CHAT: "service_tier", RESPONSES: "service_tier", MESSAGES: "service_tier"},
        {
            CHAT: changed("left out: its tiers are others"),
            RESPONSES: changed("left out: its tiers are others"),
            MESSAGES: changed("left out: its tiers are others"),
        },
    ),
    "prompt_template": Construct(
        {RESPONSES: "prompt"},
        {
            CHAT: refused("the template is stored at the other provider"),
            MESSAGES: refused("the template is stored at the other provider"),
        },
    ),
    "citations": Construct(
        {MESSAGES: "document.citations"},
        {
            CHAT: changed("left out: the answer cites nothing"),
            RESPONSES: changed("left out: the answer cites nothing"),
        },
    ),
    "compaction": Construct(
        {MESSAGES: "compaction"},
        {
            CHAT: refused("it cannot answer with a compacted conversation"),
            RESPONSES: refused("it cannot answer with a compacted conversation"),
        },
    ),
    "context_management": Construct(
        {RESPONSES: "context_management", MESSAGES: "context_management"},
        {
            CHAT: changed("left out: the conversation is sent whole"),
            RESPONSES: changed("left out: the conversation is sent whole"),
            MESSAGES: changed("left out: the conversation is sent whole"),
        },
    ),
    "inference_geo": Construct(
        {MESSAGES: "inference_geo"},
        {
            CHAT: refused("it does not promise where it computes"),
            RESPONSES: refused("it does not promise where it computes"),
        },
    ),
    "moderation": Construct(
        {CHAT: "moderation", RESPONSES: "moderation"},
        {
            CHAT: refused("the provider of the other format moderates"),
            MESSAGES: refused("the provider of the other format moderates"),
        },
    ),
    "participant": Construct(
        {CHAT: "messages.name"},
        {
            RESPONSES: changed("left out: a message has no name of who wrote it"),
            MESSAGES: changed("left out: a message has no name of who wrote it"),
        },
    ),
    "tool_hint": Construct(
        {MESSAGES: "tools.input_examples"},
        {
            CHAT: changed("left out: examples of input, who may call a tool, and when it is loaded"),
            RESPONSES: changed("left out: examples of input, who may call a tool, and when it is loaded"),
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
    "unknown": Construct(
        {
            CHAT: "a field we do not know",
            RESPONSES: "a field we do not know",
            MESSAGES: "a field we do not know",
        },
        {
            CHAT: refused("its meaning is not known, so it can be neither translated nor left out"),
            RESPONSES: refused("its meaning is not known, so it can be neither translated nor left out"),
            MESSAGES: refused("its meaning is not known, so it can be neither translated nor left out"),
        },
    ),
}

"""Members of a request that the shared form has no place for, and the construct that each is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any, Final, TypeAlias, get_args

import msgspec

from pointsman.wire.constructs import UNKNOWN, Report
from pointsman.wire.conversation import Conversation

__all__ = ["CONSTRUCT_OF", "NEUTRAL", "SILENT", "foreign_members"]


# Members inside a request that its reader has no name for.
#: How many places of one request are told: a body may hold thousands.
MOST: Final = 16

#: The value of a member of which nothing but its place counts.
YES: Final = msgspec.Raw(b"true")

#: A reader's struct for an object.
Known: TypeAlias = type[msgspec.Struct]


def unknown_members(
    json: bytes | msgspec.Raw,
    known: Known,
    place: str = "",
    skips: Callable[[Known, Mapping[str, Any]], bool] = lambda _, __: False,
) -> dict[str, msgspec.Raw]:
    """Return the places of members that no struct has a field for, as ``tools.brand_new``; none that is null.

    Args:
        json: The value.
        known: The struct it is read as, or of what it is a list.
        place: Where it stands in the request, with a dot at its end.
        skips: Whether an object is not looked into, by its struct and its members.

    Raises:
        msgspec.MsgspecError, UnicodeError, RecursionError: it is not JSON.
    """
    found = dict.fromkeys(_walk(msgspec.json.decode(json), known, place, skips), YES)
    return dict(islice(found.items(), MOST))


def _walk(
    value: object, known: Known, place: str, skips: Callable[[Known, Mapping[str, Any]], bool]
) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _walk(each, known, place, skips)
    elif isinstance(value, dict) and not skips(known, value):
        names = _names(known)
        for name, inner in value.items():
            if inner is None:
                continue
            if name not in names:
                yield place + name
            elif (struct := names[name]) is not None:
                yield from _walk(inner, struct, f"{place}{name}.", skips)


@cache
def _names(known: Known) -> Mapping[str, Known | None]:
    """The fields of a struct, and the struct that each holds, itself or in a list."""
    return {field.encode_name: _struct(field.type) for field in msgspec.structs.fields(known)}


def _struct(kind: Any) -> Known | None:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    return next((found for each in get_args(kind) if (found := _struct(each))), None)


#: The construct of a member, by the member's name in its own format. Any other member is "unknown".
CONSTRUCT_OF: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            "access_programs",
            "background_options",
            "betas",
            "cache_prompt",
            "chat_template_kwargs",
            "client_metadata",
            "diagnostics",
            "fallback_credit_token",
            "fallbacks",
            "image",
            "include",
            "keep_alive",
            "max_tool_calls",
            "min_p",
            "prediction",
            "prompt_cache_key",
            "prompt_cache_options",
            "prompt_cache_retention",
            "provider",
            "reasoning.context",
            "reasoning.generate_summary",
            "reasoning.mode",
            "reasoning.summary",
            "repetition_penalty",
            "safety_identifier",
            "speed",
            "thinking.block_binding",
            "transforms",
            "truncation",
            "usage",
            "user_profile_id",
            "workspace_id",
        ),
        "provider_hint",
    ),
    "audio": "audio",
    "background": "background",
    "cache_control": "cache_control",
    "citations": "citations",
    "compaction": "compaction",
    "container": "container",
    "context_management": "context_management",
    "conversation": "previous_response",
    "frequency_penalty": "penalties",
    "inference_geo": "inference_geo",
    "logit_bias": "logit_bias",
    "logprobs": "logprobs",
    "mcp_servers": "mcp_servers",
    "metadata": "metadata",
    "modalities": "audio",
    "moderation": "moderation",
    "n": "n",
    "output_config.task_budget": "task_budget",
    "presence_penalty": "penalties",
    "previous_response_id": "previous_response",
    "prompt": "prompt_template",
    "seed": "seed",
    "service_tier": "service_tier",
    "store": "stored",
    "text.verbosity": "verbosity",
    "thinking.display": "thinking_display",
    "thread": "previous_response",
    "messages.compaction": "compaction_block",
    "messages.fallback": "fallback_block",
    "messages.name": "participant",
    "messages.result": "result_block",
    "tools.input_examples": "tool_hint",
    "top_k": "top_k",
    "top_logprobs": "top_logprobs",
    "verbosity": "verbosity",
}

#: Values that ask for nothing, or for what holds without them.
NEUTRAL: Final[Mapping[str, frozenset[bytes]]] = {
    "background": frozenset({b"false"}),
    "frequency_penalty": frozenset({b"0", b"0.0"}),
    "include": frozenset({b"[]"}),
    "inference_geo": frozenset({b'"global"'}),
    "logit_bias": frozenset({b"{}"}),
    "logprobs": frozenset({b"false"}),
    "mcp_servers": frozenset({b"[]"}),
    "metadata": frozenset({b"{}"}),
    "modalities": frozenset({b'["text"]'}),
    "n": frozenset({b"1"}),
    "presence_penalty": frozenset({b"0", b"0.0"}),
    "service_tier": frozenset({b'"auto"', b'"default"'}),
    "speed": frozenset({b'"standard"'}),
    "store": frozenset({b"false"}),
    "top_logprobs": frozenset({b"0"}),
    "truncation": frozenset({b'"disabled"'}),
}
#: How the answer is transported: the gateway's business, whatever it says.
SILENT: Final = frozenset({"anthropic_version", "stream_options"})

_ABSENT: Final = frozenset({b"", b"null"})
_NONE: Final[frozenset[bytes]] = frozenset()


def foreign_members(
    asked: Conversation, report: Report, shared: Mapping[str, str] | None = None
) -> dict[str, msgspec.Raw]:
    """Return the members that another format has as well; what becomes of the others is reported.

    Args:
        asked: The request.
        report: What is changed is added to it.
        shared: Names of members that mean the same in the target, and their names there.

    Raises:
        Untranslatable: a member would change what is done or answered, or its meaning is not known.
    """
    found: dict[str, msgspec.Raw] = {}
    for name, raw in asked.options.items():
        value = bytes(raw)
        if name in SILENT or value in _ABSENT or value in NEUTRAL.get(name, _NONE):
            continue
        if shared and name in shared:
            found[shared[name]] = raw
        elif name == "include" and b"logprobs" in value:
            report.meet("top_logprobs", name)
        else:
            report.meet(CONSTRUCT_OF.get(name, UNKNOWN), name)
    return found

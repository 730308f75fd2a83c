"""Members of a request that the shared form has no place for, and the construct that each is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from pointsman.wire.constructs import UNKNOWN, Report
from pointsman.wire.conversation import Conversation

__all__ = ["CONSTRUCT_OF", "NEUTRAL", "SILENT", "foreign_members"]

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

"""The table of constructs says what happens: each row on each pair that it concerns."""

import json
from typing import Any

import pytest

from pointsman.vocabulary import WireFormat
from pointsman.wire.constructs import CONSTRUCTS, Kind, Untranslatable
from pointsman.wire.translate import translate_request

CHAT, RESPONSES, MESSAGES = WireFormat.CHAT, WireFormat.RESPONSES, WireFormat.MESSAGES

USER = {"role": "user", "content": "hi"}
PLAIN: dict[WireFormat, dict[str, Any]] = {
    CHAT: {"model": "m", "messages": [USER]},
    RESPONSES: {"model": "m", "input": "hi"},
    MESSAGES: {"model": "m", "max_tokens": 9000, "messages": [USER]},
}
FILE = {"type": "document", "source": {"type": "url", "url": "https://host/a.pdf"}}
CALLED = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
FAILED = {"type": "tool_result", "tool_use_id": "c", "content": "no", "is_error": True}
CUSTOM = {"type": "custom", "name": "patch", "description": "patches"}
SPACE = {
    "type": "namespace",
    "name": "git",
    "tools": [{"type": "function", "name": "log", "parameters": {"type": "object"}}],
}

#: A construct, the caller's format, and members of a request that hold it.
SAMPLES: list[tuple[str, WireFormat, dict[str, Any]]] = [
    ("top_k", MESSAGES, {"top_k": 3}),
    ("seed", CHAT, {"seed": 3}),
    ("n", CHAT, {"n": 2}),
    ("logprobs", CHAT, {"logprobs": True}),
    ("top_logprobs", RESPONSES, {"top_logprobs": 3}),
    ("penalties", CHAT, {"frequency_penalty": 1}),
    ("logit_bias", CHAT, {"logit_bias": {"1": 1}}),
    ("audio", CHAT, {"audio": {"voice": "x", "format": "wav"}, "modalities": ["text", "audio"]}),
    ("stop", CHAT, {"stop": "END"}),
    ("stop", MESSAGES, {"stop_sequences": ["END"]}),
    ("effort", CHAT, {"reasoning_effort": "high"}),
    ("effort", RESPONSES, {"reasoning": {"effort": "high"}}),
    ("thinking_budget", MESSAGES, {"thinking": {"type": "enabled", "budget_tokens": 5000}}),
    ("json_object", CHAT, {"response_format": {"type": "json_object"}}),
    ("json_object", RESPONSES, {"text": {"format": {"type": "json_object"}}}),
    ("stored", CHAT, {"store": True}),
    ("stored", RESPONSES, {"store": True}),
    ("previous_response", RESPONSES, {"previous_response_id": "resp_1"}),
    ("background", RESPONSES, {"background": True}),
    ("metadata", CHAT, {"metadata": {"a": "b"}}),
    ("metadata", RESPONSES, {"metadata": {"a": "b"}}),
    ("service_tier", CHAT, {"service_tier": "flex"}),
    ("service_tier", RESPONSES, {"service_tier": "flex"}),
    ("service_tier", MESSAGES, {"service_tier": "standard_only"}),
    ("mcp_servers", MESSAGES, {"mcp_servers": [{"type": "url", "url": "https://host", "name": "n"}]}),
    ("container", MESSAGES, {"container": "c"}),
    ("server_tool", CHAT, {"web_search_options": {}}),
    ("server_tool", RESPONSES, {"tools": [{"type": "web_search"}]}),
    ("server_tool", MESSAGES, {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
    ("custom_tool", RESPONSES, {"tools": [CUSTOM]}),
    ("namespace", RESPONSES, {"tools": [SPACE]}),
    ("provider_hint", CHAT, {"prompt_cache_key": "k"}),
    ("provider_hint", RESPONSES, {"prompt_cache_key": "k"}),
    ("unknown", CHAT, {"of_tomorrow": 1}),
    ("unknown", RESPONSES, {"of_tomorrow": 1}),
    ("unknown", MESSAGES, {"of_tomorrow": 1}),
    (
        "cache_control",
        MESSAGES,
        {"system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]},
    ),
    ("document_url", MESSAGES, {"messages": [{"role": "user", "content": [FILE]}]}),
    (
        "is_error",
        MESSAGES,
        {
            "messages": [
                USER,
                {"role": "assistant", "content": [CALLED]},
                {"role": "user", "content": [FAILED]},
            ]
        },
    ),
]
#: Chat and Responses are of one provider: what they share goes from one to the other as it is.
SHARED = {("service_tier", CHAT, RESPONSES)}


@pytest.mark.parametrize(("construct", "caller", "members"), SAMPLES)
def test_what_the_table_says_of_a_construct(
    construct: str, caller: WireFormat, members: dict[str, Any]
) -> None:
    body = json.dumps({**PLAIN[caller], **members}).encode()
    for upstream in sorted(set(WireFormat) - {caller}):
        fate = CONSTRUCTS[construct].fates.get(upstream)
        kind = Kind.EXACT if fate is None or (construct, caller, upstream) in SHARED else fate.kind
        if kind is Kind.REFUSED:
            with pytest.raises(Untranslatable, match=str(upstream)) as refused:
                translate_request(caller, upstream, body)
            assert refused.value.param
            assert fate is not None
            assert fate.how in refused.value.message
        else:
            changed = translate_request(caller, upstream, body).changed
            assert changed == ((construct,) if kind is Kind.CHANGED else ()), upstream


@pytest.mark.parametrize("caller", WireFormat)
def test_a_plain_request_changes_nothing(caller: WireFormat) -> None:
    for upstream in sorted(set(WireFormat) - {caller}):
        translated = translate_request(caller, upstream, json.dumps(PLAIN[caller]).encode())
        assert translated.changed == ()
        assert str(translated) == f"{caller}->{upstream}"


def test_samples_cover_the_members_of_requests() -> None:
    assert {name for name, _, _ in SAMPLES} <= CONSTRUCTS.keys()

"""The table of constructs says what happens: each row on each pair that it concerns."""

import json
from collections.abc import Iterable
from contextlib import suppress
from itertools import product
from typing import Any

import pydantic
import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

from pointsman.vocabulary import WireFormat
from pointsman.wire.constructs import CONSTRUCTS, Kind, Untranslatable
from pointsman.wire.translate import translate_request
from support.rows import every_row

CHAT, RESPONSES, MESSAGES = WireFormat.CHAT, WireFormat.RESPONSES, WireFormat.MESSAGES

USER = {"role": "user", "content": "hi"}
PLAIN: dict[WireFormat, dict[str, Any]] = {
    CHAT: {"model": "m", "messages": [USER]},
    RESPONSES: {"model": "m", "input": "hi"},
    MESSAGES: {"model": "m", "max_tokens": 9000, "messages": [USER]},
}
PDF = "JVBERi0xLjQK"
PNG = "iVBORw0KGgo="
CALLED = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
OBJECT = {"type": "object", "properties": {}}
CUSTOM = {"type": "custom", "name": "patch", "description": "patches"}
SPACE = {
    "type": "namespace",
    "name": "git",
    "tools": [{"type": "function", "name": "log", "parameters": OBJECT}],
}
FUNCTION: dict[WireFormat, dict[str, Any]] = {
    CHAT: {"type": "function", "function": {"name": "f", "parameters": OBJECT}},
    RESPONSES: {"type": "function", "name": "f", "parameters": OBJECT},
    MESSAGES: {"name": "f", "input_schema": OBJECT},
}
SEARCH: dict[WireFormat, dict[str, Any]] = {
    RESPONSES: {"type": "web_search"},
    MESSAGES: {"type": "web_search_20250305", "name": "web_search"},
}


def said(*parts: dict[str, Any]) -> dict[str, Any]:
    """A user's message of parts, in chat or Messages."""
    return {"messages": [{"role": "user", "content": list(parts)}]}


def items(*parts: dict[str, Any], role: str = "user") -> dict[str, Any]:
    """The same in Responses."""
    return {"input": [USER, {"type": "message", "role": role, "content": list(parts)}]}


def after(*blocks: dict[str, Any]) -> dict[str, Any]:
    """An assistant's message of blocks, in Messages, and what is said to it."""
    return {"messages": [USER, {"role": "assistant", "content": list(blocks)}, USER]}


def result(**members: Any) -> dict[str, Any]:
    """A call and its result in Messages."""
    block = {"type": "tool_result", "tool_use_id": "c", **members}
    return {
        "messages": [USER, {"role": "assistant", "content": [CALLED]}, {"role": "user", "content": [block]}]
    }


def chat_call(**function: Any) -> dict[str, Any]:
    """A call and its result in chat."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}", **function}}
    answer = {"role": "tool", "tool_call_id": "c", "content": "ok"}
    return {"messages": [USER, {"role": "assistant", "content": None, "tool_calls": [call]}, answer]}


def codex_call(**members: Any) -> dict[str, Any]:
    """A call and its result in Responses."""
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", **members}
    return {"input": [USER, call, {"type": "function_call_output", "call_id": "c", "output": "ok"}]}


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
DOCUMENT = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}}
DOCUMENT_URL = {"type": "document", "source": {"type": "url", "url": "https://host/a.pdf"}}
DOCUMENT_ID = {"type": "document", "source": {"type": "file", "file_id": "f"}}
CHAT_FILE = {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}}
CHAT_ZIP = {"type": "file", "file": {"filename": "a.zip", "file_data": "data:application/zip;base64,AAAA"}}
INPUT_FILE = {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}
INPUT_ZIP = {"type": "input_file", "filename": "a.zip", "file_data": "data:application/zip;base64,AAAA"}
INPUT_IMAGE = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}
CHAT_IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
SCHEMA = {"type": "json_schema", "name": "s", "schema": OBJECT}
COMPUTER = {
    "type": "computer_20251124",
    "name": "computer",
    "display_width_px": 1024,
    "display_height_px": 768,
}
FALLBACK = {"type": "fallback", "from": {"model": "claude-fable-5"}, "to": {"model": "claude-opus-5"}}
LATE = {"role": "system", "content": "late"}

#: A construct, the caller's format, and members of a request that hold it.
SAMPLES: list[tuple[str, WireFormat, dict[str, Any]]] = [
    ("top_k", MESSAGES, {"top_k": 3}),
    ("top_k", CHAT, {"top_k": 3}),
    ("seed", CHAT, {"seed": 3}),
    ("n", CHAT, {"n": 2}),
    ("logprobs", CHAT, {"logprobs": True}),
    ("top_logprobs", CHAT, {"top_logprobs": 3}),
    ("top_logprobs", RESPONSES, {"top_logprobs": 3}),
    ("penalties", CHAT, {"frequency_penalty": 1}),
    ("logit_bias", CHAT, {"logit_bias": {"1": 1}}),
    ("audio", CHAT, {"audio": {"voice": "x", "format": "wav"}, "modalities": ["text", "audio"]}),
    ("stop", CHAT, {"stop": "END"}),
    ("stop", MESSAGES, {"stop_sequences": ["END"]}),
    ("blank_stop", CHAT, {"stop": "\n"}),
    ("stop_length", CHAT, {"stop": [" " * 2000]}),
    ("stop_length", MESSAGES, {"stop_sequences": [*"abcd", "x" * 2000]}),
    ("verbosity", CHAT, {"verbosity": "low"}),
    ("verbosity", RESPONSES, {"text": {"verbosity": "low"}}),
    ("effort", CHAT, {"reasoning_effort": "high"}),
    ("effort", RESPONSES, {"reasoning": {"effort": "high"}}),
    ("effort", MESSAGES, {"output_config": {"effort": "high"}}),
    ("effort", MESSAGES, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
    ("effort_max", MESSAGES, {"output_config": {"effort": "max"}}),
    ("effort_max", MESSAGES, {"output_config": {"effort": "xhigh"}}),
    ("thinking_budget", MESSAGES, {"thinking": {"type": "enabled", "budget_tokens": 5000}}),
    ("thinking_history", MESSAGES, after({"type": "thinking", "thinking": "hm", "signature": "s"}, CALLED)),
    ("thinking_history", RESPONSES, {"input": [USER, {"type": "reasoning", "summary": []}, USER]}),
    (
        "thinking_history",
        CHAT,
        {"messages": [USER, {"role": "assistant", "reasoning_content": "hm", "content": "a"}, USER]},
    ),
    ("user", CHAT, {"user": "u" * 300}),
    ("user", RESPONSES, {"user": "u" * 300}),
    ("user", MESSAGES, {"metadata": {"user_id": "u" * 100}}),
    ("json_object", CHAT, {"response_format": {"type": "json_object"}}),
    ("json_object", RESPONSES, {"text": {"format": {"type": "json_object"}}}),
    (
        "json_schema",
        CHAT,
        {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": OBJECT}}},
    ),
    ("json_schema", RESPONSES, {"text": {"format": SCHEMA}}),
    ("json_schema", MESSAGES, {"output_config": {"format": SCHEMA}}),
    ("stored", CHAT, {"store": True}),
    ("stored", RESPONSES, {"store": True}),
    ("previous_response", RESPONSES, {"previous_response_id": "resp_1"}),
    ("previous_response", RESPONSES, {"conversation": "conv_1"}),
    ("previous_response", MESSAGES, {"thread": {"type": "create"}}),
    ("prompt_template", RESPONSES, {"prompt": {"id": "p"}}),
    ("background", RESPONSES, {"background": True}),
    ("metadata", CHAT, {"metadata": {"a": "b"}}),
    ("metadata", RESPONSES, {"metadata": {"a": "b"}}),
    ("service_tier", CHAT, {"service_tier": "flex"}),
    ("service_tier", RESPONSES, {"service_tier": "flex"}),
    ("service_tier", MESSAGES, {"service_tier": "standard_only"}),
    ("mcp_servers", MESSAGES, {"mcp_servers": [{"type": "url", "url": "https://host", "name": "n"}]}),
    ("container", MESSAGES, {"container": "c"}),
    ("compaction", MESSAGES, {"compaction": {"type": "auto"}}),
    ("context_management", MESSAGES, {"context_management": {"edits": []}}),
    ("context_management", RESPONSES, {"context_management": [{"type": "compaction"}]}),
    ("inference_geo", MESSAGES, {"inference_geo": "us"}),
    ("moderation", CHAT, {"moderation": {"model": "omni-moderation-latest"}}),
    ("moderation", RESPONSES, {"moderation": {"model": "omni-moderation-latest"}}),
    ("server_tool", CHAT, {"web_search_options": {}}),
    ("server_tool", RESPONSES, {"tools": [SEARCH[RESPONSES]]}),
    (
        "server_tool",
        RESPONSES,
        {"tools": [FUNCTION[RESPONSES], SEARCH[RESPONSES]], "tool_choice": {"type": "web_search"}},
    ),
    (
        "server_tool",
        RESPONSES,
        {"tools": [FUNCTION[RESPONSES], {"type": "file_search", "vector_store_ids": ["v"]}]},
    ),
    ("server_tool", MESSAGES, {"tools": [SEARCH[MESSAGES]]}),
    (
        "server_tool",
        MESSAGES,
        {
            "tools": [FUNCTION[MESSAGES], SEARCH[MESSAGES]],
            "tool_choice": {"type": "tool", "name": "web_search"},
        },
    ),
    ("hosted_tool", RESPONSES, {"tools": [FUNCTION[RESPONSES], SEARCH[RESPONSES]], "tool_choice": "auto"}),
    ("hosted_tool", RESPONSES, {"tools": [FUNCTION[RESPONSES], {"type": "image_generation"}]}),
    ("hosted_tool", MESSAGES, {"tools": [FUNCTION[MESSAGES], SEARCH[MESSAGES]]}),
    ("client_tool", RESPONSES, {"tools": [{"type": "local_shell"}]}),
    ("client_tool", MESSAGES, {"tools": [{"type": "bash_20250124", "name": "bash"}]}),
    ("client_tool", MESSAGES, {"tools": [COMPUTER]}),
    ("client_tool", RESPONSES, {"tools": [{"type": "computer"}]}),
    ("client_tool", RESPONSES, {"tools": [{"type": "shell"}], "tool_choice": {"type": "shell"}}),
    ("client_tool", RESPONSES, {"tools": [{"type": "shell", "environment": {"type": "local"}}]}),
    ("client_tool", RESPONSES, {"tools": [{"type": "apply_patch"}]}),
    (
        "server_tool",
        RESPONSES,
        {"tools": [{"type": "shell", "environment": {"type": "container_auto"}}]},
    ),
    ("toolset", MESSAGES, {"tools": [FUNCTION[MESSAGES], {"type": "computer_toolset_20260801"}]}),
    ("fallback_block", MESSAGES, after(FALLBACK, {"type": "text", "text": "a"})),
    ("compaction_block", MESSAGES, after({"type": "compaction", "content": "So far: done."})),
    ("result_block", MESSAGES, result(content=[{"type": "tool_reference", "tool_name": "find"}])),
    (
        "server_item",
        RESPONSES,
        {"input": [USER, {"type": "web_search_call", "id": "w", "status": "completed"}]},
    ),
    (
        "server_item",
        MESSAGES,
        after({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
    ),
    ("unknown_part", CHAT, said({"type": "video_url", "video_url": {"url": "https://host/a.mp4"}})),
    ("unknown_part", RESPONSES, items({"type": "input_video", "video_url": "https://host/a.mp4"})),
    ("unknown_part", MESSAGES, said({"type": "video", "source": {"type": "url", "url": "https://host/a"}})),
    ("task_budget", MESSAGES, {"output_config": {"task_budget": {"type": "tokens", "total": 20_000}}}),
    ("thinking_display", MESSAGES, {"thinking": {"type": "adaptive", "display": "summarized"}}),
    ("tool_hint", MESSAGES, {"tools": [{**FUNCTION[MESSAGES], "eager_input_streaming": True}]}),
    ("item_reference", RESPONSES, {"input": [USER, {"type": "item_reference", "id": "msg_1"}]}),
    ("compaction_trigger", RESPONSES, {"input": [USER, {"type": "compaction_trigger"}]}),
    ("compaction_item", RESPONSES, {"input": [USER, {"type": "compaction", "encrypted_content": "x"}]}),
    ("custom_tool", RESPONSES, {"tools": [CUSTOM]}),
    ("namespace", RESPONSES, {"tools": [SPACE]}),
    ("participant", CHAT, {"messages": [{**USER, "name": "bob"}]}),
    ("tool_hint", MESSAGES, {"tools": [{**FUNCTION[MESSAGES], "input_examples": [{}]}]}),
    ("tool_hint", MESSAGES, {"tools": [{**FUNCTION[MESSAGES], "defer_loading": True}]}),
    ("tool_name", MESSAGES, {"tools": [{"name": "mcp__" + "x" * 90, "input_schema": OBJECT}]}),
    ("tool_name", CHAT, {"tools": [{"type": "function", "function": {"name": "a.b"}}]}),
    ("tool_name", RESPONSES, {"tools": [{"type": "function", "name": "a.b", "parameters": OBJECT}]}),
    ("parallel_off", CHAT, {"tools": [FUNCTION[CHAT]], "parallel_tool_calls": False}),
    ("parallel_off", RESPONSES, {"tools": [FUNCTION[RESPONSES]], "parallel_tool_calls": False}),
    (
        "parallel_off",
        MESSAGES,
        {"tools": [FUNCTION[MESSAGES]], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    ),
    ("call_id", CHAT, chat_call()),
    ("call_id", RESPONSES, codex_call()),
    ("call_id", MESSAGES, result(content="ok")),
    ("malformed_arguments", CHAT, chat_call(arguments='{"a":')),
    ("malformed_arguments", RESPONSES, codex_call(arguments="[]")),
    ("max_tokens", CHAT, {"max_completion_tokens": 50}),
    ("max_tokens", RESPONSES, {"max_output_tokens": 50}),
    ("max_tokens", MESSAGES, {"max_tokens": 50}),
    ("temperature", CHAT, {"temperature": 1.5}),
    ("temperature", RESPONSES, {"temperature": 1.5}),
    ("temperature", MESSAGES, {"temperature": 0.5}),
    ("top_p", CHAT, {"top_p": 0.5, "temperature": 0.5}),
    ("top_p", RESPONSES, {"top_p": 0.5, "temperature": 0.5}),
    ("top_p", MESSAGES, {"top_p": 0.5}),
    ("late_system", CHAT, {"messages": [USER, LATE]}),
    ("late_system", MESSAGES, {"messages": [USER, LATE]}),
    ("late_system", RESPONSES, {"input": [USER, LATE]}),
    ("no_messages", CHAT, {"messages": [LATE]}),
    ("no_messages", RESPONSES, {"input": [LATE]}),
    (
        "image_detail",
        CHAT,
        said({"type": "image_url", "image_url": {"url": "https://host/a", "detail": "low"}}),
    ),
    ("image_detail", RESPONSES, items({**INPUT_IMAGE, "detail": "low"})),
    ("image_in_result", MESSAGES, result(content=[IMAGE])),
    (
        "image_in_result",
        RESPONSES,
        {
            "input": [
                USER,
                *codex_call()["input"][1:2],
                {"type": "function_call_output", "call_id": "c", "output": [INPUT_IMAGE]},
            ]
        },
    ),
    (
        "media_of_assistant",
        CHAT,
        {
            "messages": [
                USER,
                {"role": "assistant", "content": [{"type": "text", "text": "a"}, CHAT_IMAGE]},
                USER,
            ]
        },
    ),
    (
        "media_of_assistant",
        RESPONSES,
        items({"type": "output_text", "text": "a"}, INPUT_IMAGE, role="assistant"),
    ),
    ("media_of_assistant", MESSAGES, after({"type": "text", "text": "a"}, IMAGE)),
    ("document", CHAT, said(CHAT_FILE)),
    ("document", RESPONSES, items(INPUT_FILE)),
    ("document", MESSAGES, said(DOCUMENT)),
    ("document_type", CHAT, said(CHAT_ZIP)),
    ("document_type", RESPONSES, items(INPUT_ZIP)),
    ("document_url", RESPONSES, items({"type": "input_file", "file_url": "https://host/a.pdf"})),
    ("document_url", MESSAGES, said(DOCUMENT_URL)),
    ("file_id", CHAT, said({"type": "file", "file": {"file_id": "f"}})),
    ("file_id", RESPONSES, items({"type": "input_file", "file_id": "f"})),
    ("file_id", MESSAGES, said(DOCUMENT_ID)),
    ("citations", MESSAGES, said({**DOCUMENT, "citations": {"enabled": True}})),
    ("is_error", MESSAGES, result(content="no", is_error=True)),
    (
        "cache_control",
        MESSAGES,
        {"system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]},
    ),
    ("cache_control", MESSAGES, {"cache_control": {"type": "ephemeral"}}),
    ("cache_control", CHAT, said({"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}})),
    ("thinking_budget", CHAT, {"thinking": {"type": "enabled", "budget_tokens": 5000}}),
    ("provider_hint", CHAT, {"prompt_cache_key": "k"}),
    ("provider_hint", RESPONSES, {"prompt_cache_key": "k"}),
    ("provider_hint", RESPONSES, {"client_metadata": {"x": "y"}}),
    ("provider_hint", MESSAGES, {"speed": "fast"}),
    ("unknown", CHAT, {"of_tomorrow": 1}),
    ("unknown", RESPONSES, {"of_tomorrow": 1}),
    ("unknown", MESSAGES, {"of_tomorrow": 1}),
]
#: Chat and Responses are of one provider: what they share goes from one to the other as it is.
SHARED = {
    *((name, CHAT, RESPONSES) for name in ("service_tier", "provider_hint", "moderation")),
    ("stop", MESSAGES, CHAT),
    ("thinking_budget", CHAT, MESSAGES),
    # Of one meaning in every format, whatever a target changes about other values.
    *(("effort", MESSAGES, target) for target in (CHAT, RESPONSES)),
    *((name, MESSAGES, target) for target in (CHAT, RESPONSES) for name in ("temperature", "top_p")),
    *(
        (name, source, target)
        for source, target in ((CHAT, RESPONSES), (RESPONSES, CHAT))
        for name in ("temperature", "top_p")
    ),
}
#: What only another sample of a request's kind meets: thinking that is switched off.
ELSEWHERE = {"thinking_off"}


def test_what_the_table_says_of_a_construct() -> None:
    with every_row() as row:
        for construct, caller, members in SAMPLES:
            with row(construct, caller, members):
                _check_fates(construct, caller, members)


def _check_fates(construct: str, caller: WireFormat, members: dict[str, Any]) -> None:
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
            changed = [name.partition(":")[0] for name in translate_request(caller, upstream, body).changed]
            assert changed == ([construct] if kind is Kind.CHANGED else []), upstream


@pytest.mark.parametrize("caller", WireFormat)
def test_a_plain_request_changes_nothing(caller: WireFormat) -> None:
    for upstream in sorted(set(WireFormat) - {caller}):
        translated = translate_request(caller, upstream, json.dumps(PLAIN[caller]).encode())
        assert translated.changed == ()
        assert str(translated) == f"{caller}->{upstream}"


@pytest.fixture(scope="module")
def schemas() -> dict[WireFormat, pydantic.TypeAdapter[Any]]:
    """By format, what reads a request as the official SDK types it: made once, for it takes half a second."""
    return {
        CHAT: pydantic.TypeAdapter(CompletionCreateParamsNonStreaming),
        RESPONSES: pydantic.TypeAdapter(ResponseCreateParamsNonStreaming),
        MESSAGES: pydantic.TypeAdapter(MessageCreateParamsNonStreaming),
    }


def exhaust(value: Any) -> None:
    """Go through all of a value: what the SDKs call iterable is checked when it is iterated."""
    if isinstance(value, dict):
        value = value.values()
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for each in value:
            exhaust(each)


def test_what_is_sent_is_a_request_of_the_official_sdk(
    schemas: dict[WireFormat, pydantic.TypeAdapter[Any]],
) -> None:
    with every_row() as row:
        for (construct, caller, members), upstream in product(SAMPLES, WireFormat):
            fate = CONSTRUCTS[construct].fates.get(upstream)
            expected = (Untranslatable,) if fate and fate.kind is Kind.REFUSED else ()
            if upstream == caller:
                continue
            with row(construct, caller, members, upstream), suppress(*expected):
                body = json.dumps({**PLAIN[caller], **members}).encode()
                sent = json.loads(translate_request(caller, upstream, body).body)
                exhaust(schemas[upstream].validate_python(sent))


def test_every_construct_has_a_sample_in_every_format_that_has_it() -> None:
    sampled = {(name, caller) for name, caller, _ in SAMPLES}
    wanted = {(name, caller) for name, found in CONSTRUCTS.items() for caller in found.fields}
    assert {pair for pair in wanted if pair[0] not in ELSEWHERE} - sampled == set()
    assert sampled - wanted == set()


def test_a_refusal_repeats_no_more_of_a_name_than_can_be_read() -> None:
    name = "\x1b]0;pwn\a\nERROR a line of its own " + "Z" * 1_000
    body = {"model": "m", "messages": [{"role": "user", "content": "a"}], "max_tokens": 9, name: 1}
    with pytest.raises(Untranslatable) as refused:
        translate_request(WireFormat.MESSAGES, WireFormat.CHAT, json.dumps(body).encode(), strict="main")
    message, param = refused.value.message, refused.value.param
    assert param is not None
    assert (message.isprintable(), param.isprintable()) == (True, True)
    assert "?]0;pwn??ERROR a line" in message
    assert len(param) == 128
    assert len(message) < 400


TOOL = FUNCTION[MESSAGES]
#: What no reader knows, inside a request, and the places that are reported.
NESTED: list[tuple[WireFormat, dict[str, Any], list[str]]] = [
    (
        MESSAGES,
        {"tools": [{**TOOL, "brand_new": 1}, {**TOOL, "name": "g", "brand_new": 2}]},
        ["tools.brand_new"],
    ),
    (MESSAGES, {"output_config": {"effort": "low", "brand_new": 1}}, ["output_config.brand_new"]),
    (MESSAGES, {"thinking": {"type": "adaptive", "brand_new": 1}}, ["thinking.brand_new"]),
    (MESSAGES, {"thinking": {"type": "adaptive", "brand_new": None}}, []),
    (MESSAGES, {"messages": [{**USER, "brand_new": 1}]}, ["messages.brand_new"]),
    (MESSAGES, said({"type": "text", "text": "a", "brand_new": 1}), ["messages.content.brand_new"]),
    (MESSAGES, {"system": [{"type": "text", "text": "a", "brand_new": 1}]}, ["system.brand_new"]),
    (MESSAGES, result(content=[{"type": "text", "text": "a", "new": 1}]), ["messages.content.content.new"]),
    (MESSAGES, after({"type": "brand_new", "a": 1}, {"type": "text", "text": "a"}), ["messages.brand_new"]),
    (MESSAGES, {"of_tomorrow": 1, "metadata": {"b": 1}}, ["of_tomorrow", "metadata.b"]),
    (CHAT, {"tools": [{**FUNCTION[CHAT], "brand_new": 1}]}, ["tools.brand_new"]),
    (CHAT, {"tools": [{"type": "function", "function": {"name": "f", "new": 1}}]}, ["tools.function.new"]),
    (CHAT, {"messages": [{**USER, "brand_new": 1}]}, ["messages.brand_new"]),
    (CHAT, chat_call(brand_new=1), ["messages.tool_calls.function.brand_new"]),
    (RESPONSES, {"tools": [{**FUNCTION[RESPONSES], "brand_new": 1}]}, ["tools.brand_new"]),
    (RESPONSES, codex_call(brand_new=1), ["input.brand_new"]),
    (RESPONSES, codex_call(status="completed", id="fc_1", brand_new=None), []),
    (RESPONSES, codex_call(internal_chat_message_metadata_passthrough={"a": "b"}), []),
    (RESPONSES, {"reasoning": {"brand_new": 1}}, ["reasoning.brand_new"]),
    (RESPONSES, {"input": [USER, {"type": "brand_new", "a": 1}, USER]}, ["input.brand_new"]),
    (RESPONSES, items({"type": "input_text", "text": "a", "brand_new": 1}), ["input.content.brand_new"]),
]


@pytest.mark.parametrize(("caller", "members", "places"), NESTED)
def test_what_is_not_known_is_left_out_and_named_or_refused(
    caller: WireFormat, members: dict[str, Any], places: list[str]
) -> None:
    body = json.dumps({**PLAIN[caller], **members}).encode()
    for upstream in sorted(set(WireFormat) - {caller}):
        translated = translate_request(caller, upstream, body)
        unknown = [name.removeprefix("unknown:") for name in translated.changed if name.startswith("unknown")]
        assert unknown == places, upstream
        assert b"brand_new" not in translated.body
        if places:
            with pytest.raises(Untranslatable) as refused:
                translate_request(caller, upstream, body, strict="main")
            assert refused.value.param == places[0]
            assert 'upstream "main"' in refused.value.message
            assert '[upstreams.main] unknown = "drop"' in refused.value.hint


def test_the_report_of_what_is_not_known_is_bounded() -> None:
    body = {**PLAIN[MESSAGES], **{f"new,=;\x07é{n}" + "x" * 500: n for n in range(500)}}
    changed = translate_request(MESSAGES, CHAT, json.dumps(body).encode()).changed
    assert len(changed) == 9
    assert changed[-1] == "unknown:..."
    assert all(len(name) <= 72 and name.isascii() for name in changed)
    assert changed[0].startswith("unknown:new?????0xxx")

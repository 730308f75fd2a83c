"""Cases that well-known gateways get wrong, each through a whole translation: requests, answers, streams.

The list is that of the design; docs/decisions/0120 says where it comes from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import Any

import msgspec
import pytest

from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS, sse
from pointsman.wire.body import MAX_VALUES
from pointsman.wire.constructs import Untranslatable
from pointsman.wire.conversation import Usage
from pointsman.wire.reasoning import MAX_PARTS
from pointsman.wire.translate import StreamTranslation, Translated, translate_answer, translate_request
from support.translation import payloads

CHAT, RESPONSES, MESSAGES = WireFormat.CHAT, WireFormat.RESPONSES, WireFormat.MESSAGES
NOW = 1_700_000_000
PNG = "iVBORw0KGgo="
PDF = "JVBERi0xLjQK"
Json = dict[str, Any]


def asked(caller: WireFormat, upstream: WireFormat, **members: Any) -> Translated:
    body: Json = {"model": "m", **members}
    if caller is MESSAGES:
        body.setdefault("max_tokens", 8000)
    return translate_request(caller, upstream, json.dumps(body).encode(), created=NOW)


def sent(caller: WireFormat, upstream: WireFormat, **members: Any) -> Json:
    """What the upstream is asked."""
    body: Json = json.loads(asked(caller, upstream, **members).body)
    return body


def changed(caller: WireFormat, upstream: WireFormat, **members: Any) -> tuple[str, ...]:
    return asked(caller, upstream, **members).changed


def plain(caller: WireFormat) -> Json:
    return {"input": "hi"} if caller is RESPONSES else {"messages": [{"role": "user", "content": "hi"}]}


def answered(caller: WireFormat, upstream: WireFormat, answer: Json, **members: Any) -> Json:
    """What the caller is told of an upstream's answer."""
    request = asked(caller, upstream, **{**plain(caller), **members})
    found: Json = json.loads(translate_answer(request, json.dumps(answer).encode()).body)
    return found


def streamed(caller: WireFormat, upstream: WireFormat, blocks: Iterable[bytes], **members: Any) -> bytes:
    """The stream that the caller is told, of an upstream's blocks and a connection that ended well."""
    extra: Json = {"stream_options": {"include_usage": True}} if caller is CHAT else {}
    translation = StreamTranslation(
        asked(caller, upstream, **{**plain(caller), "stream": True, **extra, **members})
    )
    return b"".join([translation.feed(block) for block in blocks]) + translation.feed(b"")


def user(*content: Json) -> Json:
    return {"role": "user", "content": list(content)}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def function(name: str, arguments: str, id_: str) -> Json:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}


# Requests.

HI = {"role": "user", "content": "hi"}
CALLS = [function("f", "", "call:1"), function("g", '{"a":1}', "call.1")]
CHAT_TURN = [
    HI,
    {"role": "assistant", "content": None, "tool_calls": CALLS},
    {"role": "tool", "tool_call_id": "call:1", "content": "one"},
    {"role": "tool", "tool_call_id": "call.1", "content": "two"},
    {"role": "user", "content": "go on"},
]


def test_parallel_calls_then_their_results_then_a_text() -> None:
    first, calls, results = sent(CHAT, MESSAGES, messages=CHAT_TURN)["messages"]
    assert (first["role"], calls["role"], results["role"]) == ("user", "assistant", "user")
    assert [block["input"] for block in calls["content"]] == [{}, {"a": 1}]
    ids = [block["id"] for block in calls["content"]]
    assert len(set(ids)) == 2
    assert all(id_.replace("_", "").isalnum() for id_ in ids)
    assert [block["type"] for block in results["content"]] == ["tool_result", "tool_result", "text"]
    assert [block["tool_use_id"] for block in results["content"][:2]] == ids


def test_ids_that_are_used_again_are_told_apart() -> None:
    turn = [
        {"role": "assistant", "tool_calls": [function("f", "{}", "call_0"), function("g", "{}", "call_0")]},
        {"role": "tool", "tool_call_id": "call_0", "content": "one"},
        {"role": "tool", "tool_call_id": "call_0", "content": "two"},
    ]
    messages = sent(CHAT, MESSAGES, messages=[HI, *turn, HI, *turn, HI])["messages"]
    calls = [b for m in messages for b in m["content"] if b["type"] == "tool_use"]
    results = [b for m in messages for b in m["content"] if b["type"] == "tool_result"]
    assert len({call["id"] for call in calls}) == 4
    assert [result["tool_use_id"] for result in results] == [call["id"] for call in calls]
    assert [result["content"] for result in results] == ["one", "two"] * 2


def test_one_system_and_stop_and_a_forced_single_call() -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    body = sent(
        CHAT,
        MESSAGES,
        messages=[{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}, HI],
        stop="END",
        tools=[tool],
        tool_choice="required",
        parallel_tool_calls=False,
    )
    assert [block["text"] for block in body["system"]] == ["a", "b"]
    assert body["stop_sequences"] == ["END"]
    assert body["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    assert [message["role"] for message in body["messages"]] == ["user"]


FAILED = [
    HI,
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
    user({"type": "tool_result", "tool_use_id": "t", "content": "no such file", "is_error": True}),
]


def test_a_failed_result_is_marked() -> None:
    assert sent(MESSAGES, CHAT, messages=FAILED)["messages"][-1]["content"] == "Error: no such file"
    assert sent(MESSAGES, RESPONSES, messages=FAILED)["input"][-1]["output"] == "Error: no such file"
    assert changed(MESSAGES, CHAT, messages=FAILED) == ("is_error",)
    bare = [*FAILED[:2], user({"type": "tool_result", "tool_use_id": "t", "is_error": True})]
    assert sent(MESSAGES, CHAT, messages=bare)["messages"][-1]["content"].startswith("Error")


def test_an_image_inside_a_result_is_moved_behind_the_results() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    messages = [
        HI,
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": id_, "name": "f", "input": {}} for id_ in "ab"],
        },
        user(
            {"type": "tool_result", "tool_use_id": "a", "content": [text("see"), image]},
            {"type": "tool_result", "tool_use_id": "b", "content": "two"},
            text("what is it?"),
        ),
    ]
    written = sent(MESSAGES, CHAT, messages=messages)["messages"]
    assert [message["role"] for message in written] == ["user", "assistant", "tool", "tool", "user"]
    assert [written[2]["content"], written[3]["content"]] == ["see", "two"]
    assert [part["type"] for part in written[4]["content"]] == ["image_url", "text"]
    assert written[4]["content"][0]["image_url"]["url"] == f"data:image/png;base64,{PNG}"
    native = sent(MESSAGES, RESPONSES, messages=messages)["input"]
    assert [part["type"] for part in native[-3]["output"]] == ["input_text", "input_image"]


THOUGHT: dict[WireFormat, Json] = {
    MESSAGES: {
        "messages": [
            HI,
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "SECRET", "signature": "SECRET"},
                    {"type": "redacted_thinking", "data": "SECRET"},
                    text("a"),
                ],
            },
            HI,
        ]
    },
    RESPONSES: {
        "input": [
            HI,
            {
                "type": "reasoning",
                "id": "rs_SECRET",
                "summary": [{"type": "summary_text", "text": "SECRET"}],
                "encrypted_content": "SECRET",
            },
            {"role": "assistant", "content": "a"},
            HI,
        ]
    },
    CHAT: {"messages": [HI, {"role": "assistant", "reasoning_content": "SECRET", "content": "a"}, HI]},
}
PAIRS = [(caller, upstream) for caller in THOUGHT for upstream in THOUGHT if caller is not upstream]


@pytest.mark.parametrize(("caller", "upstream"), PAIRS)
def test_reasoning_of_another_provider_is_never_sent(caller: WireFormat, upstream: WireFormat) -> None:
    request = asked(caller, upstream, **THOUGHT[caller])
    assert b"SECRET" not in request.body
    assert request.changed == ("thinking_history",)


@pytest.mark.parametrize(
    ("model", "effort", "thinking"),
    [
        ("claude-sonnet-4-5", "low", {"type": "enabled", "budget_tokens": 2_048}),
        ("claude-sonnet-4-5", "high", {"type": "enabled", "budget_tokens": 24_576}),
        ("claude-sonnet-4-5", "none", None),
        ("claude-sonnet-4-5", "minimal", None),
        ("claude-opus-4-20250514", "low", {"type": "enabled", "budget_tokens": 2_048}),
        ("anthropic/claude-opus-4.6", "low", {"type": "adaptive"}),
        ("claude-opus-5", "minimal", None),
    ],
)
@pytest.mark.parametrize("caller", [CHAT, RESPONSES])
def test_an_effort_becomes_thinking(
    caller: WireFormat, model: str, effort: str, thinking: Json | None
) -> None:
    member: Json = {"reasoning_effort": effort} if caller is CHAT else {"reasoning": {"effort": effort}}
    body = sent(caller, MESSAGES, **plain(caller), **member, model=model)
    assert body.get("thinking") == thinking
    if thinking and "budget_tokens" in thinking:
        assert thinking["budget_tokens"] < body["max_tokens"]
        assert "output_config" not in body
    elif thinking:
        assert body["output_config"] == {"effort": effort}


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("claude-opus-4-6", "xhigh", "high"),
        ("claude-opus-4-7", "xhigh", "xhigh"),
        ("claude-opus-4-6", "max", "max"),
    ],
)
def test_an_effort_that_the_model_does_not_know(model: str, effort: str, expected: str) -> None:
    body = sent(CHAT, MESSAGES, **plain(CHAT), reasoning_effort=effort, model=model)
    assert body["output_config"]["effort"] == expected


def test_a_budget_stays_below_the_limit() -> None:
    body = sent(CHAT, MESSAGES, **plain(CHAT), reasoning_effort="high", max_tokens=4000)
    assert body["max_tokens"] == 4000
    assert body["thinking"]["budget_tokens"] < 4000


USER, LATE = {"role": "user", "content": "hi"}, {"role": "system", "content": "# Environment"}


@pytest.mark.parametrize(
    ("members", "effort"),
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, "low"),
        ({"thinking": {"type": "enabled", "budget_tokens": 10_000}}, "medium"),
        ({"thinking": {"type": "enabled", "budget_tokens": 30_000}, "max_tokens": 40_000}, "high"),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "medium"}}, "medium"),
        ({"thinking": {"type": "adaptive"}}, None),
        ({"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}}, None),
        ({"output_config": {"effort": "max"}}, "high"),
        ({"output_config": {"effort": "max"}, "model": "gpt-5.2"}, "xhigh"),
        ({"output_config": {"effort": "max"}, "model": "gpt-5.6"}, "max"),
        ({"output_config": {"effort": "xhigh"}, "model": "openai/gpt-5-mini"}, "high"),
        ({"messages": [USER, {**LATE, "output_config": {"effort": "low"}}]}, "low"),  # from this message on
        ({"messages": [USER, {**LATE, "output_config": {}}], "output_config": {"effort": "low"}}, "low"),
        (
            {
                "messages": [
                    USER | {"output_config": {"effort": "high"}},
                    LATE | {"output_config": {"effort": "low"}},
                ],
                "output_config": {"effort": "medium"},
            },
            "low",
        ),
    ],
)
def test_thinking_becomes_an_effort(members: Json, effort: str | None) -> None:
    assert sent(MESSAGES, CHAT, **{**plain(MESSAGES), **members}).get("reasoning_effort") == effort
    reasoning = sent(MESSAGES, RESPONSES, **{**plain(MESSAGES), **members}).get("reasoning")
    assert reasoning == ({"effort": effort} if effort else None)


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ("gpt-5", "max_completion_tokens"),
        ("gpt-5.2-codex", "max_completion_tokens"),
        ("openai/o3", "max_completion_tokens"),
        ("o4-mini", "max_completion_tokens"),
        ("my-gpt-5-deployment", "max_completion_tokens"),
        ("gpt-6.1-sol", "max_completion_tokens"),
        ("gpt-4o", "max_tokens"),
        ("marco-o1", "max_tokens"),
        ("gpt-5-chat-latest", "max_tokens"),
        ("qwen3-coder", "max_tokens"),
        ("gpt-oss-120b", "max_tokens"),
        ("olmo-3", "max_tokens"),
    ],
)
def test_the_name_of_the_limit_follows_the_model(model: str, limit: str) -> None:
    body = sent(MESSAGES, CHAT, **plain(MESSAGES), model=model, max_tokens=50)
    assert {name for name in body if name.startswith("max_")} == {limit}
    assert body[limit] == 50


@pytest.mark.parametrize(
    ("caller", "upstream", "model", "kept"),
    [
        (MESSAGES, CHAT, "gpt-5.2", False),
        (MESSAGES, RESPONSES, "o3", False),
        (MESSAGES, CHAT, "gpt-4o", True),
        (MESSAGES, CHAT, "qwen3", True),
        (CHAT, MESSAGES, "claude-opus-4-8", False),
        (CHAT, MESSAGES, "claude-sonnet-4-5", True),
    ],
)
def test_a_temperature_that_the_model_refuses_is_left_out(
    caller: WireFormat, upstream: WireFormat, model: str, kept: bool
) -> None:
    request = asked(caller, upstream, **{**plain(caller), "model": model, "temperature": 0.2})
    assert ("temperature" in json.loads(request.body)) == kept
    assert request.changed == (() if kept else ("temperature",))


GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": 'start: "*** Begin Patch" hunk+'}
CODEX: Json = {
    "model": "gpt-5.5",
    "instructions": "You are Codex.",
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "allowed: all"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "fix it"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e", "content": None},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "call_1"},
        {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin Patch", "call_id": "call_2"},
        {
            "type": "function_call",
            "name": "find",
            "namespace": "mcp__docs",
            "arguments": "{}",
            "call_id": "c",
        },
        {
            "type": "local_shell_call",
            "call_id": "c4",
            "status": "completed",
            "action": {"type": "exec", "command": ["ls", "-l"], "env": {}},
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "a.txt"},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "Done"},
        {"type": "function_call_output", "call_id": "c", "output": "[]"},
        {"type": "local_shell_call_output", "call_id": "c4", "output": "total 0"},
    ],
    "tools": [
        {"type": "function", "name": "shell", "strict": False, "parameters": {"type": "object"}},
        {"type": "custom", "name": "apply_patch", "description": "Edits files.", "format": GRAMMAR},
        {
            "type": "namespace",
            "name": "mcp__docs",
            "tools": [{"type": "function", "name": "find", "parameters": {"type": "object"}}],
        },
        {"type": "local_shell"},
        {"type": "web_search", "external_web_access": False},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "service_tier": "priority",
    "prompt_cache_key": "k",
    "text": {
        "verbosity": "low",
        "format": {"type": "json_schema", "name": "s", "schema": {"type": "object"}, "strict": True},
    },
    "client_metadata": {"x-codex-installation-id": "1"},
}
CODEX_NAMES = ["shell", "apply_patch", "mcp__docs__find", "local_shell"]


def test_a_turn_of_codex_as_chat() -> None:
    body = sent(RESPONSES, CHAT, **CODEX)
    system, _, said, *results = body["messages"]
    assert system == {"role": "system", "content": "You are Codex.\n\nallowed: all"}
    assert said["content"] == "I look."
    assert [call["function"]["name"] for call in said["tool_calls"]] == CODEX_NAMES
    assert [json.loads(call["function"]["arguments"]) for call in said["tool_calls"]] == [
        {"command": ["ls"]},
        {"input": "*** Begin Patch"},
        {},
        {"command": ["ls", "-l"]},
    ]
    assert [result["content"] for result in results] == ["a.txt", "Done", "[]", "total 0"]
    assert [tool["function"]["name"] for tool in body["tools"]] == CODEX_NAMES
    assert GRAMMAR["definition"] in body["tools"][1]["function"]["description"]
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert body["reasoning_effort"] == "medium"
    assert body["stream_options"] == {"include_usage": True}
    own = {"model", "messages", "tools", "tool_choice", "parallel_tool_calls", "response_format"}
    assert set(body) == own | {"reasoning_effort", "stream", "stream_options"}


def test_a_turn_of_codex_as_messages() -> None:
    body = sent(RESPONSES, MESSAGES, **CODEX)
    assert [block["text"] for block in body["system"]] == ["You are Codex.", "allowed: all"]
    _, said, results = body["messages"]
    assert [block["type"] for block in said["content"]] == ["text", *["tool_use"] * 4]
    assert [block["name"] for block in said["content"][1:]] == CODEX_NAMES
    assert [block["content"] for block in results["content"]] == ["a.txt", "Done", "[]", "total 0"]
    assert [tool["name"] for tool in body["tools"]] == CODEX_NAMES
    assert GRAMMAR["definition"] in body["tools"][1]["description"]
    assert body["output_config"]["format"]["schema"] == {"type": "object"}


def test_a_pdf() -> None:
    url = f"data:application/pdf;base64,{PDF}"
    chat = user({"type": "file", "file": {"filename": "a.pdf", "file_data": url}})
    [block] = sent(CHAT, MESSAGES, messages=[chat])["messages"][0]["content"]
    assert block["source"] == {"type": "base64", "media_type": "application/pdf", "data": PDF}
    document = user({"type": "document", "title": "a.pdf", "source": block["source"]})
    assert sent(MESSAGES, CHAT, messages=[document])["messages"][0] == chat
    [item] = sent(MESSAGES, RESPONSES, messages=[document])["input"]
    assert item["content"] == [{"type": "input_file", "filename": "a.pdf", "file_data": url}]


SEARCHED = [
    HI,
    {
        "role": "assistant",
        "content": [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": [{"type": "web_search_result", "url": "u", "encrypted_content": "e"}],
            },
            text("found"),
        ],
    },
    HI,
]


@pytest.mark.parametrize(
    ("caller", "members", "named"),
    [
        (MESSAGES, {"messages": SEARCHED}, "server_tool_use"),
        (CHAT, {"n": 2}, "n"),
        (CHAT, {"logprobs": True, "top_logprobs": 2}, "logprobs"),
        (RESPONSES, {"background": True}, "background"),
        (RESPONSES, {"tools": [{"type": "file_search", "vector_store_ids": ["v"]}]}, "file_search"),
    ],
)
def test_what_the_target_has_not_is_refused_by_name(caller: WireFormat, members: Json, named: str) -> None:
    for upstream in {CHAT, RESPONSES, MESSAGES} - {caller}:
        with pytest.raises(Untranslatable, match=named):
            asked(caller, upstream, **{**plain(caller), **members})


@pytest.mark.parametrize("arguments", ['{"a":', "", "null", "[1]", '"x"', "  ", "3"])
def test_input_is_always_an_object(arguments: str) -> None:
    messages = [HI, {"role": "assistant", "tool_calls": [function("f", arguments, "c")]}, *CHAT_TURN[4:]]
    block = sent(CHAT, MESSAGES, messages=messages)["messages"][1]["content"][0]
    assert isinstance(block["input"], dict)


def test_no_empty_block_is_sent() -> None:
    messages = [
        user(text(""), text("hi")),
        {"role": "assistant", "content": "", "tool_calls": [function("f", "{}", "c")]},
        {"role": "tool", "tool_call_id": "c", "content": ""},
    ]
    body = sent(CHAT, MESSAGES, messages=messages, tools=[])
    blocks = [block for message in body["messages"] for block in message["content"]]
    assert [block["type"] for block in blocks] == ["text", "tool_use", "tool_result"]
    assert "tools" not in body


def test_a_cache_mark_of_a_caller_of_chat_is_kept() -> None:
    part = {"type": "text", "text": "long", "cache_control": {"type": "ephemeral"}}
    body = sent(CHAT, MESSAGES, messages=[{"role": "system", "content": [part]}, user(part)])
    assert body["system"] == [part]
    assert body["messages"][0]["content"] == [part]


def test_results_stand_directly_behind_their_calls() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    note = {"role": "developer", "content": "mind the time"}
    output = {"type": "function_call_output", "call_id": "c", "output": "ok"}
    written = sent(RESPONSES, CHAT, input=[HI, call, note, output])["messages"]
    assert [message["role"] for message in written] == ["user", "assistant", "tool", "user"]
    blocks = sent(RESPONSES, MESSAGES, input=[HI, call, note, output])["messages"][2]["content"]
    assert [block["type"] for block in blocks] == ["tool_result", "text"]


@pytest.mark.parametrize(
    ("model", "written"),
    [
        ("gpt-5.5", {"role": "system", "content": "mind the time"}),
        ("qwen3.8-27b", {"role": "user", "content": "<system>\nmind the time\n</system>"}),
        ("openai/gpt-oss-20b", {"role": "user", "content": "<system>\nmind the time\n</system>"}),
    ],
)
def test_a_later_instruction_where_chat_templates_refuse_one(model: str, written: Json) -> None:
    """Claude Code and Codex send such; the templates of Qwen, Gemma and Mistral raise for them."""
    late = {"role": "system", "content": "mind the time"}
    for caller, members in ((MESSAGES, {"messages": [HI, late]}), (RESPONSES, {"input": [HI, late]})):
        assert sent(caller, CHAT, **members, model=model)["messages"][1] == written


def test_long_ids_and_names_are_cut_alike() -> None:
    long = "toolu_" + "x" * 70
    name = "mcp__" + "y" * 80
    messages = [
        HI,
        {"role": "assistant", "content": [{"type": "tool_use", "id": long, "name": name, "input": {}}]},
        user({"type": "tool_result", "tool_use_id": long, "content": "ok"}),
    ]
    tools = [{"name": name, "input_schema": {"type": "object"}}]
    chosen = {"type": "tool", "name": name}
    chat = sent(MESSAGES, CHAT, messages=messages, tools=tools, tool_choice=chosen)
    call = chat["messages"][1]["tool_calls"][0]
    assert call["id"] == chat["messages"][2]["tool_call_id"]
    assert len(call["id"]) <= 40
    short = chat["tools"][0]["function"]["name"]
    assert {short} == {call["function"]["name"], chat["tool_choice"]["function"]["name"]}
    assert len(short) <= 64
    responses = sent(MESSAGES, RESPONSES, messages=messages, tools=tools, tool_choice=chosen)
    assert {responses["tools"][0]["name"], responses["tool_choice"]["name"]} == {short}
    assert responses["input"][1]["call_id"] == responses["input"][2]["call_id"]
    assert len(responses["input"][1]["call_id"]) <= 64
    answer = chat_answer(tool_calls=[function(short, "{}", "c")])
    assert answered(MESSAGES, CHAT, answer, tools=tools)["content"][0]["name"] == name


@pytest.mark.parametrize(("caller", "upstream", "most"), [(MESSAGES, CHAT, 64), (CHAT, MESSAGES, 256)])
def test_a_long_user_is_hashed(caller: WireFormat, upstream: WireFormat, most: int) -> None:
    member: Json = {"user": "u" * 300} if caller is CHAT else {"metadata": {"user_id": "u" * 300}}
    body = sent(caller, upstream, **plain(caller), **member)
    found = body["user"] if upstream is CHAT else body["metadata"]["user_id"]
    assert len(found) <= most
    assert "uuu" not in found


# Answers.


def chat_answer(finish: str = "stop", usage: Json | None = None, **message: Any) -> Json:
    said = {"role": "assistant", "content": None, **message}
    choice = {"index": 0, "message": said, "finish_reason": finish}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 5, "model": "m"}
    return {**head, "choices": [choice], "usage": usage}


def messages_answer(*content: Json, stop: str = "end_turn", usage: Json | None = None) -> Json:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": list(content),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage or {"input_tokens": 1, "output_tokens": 2},
    }


def responses_answer(*output: Json, status: str = "completed", **more: Any) -> Json:
    return {"id": "resp_1", "object": "response", "created_at": 5, "status": status, "model": "m",
            "output": list(output), "error": None, **more}  # fmt: skip


def test_usage_counts_caches_as_each_provider_does() -> None:
    used = {
        "input_tokens": 10,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 5,
        "output_tokens": 7,
    }
    told = answered(CHAT, MESSAGES, messages_answer(text("a"), usage=used))["usage"]
    assert (told["prompt_tokens"], told["completion_tokens"], told["total_tokens"]) == (115, 7, 122)
    assert told["prompt_tokens_details"]["cached_tokens"] == 100
    back = {"prompt_tokens": 115, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 100}}
    told = answered(MESSAGES, CHAT, chat_answer(content="a", usage=back))["usage"]
    assert (told["input_tokens"], told["cache_read_input_tokens"], told["output_tokens"]) == (15, 100, 7)
    told = answered(RESPONSES, MESSAGES, messages_answer(text("a"), usage=used))["usage"]
    assert (told["input_tokens"], told["input_tokens_details"]["cached_tokens"]) == (115, 100)


#: Usage as each format reports it: input, output, and read from the cache.
REPORTED: dict[WireFormat, Json] = {
    CHAT: {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
    RESPONSES: {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}},
    MESSAGES: {"input_tokens": 5, "output_tokens": 2, "cache_read_input_tokens": 4},
}


@pytest.mark.parametrize("wire", WireFormat)
@pytest.mark.parametrize("wrong", [-1, -(10**30), 10**30, 2**53 + 1])
def test_a_report_with_an_impossible_number_of_tokens_is_no_report(wire: WireFormat, wrong: int) -> None:
    def read(used: Json) -> Usage:
        return FORMATS[wire].usage(json.dumps({"usage": used}).encode())

    assert read(REPORTED[wire]) == Usage(9, 4, 2)
    for name, value in REPORTED[wire].items():
        odd = {"cached_tokens": wrong} if isinstance(value, dict) else wrong
        assert read({**REPORTED[wire], name: odd}) == Usage()


@pytest.mark.parametrize("wrong", [-1, 10**30, "7"])
def test_a_count_that_not_every_server_reports_is_left_out_alone(wrong: object) -> None:
    more = {"completion_tokens_details": {"reasoning_tokens": wrong}, "prompt_cache_hit_tokens": wrong}
    used = json.dumps({"usage": {**REPORTED[CHAT], **more}}).encode()
    assert FORMATS[CHAT].usage(used) == Usage(9, 4, 2)


@pytest.mark.parametrize("caller", [CHAT, RESPONSES])
@pytest.mark.parametrize("used", [{"input_tokens": -1, "output_tokens": 2}, {"input_tokens": "1"}, 7])
def test_a_wrong_report_of_usage_costs_no_translated_answer(caller: WireFormat, used: Any) -> None:
    answer = {**messages_answer(text("Paris")), "usage": used}
    told = answered(caller, MESSAGES, answer)
    assert "Paris" in json.dumps(told)
    assert told.get("usage") is None or told["usage"]["total_tokens"] == 0
    rest = of_messages(*block(0, text("Paris")))[1:]
    odd = sse.event(json.dumps({"type": "message_start", "message": {**answer, "content": []}}).encode())
    stream = streamed(caller, MESSAGES, [odd, *rest])
    assert b"Paris" in stream
    assert CLOSING[caller] in stream


def test_an_answer_without_usage() -> None:
    assert answered(MESSAGES, CHAT, chat_answer(content="a", usage=None))["usage"]["input_tokens"] == 0
    assert answered(RESPONSES, CHAT, chat_answer(content="a", usage=None))["usage"] is None


@pytest.mark.parametrize(
    ("stop", "finish", "status", "reason"),
    [
        ("refusal", "content_filter", "incomplete", "content_filter"),
        ("pause_turn", "stop", "completed", None),
        ("model_context_window_exceeded", "length", "incomplete", "max_output_tokens"),
        ("max_tokens", "length", "incomplete", "max_output_tokens"),
        ("stop_sequence", "stop", "completed", None),
        ("end_turn", "stop", "completed", None),
        ("of_tomorrow", "stop", "completed", None),
    ],
)
def test_why_an_answer_of_messages_ended(stop: str, finish: str, status: str, reason: str | None) -> None:
    answer = messages_answer(text("a"), stop=stop)
    assert answered(CHAT, MESSAGES, answer)["choices"][0]["finish_reason"] == finish
    told = answered(RESPONSES, MESSAGES, answer)
    assert (told["status"], (told["incomplete_details"] or {}).get("reason")) == (status, reason)


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "function_call", "of_tomorrow"])
def test_a_call_means_tool_use_whatever_the_finish_says(finish: str) -> None:
    told = answered(MESSAGES, CHAT, chat_answer(finish, tool_calls=[function("f", "", "c")]))
    assert told["stop_reason"] == "tool_use"
    [call] = told["content"]
    assert (call["type"], call["id"], call["name"], call["input"]) == ("tool_use", "c", "f", {})


def test_the_order_of_thinking_text_and_calls() -> None:
    answer = chat_answer(reasoning_content="hm", content="a", tool_calls=[function("f", "{}", "c")])
    blocks = answered(MESSAGES, CHAT, answer)["content"]
    assert [block["type"] for block in blocks] == ["thinking", "text", "tool_use"]
    items = answered(RESPONSES, CHAT, answer)["output"]
    assert [item["type"] for item in items] == ["reasoning", "message", "function_call"]
    said = [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        text("a"),
        {"type": "tool_use", "id": "c", "name": "f", "input": {"x": 1}},
    ]
    message = answered(CHAT, MESSAGES, messages_answer(*said, stop="tool_use"))["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("hm", "a")
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"x": 1}
    assert "sig" not in json.dumps(message)


def test_no_answer_says_that_it_was_made_in_1970() -> None:
    assert answered(CHAT, MESSAGES, messages_answer(text("a")))["created"] == NOW
    assert answered(RESPONSES, MESSAGES, messages_answer(text("a")))["created_at"] == NOW
    assert answered(CHAT, RESPONSES, responses_answer())["created"] == 5


def test_no_answer_is_redacted() -> None:
    words = "x and [REDACTED] and sk-upstream"
    assert answered(MESSAGES, CHAT, chat_answer(content=words))["content"][0]["text"] == words


CUSTOM_OF_CHAT = {"type": "custom", "custom": {"name": "patch", "description": "d"}}


@pytest.mark.parametrize("upstream", [CHAT, MESSAGES])
def test_calls_come_back_as_codex_knows_its_tools(upstream: WireFormat) -> None:
    arguments = ['{"command":["ls"]}', '{"input":"*** Begin\\n"}', "{}", '{"command":["ls","-l"]}']
    pairs = list(zip(CODEX_NAMES, arguments, strict=True))
    if upstream is CHAT:
        calls = [function(name, json_, f"c{at}") for at, (name, json_) in enumerate(pairs)]
        answer = chat_answer(tool_calls=calls)
    else:
        blocks = [
            {"type": "tool_use", "id": f"c{at}", "name": name, "input": json.loads(json_)}
            for at, (name, json_) in enumerate(pairs)
        ]
        answer = messages_answer(*blocks, stop="tool_use")
    output = answered(RESPONSES, upstream, answer, tools=CODEX["tools"])["output"]
    assert [item["type"] for item in output] == [
        "function_call",
        "custom_tool_call",
        "function_call",
        "local_shell_call",
    ]
    assert output[1]["input"] == "*** Begin\n"
    assert (output[2]["namespace"], output[2]["name"]) == ("mcp__docs", "find")
    assert output[3]["action"] == {"type": "exec", "env": {}, "command": ["ls", "-l"]}
    assert [item["call_id"] for item in output] == ["c0", "c1", "c2", "c3"]


def test_a_custom_tool_of_chat_comes_back_as_one() -> None:
    block = {"type": "tool_use", "id": "c", "name": "patch", "input": {"input": "*** Begin"}}
    told = answered(CHAT, MESSAGES, messages_answer(block, stop="tool_use"), tools=[CUSTOM_OF_CHAT])
    [call] = told["choices"][0]["message"]["tool_calls"]
    assert call == {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}


# Streams.


def chunk(delta: Json | None = None, finish: str | None = None, **more: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 5, "model": "m"}
    return sse.event(json.dumps({**head, "choices": choices, **more}).encode())


def piece(index: int | None, arguments: str = "", id_: str = "", name: str = "") -> Json:
    found: Json = {} if index is None else {"index": index}
    called: Json = {"arguments": arguments}
    if id_:
        found |= {"id": id_, "type": "function"}
    if name:
        called["name"] = name
    return {"tool_calls": [{**found, "function": called}]}


DONE = b"data: [DONE]\n\n"
BEGUN = chunk({"role": "assistant", "content": ""})
ENDED = (chunk({}, "tool_calls"), DONE)


def called(caller: WireFormat, stream: bytes) -> list[tuple[str, str, Any]]:
    """The calls of a stream as a client of the caller's puts them together."""
    found = CALLED[caller](payloads(stream))
    return [(id_, name, json.loads(arguments)) for id_, name, arguments in found]


def called_by_messages(events: list[Json]) -> list[list[str]]:
    found: list[list[str]] = []
    is_open = False
    for event in events:
        if event["type"] == "content_block_start":
            assert not is_open, "two blocks are open at once"
            is_open = True
            if event["content_block"]["type"] == "tool_use":
                assert event["content_block"]["input"] == {}
                found.append([event["content_block"]["id"], event["content_block"]["name"], ""])
        elif event["type"] == "content_block_delta" and event["delta"]["type"] == "input_json_delta":
            found[-1][2] += event["delta"]["partial_json"]
        elif event["type"] == "content_block_stop":
            is_open = False
    return found


def called_by_chat(events: list[Json]) -> list[list[str]]:
    found: list[list[str]] = []
    deltas = [choice["delta"] for event in events for choice in event.get("choices", ())]
    for call in [call for delta in deltas for call in delta.get("tool_calls") or ()]:
        if call["index"] == len(found):
            found.append([call["id"], call["function"]["name"], ""])
        found[call["index"]][2] += call["function"]["arguments"]
    return found


def called_by_responses(events: list[Json]) -> list[list[str]]:
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    calls = [item_ for item_ in done if item_["type"] == "function_call"]
    return [[call["call_id"], call["name"], call["arguments"]] for call in calls]


CALLED = {CHAT: called_by_chat, RESPONSES: called_by_responses, MESSAGES: called_by_messages}

TWO = [("a", "f", {"x": 1}), ("b", "g", {"y": 2})]
OF_CHAT: Mapping[str, list[bytes]] = {
    "fragments of two calls in turn": [
        BEGUN,
        chunk(piece(0, "", "a", "f")),
        chunk(piece(1, "", "b", "g")),
        chunk(piece(0, '{"x"')),
        chunk(piece(1, '{"y":')),
        chunk(piece(0, ":1}")),
        chunk(piece(1, "2}")),
        *ENDED,
    ],
    "both whole in one chunk": [
        BEGUN,
        chunk(
            {
                "tool_calls": [
                    piece(0, '{"x":1}', "a", "f")["tool_calls"][0],
                    piece(1, '{"y":2}', "b", "g")["tool_calls"][0],
                ]
            }
        ),
        *ENDED,
    ],
    "a second call at index 0": [
        BEGUN,
        chunk(piece(0, '{"x":1}', "a", "f")),
        chunk(piece(0, '{"y":2}', "b", "g")),
        *ENDED,
    ],
    "no index at all": [
        BEGUN,
        chunk(piece(None, '{"x":1}', "a", "f")),
        chunk(piece(None, '{"y":2}', "b", "g")),
        *ENDED,
    ],
    "the name and id again in every fragment": [
        BEGUN,
        chunk(piece(0, '{"x"', "a", "f")),
        chunk(piece(0, ":1}", "a", "f")),
        chunk(piece(1, '{"y"', "b", "g")),
        chunk(piece(1, ":2}", "b", "g")),
        *ENDED,
    ],
    "a finish of stop beside calls": [
        BEGUN,
        chunk(piece(0, '{"x":1}', "a", "f")),
        chunk(piece(1, '{"y":2}', "b", "g")),
        chunk({}, "stop"),
        DONE,
    ],
    "an empty first chunk as Azure sends it": [
        sse.event(b'{"id":"","object":"","created":0,"model":"","choices":[],"prompt_filter_results":[]}'),
        BEGUN,
        chunk(piece(0, '{"x":1}', "a", "f")),
        chunk(piece(1, '{"y":2}', "b", "g")),
        *ENDED,
    ],
    "a late chunk of usage": [
        BEGUN,
        chunk(piece(0, '{"x":1}', "a", "f")),
        chunk(piece(1, '{"y":2}', "b", "g")),
        chunk({}, "tool_calls"),
        chunk(usage={"prompt_tokens": 3, "completion_tokens": 4}),
        DONE,
    ],
    "usage null in every chunk": [
        chunk({"role": "assistant"}, usage=None),
        chunk(piece(0, '{"x":1}', "a", "f"), usage=None),
        chunk(piece(1, '{"y":2}', "b", "g"), usage=None),
        *ENDED,
    ],
}


@pytest.mark.parametrize("caller", [MESSAGES, RESPONSES])
@pytest.mark.parametrize("case", OF_CHAT)
def test_two_calls_streamed_by_chat(caller: WireFormat, case: str) -> None:
    stream = streamed(caller, CHAT, OF_CHAT[case])
    assert called(caller, stream) == TWO
    last = payloads(stream)[-2 if caller is MESSAGES else -1]
    if caller is MESSAGES:
        assert last["delta"]["stop_reason"] == "tool_use"
    else:
        assert last["type"] == "response.completed"


def of_messages(*events: Json, named: bool = True) -> list[bytes]:
    start: Json = {"type": "message_start", "message": {**messages_answer(), "stop_reason": None}}
    end: list[Json] = [
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    ]
    return [
        sse.event(json.dumps(event).encode(), event["type"] if named else "")
        for event in (start, *events, *end)
    ]


def block(index: int, content: Json, *deltas: Json) -> list[Json]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def of_json(part: str) -> Json:
    return {"type": "input_json_delta", "partial_json": part}


def use(id_: str, name: str, input_: Json | None = None) -> Json:
    return {"type": "tool_use", "id": id_, "name": name, "input": input_ or {}}


OF_MESSAGES: Mapping[str, list[bytes]] = {
    "fragments": of_messages(
        *block(0, use("a", "f"), of_json(""), of_json('{"x"'), of_json(":1}")),
        *block(1, use("b", "g"), of_json('{"y":2}')),
    ),
    "the whole input at the start": of_messages(
        *block(0, use("a", "f", {"x": 1})), *block(1, use("b", "g", {"y": 2}))
    ),
    "no event lines": of_messages(
        *block(0, use("a", "f"), of_json('{"x":1}')),
        *block(1, use("b", "g"), of_json('{"y":2}')),
        named=False,
    ),
}


@pytest.mark.parametrize("caller", [CHAT, RESPONSES])
@pytest.mark.parametrize("case", OF_MESSAGES)
def test_two_calls_streamed_by_messages(caller: WireFormat, case: str) -> None:
    assert called(caller, streamed(caller, MESSAGES, OF_MESSAGES[case])) == TWO


def of_responses(*events: Json, final: Json | None = None, named: bool = True) -> list[bytes]:
    created = {"type": "response.created", "response": responses_answer(status="in_progress")}
    completed = {"type": "response.completed", "response": final or responses_answer()}
    return [
        sse.event(json.dumps({"sequence_number": at, **event}).encode(), event["type"] if named else "")
        for at, event in enumerate((created, *events, completed))
    ]


def item(at: int, id_: str, name: str, arguments: str = "") -> Json:
    return {"type": "function_call", "id": f"fc_{at}", "call_id": id_, "name": name, "arguments": arguments}


def added(at: int, id_: str, name: str) -> Json:
    return {"type": "response.output_item.added", "output_index": at, "item": item(at, id_, name)}


def arguments_(at: int, kind: str, part: str) -> Json:
    member = "delta" if kind == "delta" else "arguments"
    return {
        "type": f"response.function_call_arguments.{kind}",
        "output_index": at,
        "item_id": f"fc_{at}",
        member: part,
    }


def item_done(at: int, id_: str, name: str, arguments: str) -> Json:
    return {"type": "response.output_item.done", "output_index": at, "item": item(at, id_, name, arguments)}


FINAL = responses_answer(item(0, "a", "f", '{"x":1}'), item(1, "b", "g", '{"y":2}'))
OF_RESPONSES: Mapping[str, list[bytes]] = {
    "fragments in turn": of_responses(
        added(0, "a", "f"),
        added(1, "b", "g"),
        arguments_(0, "delta", '{"x"'),
        arguments_(1, "delta", '{"y":2}'),
        arguments_(0, "delta", ":1}"),
        item_done(0, "a", "f", '{"x":1}'),
        item_done(1, "b", "g", '{"y":2}'),
        final=FINAL,
    ),
    "arguments in .done alone": of_responses(
        added(0, "a", "f"),
        arguments_(0, "done", '{"x":1}'),
        added(1, "b", "g"),
        arguments_(1, "done", '{"y":2}'),
        final=FINAL,
    ),
    "items in .done alone": of_responses(
        item_done(0, "a", "f", '{"x":1}'), item_done(1, "b", "g", '{"y":2}'), final=FINAL
    ),
    "the final snapshot alone": of_responses(final=FINAL),
    "no event lines": of_responses(
        added(0, "a", "f"),
        arguments_(0, "delta", '{"x":1}'),
        added(1, "b", "g"),
        arguments_(1, "delta", '{"y":2}'),
        final=FINAL,
        named=False,
    ),
}


@pytest.mark.parametrize("caller", [CHAT, MESSAGES])
@pytest.mark.parametrize("case", OF_RESPONSES)
def test_two_calls_streamed_by_responses(caller: WireFormat, case: str) -> None:
    stream = streamed(caller, RESPONSES, OF_RESPONSES[case])
    assert called(caller, stream) == TWO
    told = payloads(stream)
    if caller is CHAT:
        finishes = [choice["finish_reason"] for event in told for choice in event["choices"]]
        assert list(filter(None, finishes)) == ["tool_calls"]
    else:
        assert told[-2]["delta"]["stop_reason"] == "tool_use"


EMPTY_CALL: dict[WireFormat, list[bytes]] = {
    CHAT: [BEGUN, chunk(piece(0, "", "a", "f")), *ENDED],
    MESSAGES: of_messages(*block(0, use("a", "f"))),
    RESPONSES: of_responses(added(0, "a", "f"), final=responses_answer(item(0, "a", "f"))),
}


@pytest.mark.parametrize(("caller", "upstream"), PAIRS)
def test_a_call_without_arguments_is_an_empty_object(caller: WireFormat, upstream: WireFormat) -> None:
    assert called(caller, streamed(caller, upstream, EMPTY_CALL[upstream])) == [("a", "f", {})]


CLOSING = {CHAT: b"[DONE]", MESSAGES: b"message_stop", RESPONSES: b"response.completed"}
WORDS: dict[WireFormat, list[bytes]] = {
    CHAT: [BEGUN, chunk({"content": "hel"}), chunk({"content": "lo"}), chunk({}, "stop"), DONE],
    MESSAGES: of_messages(
        *block(0, text(""), {"type": "text_delta", "text": "hel"}, {"type": "text_delta", "text": "lo"})
    ),
    RESPONSES: of_responses(
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "hel"},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "lo"},
    ),
}


@pytest.mark.parametrize(("caller", "upstream"), PAIRS)
def test_a_stream_cut_anywhere_is_never_closed(caller: WireFormat, upstream: WireFormat) -> None:
    for blocks in (WORDS[upstream], EMPTY_CALL[upstream]):
        last = next(
            at
            for at, block_ in enumerate(blocks)
            if any(mark in block_ for mark in (b'"finish_reason": "', b"message_stop", b"response.completed"))
        )
        for cut in range(last):
            request = asked(caller, upstream, **plain(caller), stream=True)
            translation = StreamTranslation(request)
            told = b"".join([translation.feed(block_) for block_ in blocks[:cut]])
            assert CLOSING[caller] not in told
            assert not translation.is_whole


ERRORS: dict[WireFormat, list[bytes]] = {
    CHAT: [sse.event(b'{"error":{"message":"broken","type":"server_error","code":null}}')],
    MESSAGES: [
        sse.event(b'{"type":"error","error":{"type":"overloaded_error","message":"broken"}}', "error")
    ],
    RESPONSES: [
        sse.event(b'{"type":"error","code":"server_error","message":"broken","param":null}', "error"),
        sse.event(
            b'{"type":"response.failed","response":{"id":"r","status":"failed","error":'
            b'{"code":"server_error","message":"broken"}}}',
            "response.failed",
        ),
    ],
}


@pytest.mark.parametrize("caller", [MESSAGES, RESPONSES])
def test_an_answer_of_thousands_of_calls_is_none(caller: WireFormat) -> None:
    """Three bytes of an upstream are a call, which takes a hundred times as many in another format."""
    for count, values, is_read in (
        (MAX_PARTS, 0, True),
        (MAX_PARTS + 1, 0, False),
        (1, MAX_VALUES - 100, True),
        (1, MAX_VALUES, False),
    ):
        message: Json = {"content": None, "tool_calls": [{}] * count}
        answer: Json = {"id": "c", "choices": [{"message": message}], "more": [0] * values}
        with nullcontext() if is_read else pytest.raises(msgspec.ValidationError, match="more than"):
            answered(caller, CHAT, answer)
    crowded = {"id": "c", "choices": [{"delta": {"content": "hi"}}], "more": [0] * MAX_VALUES}
    with pytest.raises(msgspec.ValidationError, match="more than"):
        streamed(caller, CHAT, [sse.event(json.dumps(crowded).encode())])
    begun = {"id": "a", "function": {"name": "f", "arguments": "{}"}}
    for size in (1, MAX_PARTS + 1):  # calls of an event
        calls = [begun | {"index": at} for at in range(MAX_PARTS + 1)]
        deltas = [{"delta": {"tool_calls": calls[at : at + size]}} for at in range(0, len(calls), size)]
        blocks = [sse.event(json.dumps({"id": "c", "choices": [each]}).encode()) for each in deltas]
        with pytest.raises(msgspec.ValidationError, match="more than"):
            streamed(caller, CHAT, blocks)


@pytest.mark.parametrize(("caller", "upstream"), PAIRS)
def test_an_error_in_mid_stream(caller: WireFormat, upstream: WireFormat) -> None:
    for error in ERRORS[upstream]:
        stream = streamed(caller, upstream, [*WORDS[upstream][:2], error])
        assert CLOSING[caller] not in stream
        told = payloads(stream)
        if caller is RESPONSES:
            assert [event["type"] for event in told[-2:]] == ["error", "response.failed"]
            assert told[-1]["response"]["error"]["message"] == "broken"
        else:
            assert told[-1]["error"]["message"] == "broken"
            assert told[-1].get("type") == ("error" if caller is MESSAGES else None)


def test_a_delta_with_output_tokens_alone() -> None:
    stream = streamed(CHAT, MESSAGES, WORDS[MESSAGES])
    [usage] = [event["usage"] for event in payloads(stream) if event.get("usage")]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (1, 4)


def test_the_input_of_a_custom_tool_is_streamed_as_text() -> None:
    blocks = [
        BEGUN,
        chunk(piece(0, "", "a", "apply_patch")),
        chunk(piece(0, '{"input":"*** ')),
        chunk(piece(0, 'Begin\\n"}')),
        chunk(piece(1, '{"command":["ls"]}', "b", "local_shell")),
        *ENDED,
    ]
    events = payloads(streamed(RESPONSES, CHAT, blocks, tools=CODEX["tools"]))
    deltas = [e["delta"] for e in events if e["type"] == "response.custom_tool_call_input.delta"]
    assert deltas == ["*** ", "Begin\n"]
    items = [e["item"] for e in events if e["type"] == "response.output_item.done"]
    assert (items[0]["type"], items[0]["input"]) == ("custom_tool_call", "*** Begin\n")
    assert (items[1]["type"], items[1]["action"]["command"]) == ("local_shell_call", ["ls"])


def test_no_stream_says_that_it_was_made_in_1970() -> None:
    assert {event["created"] for event in payloads(streamed(CHAT, MESSAGES, WORDS[MESSAGES]))} == {NOW}
    first = payloads(streamed(RESPONSES, MESSAGES, WORDS[MESSAGES]))[0]
    assert first["response"]["created_at"] == NOW


@pytest.mark.parametrize(("caller", "upstream"), [(MESSAGES, CHAT), (RESPONSES, CHAT), (CHAT, MESSAGES)])
def test_no_two_answers_of_a_conversation_have_one_id(caller: WireFormat, upstream: WireFormat) -> None:
    """Clients take two answers with one id for one; some servers count theirs, or give each the same."""
    answer = chat_answer(content="a") if upstream is CHAT else messages_answer(text("a"))
    said = [{"role": role, "content": "hi"} for role in ("user", "assistant", "user")]
    member = "input" if caller is RESPONSES else "messages"
    first = answered(caller, upstream, answer)["id"]
    second = answered(caller, upstream, answer, **{member: said})["id"]
    assert second == f"{first}_3"


def test_a_streamed_answer_has_such_an_id_too() -> None:
    chunk = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "a"}}]}
    said = [{"role": role, "content": "hi"} for role in ("user", "assistant", "user")]
    stream = streamed(MESSAGES, CHAT, [b"data: " + json.dumps(chunk).encode() + b"\n\n"], messages=said)
    assert payloads(stream)[0]["message"]["id"] == "c_3"

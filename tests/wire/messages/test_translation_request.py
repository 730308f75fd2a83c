"""Messages requests, read into a conversation and written from one."""

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.errors import MalformedRequest
from pointsman.vocabulary import Role, WireFormat
from pointsman.wire.constructs import Report, Untranslatable
from pointsman.wire.conversation import (
    Call,
    Conversation,
    Media,
    Message,
    Opaque,
    Part,
    Refusal,
    Result,
    Shape,
    Text,
    Thinking,
    Tool,
    ToolChoice,
)
from pointsman.wire.messages._translation_blocks import call_id
from pointsman.wire.messages.translation import CODEC

CHAT, RESPONSES, MESSAGES = WireFormat.CHAT, WireFormat.RESPONSES, WireFormat.MESSAGES
HI = (Message(Role.USER, (Text("hi"),)),)
OBJECT = msgspec.Raw(b'{"type":"object"}')


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def read(**members: Any) -> Conversation:
    return CODEC.read_request(msgspec.json.encode({"model": "m", "messages": [], **members}))


def written(
    source: WireFormat = CHAT, messages: tuple[Message, ...] = HI, **members: Any
) -> tuple[dict[str, Any], list[str]]:
    """The body, and what was changed."""
    report = Report(source, MESSAGES)
    body = CODEC.write_request(Conversation(model="m", messages=messages, **members), report)
    return json.loads(body), report.changed


def content(*parts: Part, role: Role = Role.USER, source: WireFormat = CHAT) -> list[dict[str, Any]]:
    body, _ = written(source, (*HI, Message(Role.ASSISTANT, (Text("."),)), Message(role, parts)))
    blocks: list[dict[str, Any]] = body["messages"][-1]["content"]
    return blocks


@pytest.mark.parametrize(
    ("block", "parts"),
    [
        ({"type": "text", "text": "a"}, (Text("a"),)),
        ({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, (Text("a", cached=True),)),
        ({"type": "text", "text": "a", "cache_control": None, "citations": None}, (Text("a"),)),
        ({"type": "text", "text": ""}, ()),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
            (Media("image", "image/png", "AAAA"),),
        ),
        (
            {"type": "image", "source": {"type": "url", "url": "https://a/b"}},
            (Media("image", url="https://a/b"),),
        ),
        ({"type": "image", "source": {"type": "file", "file_id": "f"}}, (Media("image", file_id="f"),)),
        (
            {
                "type": "document",
                "title": "T",
                "context": "C",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"},
            },
            (Text("C"), Media("document", "application/pdf", "JVBE", name="T")),
        ),
        (
            {"type": "document", "title": None, "source": {"type": "url", "url": "https://a/b.pdf"}},
            (Media("document", url="https://a/b.pdf"),),
        ),
        (
            {
                "type": "document",
                "title": "T",
                "source": {"type": "text", "media_type": "text/plain", "data": "w"},
            },
            (Text("T"), Text("w")),
        ),
        (
            {
                "type": "document",
                "source": {
                    "type": "content",
                    "content": [
                        {"type": "text", "text": "w"},
                        {"type": "image", "source": {"type": "url", "url": "https://a/b"}},
                    ],
                },
            },
            (Text("w"), Media("image", url="https://a/b")),
        ),
        (
            {"type": "tool_use", "id": "t", "name": "f", "input": {"b": 1, "a": 2}},
            (Call("t", "f", '{"b":1,"a":2}'),),
        ),
        ({"type": "tool_use", "id": "t", "name": "f"}, (Call("t", "f", "{}"),)),
        ({"type": "tool_result", "tool_use_id": "t", "content": "x"}, (Result("t", (Text("x"),)),)),
        ({"type": "tool_result", "tool_use_id": "t"}, (Result("t"),)),
        (
            {
                "type": "tool_result",
                "tool_use_id": "t",
                "is_error": True,
                "content": [
                    {"type": "text", "text": "x"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}},
                ],
            },
            (Result("t", (Text("x"), Media("image", "image/png", "AA")), is_error=True),),
        ),
        (
            {
                "type": "tool_result",
                "tool_use_id": "t",
                "content": [{"type": "tool_reference", "tool_name": "f"}],
            },
            (Result("t", (Text('{"type":"tool_reference","tool_name":"f"}'),)),),
        ),
        (
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            (Thinking("hm", "s", author=MESSAGES),),
        ),
        ({"type": "thinking", "thinking": "hm", "signature": ""}, (Thinking("hm"),)),
        ({"type": "redacted_thinking", "data": "x"}, (Thinking(encrypted="x", author=MESSAGES),)),
    ],
)
def test_block_is_read(block: dict[str, Any], parts: tuple[Part, ...]) -> None:
    assert read(messages=[{"role": "assistant", "content": [block]}]).messages[0].parts == parts


@pytest.mark.parametrize(
    "block",
    [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "web_search_result"}]},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s",
            "content": {"type": "web_search_tool_result_error"},
        },
        {
            "type": "search_result",
            "source": "https://a",
            "title": "t",
            "content": [{"type": "text", "text": "x"}],
        },
        {"type": "mcp_tool_use", "id": "s", "name": "x", "server_name": "y", "input": {}},
        {"type": "never_heard_of", "thing": 1},
    ],
)
def test_what_only_messages_has_stays_json_and_is_refused_from_elsewhere(block: dict[str, Any]) -> None:
    part = read(messages=[{"role": "assistant", "content": [block]}]).messages[0].parts[0]
    assert part == Opaque(MESSAGES, block["type"], raw(block))
    assert content(part, source=MESSAGES) == [block]
    with pytest.raises(Untranslatable, match="web_search_call"):
        written(RESPONSES, (*HI, Message(Role.ASSISTANT, (Opaque(RESPONSES, "web_search_call", raw({})),))))


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"system": "s"}, {"system": (Text("s"),)}),
        ({"system": ""}, {}),
        (
            {"system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": {}}]},
            {"system": (Text("a"), Text("b", cached=True))},
        ),
        ({"max_tokens": 5}, {"max_tokens": 5}),
        ({"stop_sequences": ["a", "b"], "stream": True}, {"stop": ("a", "b"), "stream": True}),
        ({"temperature": 1, "top_p": 0.5}, {"temperature": 1.0, "top_p": 0.5}),
        ({"metadata": {"user_id": "u"}}, {"user": "u"}),
        ({"metadata": None, "tools": None, "tool_choice": None, "thinking": None}, {}),
        ({"tool_choice": {"type": "auto"}}, {"choice": ToolChoice("auto")}),
        (
            {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
            {"choice": ToolChoice("required"), "parallel": False},
        ),
        ({"tool_choice": {"type": "tool", "name": "f"}}, {"choice": ToolChoice("named", "f")}),
        ({"tool_choice": {"type": "none"}}, {"choice": ToolChoice("none")}),
        ({"thinking": {"type": "enabled", "budget_tokens": 4096}}, {"thinking_budget": 4096}),
        ({"thinking": {"type": "disabled"}}, {"thinking_budget": 0}),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}, {"effort": "high"}),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
            {"shape": Shape(OBJECT)},
        ),
        ({"output_format": {"type": "json_schema", "schema": {"type": "object"}}}, {"shape": Shape(OBJECT)}),
        (
            {"tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}]},
            {"tools": (Tool("f", "d", OBJECT),)},
        ),
        (
            {"tools": [{"type": "custom", "name": "f", "input_schema": {"type": "object"}, "strict": True}]},
            {"tools": (Tool("f", "", OBJECT, strict=True),)},
        ),
        (
            {"tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 5}]},
            {
                "tools": (
                    Tool(
                        "web_search",
                        kind="web_search_20250305",
                        raw=raw({"type": "web_search_20250305", "name": "web_search", "max_uses": 5}),
                    ),
                )
            },
        ),
        (
            {"top_k": 4, "service_tier": "auto", "container": None, "new_beta": [1]},
            {"options": {"top_k": raw(4), "service_tier": raw("auto"), "new_beta": raw([1])}},
        ),
    ],
)
def test_members_are_read(members: dict[str, Any], expected: dict[str, Any]) -> None:
    assert read(**members) == Conversation(model="m", **expected)


def test_hints_inside_the_content_are_told_to_the_other_formats() -> None:
    cached = {"type": "ephemeral"}
    found = read(
        tools=[{"name": "f", "input_schema": {}, "cache_control": cached}],
        messages=[
            {
                "role": "user",
                "content": [
                    {
                        "type": "document",
                        "citations": {"enabled": True},
                        "source": {"type": "text", "media_type": "text/plain", "data": "w"},
                    }
                ],
            }
        ],
    )
    assert found.options == {"cache_control": raw(cached), "citations": raw({"enabled": True})}


def test_roles() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": [result]},
        {"role": "user", "content": [result, {"type": "text", "text": "c"}]},
        {"role": "system", "content": "d"},
        {"role": "user", "content": ""},
    ]
    roles = [Role.USER, Role.ASSISTANT, Role.TOOL, Role.USER, Role.SYSTEM, Role.USER]
    assert [message.role for message in read(messages=messages).messages] == roles


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"model":"m"}',
        b'{"messages":[{"role":"user","content":3}]}',
        b'{"messages":[{"role":"user","content":[3]}]}',
        b'{"messages":[],"tool_choice":{"type":"maybe"}}',
        b'{"messages":[{"role":"user","content":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
    ],
)
def test_another_shape_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedRequest, match="Messages format"):
        CODEC.read_request(body)


def test_half_a_pair_is_replaced() -> None:
    body = rb'{"messages":[{"role":"user","content":[{"type":"text","text":"a\ud83d"}]}]}'
    assert CODEC.read_request(body).messages[0].parts == (Text("a\ufffd"),)


def test_parallel_calls_then_results_and_a_text() -> None:
    messages = (
        *HI,
        Message(Role.ASSISTANT, (Text(""), Call("call:1", "f", ""), Call("call.1", "g", '{"a": 1}'))),
        Message(Role.USER, (Text("meanwhile"),)),
        Message(Role.TOOL, (Result("call.1", (Text("y"),)),)),
        Message(Role.TOOL, (Result("call:1", (Text("x"),), is_error=True),)),
        Message(Role.USER, (Text("go on"), Text(" \n"))),
    )
    body, changed = written(CHAT, messages)
    first, second = call_id("call:1"), call_id("call.1")
    assert first != second
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": first, "name": "f", "input": {}},
                {"type": "tool_use", "id": second, "name": "g", "input": {"a": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": second, "content": "y"},
                {"type": "tool_result", "tool_use_id": first, "is_error": True, "content": "x"},
                {"type": "text", "text": "meanwhile"},
                {"type": "text", "text": "go on"},
            ],
        },
    ]
    assert changed == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", {}),
        (" ", {}),
        ("null", {}),
        ('{"a":1}', {"a": 1}),
        ('{"a":', {"_malformed_arguments": '{"a":'}),
        ("[1]", {"_malformed_arguments": "[1]"}),
        ('{"a":tru}', {"_malformed_arguments": '{"a":tru}'}),
    ],
)
def test_input_is_always_an_object(arguments: str, expected: object) -> None:
    assert content(Call("c", "f", arguments), role=Role.ASSISTANT)[-1]["input"] == expected


def test_malformed_arguments_are_reported() -> None:
    _, changed = written(CHAT, (*HI, Message(Role.ASSISTANT, (Call("c", "f", "{"),))))
    assert changed == ["malformed_arguments"]


def test_custom_and_namespaced_tools() -> None:
    tools = (Tool("apply_patch", "d", kind="custom"), Tool("read", schema=OBJECT, namespace="mcp"))
    calls = Message(
        Role.ASSISTANT,
        (Call("1", "apply_patch", '*** "x', custom=True), Call("2", "read", "{}", namespace="mcp")),
    )
    body, changed = written(RESPONSES, (*HI, calls), tools=tools)
    free = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    assert body["tools"] == [
        {"name": "apply_patch", "description": "d", "input_schema": free},
        {"name": "mcp__read", "input_schema": {"type": "object"}},
    ]
    assert [(call["name"], call["input"]) for call in body["messages"][1]["content"]] == [
        ("apply_patch", {"input": '*** "x'}),
        ("mcp__read", {}),
    ]
    assert changed == ["custom_tool", "namespace"]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (b"", {"type": "object", "properties": {}}),
        (b"null", {"type": "object", "properties": {}}),
        (b"{}", {"type": "object"}),
        (b'{"properties":{"a":{}}}', {"type": "object", "properties": {"a": {}}}),
        (b'{ "type": "object", "x": 1}', {"type": "object", "x": 1}),
    ],
)
def test_input_schema_has_a_type(schema: bytes, expected: object) -> None:
    body, _ = written(tools=(Tool("f", schema=msgspec.Raw(schema)),))
    assert body["tools"] == [{"name": "f", "input_schema": expected}]


@pytest.mark.parametrize(
    ("media", "block"),
    [
        (
            Media("image", "image/jpg", "AA"),
            {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "AA"}},
        ),
        (
            Media("image", data="iVBORw0"),
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0"}},
        ),
        (
            Media("image", url="data:image/gif;base64,R0lG"),
            {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "R0lG"}},
        ),
        (
            Media("image", url="https://a/b", detail="auto"),
            {"type": "image", "source": {"type": "url", "url": "https://a/b"}},
        ),
        (
            Media("document", data="JVBE", name="a.pdf"),
            {
                "type": "document",
                "title": "a.pdf",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"},
            },
        ),
        (
            Media("document", "text/csv", base64.b64encode(b"a,b").decode()),
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a,b"}},
        ),
    ],
)
def test_media_is_written(media: Media, block: dict[str, Any]) -> None:
    assert content(media) == [block]
    assert content(Result("t", (media,))) == [{"type": "tool_result", "tool_use_id": "t", "content": [block]}]


@pytest.mark.parametrize(
    ("part", "field"),
    [
        (Media("audio", "audio/wav", "AA"), "input_audio"),
        (Media("document", "application/zip", "AA"), "file.file_data"),
        (Media("image", file_id="file-1"), "file.file_id"),
        (Opaque(RESPONSES, "file_search_call"), "file_search_call"),
    ],
)
def test_part_is_refused_by_name(part: Part, field: str) -> None:
    with pytest.raises(Untranslatable) as refusal:
        content(part)
    assert refusal.value.param == field
    assert field in refusal.value.message


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"options": {"n": raw(2)}}, "n"),
        ({"options": {"logprobs": msgspec.Raw(b"true")}}, "logprobs"),
        ({"options": {"top_logprobs": raw(3)}}, "top_logprobs"),
        ({"options": {"include": raw(["message.output_text.logprobs"])}}, "include"),
        ({"options": {"logit_bias": raw({"1": 2})}}, "logit_bias"),
        ({"options": {"previous_response_id": raw("r")}}, "previous_response_id"),
        ({"options": {"background": msgspec.Raw(b"true")}}, "background"),
        ({"options": {"prompt": raw({"id": "p"})}}, "prompt"),
        ({"tools": (Tool("web_search", kind="web_search"),)}, "web_search"),
        ({"shape": Shape()}, "text.format"),
        ({"stop": ("\n",)}, "blank_stop"),
        ({"messages": ()}, "input"),
        ({"messages": (Message(Role.USER, (Text(" "),)),)}, "input"),
    ],
)
def test_member_is_refused_by_name(members: dict[str, Any], field: str) -> None:
    with pytest.raises(Untranslatable) as refusal:
        written(RESPONSES, **members)
    assert refusal.value.param == field


def test_hints_are_left_out_and_said() -> None:
    options: dict[str, Any] = {
        "seed": 1,
        "frequency_penalty": 0.5,
        "presence_penalty": 0.1,
        "store": True,
        "metadata": {"a": "b"},
        "service_tier": "flex",
        "verbosity": "low",
    }
    body, changed = written(options={name: raw(value) for name, value in options.items()})
    assert body == {
        "model": "m",
        "max_tokens": 16_384,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }
    assert changed == ["seed", "penalties", "stored", "metadata", "service_tier", "unknown"]


def test_what_asks_for_nothing_is_not_mentioned() -> None:
    options: dict[str, Any] = {
        "n": 1,
        "logprobs": False,
        "store": False,
        "background": False,
        "presence_penalty": 0,
        "metadata": {},
        "service_tier": "auto",
        "stream_options": {"include_usage": True},
        "include": ["reasoning.encrypted_content"],
        "seed": None,
    }
    _, changed = written(options={name: raw(value) for name, value in options.items()})
    assert changed == []


def test_own_options_come_back() -> None:
    body, changed = written(MESSAGES, options={"top_k": raw(3), "service_tier": raw("standard_only")})
    assert (body["top_k"], body["service_tier"], changed) == (3, "standard_only", [])


def test_system_texts() -> None:
    later = Message(Role.SYSTEM, (Text("be brief"),))
    body, changed = written(CHAT, (*HI, later), system=(Text("a"), Text(" "), Text("b", cached=True)))
    assert body["system"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}},
    ]
    assert body["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "hi"},
                {"type": "text", "text": "<system>\nbe brief\n</system>"},
            ],
        }
    ]
    assert changed == ["late_system"]


@pytest.mark.parametrize(
    ("choice", "parallel", "expected"),
    [
        (None, None, None),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        (ToolChoice("auto"), True, {"type": "auto"}),
        (ToolChoice("required"), False, {"type": "any", "disable_parallel_tool_use": True}),
        (ToolChoice("named", "f"), None, {"type": "tool", "name": "f"}),
        (ToolChoice("none"), False, {"type": "none"}),
    ],
)
def test_tool_choice(choice: ToolChoice | None, parallel: bool | None, expected: object) -> None:
    body, _ = written(tools=(Tool("f", schema=OBJECT),), choice=choice, parallel=parallel)
    assert body.get("tool_choice") == expected
    assert "tool_choice" not in written(choice=choice, parallel=parallel)[0]


@pytest.mark.parametrize(
    ("members", "limits", "changed"),
    [
        ({}, (16_384, None), []),
        ({"max_tokens": 100}, (100, None), []),
        ({"effort": "none"}, (16_384, None), ["effort"]),
        ({"effort": "low"}, (16_384, 2_048), ["effort"]),
        ({"effort": "medium"}, (16_384, 8_192), ["effort"]),
        ({"effort": "high"}, (31_744, 24_576), ["effort"]),
        ({"effort": "high", "max_tokens": 40_000}, (40_000, 24_576), ["effort"]),
        ({"effort": "high", "max_tokens": 24_576}, (24_576, 12_288), ["effort"]),
        ({"effort": "high", "max_tokens": 2_000}, (2_000, None), ["effort"]),
        ({"effort": "low", "choice": ToolChoice("required")}, (16_384, None), ["effort", "thinking_off"]),
    ],
)
def test_thinking_budget_stays_below_the_limit(
    members: dict[str, Any], limits: tuple[int, int | None], changed: list[str]
) -> None:
    body, reported = written(**members)
    assert (body["max_tokens"], body.get("thinking", {}).get("budget_tokens")) == limits
    assert reported == changed


@pytest.mark.parametrize(
    ("members", "sent", "changed"),
    [
        ({"temperature": 0.3}, {"temperature": 0.3}, []),
        ({"temperature": 1.7}, {"temperature": 1.0}, ["temperature"]),
        ({"temperature": 0.3, "top_p": 1.0}, {"temperature": 0.3}, []),
        ({"temperature": 0.3, "top_p": 0.9}, {"temperature": 0.3}, ["top_p"]),
        ({"top_p": 0.9}, {"top_p": 0.9}, []),
        ({"temperature": 0.3, "effort": "low"}, {"temperature": 1.0}, ["effort", "temperature"]),
        ({"top_p": 0.9, "effort": "low"}, {}, ["effort", "top_p"]),
    ],
)
def test_sampling(members: dict[str, Any], sent: dict[str, float], changed: list[str]) -> None:
    body, reported = written(**members)
    assert {name: body[name] for name in ("temperature", "top_p") if name in body} == sent
    assert reported == changed


CALLED = Message(Role.ASSISTANT, (Call("c", "f", "{}"),))
RETURNED = Message(Role.TOOL, (Result("c", (Text("x"),)),))


def test_reasoning_of_others_is_never_sent() -> None:
    foreign = Thinking("secret", "sig"), Thinking(encrypted="blob", id="rs"), Thinking("b", author=RESPONSES)
    body, changed = written(RESPONSES, (*HI, Message(Role.ASSISTANT, (*foreign, Text("a"))), *HI))
    assert body["messages"][1] == {"role": "assistant", "content": [{"type": "text", "text": "a"}]}
    assert changed == ["thinking_history"]


def test_reasoning_brought_back_is_sent_and_thinking_goes_on() -> None:
    own = Thinking("hm", "sig", author=MESSAGES), Thinking(encrypted="blob", author=MESSAGES)
    called = Message(Role.ASSISTANT, (*own, *CALLED.parts))
    body, changed = written(RESPONSES, (*HI, called, RETURNED), effort="low")
    assert body["messages"][1]["content"][:2] == [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "blob"},
    ]
    assert (body["thinking"]["budget_tokens"], changed) == (2_048, ["effort"])


def test_no_thinking_in_a_turn_that_began_without() -> None:
    body, changed = written(CHAT, (*HI, CALLED, RETURNED), effort="low")
    assert "thinking" not in body
    assert changed == ["effort", "thinking_off"]
    answered = Message(Role.ASSISTANT, (Text("done"),))
    assert "thinking" in written(CHAT, (*HI, CALLED, RETURNED, answered, *HI), effort="low")[0]


def test_result_without_words() -> None:
    assert content(Result("t")) == [{"type": "tool_result", "tool_use_id": "t"}]
    failed = {"type": "tool_result", "tool_use_id": "t", "is_error": True, "content": "Error"}
    assert content(Result("t", is_error=True)) == [failed]
    assert content(Result("t", (Text(" "),), is_error=True)) == [failed]


def test_beginning_of_the_answer_ends_with_a_word() -> None:
    assert content(Refusal("no"), Text("so: "), role=Role.ASSISTANT) == [
        {"type": "text", "text": "."},
        {"type": "text", "text": "no"},
        {"type": "text", "text": "so:"},
    ]


IDS = st.from_regex(r"\A[a-zA-Z0-9_-]{1,8}\Z")
WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(
    lambda text: text == text.rstrip() != ""
)
OBJECTS = st.dictionaries(st.text("ab"), st.integers(0, 9)).map(lambda value: json.dumps(value))
TEXTS = st.builds(Text, WORDS, st.booleans())
IMAGES = st.builds(Media, st.just("image"), st.just("image/png"), st.just("AAAA"))
RESULTS = st.builds(Result, IDS, st.lists(TEXTS | IMAGES, min_size=1, max_size=2).map(tuple), st.booleans())
THOUGHTS = st.builds(Thinking, WORDS, WORDS, author=st.just(MESSAGES))
SAID = st.lists(TEXTS | THOUGHTS | st.builds(Call, IDS, WORDS, OBJECTS), min_size=1, max_size=3)
ASKED = st.lists(TEXTS | IMAGES, min_size=1, max_size=2)


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    messages = [Message(Role.USER, tuple(draw(ASKED)))]
    for _ in range(draw(st.integers(0, 2))):
        messages.append(Message(Role.ASSISTANT, tuple(draw(SAID))))
        results = draw(st.lists(RESULTS, max_size=2))
        asked = draw(ASKED) if not results or draw(st.booleans()) else []
        messages.append(Message(Role.USER if asked else Role.TOOL, (*results, *asked)))
    tools = draw(st.lists(st.builds(Tool, WORDS, WORDS, st.just(OBJECT)), min_size=1, max_size=2))
    modes = st.none() | st.sampled_from(
        [ToolChoice("auto"), ToolChoice("required"), ToolChoice("named", "f")]
    )
    choice = draw(modes)
    return Conversation(
        model="m",
        system=tuple(draw(st.lists(TEXTS, max_size=2))),
        messages=tuple(messages),
        tools=tuple(tools),
        choice=choice,
        parallel=False if choice and draw(st.booleans()) else None,
        max_tokens=draw(st.integers(4_000, 9_000)),
        temperature=draw(st.none() | st.just(1.0)),
        stop=tuple(draw(st.lists(WORDS, max_size=2))),
        stream=draw(st.booleans()),
        shape=draw(st.none() | st.just(Shape(OBJECT))),
        effort=draw(st.sampled_from(["", "low", "max"])),
        thinking_budget=draw(st.sampled_from([None, 0] if choice else [None, 0, 2_048])),
        user=draw(st.sampled_from(["", "u"])),
        options=draw(st.sampled_from([{}, {"top_k": raw(4)}])),
    )


def _thinks_in_vain(conversation: Conversation) -> bool:
    """Thinking is switched off in a turn that goes on without its first thoughts."""
    return (
        bool(conversation.thinking_budget)
        and isinstance(conversation.messages[-1].parts[0], Result)
        and not isinstance(conversation.messages[-2].parts[0], Thinking)
    )


@given(conversations().filter(lambda conversation: not _thinks_in_vain(conversation)))
def test_what_is_written_is_read_again(conversation: Conversation) -> None:
    report = Report(MESSAGES, MESSAGES)
    assert CODEC.read_request(CODEC.write_request(conversation, report)) == conversation
    assert report.changed == []


@given(st.text())
def test_call_ids_are_valid(identifier: str) -> None:
    mapped = call_id(identifier)
    assert mapped
    assert all(sign.isascii() and (sign.isalnum() or sign in "_-") for sign in mapped)
    assert call_id(mapped) == mapped


@given(
    st.binary(max_size=60)
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(msgspec.json.encode)
)
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    for json_ in (
        body,
        b'{"messages":' + body + b"}",
        b'{"messages":[{"role":"user","content":' + body + b"}]}",
    ):
        try:
            CODEC.read_request(json_)
        except MalformedRequest:
            continue

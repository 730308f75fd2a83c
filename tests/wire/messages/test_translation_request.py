"""Messages requests, read into a conversation."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.errors import MalformedRequest
from pointsman.vocabulary import Role, ToolCall
from pointsman.wire.conversation import (
    Conversation,
    Media,
    Part,
    Result,
    Shape,
    Text,
    Thinking,
    Tool,
    ToolChoice,
)
from pointsman.wire.messages.translation import CODEC
from support.messages_codec import MESSAGES, OBJECT, raw, read


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
            (ToolCall("t", "f", '{"b":1,"a":2}'),),
        ),
        ({"type": "tool_use", "id": "t", "name": "f"}, (ToolCall("t", "f", "{}"),)),
        ({"type": "tool_result", "tool_use_id": "t", "content": "x"}, (Result.of("t", (Text("x"),)),)),
        ({"type": "tool_result", "tool_use_id": "t"}, (Result.of("t"),)),
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
            (Result.of("t", (Text("x"), Media("image", "image/png", "AA")), is_error=True),),
        ),
        (
            {
                "type": "tool_result",
                "tool_use_id": "t",
                "content": [{"type": "tool_reference", "tool_name": "f"}],
            },
            (Result.of("t", (Text('{"type":"tool_reference","tool_name":"f"}'),)),),
        ),
        (
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            (Thinking("hm", "s", author=MESSAGES),),
        ),
        ({"type": "thinking", "thinking": "hm", "signature": ""}, (Thinking("hm"),)),
        (
            {
                "type": "search_result",
                "source": "https://a",
                "title": "T",
                "content": [{"type": "text", "text": "x"}],
            },
            (Text("T\nhttps://a"), Text("x")),
        ),
        ({"type": "redacted_thinking", "data": "x"}, (Thinking(encrypted="x", author=MESSAGES),)),
    ],
)
def test_block_is_read(block: dict[str, Any], parts: tuple[Part, ...]) -> None:
    assert read(messages=[{"role": "assistant", "content": [block]}]).messages[0].parts == parts


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

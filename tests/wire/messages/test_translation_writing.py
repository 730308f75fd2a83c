"""A conversation written as a Messages request: its blocks and messages."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.vocabulary import Role, ToolCall
from pointsman.wire.constructs import Untranslatable
from pointsman.wire.conversation import (
    Media,
    Message,
    Opaque,
    Part,
    Refusal,
    Result,
    Text,
    Thinking,
    Tool,
    ToolChoice,
)
from pointsman.wire.tools import call_id
from support.messages_codec import CHAT, HI, MESSAGES, OBJECT, RESPONSES, content, raw, read, written


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
        {"type": "mcp_tool_use", "id": "s", "name": "x", "server_name": "y", "input": {}},
    ],
)
def test_what_only_messages_has_stays_json_and_is_refused_from_elsewhere(block: dict[str, Any]) -> None:
    part = read(messages=[{"role": "assistant", "content": [block]}]).messages[0].parts[0]
    assert part == Opaque(MESSAGES, block["type"], raw(block))
    assert content(part, source=MESSAGES) == [block]
    with pytest.raises(Untranslatable, match="web_search_call"):
        written(RESPONSES, (*HI, Message(Role.ASSISTANT, (Opaque(RESPONSES, "web_search_call", raw({})),))))


def test_parallel_calls_then_results_and_a_text() -> None:
    messages = (
        *HI,
        Message(Role.ASSISTANT, (Text(""), ToolCall("call:1", "f", ""), ToolCall("call.1", "g", '{"a": 1}'))),
        Message(Role.USER, (Text("meanwhile"),)),
        Message(Role.TOOL, (Result.of("call.1", (Text("y"),)),)),
        Message(Role.TOOL, (Result.of("call:1", (Text("x"),), is_error=True),)),
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
    assert content(ToolCall("c", "f", arguments), role=Role.ASSISTANT)[-1]["input"] == expected


def test_malformed_arguments_are_reported() -> None:
    _, changed = written(CHAT, (*HI, Message(Role.ASSISTANT, (ToolCall("c", "f", "{"),))))
    assert changed == ["malformed_arguments"]


def test_custom_and_namespaced_tools() -> None:
    tools = (Tool("apply_patch", "d", kind="custom"), Tool("read", schema=OBJECT, namespace="mcp"))
    calls = Message(
        Role.ASSISTANT,
        (ToolCall("1", "apply_patch", '*** "x', custom=True), ToolCall("2", "read", "{}", namespace="mcp")),
    )
    body, changed = written(RESPONSES, (*HI, calls), tools=tools, choice=ToolChoice("named", "read"))
    assert body["tool_choice"] == {"type": "tool", "name": "mcp__read"}
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
    assert content(Result.of("t", (media,))) == [
        {"type": "tool_result", "tool_use_id": "t", "content": [block]}
    ]


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


CALLED = Message(Role.ASSISTANT, (ToolCall("c", "f", "{}"),))
RETURNED = Message(Role.TOOL, (Result.of("c", (Text("x"),)),))


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
    assert content(Result.of("t")) == [{"type": "tool_result", "tool_use_id": "t"}]
    failed = {"type": "tool_result", "tool_use_id": "t", "is_error": True, "content": "Error"}
    assert content(Result.of("t", is_error=True)) == [failed]
    assert content(Result.of("t", (Text(" "),), is_error=True)) == [failed]


def test_beginning_of_the_answer_ends_with_a_word() -> None:
    assert content(Refusal("no"), Text("so: "), role=Role.ASSISTANT) == [
        {"type": "text", "text": "."},
        {"type": "text", "text": "no"},
        {"type": "text", "text": "so:"},
    ]


@given(st.text())
def test_call_ids_are_valid(identifier: str) -> None:
    mapped = call_id(identifier)
    assert mapped
    assert all(sign.isascii() and (sign.isalnum() or sign in "_-") for sign in mapped)
    assert call_id(mapped) == mapped

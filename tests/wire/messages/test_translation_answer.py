"""Whole answers of the Messages format, read into a completion and written from one."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.decoding import UNREADABLE
from pointsman.vocabulary import ToolCall, WireFormat
from pointsman.wire.conversation import (
    Completion,
    Conversation,
    Opaque,
    Part,
    Refusal,
    StopReason,
    Text,
    Thinking,
    Usage,
)
from pointsman.wire.messages.translation import CODEC
from pointsman.wire.tools import call_id

WRITING = CODEC.for_request(Conversation(model="m"))
MESSAGES = WireFormat.MESSAGES


def read(*content: dict[str, Any], **members: Any) -> Completion:
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        **members,
    }
    return CODEC.read_answer(msgspec.json.encode(body))


def written(*parts: Part, **members: Any) -> dict[str, Any]:
    answer = WRITING.write_answer(Completion(id="i", model="m", parts=parts, **members))
    return dict(json.loads(answer))


def test_blocks_are_read_in_order() -> None:
    searched = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    answer = read(
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "text", "text": "a", "citations": [{"type": "char_location"}]},
        searched,
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}, "caller": {"type": "direct"}},
        stop_reason="end_turn",
    )
    assert answer.parts == (
        Thinking("hm", "s", author=MESSAGES),
        Thinking(encrypted="x", author=MESSAGES),
        Text("a"),
        Opaque(MESSAGES, "server_tool_use", msgspec.Raw(msgspec.json.encode(searched))),
        ToolCall("t", "f", '{"a":1}'),
    )
    assert answer.stop is StopReason.TOOLS


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", StopReason.END),
        ("max_tokens", StopReason.LENGTH),
        ("model_context_window_exceeded", StopReason.LENGTH),
        ("stop_sequence", StopReason.SEQUENCE),
        ("refusal", StopReason.REFUSAL),
        ("pause_turn", StopReason.PAUSE),
        ("never_heard_of", StopReason.END),
        (None, StopReason.END),
    ],
)
def test_stop_reason_is_read(reason: str | None, stop: StopReason) -> None:
    assert read({"type": "text", "text": "a"}, stop_reason=reason).stop is stop


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        (StopReason.END, "end_turn"),
        (StopReason.LENGTH, "max_tokens"),
        (StopReason.SEQUENCE, "stop_sequence"),
        (StopReason.TOOLS, "end_turn"),
        (StopReason.REFUSAL, "refusal"),
        (StopReason.PAUSE, "pause_turn"),
    ],
)
def test_stop_reason_is_written(stop: StopReason, reason: str) -> None:
    assert written(Text("a"), stop=stop)["stop_reason"] == reason
    cut = stop in {StopReason.LENGTH, StopReason.REFUSAL}  # the call may be a part of one: none to run
    assert written(ToolCall("c", "f", ""), stop=stop)["stop_reason"] == (reason if cut else "tool_use")


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("max_tokens", StopReason.LENGTH),
        ("model_context_window_exceeded", StopReason.LENGTH),
        ("refusal", StopReason.REFUSAL),
        ("end_turn", StopReason.TOOLS),
        ("tool_use", StopReason.TOOLS),
        ("stop_sequence", StopReason.TOOLS),
        (None, StopReason.TOOLS),
    ],
)
def test_why_an_answer_with_a_call_ended(reason: str | None, stop: StopReason) -> None:
    assert read({"type": "tool_use", "id": "c", "name": "f", "input": {}}, stop_reason=reason).stop is stop


def test_stop_sequence_both_ways() -> None:
    answer = read({"type": "text", "text": "a"}, stop_reason="stop_sequence", stop_sequence="END")
    assert (answer.stop, answer.sequence) == (StopReason.SEQUENCE, "END")
    assert json.loads(WRITING.write_answer(answer))["stop_sequence"] == "END"


@pytest.mark.parametrize(
    ("reported", "usage"),
    [
        (None, None),
        ({}, Usage()),
        (
            {"input_tokens": 10, "output_tokens": 7, "cache_read_input_tokens": None},
            Usage(input=10, output=7),
        ),
        (
            {
                "input_tokens": 10,
                "cache_read_input_tokens": 100,
                "cache_creation_input_tokens": 5,
                "output_tokens": 7,
                "server_tool_use": {"web_search_requests": 1},
            },
            Usage(input=115, cached=100, output=7, written=5),
        ),
        (
            {
                "input_tokens": 10,
                "cache_creation_input_tokens": 5,
                "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 3},
            },
            Usage(input=15, written=5, written_1h=3),
        ),
        ({"input_tokens": 10, "cache_creation": {"ephemeral_1h_input_tokens": "3"}}, Usage(input=10)),
        ({"input_tokens": 10, "cache_creation": [3]}, Usage(input=10)),
    ],
)
def test_usage_is_read(reported: object, usage: Usage | None) -> None:
    assert read(usage=reported).usage == usage


def test_answer_is_written_whole() -> None:
    answer = written(
        Thinking("hm", encrypted="of another provider"),
        Text("a"),
        Text(""),
        Refusal("no"),
        Opaque(WireFormat.RESPONSES, "web_search_call"),
        ToolCall("call.1", "f", '{"a":'),
        ToolCall("c", "apply_patch", "*** x", custom=True),
        usage=Usage(input=115, cached=100, output=7, reasoning=3),
    )
    assert answer == {
        "id": "i",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": ""},
            {"type": "text", "text": "a", "citations": []},
            {"type": "text", "text": "no", "citations": []},
            {
                "type": "tool_use",
                "id": call_id("call.1"),
                "name": "f",
                "input": {"_malformed_arguments": '{"a":'},
                "caller": {"type": "direct"},
            },
            {
                "type": "tool_use",
                "id": "c",
                "name": "apply_patch",
                "input": {"input": "*** x"},
                "caller": {"type": "direct"},
            },
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "usage": {
            "input_tokens": 15,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 100,
            "output_tokens": 7,
            "cache_creation": None,
            "output_tokens_details": None,
            "server_tool_use": None,
            "service_tier": "standard",
            "inference_geo": None,
        },
    }


def test_calls_without_an_id_get_one_each() -> None:
    answer = written(ToolCall("", "f", "{}"), ToolCall("", "g", "{}"))
    assert [block["id"] for block in answer["content"]] == ["i_0", "i_1"]


def test_the_official_sdk_reads_it() -> None:
    anthropic = pytest.importorskip("anthropic.types")
    answer = anthropic.Message.model_validate_json(
        WRITING.write_answer(
            Completion(id="i", model="m", parts=(Thinking("hm"), Text("a"), ToolCall("c", "f", "")))
        )
    )
    assert [block.type for block in answer.content] == ["thinking", "text", "tool_use"]
    assert (answer.content[2].input, answer.usage.output_tokens) == ({}, 0)


PARTS = st.lists(
    st.builds(Text, st.text(st.characters(codec="utf-8"), min_size=1, max_size=5).filter(str.strip))
    | st.builds(Thinking, st.text("ab", min_size=1), st.text("ab", min_size=1), author=st.just(MESSAGES))
    | st.builds(
        ToolCall, st.text("ab-_", min_size=1), st.text("ab"), st.sampled_from(["{}", '{"a": [1, "\\u00e4"]}'])
    ),
    max_size=4,
)
COUNTS = st.integers(0, 1_000)


@given(
    PARTS,
    st.sampled_from(sorted(set(StopReason) - {StopReason.TOOLS})),
    st.none() | st.tuples(COUNTS, COUNTS, COUNTS, COUNTS),
)
def test_what_is_written_is_read_again(
    parts: list[Part], stop: StopReason, counts: tuple[int, int, int, int] | None
) -> None:
    plain, cached, output, written = counts or (0, 0, 0, 0)
    calls = any(isinstance(part, ToolCall) for part in parts)
    answer = Completion(
        id="i",
        model="m",
        parts=tuple(parts),
        stop=StopReason.TOOLS if calls else stop,
        usage=Usage(plain + cached + written, cached, output, written),
    )
    assert CODEC.read_answer(WRITING.write_answer(answer)) == answer


@given(
    st.binary(max_size=60)
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(msgspec.json.encode)
)
def test_any_bytes_are_read_or_unreadable(answer: bytes) -> None:
    for json_ in (answer, b'{"content":' + answer + b"}", b'{"content":[],"usage":' + answer + b"}"):
        try:
            CODEC.read_answer(json_)
        except UNREADABLE:
            continue

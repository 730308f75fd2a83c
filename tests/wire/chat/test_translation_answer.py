"""A whole answer of chat completions in the form that all formats share."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion

from pointsman.decoding import UNREADABLE
from pointsman.vocabulary import ToolCall
from pointsman.wire.chat.translation import CODEC
from pointsman.wire.conversation import (
    Completion,
    Conversation,
    Part,
    Refusal,
    StopReason,
    Text,
    Thinking,
    Usage,
)

WRITING = CODEC.for_request(Conversation(model="m"))


def read(message: dict[str, Any], finish: str | None = "stop", **members: Any) -> Completion:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    answer = {"id": "chatcmpl-1", "model": "m", "created": 7, "choices": [choice], **members}
    return CODEC.read_answer(json.dumps(answer).encode())


def call(arguments: object = "{}", **members: Any) -> dict[str, Any]:
    return {"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}, **members}


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        ({"role": "assistant", "content": "hi"}, (Text("hi"),)),
        ({"content": None}, ()),
        ({"content": "b", "reasoning_content": "a"}, (Thinking("a"), Text("b"))),
        ({"content": "b", "reasoning": "a", "reasoning_content": "a"}, (Thinking("a"), Text("b"))),
        ({"content": "b", "reasoning": {"effort": "low"}}, (Text("b"),)),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "a"}]},
                    {"type": "text", "text": "b"},
                ]
            },
            (Thinking("a"), Text("b")),
        ),
        ({"content": None, "refusal": "no"}, (Refusal("no"),)),
        (
            {"content": "x", "tool_calls": [call(), call("", id="b")]},
            (Text("x"), ToolCall("a", "f", "{}"), ToolCall("b", "f", "")),
        ),
        ({"tool_calls": [call({"x": 1})]}, (ToolCall("a", "f", '{"x":1}'),)),
        (
            {"tool_calls": [call(id=None), call(id="")]},
            (ToolCall("call_1_0", "f", "{}"), ToolCall("call_1_1", "f", "{}")),
        ),
        ({"function_call": {"name": "f", "arguments": "{}"}}, (ToolCall("call_1_0", "f", "{}"),)),
        (
            {"tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "p", "input": "x"}}]},
            (ToolCall("a", "p", "x", custom=True),),
        ),
    ],
)
def test_parts_of_an_answer(message: dict[str, Any], parts: tuple[Part, ...]) -> None:
    assert read(message).parts == parts


@pytest.mark.parametrize(
    ("finish", "message", "stop"),
    [
        ("stop", {"content": "a"}, StopReason.END),
        (None, {"content": "a"}, StopReason.END),
        ("eos", {"content": "a"}, StopReason.END),
        ("length", {"content": "a"}, StopReason.LENGTH),
        ("content_filter", {"content": "a"}, StopReason.REFUSAL),
        ("stop", {"refusal": "no"}, StopReason.REFUSAL),
        ("tool_calls", {"tool_calls": [call()]}, StopReason.TOOLS),
        ("function_call", {"tool_calls": [call()]}, StopReason.TOOLS),
        ("stop", {"tool_calls": [call()]}, StopReason.TOOLS),
        ("length", {"tool_calls": [call()]}, StopReason.TOOLS),
        ("length", {"tool_calls": [call('{"a":')]}, StopReason.LENGTH),  # cut off: none to run
        ("length", {"tool_calls": [call("")]}, StopReason.LENGTH),  # perhaps before its arguments
        ("content_filter", {"tool_calls": [call(), call('{"a":')]}, StopReason.REFUSAL),
        ("stop", {"tool_calls": [call('{"a":')]}, StopReason.TOOLS),
        ("tool_calls", {"content": "a"}, StopReason.END),  # nothing to run: a caller would wait
    ],
)
def test_why_an_answer_ended(finish: str | None, message: dict[str, Any], stop: StopReason) -> None:
    assert read(message, finish).stop is stop


@pytest.mark.parametrize(
    ("usage", "read_as"),
    [
        (None, None),
        ("many", None),
        ({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}, Usage(input=3, output=2)),
        (
            {
                "prompt_tokens": 115,
                "completion_tokens": 9,
                "prompt_tokens_details": {"cached_tokens": 100},
                "completion_tokens_details": {"reasoning_tokens": 4},
            },
            Usage(input=115, cached=100, output=9, reasoning=4),
        ),
        (
            {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 9},
            Usage(input=3, output=6, reasoning=4),
        ),
        ({"prompt_tokens": 10, "prompt_tokens_details": None}, Usage(input=10)),
        ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 4}, Usage(input=10, cached=4)),
        ({"prompt_tokens": 10, "cached_tokens": 4}, Usage(input=10, cached=4)),
        ({"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}}, Usage(input=1, cached=4)),
    ],
)
def test_usage(usage: object, read_as: Usage | None) -> None:
    assert read({"content": "a"}, usage=usage).usage == read_as


def test_no_choice_is_an_empty_answer_and_no_choices_are_none() -> None:
    assert CODEC.read_answer(b'{"id":"a","model":"m","choices":[]}') == Completion(id="a", model="m")
    with pytest.raises(UNREADABLE):
        CODEC.read_answer(b'{"error":{"message":"no"}}')


@pytest.mark.parametrize(
    ("stop", "parts", "finish"),
    [
        (StopReason.END, (), "stop"),
        (StopReason.SEQUENCE, (), "stop"),
        (StopReason.PAUSE, (), "stop"),
        (StopReason.LENGTH, (), "length"),
        (StopReason.REFUSAL, (), "content_filter"),
        (StopReason.TOOLS, (ToolCall("a", "f", "{}"),), "tool_calls"),
        (StopReason.END, (ToolCall("a", "f", "{}"),), "tool_calls"),
        (StopReason.LENGTH, (ToolCall("a", "f", '{"'),), "length"),
    ],
)
def test_the_finish_that_is_written(stop: StopReason, parts: tuple[Part, ...], finish: str) -> None:
    written = json.loads(WRITING.write_answer(Completion(id="a", model="m", parts=parts, stop=stop)))
    assert written["choices"][0]["finish_reason"] == finish


def test_a_written_answer() -> None:
    completion = Completion(
        id="msg_1",
        model="m",
        parts=(Thinking("hm", "sig"), Thinking(encrypted="x"), Text("a"), Text("b"), ToolCall("c", "f", "")),
        stop=StopReason.TOOLS,
        usage=Usage(input=115, cached=100, output=3, written=5, reasoning=1),
        created=7,
    )
    written = json.loads(WRITING.write_answer(completion))
    assert written == {
        "id": "msg_1",
        "object": "chat.completion",
        "created": 7,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "ab",
                    "refusal": None,
                    "reasoning_content": "hm",
                    "tool_calls": [call("{}", id="c")],
                },
                "logprobs": None,
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {
            "prompt_tokens": 115,
            "completion_tokens": 3,
            "total_tokens": 118,
            "prompt_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 5},
            "completion_tokens_details": {"reasoning_tokens": 1},
        },
    }
    assert ChatCompletion.model_validate(written).choices[0].message.content == "ab"


WORDS = st.text(min_size=1, max_size=5)


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    cached, written = draw(st.integers(0, 99)), draw(st.integers(1, 99) | st.none())
    whole = draw(st.integers(0, 99)) + cached + (written or 0)
    return Usage(whole, cached, draw(st.integers(0, 99)), written, draw(st.integers(0, 99)))


CALLS = st.builds(ToolCall, WORDS, WORDS, st.sampled_from(["{}", '{"a":1}', '{"']), custom=st.booleans())


@st.composite
def completions(draw: st.DrawFn) -> Completion:
    parts: list[Part] = [
        *draw(st.lists(st.builds(Thinking, WORDS), max_size=1)),
        *draw(st.lists(st.builds(Text, WORDS), max_size=1)),
        *(calls := draw(st.lists(CALLS, max_size=2))),
    ]
    others = [StopReason.END, StopReason.LENGTH, StopReason.REFUSAL]
    stop = StopReason.TOOLS if calls else draw(st.sampled_from(others))
    return Completion(
        id=draw(WORDS),
        model=draw(WORDS),
        parts=tuple(parts),
        stop=stop,
        usage=draw(st.none() | usages()),
        created=draw(st.integers(0, 9)),
    )


@given(completions())
def test_an_answer_comes_back_as_it_was(completion: Completion) -> None:
    assert CODEC.read_answer(WRITING.write_answer(completion)) == completion


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "choices", "message", "content", "tool_calls", "usage"]), inner
        )
    ),
    max_leaves=12,
)


@given(
    st.binary(max_size=20) | JSON.map(lambda value: msgspec.json.encode({"choices": [{"message": value}]}))
)
def test_any_bytes_are_read_or_unreadable(answer: bytes) -> None:
    with contextlib.suppress(*UNREADABLE):
        assert isinstance(CODEC.read_answer(answer), Completion)

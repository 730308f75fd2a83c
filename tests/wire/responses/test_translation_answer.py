"""Whole answers of the Responses format, read into the form and written from it."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import Response
from pydantic import TypeAdapter

from pointsman.vocabulary import ToolCall, WireFormat
from pointsman.wire._restored import CustomInput, restored, unwrapped
from pointsman.wire.conversation import (
    Completion,
    Conversation,
    Opaque,
    Part,
    Refusal,
    StopReason,
    Text,
    Thinking,
    Tool,
    Usage,
)
from pointsman.wire.responses.translation import CODEC
from pointsman.wire.tools import MAX_NAME, flat_name, renamed_tools, wrapped
from support.examples import share

RESPONSE: TypeAdapter[Response] = TypeAdapter(Response)


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def read(**members: Any) -> Completion:
    body = {"id": "resp_1", "model": "m", "status": "completed", "output": [], **members}
    return CODEC.read_answer(msgspec.json.encode(body))


WRITING = CODEC.for_request(Conversation(model="m"))
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"}


@pytest.mark.parametrize(
    ("members", "stop"),
    [
        ({}, StopReason.END),
        ({"output": [CALL]}, StopReason.TOOLS),
        ({"output": [{**CALL, "status": None}]}, StopReason.TOOLS),
        ({"output": [{"type": "custom_tool_call", "name": "p", "input": "x"}]}, StopReason.TOOLS),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            StopReason.LENGTH,
        ),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, StopReason.REFUSAL),
        ({"status": "incomplete", "incomplete_details": None}, StopReason.LENGTH),
        ({"status": "incomplete", "output": [CALL]}, StopReason.TOOLS),
        ({"status": "incomplete", "output": [{**CALL, "status": "incomplete"}]}, StopReason.LENGTH),
    ],
)
def test_why_an_answer_ended(members: dict[str, Any], stop: StopReason) -> None:
    assert read(**members).stop is stop


@pytest.mark.parametrize("status", ["failed", "cancelled", "in_progress", "queued"])
def test_what_is_no_finished_answer_is_not_read(status: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=status):
        read(status=status, error={"code": "server_error", "message": "no"})


@pytest.mark.parametrize(
    ("reported", "usage"),
    [
        (None, None),
        ([], None),
        ({"input_tokens": 7, "output_tokens": 2}, Usage(input=7, output=2)),
        ({"input_tokens": 7, "input_tokens_details": None}, Usage(input=7)),
        (
            {
                "input_tokens": 115,
                "input_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 5},
                "output_tokens": 9,
                "output_tokens_details": {"reasoning_tokens": 4},
            },
            Usage(input=115, cached=100, output=9, written=5, reasoning=4),
        ),
    ],
)
def test_usage_is_read_without_what_was_cached(reported: Any, usage: Usage | None) -> None:
    assert read(usage=reported).usage == usage


def test_an_answer_is_read_in_order() -> None:
    search = {"type": "web_search_call", "id": "ws", "status": "completed"}
    answer = read(
        created_at=12.0,
        output=[
            {"type": "reasoning", "id": "rs", "summary": [], "content": [{"text": "deep"}]},
            search,
            {
                "type": "message",
                "role": "assistant",
                "content": [
                    {"type": "output_text", "text": "a", "annotations": [{"type": "url_citation"}]},
                    {"type": "refusal", "refusal": "b"},
                ],
            },
            CALL,
        ],
    )
    assert answer.created == 12
    assert answer.parts == (
        Thinking("deep", id="rs"),
        Opaque(WireFormat.RESPONSES, "web_search_call", raw(search)),
        Text("a"),
        Refusal("b"),
        ToolCall("c", "f", "{}"),
    )


COMPLETION = Completion(
    id="chatcmpl-7",
    model="m",
    parts=(
        Thinking("why", signature="foreign"),
        Thinking(encrypted="redacted"),
        Text("a"),
        ToolCall("c1", "f", ""),
        ToolCall("", "g", "{broken"),
        Opaque(WireFormat.MESSAGES, "server_tool_use", raw({})),
    ),
    stop=StopReason.TOOLS,
    usage=Usage(input=115, cached=100, output=9, written=5, reasoning=4),
    created=5,
)


def test_an_answer_is_written() -> None:
    body = msgspec.json.decode(WRITING.write_answer(COMPLETION))
    assert {name: body[name] for name in ("id", "object", "status", "created_at", "error")} == {
        "id": "resp_7",
        "object": "response",
        "status": "completed",
        "created_at": 5,
        "error": None,
    }
    assert body["usage"] == {
        "input_tokens": 115,
        "input_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 5},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 4},
        "total_tokens": 124,
    }
    text = {"type": "output_text", "text": "a", "annotations": [], "logprobs": []}
    call = {"type": "function_call", "status": "completed"}
    assert body["output"] == [
        {
            "type": "reasoning",
            "id": "rs_translated_7_0",
            "summary": [{"type": "summary_text", "text": "why"}],
        },
        {"type": "message", "id": "msg_7_1", "role": "assistant", "status": "completed", "content": [text]},
        {**call, "id": "fc_7_2", "call_id": "c1", "name": "f", "arguments": "{}"},
        {**call, "id": "fc_7_3", "call_id": "call_7_3", "name": "g", "arguments": "{broken"},
    ]
    RESPONSE.validate_python(body)


@pytest.mark.parametrize(
    ("stop", "status", "reason"),
    [
        (StopReason.END, "completed", None),
        (StopReason.SEQUENCE, "completed", None),
        (StopReason.PAUSE, "completed", None),
        (StopReason.LENGTH, "incomplete", "max_output_tokens"),
        (StopReason.REFUSAL, "incomplete", "content_filter"),
    ],
)
def test_the_status_of_an_answer(stop: StopReason, status: str, reason: str | None) -> None:
    body = msgspec.json.decode(WRITING.write_answer(Completion(id="x", model="m", stop=stop)))
    assert body["status"] == status
    assert body["incomplete_details"] == (reason and {"reason": reason})
    assert body["usage"] is None
    RESPONSE.validate_python(body)


REQUEST = Conversation(
    model="m",
    tools=(
        Tool("apply_patch", kind="custom"),
        Tool("search", namespace="mcp__docs"),
        Tool("plain"),
    ),
    temperature=0.5,
    max_tokens=9,
    parallel=False,
    effort="low",
    options={"metadata": raw({"a": "b"}), "previous_response_id": raw("resp_0"), "include": raw([])},
)


def test_a_call_comes_back_as_the_tool_was_offered() -> None:
    calls = (
        ToolCall("c1", "apply_patch", wrapped("*** Begin\n")),
        ToolCall("c2", "mcp__docs__search", '{"q":1}'),
        ToolCall("c3", "plain", '{"input":"x"}'),
    )
    answering = CODEC.for_request(REQUEST)
    completion = restored(Completion(id="1", model="m", parts=calls), renamed_tools(REQUEST.tools))
    body = msgspec.json.decode(answering.write_answer(completion))
    custom, namespaced, plain = body["output"]
    assert (custom["type"], custom["name"], custom["input"]) == (
        "custom_tool_call",
        "apply_patch",
        "*** Begin\n",
    )
    assert custom["id"].startswith("ctc_")
    assert (namespaced["name"], namespaced["namespace"]) == ("search", "mcp__docs")
    assert (plain["type"], plain["arguments"]) == ("function_call", '{"input":"x"}')
    assert {name: body[name] for name in ("temperature", "max_output_tokens", "parallel_tool_calls")} == {
        "temperature": 0.5,
        "max_output_tokens": 9,
        "parallel_tool_calls": False,
    }
    assert body["metadata"] == {"a": "b"}
    assert body["previous_response_id"] == "resp_0"
    assert "include" not in body
    RESPONSE.validate_python(body)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"input":"a"}', "a"),
        ('{"patch":"a"}', "a"),
        ('{"input":"a","why":"b"}', "a"),
        ('{"input":3}', '{"input":3}'),
        ("*** Begin Patch", "*** Begin Patch"),
        ('{"input":"a', '{"input":"a'),
        ("[]", "[]"),
        ("{}", "{}"),
        ("", ""),
    ],
)
def test_the_input_of_a_custom_tool(arguments: str, text: str) -> None:
    assert unwrapped(arguments) == text


@given(st.text())
def test_input_goes_and_comes_back(text: str) -> None:
    assert unwrapped(wrapped(text)) == text


def test_flat_names() -> None:
    assert flat_name("", "any.name").startswith("any_name_")
    assert flat_name("mcp__docs", "search") == "mcp__docs__search"
    long = {flat_name("n" * 60, f"tool_{number}") for number in range(20)}
    assert len(long) == 20
    assert all(len(name) == MAX_NAME for name in long)
    assert flat_name("a.b", "c") not in {flat_name("a_b", "c"), flat_name("a-b", "c")}
    offered = renamed_tools((Tool("t" * 70, namespace="n"),))[flat_name("n", "t" * 70)]
    assert (offered.name, offered.namespace) == ("t" * 70, "n")


NAMES = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
PARTS = st.one_of(
    st.builds(Text, WORDS),
    st.builds(Refusal, WORDS),
    st.builds(ToolCall, NAMES, NAMES, st.sampled_from(["{}", "{", '{"a":1}']), custom=st.booleans()),
)


@settings(max_examples=share(0.6))
@given(
    st.lists(PARTS, max_size=5).map(tuple),
    st.none() | st.builds(Usage, st.integers(200, 299), *[st.integers(0, 99)] * 4),
    st.sampled_from([StopReason.END, StopReason.LENGTH, StopReason.REFUSAL]),
)
def test_what_is_written_reads_as_it_was(
    parts: tuple[Part, ...], usage: Usage | None, stop: StopReason
) -> None:
    if any(isinstance(part, ToolCall) for part in parts):
        stop = StopReason.TOOLS
    answer = Completion(id="resp_1", model="m", parts=parts, usage=usage, stop=stop, created=3)
    written = WRITING.write_answer(answer)
    assert CODEC.read_answer(written) == answer
    RESPONSE.validate_json(written)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"input":"a\nb\tc"}', "a\nb\tc"),  # weak models write line breaks as they are
        ('{\n "input": "a\n\\"b\\"\\\\"\n}', 'a\n"b"\\'),
        ('{"patch":"a\nb"}', "a\nb"),
        ('{"input":"a\\\n"}', '{"input":"a\\\n"}'),  # an escape that is none: as it is
    ],
)
def test_control_characters_in_the_input_of_a_custom_tool(arguments: str, text: str) -> None:
    assert unwrapped(arguments) == text
    for size in range(1, 6):
        custom = CustomInput()
        pieces = [custom.feed(arguments[at : at + size]) for at in range(0, len(arguments), size)]
        whole, rest = custom.end(arguments)
        if whole == text:
            assert "".join(pieces) + rest == text
        else:  # malformed behind what was passed on
            assert whole == "a"

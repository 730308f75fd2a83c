"""Streams of the Messages format, read into events and written from them."""

import contextlib
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.decoding import UNREADABLE
from pointsman.wire import sse
from pointsman.wire.conversation import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Conversation,
    Event,
    Failed,
    SignatureDelta,
    Start,
    Stop,
    StopReason,
    TextDelta,
    ThinkingDelta,
    Usage,
    UsageReport,
)
from pointsman.wire.messages.translation import CODEC
from support.translation import call_start

START: dict[str, Any] = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "model": "m",
        "content": [],
        "usage": {"input_tokens": 10, "output_tokens": 1},
    },
}
WRITING = CODEC.for_request(Conversation(model="m"))
STARTED = Start("msg_1", "m", Usage(input=10, output=1))
STOP = {"type": "message_stop"}


def begin(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **member: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **member}}


def end(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def ending(reason: str | None, **members: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, **members}


def read(*payloads: dict[str, Any], names: bool = True) -> list[Event]:
    reader = CODEC.stream_reader()
    blocks = (sse.event(msgspec.json.encode(item), item["type"] if names else "") for item in payloads)
    return [event for block in blocks for event in reader.feed(block)]


def write(*events: Event) -> list[dict[str, Any]]:
    """The events, each written by itself."""
    writer = WRITING.stream_writer("seen")
    return payloads(b"".join(writer.write([event]) for event in events))


def payloads(stream: bytes) -> list[dict[str, Any]]:
    found = [json.loads(sse.data(single)) for single in sse.events(stream)]
    assert [f"event: {item['type']}" for item in found] == [
        line for line in stream.decode().split("\n") if line.startswith("event: ")
    ]
    return found


@pytest.mark.parametrize("names", [True, False])
def test_every_kind_of_block_is_read(names: bool) -> None:
    events = read(
        START,
        {"type": "ping"},
        begin(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="hm"),
        delta(0, "signature_delta", signature="s"),
        end(0),
        begin(1, type="redacted_thinking", data="x"),
        end(1),
        begin(2, type="text", text=""),
        delta(2, "text_delta", text="a"),
        delta(2, "citations_delta", citation={"type": "char_location"}),
        end(2),
        begin(3, type="server_tool_use", id="s", name="web_search", input={}),
        delta(3, "input_json_delta", partial_json='{"query":1}'),
        end(3),
        begin(4, type="web_search_tool_result", tool_use_id="s", content=[]),
        end(4),
        begin(5, type="tool_use", id="t", name="f", input={}),
        delta(5, "input_json_delta", partial_json=""),
        delta(5, "input_json_delta", partial_json='{"a"'),
        delta(5, "input_json_delta", partial_json=":1}"),
        end(5),
        ending("tool_use", usage={"output_tokens": 7}),
        STOP,
        names=names,
    )
    assert events == [
        STARTED,
        ThinkingDelta("hm"),
        SignatureDelta("s"),
        SignatureDelta(encrypted="x"),
        TextDelta("a"),
        call_start(0, "t", "f"),
        ArgumentsDelta(0, '{"a"'),
        ArgumentsDelta(0, ":1}"),
        CallEnd(0),
        UsageReport(Usage(input=10, output=7)),
        Stop(StopReason.TOOLS),
    ]


def test_whole_input_at_the_start_of_its_block() -> None:
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}
    whole = [call_start(0, "t", "f"), ArgumentsDelta(0, '{"a":1}'), CallEnd(0)]
    assert read(START, begin(0, **call), end(0), begin(1, type="text", text=""))[1:] == whole
    # Said twice by some servers: read once.
    again = delta(0, "input_json_delta", partial_json='{"a":1}')
    assert read(START, begin(0, **call), again, end(0), begin(1, type="text", text=""))[1:] == whole


def test_interleaved_and_reused_blocks() -> None:
    events = read(
        START,
        begin(0, type="tool_use", id="a", name="f"),
        begin(1, type="tool_use", id="b", name="g"),
        delta(1, "input_json_delta", partial_json="{}"),
        delta(0, "input_json_delta", partial_json="[]"),
        begin(0, type="tool_use", id="c", name="h"),
        ending("end_turn"),
        STOP,
    )
    assert events[1:] == [
        call_start(0, "a", "f"),
        call_start(1, "b", "g"),
        ArgumentsDelta(1, "{}"),
        ArgumentsDelta(0, "[]"),
        CallEnd(0),
        call_start(2, "c", "h"),
        CallEnd(1),
        CallEnd(2),
        Stop(StopReason.TOOLS),
    ]


@pytest.mark.parametrize(
    ("first", "last", "usage"),
    [
        (
            {"input_tokens": 10, "cache_read_input_tokens": 100},
            {"output_tokens": 7},
            Usage(input=110, cached=100, output=7),
        ),
        (None, {"output_tokens": 7}, Usage(output=7)),
        (
            {"input_tokens": 0},
            {"input_tokens": 10, "cache_creation_input_tokens": 5, "output_tokens": 7},
            Usage(input=15, output=7, written=5),
        ),
        ({"input_tokens": 10}, {"input_tokens": 10, "output_tokens": 7}, Usage(input=10, output=7)),
        ({"input_tokens": 10}, {"input_tokens": 0, "output_tokens": 7}, Usage(input=10, output=7)),
    ],
)
def test_usage_is_cumulative(first: object, last: object, usage: Usage) -> None:
    start = {"type": "message_start", "message": {"id": "i", "usage": first}}
    assert read(start, ending("end_turn", usage=last), STOP)[1:] == [UsageReport(usage), Stop(StopReason.END)]


@pytest.mark.parametrize("usage", [{}, {"usage": None}])
def test_an_end_without_usage(usage: dict[str, Any]) -> None:
    assert read(START, ending("max_tokens", **usage), STOP) == [STARTED, Stop(StopReason.LENGTH)]


def test_stop_sequence() -> None:
    last = {"type": "message_delta", "delta": {"stop_reason": "stop_sequence", "stop_sequence": "END"}}
    assert read(START, last, STOP)[1:] == [Stop(StopReason.SEQUENCE, "END")]
    assert write(STARTED, Stop(StopReason.SEQUENCE, "END"))[1]["delta"] == last["delta"]


def test_no_stop_before_the_terminal_event() -> None:
    events = read(START, begin(0, type="text", text=""), delta(0, "text_delta", text="a"), ending("end_turn"))
    assert events == [STARTED, TextDelta("a")]


@pytest.mark.parametrize(
    ("error", "failed"),
    [
        (
            {"type": "overloaded_error", "message": "Overloaded"},
            Failed("Overloaded", "overloaded_error", 529),
        ),
        ({"message": None}, Failed("the upstream reported an error", status=500)),
        ("odd", Failed("odd")),
        (None, Failed("the upstream reported an error")),
    ],
)
def test_error_ends_the_stream(error: object, failed: Failed) -> None:
    assert read(START, {"type": "error", "error": error}, delta(0, "text_delta", text="a"), STOP) == [
        STARTED,
        failed,
    ]


def test_a_stream_without_its_first_event() -> None:
    assert read(delta(0, "text_delta", text="a"), STOP) == [
        Start("", ""),
        TextDelta("a"),
        Stop(StopReason.END),
    ]


def test_half_events_wait() -> None:
    reader = CODEC.stream_reader()
    stream = sse.event(msgspec.json.encode(START)) + sse.event(
        msgspec.json.encode(delta(0, "text_delta", text="ä"))
    )
    events = [event for at in range(len(stream)) for event in reader.feed(stream[at : at + 1])]
    assert events == [STARTED, TextDelta("ä")]


def test_the_last_event_may_lack_its_blank_line() -> None:
    reader = CODEC.stream_reader()
    assert reader.feed(sse.event(msgspec.json.encode(START))) == [STARTED]
    assert reader.feed(b'data: {"type":"message_stop"}\n') == []
    assert reader.feed(b"") == [Stop(StopReason.END)]
    assert CODEC.stream_reader().feed(b"") == []


def test_every_kind_of_block_is_written() -> None:
    usage = {"input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    assert write(
        STARTED,
        ThinkingDelta("hm"),
        SignatureDelta(encrypted="of another provider"),
        SignatureDelta("s"),
        TextDelta(""),
        TextDelta("a"),
        TextDelta("b", refusal=True),
        call_start(0, "call_1", "f"),
        ArgumentsDelta(0, ""),
        ArgumentsDelta(0, '{"a":1}'),
        CallEnd(0),
        UsageReport(Usage(input=10, output=7)),
        Stop(StopReason.END),
        TextDelta("too late"),
    ) == [
        {
            "type": "message_start",
            "message": {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "seen",
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "stop_details": None,
                "container": None,
                "usage": {
                    **usage,
                    "output_tokens": 1,
                    "cache_creation": None,
                    "output_tokens_details": None,
                    "server_tool_use": None,
                    "service_tier": "standard",
                    "inference_geo": None,
                },
            },
        },
        begin(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="hm"),
        delta(0, "signature_delta", signature="s"),
        end(0),
        begin(1, type="text", text=""),
        delta(1, "text_delta", text="a"),
        delta(1, "text_delta", text="b"),
        end(1),
        begin(2, type="tool_use", id="call_1", name="f", input={}),
        delta(2, "input_json_delta", partial_json='{"a":1}'),
        end(2),
        ending("tool_use", usage={**usage, "output_tokens": 7}),
        STOP,
    ]


def test_fragments_of_another_call_wait_for_their_block() -> None:
    first = begin(0, type="tool_use", id="a", name="f", input={})
    second = begin(1, type="tool_use", id="b", name="g", input={})
    events: list[Event] = [
        STARTED,
        call_start(0, "a", "f"),
        ArgumentsDelta(0, "{"),
        call_start(1, "b", "g"),
        ArgumentsDelta(1, "[1"),
        TextDelta("and"),
        ArgumentsDelta(0, "}"),
        ArgumentsDelta(1, "]"),
    ]
    assert write(*events)[1:] == [
        first,
        delta(0, "input_json_delta", partial_json="{"),
        delta(0, "input_json_delta", partial_json="}"),
    ]
    assert write(*events, Stop(StopReason.TOOLS))[4:-2] == [
        end(0),
        second,
        delta(1, "input_json_delta", partial_json="[1"),
        delta(1, "input_json_delta", partial_json="]"),
        end(1),
        begin(2, type="text", text=""),
        delta(2, "text_delta", text="and"),
        end(2),
    ]


def test_a_call_without_arguments_has_an_empty_object() -> None:
    endings: list[list[Event]] = [[CallEnd(0)], [ArgumentsDelta(0, " "), CallEnd(0)], []]
    for events in endings:
        stream = write(STARTED, call_start(0, "a", "f"), *events, Stop(StopReason.TOOLS))
        assert "".join(item["delta"]["partial_json"] for item in stream[2:-3]).strip() == "{}"


def test_free_text_of_a_custom_tool_is_one_string() -> None:
    call = call_start(0, "a", "apply_patch", custom=True)
    stream = write(STARTED, call, ArgumentsDelta(0, '*** "x'), ArgumentsDelta(0, "\n\\"), CallEnd(0))
    arguments = "".join(item["delta"]["partial_json"] for item in stream[2:-1])
    assert json.loads(arguments) == {"input": '*** "x\n\\'}


def test_no_closing_mark_without_a_stop_and_after_an_error() -> None:
    kinds = [item["type"] for item in write(STARTED, TextDelta("a"))]
    assert kinds == ["message_start", "content_block_start", "content_block_delta"]
    failed = write(STARTED, TextDelta("a"), Failed("broken", "server_error", 500), Stop(StopReason.END))[3:]
    assert failed == [{"type": "error", "error": {"type": "api_error", "message": "broken"}}]
    assert write(Failed("slow down", "rate_limit_error", 429))[0]["error"]["type"] == "rate_limit_error"


def test_white_space_waits_for_words() -> None:
    only: list[Event] = [
        STARTED,
        TextDelta("\n"),
        TextDelta(" "),
        call_start(0, "c", "f"),
        Stop(StopReason.TOOLS),
    ]
    assert [item["content_block"]["type"] for item in write(*only) if "content_block" in item] == ["tool_use"]
    words = write(STARTED, TextDelta("\n"), TextDelta("a"), TextDelta(" "), TextDelta("b"))[2:]
    assert [item["delta"]["text"] for item in words] == ["\na", " ", "b"]


def test_calls_without_an_id_get_one_each() -> None:
    events: list[Event] = [call_start(0, "", "f"), CallEnd(0), call_start(1, "", "g"), CallEnd(1)]
    starts = [item["content_block"] for item in write(STARTED, *events) if "content_block" in item]
    assert [start["id"] for start in starts] == ["msg_1_0", "msg_1_1"]


def test_a_signature_ends_its_thoughts() -> None:
    events: list[Event] = [
        STARTED,
        ThinkingDelta("a"),
        SignatureDelta("s"),
        ThinkingDelta("b"),
        SignatureDelta("t"),
    ]
    starts = [item["index"] for item in write(*events) if item["type"] == "content_block_start"]
    assert starts == [0, 1]


WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)
CALLS = st.integers(0, 3)
EVENTS = st.lists(
    st.builds(TextDelta, WORDS.filter(str.strip))
    | st.builds(ThinkingDelta, WORDS)
    | st.builds(SignatureDelta, st.just("s"))
    | st.builds(call_start, CALLS, st.text("ab", min_size=1), WORDS)
    | st.builds(ArgumentsDelta, CALLS, st.sampled_from(["", "{", "1"]))
    | st.builds(CallEnd, CALLS),
    max_size=20,
)


def tidy(events: Sequence[Event]) -> list[Event]:
    """The events that a reader can produce: a call begins once, before its fragments, and ends once."""
    begun, over, kept = set[int](), set[int](), list[Event]()
    for event in events:
        if isinstance(event, CallStart):
            if event.index in begun:
                continue
            begun.add(event.index)
        elif isinstance(event, ArgumentsDelta | CallEnd):
            if event.index not in begun - over:
                continue
            over |= {event.index} if isinstance(event, CallEnd) else set()
        kept.append(event)
    return [STARTED, *kept, Stop(StopReason.TOOLS if begun else StopReason.END)]


def gathered(events: Sequence[Event]) -> tuple[str, str, list[tuple[str, str, str]]]:
    """Words, thoughts, and calls in the order in which they begin."""
    calls: dict[int, list[str]] = {}
    for event in events:
        if isinstance(event, CallStart):
            calls[event.index] = [event.call.id, event.call.name, ""]
        elif isinstance(event, ArgumentsDelta):
            calls[event.index][2] += event.text
    words = "".join(event.text for event in events if isinstance(event, TextDelta))
    thoughts = "".join(event.text for event in events if isinstance(event, ThinkingDelta))
    return words, thoughts, [(identifier, name, text or "{}") for identifier, name, text in calls.values()]


@given(EVENTS.map(tidy), st.lists(st.integers(1, 5)))
def test_what_is_written_is_read_again(events: list[Event], cuts: list[int]) -> None:
    writer, reader = WRITING.stream_writer("m"), CODEC.stream_reader()
    stream = b"".join(writer.write([event]) for event in events)
    singles = [single + b"\n\n" for single in sse.events(stream)]
    again: list[Event] = []
    for cut in cuts:
        again += reader.feed(b"".join(singles[:cut]))
        del singles[:cut]
    again += reader.feed(b"".join(singles))
    assert gathered(again) == gathered(events)
    started = Start("msg_1", "m", Usage(input=10, cached=0, output=1, written=0))
    assert (again[0], again[-1]) == (started, events[-1])


@given(EVENTS.map(tidy))
def test_one_block_is_open_at_a_time(events: list[Event]) -> None:
    open_block, count = None, 0
    for item in write(*events):
        if item["type"] == "content_block_start":
            assert (open_block, item["index"]) == (None, count)
            open_block, count = count, count + 1
        elif item["type"].startswith("content_block"):
            assert item["index"] == open_block
            open_block = None if item["type"] == "content_block_stop" else open_block
    assert open_block is None


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["type", "index", "delta", "usage", "message", "error"]), inner, max_size=3
        )
    ),
    max_leaves=5,
)
KINDS = st.sampled_from(
    ["message_start", "content_block_start", "content_block_delta", "message_delta", "error"]
)


@given(
    st.lists(
        st.binary(max_size=30)
        | st.fixed_dictionaries(
            {"type": KINDS, "delta": JSON, "message": JSON},
            optional={"usage": JSON, "index": JSON, "content_block": JSON, "error": JSON},
        ).map(msgspec.json.encode)
    )
)
def test_any_bytes_are_survived(blocks: list[bytes]) -> None:
    reader = CODEC.stream_reader()
    for block in blocks:
        with contextlib.suppress(*UNREADABLE):
            assert all(isinstance(event, Event) for event in reader.feed(sse.event(block)))


@pytest.mark.parametrize(
    "event",
    [
        b'{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"a/',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":1}}',
        b'{"type":"content_block_delta","delta":{"type":1}}',
        b'{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":1}}',
        b'{"type":"message_delta","delta":{"stop_reason":1}}',
        b'{"type":"message_stop","index":"0"}',
        b'{"error":{"message":1}}',
        b'{"index":"0"}',
        b"[]",
        b"\0",
        b"a",
    ],
)
def test_an_event_that_cannot_be_read_is_no_event_less(event: bytes) -> None:
    reader = CODEC.stream_reader()
    reader.feed(sse.event(msgspec.json.encode(START)))
    with pytest.raises(UNREADABLE):
        reader.feed(sse.event(event))


@pytest.mark.parametrize(
    "event",
    [
        b'{"type":"ping","index":"0"}',
        b'{"type":"of_tomorrow","delta":1,"message":1}',
        b'{"type":"content_block_start","index":0,"content_block":{"type":"of_tomorrow","text":1}}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"of_tomorrow","text":1}}',
        b"[DONE]",
        b"",
    ],
)
def test_an_event_that_is_of_no_known_kind_says_nothing(event: bytes) -> None:
    reader = CODEC.stream_reader()
    reader.feed(sse.event(msgspec.json.encode(START)))
    assert reader.feed(sse.event(event)) == []


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("max_tokens", StopReason.LENGTH), ("refusal", StopReason.REFUSAL), ("end_turn", StopReason.TOOLS)],
)
def test_why_a_stream_with_a_call_ended(reason: str, stop: StopReason) -> None:
    block = begin(0, type="tool_use", id="t", name="f", input={})
    cut = delta(0, "input_json_delta", partial_json='{"path":"/a')
    assert read(START, block, cut, end(0), ending(reason), STOP)[-1] == Stop(stop)
    written = write(STARTED, call_start(0, "t", "f"), ArgumentsDelta(0, "{"), CallEnd(0), Stop(stop))
    told = "tool_use" if stop is StopReason.TOOLS else reason
    assert written[-2]["delta"]["stop_reason"] == told


def test_the_official_sdk_reads_it() -> None:
    types = pytest.importorskip("anthropic.types")
    adapter = pytest.importorskip("pydantic").TypeAdapter(types.RawMessageStreamEvent)
    events: list[Event] = [
        STARTED,
        ThinkingDelta("hm"),
        TextDelta("a"),
        call_start(0, "c", "f"),
        Stop(StopReason.TOOLS),
    ]
    for item in write(*events):
        assert adapter.validate_python(item).type == item["type"]

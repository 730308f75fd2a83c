"""Streams of the Responses format, read as events and written from them, as the OpenAI SDK reads them."""

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import httpx2
import msgspec
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from pointsman.decoding import UNREADABLE
from pointsman.wire import sse
from pointsman.wire._restored import RestoringStream
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
    Tool,
    Usage,
    UsageReport,
)
from pointsman.wire.responses.translation import CODEC
from pointsman.wire.tools import renamed_tools
from support.examples import share
from support.translation import call_start

EVENT: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)
CREATED: dict[str, Any] = {
    "type": "response.created",
    "response": {"id": "resp_1", "model": "m", "created_at": 3},
}
START = Start("resp_1", "m", created=3)
USAGE = {"input_tokens": 115, "input_tokens_details": {"cached_tokens": 100}, "output_tokens": 2}
REPORT = UsageReport(Usage(input=115, cached=100, output=2))


def blocks(events: Iterable[dict[str, Any]], *, named: bool = True) -> list[bytes]:
    return [sse.event(msgspec.json.encode(event), event["type"] if named else "") for event in events]


def read(*events: dict[str, Any], named: bool = True) -> list[Event]:
    reader = CODEC.stream_reader()
    return [event for block in blocks(events, named=named) for event in reader.feed(block)]


def done(*output: dict[str, Any], kind: str = "completed", **members: Any) -> dict[str, Any]:
    response = {
        "id": "resp_1",
        "model": "m",
        "created_at": 3,
        "status": kind,
        "output": output,
        "usage": USAGE,
    }
    return {"type": f"response.{kind}", "response": {**response, **members}}


def item(kind: str, index: int, **members: Any) -> dict[str, Any]:
    return {"type": f"response.output_item.{kind}", "output_index": index, "item": members}


def delta(kind: str, index: int, text: str) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "output_index": index, "item_id": f"i{index}", "delta": text}


CALL = {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": '{"a":1}'}
OPEN = {**CALL, "arguments": ""}
MESSAGE = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ab"}]}
CALLED = [call_start(0, "c", "f"), ArgumentsDelta(0, '{"a":1}'), CallEnd(0)]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (
            [delta("output_text", 0, "a"), delta("output_text", 0, "b"), done(MESSAGE)],
            [TextDelta("a"), TextDelta("b"), REPORT, Stop(StopReason.END)],
        ),
        (  # the text comes whole at the end alone
            [{"type": "response.output_text.done", "output_index": 0, "text": "ab"}, done(MESSAGE)],
            [TextDelta("ab"), REPORT, Stop(StopReason.END)],
        ),
        ([done(MESSAGE)], [TextDelta("ab"), REPORT, Stop(StopReason.END)]),
        (
            [item("added", 0, **OPEN), item("done", 0, **CALL), done(CALL)],
            [*CALLED, REPORT, Stop(StopReason.TOOLS)],
        ),
        (  # arguments in ``.done`` alone
            [
                item("added", 0, **OPEN),
                {
                    "type": "response.function_call_arguments.done",
                    "output_index": 0,
                    "arguments": '{"a":1}',
                },
                item("done", 0, **CALL),
                done(CALL),
            ],
            [*CALLED, REPORT, Stop(StopReason.TOOLS)],
        ),
        ([item("done", 0, **CALL), done()], [*CALLED, REPORT, Stop(StopReason.TOOLS)]),
        ([done(CALL)], [*CALLED, REPORT, Stop(StopReason.TOOLS)]),
        (  # fragments of two calls, interleaved
            [
                item("added", 1, **OPEN),
                item("added", 2, **{**OPEN, "call_id": "d"}),
                delta("function_call_arguments", 1, '{"a"'),
                delta("function_call_arguments", 2, "{}"),
                delta("function_call_arguments", 1, ":1}"),
                item("done", 2, **{**CALL, "call_id": "d", "arguments": "{}"}),
                item("done", 1, **CALL),
                done(),
            ],
            [
                call_start(0, "c", "f"),
                call_start(1, "d", "f"),
                ArgumentsDelta(0, '{"a"'),
                ArgumentsDelta(1, "{}"),
                ArgumentsDelta(0, ":1}"),
                CallEnd(1),
                CallEnd(0),
                REPORT,
                Stop(StopReason.TOOLS),
            ],
        ),
        (
            [
                delta("reasoning_summary_text", 0, "hm"),
                item("done", 0, type="reasoning", id="rs", summary=[{"text": "hm"}], encrypted_content="e"),
                {"type": "response.refusal.delta", "output_index": 1, "delta": "no"},
                done(),
            ],
            [
                ThinkingDelta("hm"),
                SignatureDelta(encrypted="e", id="rs"),
                TextDelta("no", refusal=True),
                REPORT,
                Stop(StopReason.END),
            ],
        ),
        (
            [item("done", 0, type="custom_tool_call", call_id="p", name="patch", input="***"), done()],
            [
                call_start(0, "p", "patch", custom=True),
                ArgumentsDelta(0, "***"),
                CallEnd(0),
                REPORT,
                Stop(StopReason.TOOLS),
            ],
        ),
        (
            [done(kind="incomplete", incomplete_details={"reason": "max_output_tokens"}, usage=None)],
            [Stop(StopReason.LENGTH)],
        ),
        (  # every item at position 0
            [
                item("added", 0, type="message", content=[]),
                delta("output_text", 0, "ab"),
                item("done", 0, **MESSAGE),
                item("added", 0, **OPEN),
                item("done", 0, **CALL),
                item("added", 0, **{**OPEN, "call_id": "d"}),
                item("done", 0, **{**CALL, "call_id": "d"}),
                done(MESSAGE, CALL, {**CALL, "call_id": "d"}),
            ],
            [
                TextDelta("ab"),
                *CALLED,
                call_start(1, "d", "f"),
                ArgumentsDelta(1, '{"a":1}'),
                CallEnd(1),
                REPORT,
                Stop(StopReason.TOOLS),
            ],
        ),
        (  # no positions at all
            [{"type": "response.output_text.delta", "item_id": "i", "delta": "ab"}, done(MESSAGE, CALL)],
            [TextDelta("ab"), *CALLED, REPORT, Stop(StopReason.TOOLS)],
        ),
        (  # an event nobody knows, of another shape
            [{"type": "response.new.delta", "delta": {"x": 1}}, done(usage=None)],
            [Stop(StopReason.END)],
        ),
        ([delta("output_text", 0, "a")], [TextDelta("a")]),  # cut
        (
            [
                delta("output_text", 0, "a"),
                done(kind="failed", error={"code": "rate_limit_exceeded", "message": "slow"}),
                done(),
            ],
            [TextDelta("a"), Failed("slow", "rate_limit_error", 429)],
        ),
        (
            [{"type": "error", "error": {"type": "server_error", "message": "oh"}}, done()],
            [Failed("oh")],
        ),
        ([{"type": "error", "code": 529, "message": "full"}], [Failed("full", status=529)]),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_streams_are_read(events: list[dict[str, Any]], expected: list[Event], *, named: bool) -> None:
    assert read(CREATED, *events, named=named) == [START, *expected]


@settings(deadline=None)
@given(
    st.lists(
        st.binary(max_size=60)
        | st.fixed_dictionaries(
            {"type": st.sampled_from(["response.output_item.added", "response.completed", "error", "x"])},
            optional={
                "item": st.none() | st.sampled_from([CALL, MESSAGE, {}, {"type": "message", "content": 1}]),
                "output_index": st.none() | st.integers(-1, 2) | st.text(max_size=2),
                "response": st.none() | st.sampled_from([{}, {"output": [CALL, {}]}, {"output": 3}, []]),
                "error": st.none() | st.text(max_size=3) | st.just({"code": []}),
            },
        ).map(msgspec.json.encode),
        max_size=5,
    )
)
def test_bytes_of_any_kind_are_survived(payloads: list[bytes]) -> None:
    reader = CODEC.stream_reader()
    for payload in payloads:
        try:
            reader.feed(b"data: " + payload + b"\n\n")
        except UNREADABLE:
            continue


# Written.


def write(events: Iterable[Event], tools: tuple[Tool, ...] = ()) -> bytes:
    told = RestoringStream(renamed_tools(tools)).events(events)
    return CODEC.for_request(Conversation(model="m", tools=tools)).stream_writer("shown").write(told)


def decoded(stream: bytes) -> list[dict[str, Any]]:
    return [msgspec.json.decode(sse.data(single)) for single in sse.events(stream)]


def checked(stream: bytes) -> list[dict[str, Any]]:
    """The events of a stream, each of the SDK's own type, numbered, and named as its data says."""
    events = decoded(stream)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    for single, event in zip(sse.events(stream), events, strict=True):
        assert single.startswith(f"event: {event['type']}\n".encode())
        EVENT.validate_python(event)
    return events


def through_sdk(stream: bytes) -> tuple[Response | None, list[Any]]:
    """The final response as the SDK accumulates it, and the items that it read as done."""

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    with (
        openai.OpenAI(api_key="k", base_url="http://localhost/v1", http_client=http) as client,
        client.responses.stream(model="m", input="x") as events,
    ):
        items, final = [], None
        for event in events:
            if event.type == "response.output_item.done":
                items.append(event.item)
            elif event.type in {"response.completed", "response.incomplete"}:
                final = event.response
    return final, items


TWO_CALLS: list[Event] = [
    Start("chatcmpl-1", "gpt", created=9),
    ThinkingDelta("h"),
    ThinkingDelta("m"),
    SignatureDelta("foreign"),
    TextDelta("a"),
    TextDelta("b"),
    TextDelta("no", refusal=True),
    call_start(0, "c1", "f"),
    call_start(1, "c2", "apply_patch"),
    ArgumentsDelta(0, '{"x"'),
    ArgumentsDelta(1, '{"input":"*** '),
    ArgumentsDelta(0, ":1}"),
    ArgumentsDelta(1, 'Begin"}'),
    CallEnd(0),
    CallEnd(1),
    call_start(2, "c3", "docs__search"),
    CallEnd(2),
    UsageReport(Usage(input=115, cached=100, output=7, written=5, reasoning=3)),
    Stop(StopReason.TOOLS),
]
TOOLS = (Tool("apply_patch", kind="custom"), Tool("search", namespace="docs"))


def test_a_stream_is_written() -> None:
    events = checked(write(TWO_CALLS, TOOLS))
    assert [(event["type"].removeprefix("response."), event.get("output_index")) for event in events] == [
        ("created", None),
        ("in_progress", None),
        ("output_item.added", 0),
        ("reasoning_summary_part.added", 0),
        ("reasoning_summary_text.delta", 0),
        ("reasoning_summary_text.delta", 0),
        ("reasoning_summary_text.done", 0),
        ("reasoning_summary_part.done", 0),
        ("output_item.done", 0),
        ("output_item.added", 1),
        ("content_part.added", 1),
        ("output_text.delta", 1),
        ("output_text.delta", 1),
        ("output_text.done", 1),
        ("content_part.done", 1),
        ("content_part.added", 1),
        ("refusal.delta", 1),
        ("refusal.done", 1),
        ("content_part.done", 1),
        ("output_item.done", 1),
        ("output_item.added", 2),
        ("output_item.added", 3),
        ("function_call_arguments.delta", 2),
        ("custom_tool_call_input.delta", 3),
        ("function_call_arguments.delta", 2),
        ("custom_tool_call_input.delta", 3),
        ("function_call_arguments.done", 2),
        ("output_item.done", 2),
        ("custom_tool_call_input.done", 3),
        ("output_item.done", 3),
        ("output_item.added", 4),
        ("function_call_arguments.delta", 4),
        ("function_call_arguments.done", 4),
        ("output_item.done", 4),
        ("completed", None),
    ]
    final = events[-1]["response"]
    assert (final["id"], final["model"], final["created_at"]) == ("resp_1", "shown", 9)
    assert final["output"] == [event["item"] for event in events if event["type"].endswith("item.done")]
    assert [each["type"] for each in final["output"]] == [
        "reasoning",
        "message",
        "function_call",
        "custom_tool_call",
        "function_call",
    ]
    assert final["output"][3]["input"] == "*** Begin"
    assert final["output"][4] == {
        "type": "function_call",
        "id": "fc_1_4",
        "status": "completed",
        "call_id": "c3",
        "name": "search",
        "namespace": "docs",
        "arguments": "{}",
    }
    assert final["usage"]["input_tokens"] == 115
    assert final["usage"]["total_tokens"] == 122


def test_the_sdk_accumulates_what_was_sent() -> None:
    final, items = through_sdk(write(TWO_CALLS, TOOLS))
    assert final is not None
    assert final.status == "completed"
    assert final.output_text == "ab"
    assert [each.type for each in final.output] == [each.type for each in items]
    assert [each.to_dict() for each in items] == decoded(write(TWO_CALLS, TOOLS))[-1]["response"]["output"]


@pytest.mark.parametrize(
    ("stop", "reason"),
    [(StopReason.LENGTH, "max_output_tokens"), (StopReason.REFUSAL, "content_filter")],
)
def test_an_incomplete_answer(stop: StopReason, reason: str) -> None:
    cut: list[Event] = [call_start(0, "c", "f"), ArgumentsDelta(0, '{"a'), Stop(stop)]
    events = checked(write([Start("1", "m"), TextDelta("a"), *cut]))
    assert events[-1]["type"] == "response.incomplete"
    final = events[-1]["response"]
    assert (final["status"], final["incomplete_details"]) == ("incomplete", {"reason": reason})
    call = final["output"][1]
    assert (call["status"], call["arguments"]) == ("incomplete", '{"a')
    accumulated, _ = through_sdk(write([Start("1", "m"), TextDelta("a"), *cut]))
    assert accumulated is not None
    assert accumulated.output_text == "a"


def test_a_stream_that_was_cut_is_not_closed() -> None:
    kinds = [event["type"] for event in checked(write([Start("1", "m"), TextDelta("a")]))]
    assert kinds[-1] == "response.output_text.delta"


@pytest.mark.parametrize("before", [[], [Start("1", "m"), TextDelta("a")]])
def test_an_error_in_mid_stream(before: Sequence[Event]) -> None:
    stream = write(
        [*before, Failed("slow down", "rate_limit_error", 429), TextDelta("b"), Stop(StopReason.END)]
    )
    error, failed = checked(stream)[-2:]
    assert (error["type"], error["message"]) == ("error", "slow down")
    assert error["error"]["type"] == "rate_limit_error"
    assert failed["type"] == "response.failed"
    assert failed["response"]["status"] == "failed"
    assert failed["response"]["error"] == {"code": "rate_limit_exceeded", "message": "slow down"}
    with pytest.raises(openai.APIError, match="slow down"):
        through_sdk(stream)


def test_events_without_a_start_or_a_call() -> None:
    events = checked(
        write([TextDelta(""), ArgumentsDelta(3, "x"), CallEnd(3), TextDelta("a"), Stop(StopReason.END)])
    )
    assert [each["type"] for each in events[-1]["response"]["output"]] == ["message"]


def custom(fragments: Iterable[str]) -> tuple[str, list[str]]:
    """The input of a custom tool whose function was called with these fragments, and the deltas of it."""
    arguments = [ArgumentsDelta(0, fragment) for fragment in fragments]
    stream = write([call_start(0, "c", "apply_patch"), *arguments, CallEnd(0), Stop(StopReason.TOOLS)], TOOLS)
    events = checked(stream)
    deltas = [event["delta"] for event in events if event["type"].endswith("input.delta")]
    return events[-1]["response"]["output"][0]["input"], deltas


@pytest.mark.parametrize(
    ("fragments", "deltas"),
    [
        (['{"in', 'put": "a', "b\\", 'n"', "}"], ["a", "b", "\n"]),
        (['{"input":"\\ud83d', '\\ude00x"}'], ["😀x"]),
        (["*** Begin"], ["*** Begin"]),
        (['{"patch":"a"}'], ["a"]),
        (['{"input":"a', "b"], ["a", "b"]),  # cut
        ([], []),
    ],
)
def test_the_input_of_a_custom_tool_is_streamed(fragments: list[str], deltas: list[str]) -> None:
    assert custom(fragments) == ("".join(deltas), deltas)


def compact(value: object) -> str:
    return msgspec.json.encode(value).decode()


@settings(deadline=None)
@given(st.text(max_size=12), st.lists(st.integers(1, 5), min_size=1), st.sampled_from([json.dumps, compact]))
def test_deltas_of_a_custom_tool_make_its_input(
    text: str, cuts: list[int], encode: Callable[[object], str]
) -> None:
    whole = encode({"input": text})
    fragments, sizes = [], itertools.cycle(cuts)
    while whole:
        size = next(sizes)
        fragments.append(whole[:size])
        whole = whole[size:]
    found, deltas = custom(fragments)
    assert found == "".join(deltas) == text


# Round trips.

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    """A stream: runs of text and thinking, then calls whose fragments come interleaved."""
    run = st.lists(
        WORDS.map(TextDelta) | WORDS.map(ThinkingDelta) | st.builds(TextDelta, WORDS, st.just(value=True)),
        max_size=6,
    )
    count = draw(st.integers(0, 3))
    calls: list[Event] = [call_start(at, f"c{at}", "f", draw(st.booleans())) for at in range(count)]
    deltas = st.builds(ArgumentsDelta, st.integers(0, max(count - 1, 0)), WORDS)
    fragments = draw(st.lists(deltas, max_size=6)) if count else []
    said = {fragment.index for fragment in fragments}
    fragments += [ArgumentsDelta(at, "{}") for at in range(count) if at not in said]
    calls += [*fragments, *(CallEnd(at) for at in range(count))]
    stop = StopReason.TOOLS if count else draw(st.sampled_from([StopReason.END, StopReason.LENGTH]))
    return [Start("resp_1", "shown", created=2), *draw(run), *calls, REPORT, Stop(stop)]


def told(events: Iterable[Event]) -> dict[str, Any]:
    """What events say, however they are cut."""
    said: list[tuple[str, str]] = []
    calls: dict[int, tuple[str, str, bool]] = {}
    arguments: dict[int, str] = {}
    for event in events:
        match event:
            case TextDelta(text=text):
                said.append(("refusal" if event.refusal else "text", text))
            case ThinkingDelta(text=text):
                said.append(("thinking", text))
            case CallStart():
                calls[event.index] = (event.call.id, event.call.name, event.call.custom)
            case ArgumentsDelta(index=index, text=text):
                arguments[index] = arguments.get(index, "") + text
    groups = itertools.groupby(said, key=lambda pair: pair[0])
    runs = [(kind, "".join(text for _, text in group)) for kind, group in groups]
    return {"runs": runs, "calls": calls, "arguments": arguments}


@settings(max_examples=share(0.5))
@given(streams(), st.data())
def test_what_is_written_reads_as_it_was(events: list[Event], data: st.DataObject) -> None:
    stream = write(events)
    singles = [single + b"\n\n" for single in sse.events(stream)]
    reader = CODEC.stream_reader()
    found: list[Event] = []
    while singles:
        size = data.draw(st.integers(1, len(singles)))
        found += reader.feed(b"".join(singles[:size]))
        singles = singles[size:]
    assert told(found) == told(events)
    assert found[0] == events[0]
    report = UsageReport(Usage(input=115, cached=100, output=2, written=0, reasoning=0))
    assert found[-2:] == [report, events[-1]]
    # The final snapshot says the same as the deltas did.
    final = CODEC.stream_reader().feed(sse.event(msgspec.json.encode(decoded(stream)[-1])))
    assert told(final) == told(events)

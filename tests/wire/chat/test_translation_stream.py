"""A stream of chat completions in the form that all formats share: what servers send, and what we write."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionChunk

from pointsman.decoding import UNREADABLE
from pointsman.wire import sse
from pointsman.wire.chat.translation import CODEC
from pointsman.wire.conversation import (
    ArgumentsDelta,
    CallEnd,
    Conversation,
    Event,
    Failed,
    Start,
    Stop,
    StopReason,
    TextDelta,
    ThinkingDelta,
    Usage,
    UsageReport,
)
from support.translation import call_start

WRITING = CODEC.for_request(Conversation(model="m"))
DONE = b"data: [DONE]\n\n"
START = Start("chatcmpl-1", "m")
USED = {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
REPORT = UsageReport(Usage(input=5, cached=4, output=2))


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **members: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    head = {"id": "chatcmpl-1", "model": "m", "choices": choices}
    return sse.event(json.dumps({**head, **members}).encode())


def calls(*fragments: dict[str, Any]) -> bytes:
    return chunk({"tool_calls": list(fragments)})


def fragment(
    index: int | None = 0,
    arguments: str | None = None,
    name: str | None = None,
    id: str | None = None,  # noqa: A002
) -> dict[str, Any]:
    return {"index": index, "id": id, "function": {"name": name, "arguments": arguments}}


def read(*blocks: bytes) -> list[Event]:
    reader = CODEC.stream_reader()
    return [event for block in blocks for event in reader.feed(block)]


FINISH = chunk({}, "tool_calls")
TOOLS = Stop(StopReason.TOOLS)


@pytest.mark.parametrize(
    ("blocks", "events"),
    [
        pytest.param(
            [chunk({"role": "assistant", "content": ""}), chunk({"content": "a"}), chunk({}, "stop"), DONE],
            [START, TextDelta("a"), Stop(StopReason.END)],
            id="plain",
        ),
        pytest.param(
            [chunk({"content": "a"}, usage=None), chunk({}, "stop", usage=None), chunk(usage=USED), DONE],
            [START, TextDelta("a"), REPORT, Stop(StopReason.END)],
            id="late usage",
        ),
        pytest.param(
            [
                chunk({"content": "a"}),
                chunk(choices=[{"index": 0, "delta": {}, "finish_reason": "stop", "usage": USED}]),
                DONE,
            ],
            [START, TextDelta("a"), REPORT, Stop(StopReason.END)],
            id="usage in the choice",  # Moonshot
        ),
        pytest.param(
            [chunk({"content": "a"}, "stop", usage=USED), DONE],
            [START, TextDelta("a"), REPORT, Stop(StopReason.END)],
            id="usage with the finish",
        ),
        pytest.param(
            [chunk({"content": "a"}), chunk({}, "length"), b""],
            [START, TextDelta("a"), Stop(StopReason.LENGTH)],
            id="ends well without [DONE]",
        ),
        pytest.param(
            [chunk({"content": "a"}), chunk({}, "stop")], [START, TextDelta("a")], id="still waiting"
        ),
        pytest.param([chunk({"content": "a"}), b""], [START, TextDelta("a")], id="cut"),
        pytest.param(
            [chunk({"content": "half a sen"}), DONE], [START, TextDelta("half a sen")], id="no finish"
        ),
        pytest.param([DONE], [], id="nothing"),
        pytest.param(
            [calls(fragment(0, "{}", "f", "x")), DONE],
            [START, call_start(0, "x", "f"), ArgumentsDelta(0, "{}"), CallEnd(0), TOOLS],
            id="no finish behind a whole call",
        ),
        pytest.param(
            [calls(fragment(0, '{"a":', "f", "x")), DONE],
            [START, call_start(0, "x", "f"), ArgumentsDelta(0, '{"a":')],
            id="[DONE] inside a call",
        ),
        pytest.param(
            [chunk(id="", model="", prompt_filter_results=[]), chunk({"content": "a"})],
            [START, TextDelta("a")],
            id="Azure's empty first chunk",
        ),
        pytest.param(
            [b": PROCESSING\n\n" + chunk({"content": "a"}) + b": x\n\n" + chunk({"content": "b"})],
            [START, TextDelta("a"), TextDelta("b")],
            id="comments, several events in one block",
        ),
        pytest.param(
            [chunk({"content": "a"}).replace(b"\n", b"\r\n").replace(b"data: ", b"data:")],
            [START, TextDelta("a")],
            id="CRLF and no blank",
        ),
        pytest.param(
            [chunk({"reasoning_content": "a"}), chunk({"reasoning": "b", "content": "c"})],
            [START, ThinkingDelta("a"), ThinkingDelta("b"), TextDelta("c")],
            id="reasoning by both names",
        ),
        pytest.param(
            [chunk({"content": [{"type": "thinking", "thinking": "a"}, {"type": "text", "text": "b"}]})],
            [START, ThinkingDelta("a"), TextDelta("b")],
            id="Mistral's parts",
        ),
        pytest.param(
            [
                calls(fragment(0, "{}", "f", "x")),
                calls(fragment(1, "{}", "g", "y")),
                calls(fragment(0, "\n")),
            ],
            [
                START,
                call_start(0, "x", "f"),
                ArgumentsDelta(0, "{}"),
                CallEnd(0),
                call_start(1, "y", "g"),
                ArgumentsDelta(1, "{}"),
            ],
            id="white space behind a whole call",
        ),
        pytest.param(
            [calls(fragment(0, "{}", None, "x")), FINISH, DONE],
            [START, call_start(0, "x", ""), ArgumentsDelta(0, "{}"), CallEnd(0), TOOLS],
            id="a call that never gets a name",
        ),
        pytest.param(
            [chunk({"refusal": "no"}), chunk({}, "stop"), DONE],
            [START, TextDelta("no", refusal=True), Stop(StopReason.REFUSAL)],
            id="refusal",
        ),
        pytest.param(
            [
                calls(fragment(0, "", "f", "x")),
                calls(fragment(1, "", "g", "y")),
                calls(fragment(0, '{"a"')),
                calls(fragment(1, '{"b"')),
                calls(fragment(0, ":1}"), fragment(1, ":2}")),
                FINISH,
                DONE,
            ],
            [
                START,
                call_start(0, "x", "f"),
                call_start(1, "y", "g"),
                ArgumentsDelta(0, '{"a"'),
                ArgumentsDelta(1, '{"b"'),
                ArgumentsDelta(0, ":1}"),
                ArgumentsDelta(1, ":2}"),
                CallEnd(0),
                CallEnd(1),
                TOOLS,
            ],
            id="interleaved fragments",
        ),
        pytest.param(
            [calls(fragment(0, "{}", "f", "x"), fragment(1, "{}", "g", "y")), chunk({}, "stop"), DONE],
            [
                START,
                call_start(0, "x", "f"),
                ArgumentsDelta(0, "{}"),
                CallEnd(0),
                call_start(1, "y", "g"),
                ArgumentsDelta(1, "{}"),
                CallEnd(1),
                TOOLS,
            ],
            id="both whole in one chunk, finish stop",
        ),
        pytest.param(
            [calls(fragment(0, '{"a":1}', "f", "x")), calls(fragment(0, "{}", "f", "y")), FINISH, DONE],
            [
                START,
                call_start(0, "x", "f"),
                ArgumentsDelta(0, '{"a":1}'),
                CallEnd(0),
                call_start(1, "y", "f"),
                ArgumentsDelta(1, "{}"),
                CallEnd(1),
                TOOLS,
            ],
            id="a second call reuses index 0",
        ),
        pytest.param(
            [calls(fragment(0, "{}", "f")), calls(fragment(0, "{}", "f")), FINISH, DONE],
            [
                START,
                call_start(0, "call_1_0", "f"),
                ArgumentsDelta(0, "{}"),
                CallEnd(0),
                call_start(1, "call_1_1", "f"),
                ArgumentsDelta(1, "{}"),
                CallEnd(1),
                TOOLS,
            ],
            id="index 0 throughout and no ids",
        ),
        pytest.param(
            [calls(fragment(None, '{"a"', "f", "x")), calls(fragment(None, ":1}")), FINISH, DONE],
            [
                START,
                call_start(0, "x", "f"),
                ArgumentsDelta(0, '{"a"'),
                ArgumentsDelta(0, ":1}"),
                CallEnd(0),
                TOOLS,
            ],
            id="no index",
        ),
        pytest.param(
            [calls(fragment(0, "{", "f", "x")), calls(fragment(0, "}", "f", "x")), FINISH, DONE],
            [
                START,
                call_start(0, "x", "f"),
                ArgumentsDelta(0, "{"),
                ArgumentsDelta(0, "}"),
                CallEnd(0),
                TOOLS,
            ],
            id="id and name in every fragment",
        ),
        pytest.param(
            [calls(fragment(0, "{", None, "x")), calls(fragment(0, "}", "f")), FINISH, DONE],
            [START, call_start(0, "x", "f"), ArgumentsDelta(0, "{}"), CallEnd(0), TOOLS],
            id="the name comes late",
        ),
        pytest.param(
            [calls(fragment(0, None, "f", "x")), FINISH, DONE],
            [START, call_start(0, "x", "f"), CallEnd(0), TOOLS],
            id="no arguments",
        ),
        pytest.param(
            [calls(fragment(0, '{"a":', "f", "x")), chunk({}, "length"), DONE],
            [
                START,
                call_start(0, "x", "f"),
                ArgumentsDelta(0, '{"a":'),
                CallEnd(0, is_cut=True),
                Stop(StopReason.LENGTH),
            ],
            id="the limit inside a call",
        ),
        pytest.param(
            [
                chunk({"function_call": {"name": "f", "arguments": ""}}),
                chunk({"function_call": {"arguments": "{}"}}),
                chunk({}, "function_call"),
                DONE,
            ],
            [START, call_start(0, "call_1_0", "f"), ArgumentsDelta(0, "{}"), CallEnd(0), TOOLS],
            id="legacy function_call",
        ),
        pytest.param(
            [
                calls({"index": 0, "id": "x", "type": "custom", "custom": {"name": "p", "input": "a"}}),
                FINISH,
                DONE,
            ],
            [START, call_start(0, "x", "p", custom=True), ArgumentsDelta(0, "a"), CallEnd(0), TOOLS],
            id="custom tool",
        ),
        pytest.param(
            [
                chunk({"content": "a"}),
                sse.event(b'{"error":{"message":"slow down","type":"rate_limit_error","code":null}}'),
                DONE,
                b"",
            ],
            [START, TextDelta("a"), Failed("slow down", "rate_limit_error", 429)],
            id="error inside",
        ),
        pytest.param([sse.event(b'{"error":"broken"}')], [Failed("broken")], id="error as a text"),
        pytest.param(
            [sse.event(b'{"object":"error","message":"too long","type":"BadRequestError","code":400}')],
            [Failed("too long", "BadRequestError", 400)],
            id="error of older vLLM",
        ),
        pytest.param(
            [sse.event(json.dumps({"choices": [{"index": 1, "delta": {"content": "b"}}]}).encode())],
            [],
            id="another choice",
        ),
        pytest.param(
            [chunk({"content": "a"}, x="\ud83d"), b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n'],
            [START, TextDelta("a"), TextDelta("\ufffd")],
            id="half an emoji",
        ),
    ],
)
def test_what_a_stream_says(blocks: list[bytes], events: list[Event]) -> None:
    assert read(*blocks) == events
    if b"" not in blocks:  # and however its events come together
        assert read(b"".join(blocks)) == events


def test_an_event_that_is_no_chunk_is_unreadable() -> None:
    with pytest.raises(UNREADABLE):
        read(chunk({"content": "a"}), b"data: {broken\n\n")


# Writing


def write(*events: Event) -> list[Any]:
    out = WRITING.stream_writer("tier").write(events)
    payloads = [sse.data(event) for event in sse.events(out)]
    return [json.loads(data) if data != b"[DONE]" else "[DONE]" for data in payloads]


def deltas(written: list[Any]) -> list[Any]:
    return [event["choices"][0]["delta"] for event in written if event != "[DONE]" and event["choices"]]


def test_a_whole_stream_as_the_official_client_reads_it() -> None:
    written = write(
        Start("msg_1", "upstream", Usage(input=1), created=7),
        ThinkingDelta("hm"),
        TextDelta("a"),
        call_start(3, "x", "f"),
        call_start(5, "y", "g"),
        ArgumentsDelta(5, '{"b":1}'),
        CallEnd(3),
        CallEnd(5),
        UsageReport(Usage(input=115, cached=100, output=2, written=5)),
        Stop(StopReason.TOOLS),
    )
    function = {"id": "x", "type": "function", "function": {"name": "f", "arguments": ""}}
    assert deltas(written) == [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "hm"},
        {"content": "a"},
        {"tool_calls": [{"index": 0, **function}]},
        {"tool_calls": [{"index": 1, **function, "id": "y", "function": {"name": "g", "arguments": ""}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": '{"b":1}'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]},
        {},
    ]
    assert written[-1] == "[DONE]"
    assert (written[-2]["choices"], written[-2]["usage"]["prompt_tokens"]) == ([], 115)
    assert written[-3]["choices"][0]["finish_reason"] == "tool_calls"
    chunks = [ChatCompletionChunk.model_validate(event) for event in written[:-1]]
    assert {(found.id, found.model, found.created) for found in chunks} == {("msg_1", "tier", 7)}


def test_usage_is_written_only_for_a_caller_that_asked_for_it() -> None:
    events: list[Event] = [START, REPORT, Stop(StopReason.END)]
    asked = Conversation(model="m", stream=True)
    assert b'"usage"' in CODEC.for_request(asked).stream_writer("m").write(events)
    unasked = Conversation(model="m", stream=True, stream_usage=False)
    assert b'"usage"' not in CODEC.for_request(unasked).stream_writer("m").write(events)


def test_a_stream_that_was_cut_has_no_closing_mark() -> None:
    out = WRITING.stream_writer("m").write([START, TextDelta("a"), call_start(0, "x", "f")])
    assert b"[DONE]" not in out
    assert b'"finish_reason":"' not in out


def test_an_error_ends_a_stream_without_a_closing_mark() -> None:
    written = write(START, TextDelta("a"), Failed("busy", "overloaded_error", 529), Stop(StopReason.END))
    assert written[-1] == {
        "error": {"message": "busy", "type": "server_error", "param": None, "code": "overloaded_error"}
    }
    assert len(deltas(written[:-1])) == 2


def test_a_refusal_has_a_member_of_its_own() -> None:
    written = write(START, TextDelta("no", refusal=True), Stop(StopReason.REFUSAL))
    assert deltas(written)[1] == {"refusal": "no"}
    assert written[-2]["choices"][0]["finish_reason"] == "content_filter"


def test_a_call_without_an_end_is_whole_at_the_stop() -> None:
    written = write(START, call_start(0, "x", "f"), Stop(StopReason.END))
    assert deltas(written)[-2] == {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}
    assert written[-2]["choices"][0]["finish_reason"] == "tool_calls"


# There and back

WORDS = st.text(min_size=1, max_size=5)


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    """Thinking, text, and calls whose fragments come in any order."""
    found: list[Event] = [Start(draw(WORDS), "m")]
    found += draw(st.lists(st.builds(ThinkingDelta, WORDS), max_size=2))
    found += draw(st.lists(st.builds(TextDelta, WORDS), max_size=3))
    count = draw(st.integers(0, 3))
    found += [call_start(index, f"id{index}", draw(WORDS)) for index in range(count)]
    left = {index: ['{"a', '":', f"{index}}}"] for index in range(count)}
    while left:
        index = draw(st.sampled_from(sorted(left)))
        found.append(ArgumentsDelta(index, left[index].pop(0)))
        left = {index: pieces for index, pieces in left.items() if pieces}
    found += [CallEnd(index) for index in range(count)]
    if draw(st.booleans()):
        cached = draw(st.integers(0, 9))
        found.append(UsageReport(Usage(draw(st.integers(cached, 99)), cached, 0, None, 0)))
    return [*found, TOOLS if count else Stop(StopReason.END)]


@given(streams(), st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_a_stream_comes_back_for_any_cut_at_event_ends(events: list[Event], cuts: list[int]) -> None:
    written = WRITING.stream_writer("m").write(events)
    single = [event + b"\n\n" for event in sse.events(written)]
    blocks, turn = list[bytes](), 0
    while single:
        size = cuts[turn % len(cuts)]
        blocks.append(b"".join(single[:size]))
        single, turn = single[size:], turn + 1
    assert read(*blocks) == events


ANY_EVENT: list[Event] = [
    START,
    TextDelta("a"),
    ThinkingDelta("b"),
    call_start(1, "x", "f"),
    ArgumentsDelta(1, "{"),
    CallEnd(1),
    ArgumentsDelta(2, "{"),
    CallEnd(2),
    REPORT,
    TOOLS,
    Failed("no"),
]


@given(st.lists(st.sampled_from(ANY_EVENT), max_size=8))
def test_events_in_any_order_make_chunks_that_can_be_read(events: list[Event]) -> None:
    out = WRITING.stream_writer("m").write(events)
    end = next((type(event) for event in events if isinstance(event, Stop | Failed)), None)
    assert out.endswith(DONE) is (end is Stop)
    last = [event for event in read(out) if isinstance(event, Stop | Failed)]
    assert [type(event) for event in last] == ([end] if end else [])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["index", "id", "delta", "content", "tool_calls", "function", "name", "arguments"]
            ),
            inner,
        )
    ),
    max_leaves=12,
)


@given(
    st.lists(
        st.binary(max_size=20)
        | JSON.map(lambda value: sse.event(msgspec.json.encode({"choices": [{"delta": value}]})))
        | JSON.map(lambda value: sse.event(msgspec.json.encode({"error": value, "usage": value})))
        | st.sampled_from([DONE, FINISH, b""]),
        max_size=5,
    )
)
def test_any_bytes_are_read_or_unreadable(blocks: list[bytes]) -> None:
    reader = CODEC.stream_reader()
    for block in blocks:
        with contextlib.suppress(*UNREADABLE):
            assert isinstance(reader.feed(block), list)

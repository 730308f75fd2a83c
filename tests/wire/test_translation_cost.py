"""The cost of a translation grows with the size of what is translated, not with its square."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pointsman.vocabulary import Role, ToolCall, WireFormat
from pointsman.wire import _restored as _custom_input
from pointsman.wire._restored import CustomInput
from pointsman.wire.chat import translation as _open_call
from pointsman.wire.chat._translation_answer import is_whole
from pointsman.wire.chat.translation import CODEC as CHAT
from pointsman.wire.chat.translation import OpenCall
from pointsman.wire.conversation import Message, Opaque, Part, Result, Text
from pointsman.wire.messages import _translation_parts
from pointsman.wire.messages._translation_write import with_unique_ids
from pointsman.wire.messages.translation import CODEC as MESSAGES
from pointsman.wire.responses import translation as _translation_stream
from pointsman.wire.responses._translation_items import merged
from pointsman.wire.responses.translation import CODEC as RESPONSES

#: Lines for four times as much, over the lines for once as much: 4 when linear, 16 when quadratic.
MOST = 6


def lines(work: Callable[[], object]) -> int:
    """Return how many lines of Python some work executes: the same on every machine."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


class Counted:
    """A function, and how often it was called."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.calls = function, 0

    def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        return self.function(*arguments)


def request(*blocks: dict[str, Any]) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": list(blocks)}]}).encode()


def result(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "t", "content": content}


ODD = [{"type": "odd"}] * 50


@pytest.mark.parametrize(
    ("block", "decoder"),
    [
        (result(ODD), "_decode_children"),
        ({"type": "search_result", "source": "s", "content": ODD}, "_decode_children"),
        ({"type": "document", "source": {"type": "content", "content": ODD}}, "_decode_nested"),
    ],
)
def test_blocks_of_unknown_types_inside_a_block_are_decoded_once(
    block: dict[str, Any], decoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(getattr(_translation_parts, decoder))
    monkeypatch.setattr(_translation_parts, decoder, counted)
    parts = MESSAGES.read_request(request(block)).messages[0].parts
    assert len(parts[0].parts if isinstance(parts[0], Result) else parts[-50:]) == 50
    assert counted.calls == 1


def test_blocks_of_unknown_types_in_an_answer_are_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(_translation_parts._decode_raw)
    monkeypatch.setattr(_translation_parts, "_decode_raw", counted)
    parts = MESSAGES.read_answer(json.dumps({"content": ODD}).encode()).parts
    assert parts == (Opaque(WireFormat.MESSAGES, "odd", msgspec.Raw(b'{"type": "odd"}')),) * 50
    assert counted.calls == 1


def test_results_inside_results_do_not_grow_with_their_depth() -> None:
    nested = [{"type": "text", "text": '"'}]
    for _ in range(20):
        nested = [result(nested)]
    body = request(*nested)
    (message,) = MESSAGES.read_request(body).messages
    assert message.role is Role.TOOL
    assert len(msgspec.json.encode(message.parts)) < 2 * len(body)


class Matches:
    """A pattern, and how many characters it was given."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern, self.characters = pattern, 0

    def match(self, text: str) -> re.Match[str] | None:
        self.characters += len(text)
        return self.pattern.match(text)


@pytest.mark.parametrize(
    "first",
    [
        '{"input":"a\n',  # a line break as weak models write it
        '{"input":"a\\q',  # no escape
        '{"input":"a\\ud83d\\ud83d',  # half a pair
        '{"input":"a"}',
        '{"patch":"',
        " " * 100,
        '{"input"',
    ],
)
def test_fragments_of_a_custom_input_are_read_once(first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def characters(fragments: int) -> int:
        patterns = Matches(HEAD), Matches(WHOLE)
        monkeypatch.setattr(_custom_input, "_HEAD", patterns[0])
        monkeypatch.setattr(_custom_input, "_WHOLE", patterns[1])
        custom = CustomInput()
        for fragment in [first, *["abcd"] * fragments]:
            custom.feed(fragment)
        return sum(pattern.characters for pattern in patterns)

    assert characters(4_000) <= MOST * max(characters(1_000), 200)


HEAD, WHOLE = _custom_input._HEAD, _custom_input._WHOLE


def said(role: Role, *parts: Part) -> Message:
    return Message(role, parts)


def test_many_calls_with_one_id() -> None:
    def work(calls: int) -> int:
        messages = (said(Role.ASSISTANT, *[ToolCall("c", "f", "{}")] * calls, ToolCall("c_7", "f", "{}")),)
        return lines(lambda: with_unique_ids(messages))

    assert work(800) <= MOST * work(200)


def test_many_results_behind_many_notes() -> None:
    def work(results: int) -> int:
        note, result = said(Role.USER, Text("n")), said(Role.TOOL, Result.of("c"))
        items = [said(Role.ASSISTANT, ToolCall("c", "f", "{}")), *[note] * results, *[result] * results]
        return lines(lambda: merged(iter(items)))

    assert work(800) <= MOST * work(200)


def called(**members: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", "arguments": members.pop("said", "{}")}, **members}


@pytest.mark.parametrize(
    "call",
    [
        lambda at: called(index=at, id=f"c{at}"),
        lambda at: called(index=at, id=f"c{at}", said='{"a'),
        lambda at: called(id=f"c{at}"),
        lambda at: called(index=0),
        lambda at: called(index=0, said="{"),
        lambda at: called(index=0, said="{}" if at else '{"a":'),
    ],
)
def test_many_calls_in_one_event(call: Callable[[int], dict[str, Any]]) -> None:
    def work(calls: int) -> int:
        delta = {"tool_calls": [call(at) for at in range(calls)]}
        event = b"data: %b\n\n" % json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode()
        return lines(lambda: CHAT.stream_reader().feed(event))

    assert work(800) <= MOST * work(200)


def test_fragments_of_arguments_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(is_whole)
    monkeypatch.setattr(_open_call, "is_whole", counted)
    call = OpenCall(0, "c")
    for piece in ['{"a":"', *["}{"] * 1_000, '"', "}", *[" "] * 1_000]:
        call.pieces.append(piece)
        assert call.is_whole is (piece in {"}", " "})
    assert counted.calls == 1


@example(['{"a', "\\", '"}', '":1', "}", " "])
@example([" ", "{", "}", "}"])
@given(st.lists(st.text(alphabet='{}"\\a :1 \n', max_size=4), max_size=12))
def test_whole_arguments_are_found_fragment_by_fragment(pieces: list[str]) -> None:
    call = OpenCall(0, "c")
    for piece in filter(None, pieces):
        call.pieces.append(piece)
        assert call.is_whole is is_whole("".join(call.pieces))


def stream(*events: dict[str, Any]) -> bytes:
    created = {"type": "response.created", "response": {"id": "r", "model": "m"}}
    return b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in (created, *events))


class Id(str):
    """An id of a call, and how often any was compared with another."""

    compared = 0
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Id.compared += 1
        return str.__eq__(self, other)


def test_many_calls_in_a_final_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    def parts_of(raw: msgspec.Raw) -> tuple[Part, ...]:
        return (ToolCall(Id(json.loads(bytes(raw))["call_id"]), "f", "{}"),)

    def work(calls: int) -> int:
        items = [{"type": "function_call", "call_id": f"c{at}", "name": "f"} for at in range(calls)]
        response = {"id": "r", "model": "m", "status": "completed", "output": items}
        Id.compared = 0
        RESPONSES.stream_reader().feed(stream({"type": "response.completed", "response": response}))
        return Id.compared

    monkeypatch.setattr(_translation_stream, "parts_of", parts_of)
    assert work(800) <= MOST * max(work(200), 200)


def test_many_parts_of_reasoning() -> None:
    def work(parts: int) -> int:
        kind = "response.reasoning_text.delta"
        deltas = [{"type": kind, "output_index": 0, "content_index": at, "delta": "a"} for at in range(parts)]
        return lines(lambda: RESPONSES.stream_reader().feed(stream(*deltas)))

    assert work(800) <= MOST * work(200)

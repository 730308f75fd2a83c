"""A conversation goes to another format and back: its words, calls, results and their order are kept."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.vocabulary import Role, ToolCall, WireFormat
from pointsman.wire import FORMATS, sse
from pointsman.wire.constructs import Report
from pointsman.wire.conversation import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Completion,
    Conversation,
    Event,
    Message,
    Part,
    Result,
    Start,
    Stop,
    StopReason,
    Text,
    TextDelta,
    Tool,
    Usage,
    UsageReport,
)
from pointsman.wire.translate import StreamTranslation, Translated, translate_answer, translate_request
from support.examples import share
from support.translation import call_start

ASKED = Conversation(model="m")
PAIRS = list(itertools.permutations(WireFormat, 2))
WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(
    lambda text: text == text.strip()
)
NAMES = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
VALUES = st.integers() | WORDS | st.none() | st.booleans()
ARGUMENTS = st.dictionaries(WORDS, VALUES, max_size=3).map(json.dumps)
USED = Usage(input=110, cached=100, output=7)


@st.composite
def turns(draw: st.DrawFn) -> tuple[Message, ...]:
    """A user's words, and turns of calls, their results and perhaps further words."""
    messages = [Message(Role.USER, (Text(draw(WORDS)),))]
    ids = itertools.count()
    for _ in range(draw(st.integers(0, 3))):
        said: list[Part] = [Text(draw(WORDS))] if draw(st.booleans()) else []
        count = draw(st.integers(0, 3))
        calls = [ToolCall(f"call_{next(ids)}", draw(NAMES), draw(ARGUMENTS)) for _ in range(count)]
        if not (said or calls):
            continue
        messages.append(Message(Role.ASSISTANT, (*said, *calls)))
        results = [Result.of(call.id, (Text(draw(WORDS)),), draw(st.booleans())) for call in calls]
        if results:
            messages.append(Message(Role.TOOL, tuple(results)))
        if not calls or draw(st.booleans()):
            messages.append(Message(Role.USER, (Text(draw(WORDS)),)))
    return tuple(messages)


def told(messages: tuple[Message, ...]) -> list[tuple[Any, ...]]:
    """What a conversation says, however a format divides it into messages."""
    return [entry for message in messages for part in message.parts for entry in _told(message.role, part)]


def _told(role: Role, part: Part) -> Iterator[tuple[Any, ...]]:
    if isinstance(part, ToolCall):
        yield "call", part.id, part.name, json.loads(part.arguments)
    elif isinstance(part, Result):
        text = "".join(piece.text for piece in part.parts if isinstance(piece, Text))
        yield "result", part.call_id, text.removeprefix("Error: ")
    elif isinstance(part, Text):
        yield str(role), part.text


@pytest.mark.parametrize(("caller", "upstream"), PAIRS)
@given(messages=turns(), system=st.lists(WORDS, max_size=2), names=st.lists(NAMES, unique=True, max_size=3))
@settings(max_examples=share(0.4))
def test_a_request_there_and_back(
    caller: WireFormat,
    upstream: WireFormat,
    messages: tuple[Message, ...],
    system: list[str],
    names: list[str],
) -> None:
    asked = Conversation(
        model="m",
        system=tuple(map(Text, system)),
        messages=messages,
        tools=tuple(Tool(name, f"does {name}") for name in names),
        max_tokens=9_000,
    )
    native = FORMATS[caller].codec.write_request(asked, Report(caller, caller))
    there = translate_request(caller, upstream, native)
    back = FORMATS[caller].codec.read_request(translate_request(upstream, caller, there.body).body)
    assert told(back.messages) == told(messages)
    assert "".join("".join(text.text for text in back.system).split()) == "".join("".join(system).split())
    assert [(tool.name, tool.description) for tool in back.tools] == [
        (name, f"does {name}") for name in names
    ]
    assert back.max_tokens == 9_000


def _request(caller: WireFormat, upstream: WireFormat) -> Translated:
    asked = Conversation(
        model="m", messages=(Message(Role.USER, (Text("hi"),)),), max_tokens=9_000, stream=True
    )
    return translate_request(
        caller, upstream, FORMATS[caller].codec.write_request(asked, Report(caller, caller))
    )


@st.composite
def answers(draw: st.DrawFn) -> Completion:
    said: list[Part] = [Text(draw(WORDS))] if draw(st.booleans()) else []
    calls = [ToolCall(f"call_{at}", draw(NAMES), draw(ARGUMENTS)) for at in range(draw(st.integers(0, 3)))]
    stop = StopReason.TOOLS if calls else draw(st.sampled_from([StopReason.END, StopReason.LENGTH]))
    return Completion(id="1", model="m", parts=(*said, *calls), stop=stop, usage=USED, created=5)


@pytest.mark.parametrize(("caller", "upstream"), PAIRS)
@given(answer=answers())
@settings(max_examples=share(0.4))
def test_an_answer(caller: WireFormat, upstream: WireFormat, answer: Completion) -> None:
    request = _request(caller, upstream)
    found = FORMATS[caller].codec.read_answer(
        translate_answer(request, FORMATS[upstream].codec.for_request(ASKED).write_answer(answer)).body
    )
    assert told((Message(Role.ASSISTANT, found.parts),)) == told((Message(Role.ASSISTANT, answer.parts),))
    used = found.usage or Usage()
    assert (found.stop, used.input, used.cached, used.output) == (answer.stop, 110, 100, 7)


@st.composite
def streams(draw: st.DrawFn) -> list[Event]:
    """Fragments of a text, then of calls in any order."""
    events: list[Event] = [Start("1", "m", created=5)]
    events += [TextDelta(words) for words in draw(st.lists(WORDS, max_size=3))]
    arguments = draw(st.lists(ARGUMENTS, max_size=3))
    events += [call_start(at, f"call_{at}", draw(NAMES)) for at in range(len(arguments))]
    rest = dict(enumerate(arguments))
    while rest:
        at = draw(st.sampled_from(sorted(rest)))
        size = draw(st.integers(1, len(rest[at])))
        events.append(ArgumentsDelta(at, rest[at][:size]))
        rest[at] = rest[at][size:]
        if not rest[at]:
            del rest[at]
    events += [CallEnd(at) for at in range(len(arguments))]
    stop = StopReason.TOOLS if arguments else StopReason.END
    return [*events, UsageReport(USED), Stop(stop)]


def heard(events: list[Event]) -> tuple[str, list[tuple[str, str, Any]], list[Event]]:
    """Text, calls, and how it ended."""
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    starts = [event for event in events if isinstance(event, CallStart)]
    arguments = {start.index: "" for start in starts}
    for event in events:
        if isinstance(event, ArgumentsDelta):
            arguments[event.index] += event.text
    calls = [(start.call.id, start.call.name, json.loads(arguments[start.index])) for start in starts]
    return text, calls, [event for event in events if isinstance(event, Stop)]


@pytest.mark.parametrize(("caller", "upstream"), PAIRS)
@given(events=streams(), sizes=st.lists(st.integers(1, 4), min_size=1))
@settings(max_examples=share(0.4))
def test_a_stream(caller: WireFormat, upstream: WireFormat, events: list[Event], sizes: list[int]) -> None:
    native = FORMATS[upstream].codec.for_request(ASKED).stream_writer("m").write(events)
    singles = [single + b"\n\n" for single in sse.events(native)]
    translation, reader = StreamTranslation(_request(caller, upstream)), FORMATS[caller].codec.stream_reader()
    found: list[Event] = []
    for size in itertools.cycle(sizes):
        if not singles:
            break
        found += reader.feed(translation.feed(b"".join(singles[:size])) or b": \n\n")
        singles = singles[size:]
    found += reader.feed(translation.feed(b"") or b": \n\n")
    assert heard(found) == heard(events)
    assert translation.is_whole

"""Stop sequences that the gateway keeps: however a text comes in pieces, it is cut at the same place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.vocabulary import WireFormat
from pointsman.wire.conversation import (
    ArgumentsDelta,
    CallEnd,
    Completion,
    Event,
    Stop,
    StopReason,
    Text,
    TextDelta,
    Usage,
    UsageReport,
)
from pointsman.wire.translate import CutStream, cut, translate_request
from support.translation import call_start

CHAT, RESPONSES, MESSAGES = WireFormat.CHAT, WireFormat.RESPONSES, WireFormat.MESSAGES

WORDS = st.text("ab\n", max_size=12)
SEQUENCES = st.lists(st.text("ab\n", min_size=1, max_size=4), min_size=1, max_size=3).map(tuple)
REPORT = UsageReport(Usage(input=1, cached=0, output=2))


def first(text: str, sequences: tuple[str, ...]) -> int:
    """Where the first sequence begins; the end of the text where there is none."""
    return min((at for each in sequences if (at := text.find(each)) >= 0), default=len(text))


@given(st.lists(WORDS, max_size=6), SEQUENCES)
def test_pieces_do_not_matter(pieces: list[str], sequences: tuple[str, ...]) -> None:
    text = "".join(pieces)
    events: list[Event] = [TextDelta(piece) for piece in pieces]
    told = CutStream(sequences).events([*events, REPORT, Stop(StopReason.LENGTH)])
    said = "".join(event.text for event in told if isinstance(event, TextDelta))
    end = first(text, sequences)
    assert said == text[:end]
    assert REPORT in told
    whole = cut(Completion(id="i", model="m", parts=(Text(text),), stop=StopReason.LENGTH), sequences)
    assert "".join(part.text for part in whole.parts if isinstance(part, Text)) == said
    stop = told[-1]
    assert isinstance(stop, Stop)
    assert (stop.reason, stop.sequence) == (whole.stop, whole.sequence)
    met = end < len(text)
    assert whole.stop is (StopReason.SEQUENCE if met else StopReason.LENGTH)
    assert text[end:].startswith(whole.sequence)


@given(st.lists(WORDS, min_size=1, max_size=6), SEQUENCES)
def test_no_more_is_held_back_than_may_begin_a_sequence(
    pieces: list[str], sequences: tuple[str, ...]
) -> None:
    stream, said, longest = CutStream(sequences), "", max(map(len, sequences))
    for at, piece in enumerate(pieces):
        for event in stream.events([TextDelta(piece)]):
            assert isinstance(event, TextDelta)
            said += event.text
        text = "".join(pieces[: at + 1])
        if (end := first(text, sequences)) == len(text):
            assert len(said) > end - longest


@pytest.mark.parametrize(
    ("caller", "upstream", "model", "stops", "sent", "kept"),
    [
        (MESSAGES, CHAT, "m", list("abcd"), list("abcd"), ()),
        (MESSAGES, CHAT, "m", list("abcde"), list("abcd"), ("e",)),
        (MESSAGES, CHAT, "gpt-5", ["a"], None, ("a",)),  # refused by OpenAI's reasoning models
        (MESSAGES, RESPONSES, "m", ["a", "a", ""], None, ("a",)),
        (CHAT, MESSAGES, "m", ["a", "\n"], ["a"], ("\n",)),  # of white space alone: refused by the API
        (CHAT, MESSAGES, "m", ["a"], ["a"], ()),
    ],
)
def test_which_of_them_the_gateway_keeps(
    caller: WireFormat,
    upstream: WireFormat,
    model: str,
    stops: list[str],
    sent: list[str] | None,
    kept: tuple[str, ...],
) -> None:
    name, other = ("stop", "stop_sequences")[:: 1 if caller is CHAT else -1]
    body = {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], name: stops}
    translated = translate_request(caller, upstream, json.dumps(body).encode())
    assert translated.stops == kept
    assert json.loads(translated.body).get(other) == sent
    assert bool(translated.changed) == bool(kept)


def test_calls_begun_before_are_ended_and_later_ones_left_out() -> None:
    told = CutStream(("X",)).events(
        [
            call_start(0, "c0", "f"),
            ArgumentsDelta(0, "{"),
            TextDelta("aXb"),
            ArgumentsDelta(0, "}"),
            CallEnd(0),
            call_start(1, "c1", "g"),
            ArgumentsDelta(1, "{}"),
            CallEnd(1),
            TextDelta("X"),
            Stop(StopReason.TOOLS),
        ]
    )
    assert told == [
        call_start(0, "c0", "f"),
        ArgumentsDelta(0, "{"),
        TextDelta("a"),
        ArgumentsDelta(0, "}"),
        CallEnd(0),
        Stop(StopReason.SEQUENCE, "X"),
    ]

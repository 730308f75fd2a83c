"""Server-sent events as bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.wire import sse

EVENTS = [b'data: {"a":1}\n\n', b": ping\n\n", b"event: x\r\ndata: y\r\n\r\n", b"data: [DONE]\n\n"]


@given(
    st.lists(st.sampled_from(EVENTS), min_size=1),
    st.lists(st.integers(1, 9), min_size=1),
    st.binary(max_size=3),
)
def test_only_whole_events_go_out_and_nothing_is_lost(
    events: list[bytes], cuts: list[int], tail: bytes
) -> None:
    tail = tail.replace(b"\n", b"").replace(b"\r", b"")
    stream = b"".join(events) + tail
    out, pending, at, request = b"", b"", 0, 0
    while at < len(stream):
        size = cuts[request % len(cuts)]
        block, pending = sse.whole(pending, stream[at : at + size])
        assert not block or block.endswith((b"\n\n", b"\r\n\r\n"))
        out += block
        at, request = at + size, request + 1
    assert out + pending == stream
    assert pending == tail


def test_an_event_goes_out_as_soon_as_it_is_whole() -> None:
    assert sse.whole(b"", b"data: 1\n\ndata: 2") == (b"data: 1\n\n", b"data: 2")
    assert sse.whole(b"data: 2\n", b"\n") == (b"data: 2\n\n", b"")
    assert sse.whole(b"data: 2\r\n\r", b"\n") == (b"data: 2\r\n\r\n", b"")


@pytest.mark.parametrize(
    ("event", "data"),
    [
        (b"data: x", b"x"),
        (b"data:x", b"x"),
        (b"event: e\ndata: x", b"x"),
        (b"data: a\ndata: b", b"a\nb"),
        (b"event: e\r\ndata: x\r\nid: 1", b"x"),
        (b": comment", b""),
        (b"retry: 3", b""),
    ],
)
def test_data_of_an_event(event: bytes, data: bytes) -> None:
    assert sse.data(event) == data


def test_events_of_a_block() -> None:
    assert list(sse.events(b"a\n\nb\r\n\r\nc\n\n\n")) == [b"a", b"b", b"c"]


@given(
    st.lists(st.sampled_from([b"data:", b" ", b"x", b"\n", b"\r", b"event: data: x", b"\r\n"]), max_size=9)
)
def test_data_is_what_the_lines_of_data_hold(pieces: list[bytes]) -> None:
    event = b"".join(pieces)
    lines = [line for part in event.split(b"\n") for line in [part.partition(b"\r")[0]]]
    held = [line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:")]
    assert sse.data(event) == b"\n".join(held)

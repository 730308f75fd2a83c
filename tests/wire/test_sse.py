"""Server-sent events as bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.errors import UpstreamError
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
    out, splitter, at, request = b"", sse.Splitter(), 0, 0
    while at < len(stream):
        size = cuts[request % len(cuts)]
        block = splitter.feed(stream[at : at + size])
        assert not block or block.endswith((b"\n\n", b"\n\r\n"))
        out += block
        at, request = at + size, request + 1
    assert out + splitter.pending == stream
    assert splitter.pending == tail


@pytest.mark.parametrize(
    ("parts", "blocks", "pending"),
    [
        ([b"data: 1\n\ndata: 2", b"\n", b"\n"], [b"data: 1\n\n", b"", b"data: 2\n\n"], b""),
        ([b"data: 2\r\n\r", b"\n"], [b"", b"data: 2\r\n\r\n"], b""),
        ([b"data: 2\r\n\n", b"x"], [b"data: 2\r\n\n", b""], b"x"),
        ([b"data: 2\n\r\nda"], [b"data: 2\n\r\n"], b"da"),
        ([b"\n\n", b"\n", b"\n"], [b"\n\n", b"", b"\n\n"], b""),
        ([b"data: a\rb\n", b"\n"], [b"", b"data: a\rb\n\n"], b""),
    ],
)
def test_an_event_goes_out_as_soon_as_it_is_whole(
    parts: list[bytes], blocks: list[bytes], pending: bytes
) -> None:
    splitter = sse.Splitter()
    assert [splitter.feed(part) for part in parts] == blocks
    assert splitter.pending == pending


def test_bounds_of_a_stream() -> None:
    with pytest.raises(UpstreamError, match="an event of more than 10 bytes"):
        sse.Splitter(10, 100).feed(b"data: 12345")
    splitter = sse.Splitter(100, 20)
    assert splitter.feed(b"data: 1\n\n") == b"data: 1\n\n"
    with pytest.raises(UpstreamError, match="a stream of more than 20 bytes"):
        splitter.feed(b"data: 123456")
    splitter = sse.Splitter()
    for _ in range(40):
        splitter.feed(b"\n" * 100_000)
    with pytest.raises(UpstreamError, match="a stream of more than 4000000 lines"):
        splitter.feed(b"\n" * 5_000)
    with pytest.raises(UpstreamError, match="with CR alone"):
        sse.Splitter().feed(b"data: 1\r\rdata: 2")


@pytest.mark.parametrize("parts", [1, 7, 500])
@pytest.mark.parametrize(("lines", "fits"), [(99_000, True), (105_000, False)])
def test_lines_of_an_event_are_bounded(lines: int, fits: bool, parts: int) -> None:
    """Every line of data becomes an object. A few thousand lines more are not told from the bound."""
    splitter, event = sse.Splitter(), b"data: x\n" * lines
    size = -(-len(event) // parts)
    pieces = [event[at : at + size] for at in range(0, len(event), size)]
    for _ in range(2):  # the lines of one event do not count for the next
        if fits:
            assert not any(splitter.feed(piece) for piece in pieces)
            assert splitter.feed(b"\n") == event + b"\n"
        else:
            with pytest.raises(UpstreamError, match="an event of more than 100000 lines"):
                [splitter.feed(piece) for piece in pieces]
            assert not splitter.pending
            return


def test_an_event_in_many_parts_is_joined_in_linear_time() -> None:
    """What is pending is searched and moved once; copying it with each part took 20 s of these."""
    splitter, part = sse.Splitter(), b"data: " + b"x" * 1_018
    for _ in range(30_000):
        assert splitter.feed(part) == b""
    assert len(splitter.pending) == 30_000 * 1_024


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
    block = b"a\n\nb\r\n\r\nc\r\n\nd\n\r\ne\n\n\n"
    assert list(sse.events(block)) == [b"a", b"b", b"c", b"d", b"e"]


@given(
    st.lists(st.sampled_from([b"data:", b" ", b"x", b"\n", b"\r", b"event: data: x", b"\r\n"]), max_size=9)
)
def test_data_is_what_the_lines_of_data_hold(pieces: list[bytes]) -> None:
    event = b"".join(pieces)
    lines = [line for part in event.split(b"\n") for line in [part.partition(b"\r")[0]]]
    held = [line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:")]
    assert sse.data(event) == b"\n".join(held)

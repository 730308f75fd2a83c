"""Which bytes of a stream go out the moment they arrive, and that they are counted once."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pointsman.gateway._streaming import NO_KEEP_ALIVE, DirectSend, RelayedStream
from pointsman.wire import sse

EVENT = b'data: {"n": 1}\n\n'


class Sender(DirectSend):
    """Sends pieces into a list, while it has room."""

    def __init__(self, *, has_room: bool) -> None:
        self.sent: list[bytes] = []
        self._has_room = has_room

    def __call__(self, message: Any) -> Awaitable[None]:
        raise AssertionError(message)

    def piece(self, body: bytes) -> bool:
        if self._has_room:
            self.sent.append(body)
        return self._has_room


def relayed(
    sender: Sender, splitter: sse.Splitter, watch: Callable[[bytes], None] | None = None
) -> RelayedStream:
    return RelayedStream(splitter, sender, NO_KEEP_ALIVE, None, watch, (b"sk-secret",))


@pytest.mark.parametrize("chunk", [EVENT, EVENT * 3, b"event: a\n" + EVENT, b": mark\n\n" + EVENT])
def test_whole_events_go_out_at_once(chunk: bytes) -> None:
    sender, splitter = Sender(has_room=True), sse.Splitter(stream_bytes=1_000)
    stream = relayed(sender, splitter)
    assert stream.take(chunk)
    assert sender.sent == [chunk]
    assert list(stream.last) == [chunk]
    assert (stream.size, splitter.bytes_left) == (len(chunk), 1_000 - len(chunk))


@pytest.mark.parametrize(
    "chunk",
    [
        EVENT[:-1],
        EVENT[:-2],
        EVENT.replace(b"\n", b"\r\n"),
        b": a comment is no progress\n\n",
        b'data: {"error": "sk-secret"}\n\n',
        b"data: %b\n\n" % (b"x" * 5_000),
        b"data: %b\n\n" % (b"x" * 1_000),
        b"",
    ],
    ids=["half", "one line", "crlf", "comment", "error", "large", "beyond the limit", "nothing"],
)
def test_all_else_is_left_to_the_task(chunk: bytes) -> None:
    sender, splitter = Sender(has_room=True), sse.Splitter(stream_bytes=1_000)
    stream = relayed(sender, splitter)
    assert not stream.take(chunk)
    assert sender.sent == []
    assert (stream.size, list(stream.last), splitter.bytes_left) == (0, [], 1_000)


def test_the_end_of_an_event_waits_for_its_beginning() -> None:
    sender, splitter = Sender(has_room=True), sse.Splitter()
    stream = relayed(sender, splitter)
    assert splitter.feed(EVENT[:5]) == b""
    assert not stream.take(EVENT[5:])
    assert splitter.feed(EVENT[5:]) == EVENT
    assert stream.take(EVENT)


def test_nothing_is_counted_when_the_caller_has_no_room() -> None:
    sender, splitter = Sender(has_room=False), sse.Splitter(stream_bytes=1_000)
    stream = relayed(sender, splitter)
    assert not stream.take(EVENT)
    assert (stream.size, list(stream.last), splitter.bytes_left) == (0, [], 1_000)


def test_an_event_ends_the_quiet() -> None:
    """Else two comments long apart would look like an upstream that sends nothing else."""
    stream = relayed(Sender(has_room=True), sse.Splitter())
    stream.quiet = 12.0
    assert stream.take(EVENT)
    assert stream.quiet == 0.0


def test_comments_behind_an_answer_do_not_hide_its_end() -> None:
    """Usage and the closing mark are looked for in the last few blocks."""
    stream = relayed(Sender(has_room=False), sse.Splitter())
    for block in (EVENT, *[b": quiet\n\n"] * 6):
        assert stream.outgoing(block) == block
    assert (list(stream.last), stream.size) == ([EVENT], len(EVENT))


def test_what_goes_out_is_read_once() -> None:
    """Reasoning is noted whichever way it goes."""
    read: list[bytes] = []
    stream = relayed(Sender(has_room=True), sse.Splitter(), read.append)
    assert stream.take(EVENT)
    assert not stream.take(b": quiet\n\n")
    assert stream.outgoing(b": quiet\n\n" + EVENT) == b": quiet\n\n" + EVENT
    assert read == [EVENT, b": quiet\n\n" + EVENT]

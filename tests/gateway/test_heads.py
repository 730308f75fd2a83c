"""Heads that are no ordinary request: one short answer, one log line, and nothing else happens."""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from pointsman.gateway.log_sampling import LogSampler
from pointsman.upstreams.port import Limits, ServerSpec, hash_key
from support.raw_http import ASKED, JSON, head, statuses, talk
from support.servers import Asked, Running, ScriptedUpstream, gateway, reply, state_for

pytestmark = pytest.mark.integration

CONNECT = b"CONNECT a:1 HTTP/1.1\r\n"
LIVE = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n"
OFFER = b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n"
LARGE = 300_000  # bytes, more than the server reads at once


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with gateway(state_for(server=ServerSpec(port=0, limits=Limits(header_bytes=20_000)))) as running:
        yield running


def everything(port: int, *parts: bytes) -> bytes:
    """Send, and return all that comes until the server closes."""
    return talk(port, *parts, until=b"never")


@pytest.mark.parametrize(
    ("sent", "status", "says"),
    [
        (CONNECT + b"\r\n", b"405", b"CONNECT is not served"),
        (CONNECT + b"\r\n" + (head(JSON) + ASKED) * 3, b"405", b"CONNECT is not served"),
        (CONNECT + OFFER + b"\r\n", b"405", b"CONNECT is not served"),
        (CONNECT + b"x: " + b"v" * 15_000 + b"\r\n\r\n", b"405", b"CONNECT is not served"),
        (CONNECT + b"x: " + b"v" * LARGE + b"\r\n\r\n", b"431", b"larger than 20000 bytes"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(18), b"505", b"send HTTP/1.1"),
        (b"\x16\x03\x01\x02\x00" + bytes(512), b"400", b"use http://"),
        (b"hello\r\n\r\n", b"400", b"not valid HTTP/1.1"),
        (b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", b"404", b"unknown path"),
        (b"GET /\xff HTTP/1.1\r\nhost: localhost\r\n\r\n", b"400", b"not valid HTTP/1.1"),
        (LIVE + b"a:\r\n" * 10_000 + b"\r\n", b"431", b"larger than 20000 bytes"),
        (LIVE + b"a:\r\n" * 300 + b"\r\n", b"431", b"more than 256 headers"),
        (LIVE + b"x: " + b"v" * LARGE + b"\r\n\r\n", b"431", b"larger than 20000 bytes"),
    ],
    ids=["connect", "requests behind", "upgrade too", "15 kB", "300 kB", "HTTP/2", "TLS", "words", "star",
         "not ASCII", "10,000 headers", "300 headers", "long"],
)  # fmt: skip
def test_what_is_refused(
    running: Running, caplog: pytest.LogCaptureFixture, sent: bytes, status: bytes, says: bytes
) -> None:
    with caplog.at_level(logging.INFO):
        got = everything(running.port, sent)
    assert statuses(got) == [status]
    assert says in got
    assert b"connection: close" in got
    assert (b"allow: GET" in got) == (status == b"405")
    assert sum(len(record.getMessage()) for record in caplog.records) < 200
    assert not [record for record in caplog.records if record.exc_info]
    assert httpx.get(f"{running.url}/health/live", trust_env=False).status_code == 200


def test_a_caller_who_repeats_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    sampler = LogSampler(caplog.handler, lambda *_: None)
    caplog.handler.addFilter(sampler)  # as ``pointsman serve`` does
    try:
        with gateway(state_for()) as running, caplog.at_level(logging.INFO):
            for _ in range(30):
                everything(running.port, CONNECT + b"\r\n")
            sampler.flush()
    finally:
        caplog.handler.removeFilter(sampler)
    said = [text for r in caplog.records if "refused a connection" in (text := r.getMessage())]
    assert len(said) == 11
    assert said[-1].startswith("20 more lines like this within 10 s: refused a connection: CONNECT")


def test_answers_under_way_come_whole_before_the_end(running: Running) -> None:
    """What is refused behind requests must not stand in the middle of their answers."""
    got = everything(running.port, (head(JSON) + ASKED) * 3 + CONNECT + b"\r\n" + head(JSON) + ASKED)
    assert statuses(got) == [b"200"] * 3
    assert got.endswith(b"}")


def test_a_broken_body_is_refused_once(running: Running) -> None:
    chunked = head(JSON, b"transfer-encoding: chunked", length=None)
    got = everything(running.port, chunked, b"1\r\n{\r\nzz\r\n", b"more")
    assert statuses(got) == [b"400"]


def test_offers_without_end_go_no_deeper(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    """Each offer once let the reader call itself."""
    with caplog.at_level(logging.INFO):
        got = everything(running.port, (LIVE + OFFER + b"\r\n") * 1_000)
    assert set(statuses(got)) == {b"200"}
    assert 50 < len(statuses(got)) <= 101, "more than a hundred wait on no connection"
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
def test_the_end_of_a_head_may_come_in_two_parts(running: Running, cut: int) -> None:
    """A body larger than a head may be, behind a head whose last bytes came with it."""
    body = ASKED[:-1] + b',"x":"' + b"v" * 60_000 + b'"}'
    whole = head(JSON, length=len(body))
    assert statuses(talk(running.port, whole[:-cut], whole[-cut:] + body)) == [b"200"]


def test_a_head_byte_by_byte(running: Running) -> None:
    with socket.create_connection(("127.0.0.1", running.port), timeout=60) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(ConnectionError):
            connection.sendall(LIVE + b"x: " + b"v" * 19_900)
            for _ in range(200):
                connection.sendall(b"v")
                time.sleep(0.0005)
        assert statuses(connection.recv(1 << 16)) == [b"431"]


def test_who_goes_on_sending_is_cut_off(running: Running) -> None:
    with socket.create_connection(("127.0.0.1", running.port), timeout=60) as connection:
        connection.sendall(CONNECT + b"\r\n")
        assert statuses(connection.recv(1 << 16)) == [b"405"]
        with pytest.raises(ConnectionError):
            connection.sendall(bytes(64 << 20))


KEY = b"authorization: Bearer right\r\n"
CHUNKED = head(JSON, b"transfer-encoding: chunked", length=None)


def in_chunks(*trailers: bytes) -> bytes:
    return b"%x\r\n%b\r\n0\r\n" % (len(ASKED), ASKED) + b"".join(trailers) + b"\r\n"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Running]:
    with gateway(state_for(server=ServerSpec(port=0, keys=(hash_key("right"),)))) as running:
        yield running


@pytest.mark.parametrize("offer", [b"", b"connection: upgrade\r\nupgrade: h2c\r\n"])
def test_a_key_behind_the_body_is_none(guarded: Running, offer: bytes) -> None:
    """Trailers are no headers (RFC 9110, section 6.5.1); they were."""
    chunked = CHUNKED[:-2] + offer
    assert statuses(talk(guarded.port, chunked + b"\r\n" + in_chunks(KEY))) == [b"401"]
    assert statuses(talk(guarded.port, chunked + KEY + b"\r\n" + in_chunks(b"host: evil\r\n"))) == [b"200"]


def test_trailers_reach_nobody() -> None:
    async def answer(asked: Asked, send: Any) -> None:
        await reply(send, 200, b'{"choices":[{"message":{"content":"hi"}}]}')

    upstream = ScriptedUpstream(answer)
    with upstream.running() as url, gateway(state_for(f"{url}/v1")) as running:
        got = talk(running.port, CHUNKED + in_chunks(b"x-request-id: behind\r\n", b"openai-beta: behind\r\n"))
        again = talk(running.port, CHUNKED + in_chunks(b"connection: close\r\n") + head(JSON) + ASKED)
    assert statuses(got) == [b"200"]
    assert b"behind" not in got
    assert statuses(again)[:1] == [b"200"]
    assert not [seen for seen in upstream.asked if "behind" in str(seen.headers)]


def test_trailers_are_counted(running: Running) -> None:
    assert statuses(talk(running.port, CHUNKED + in_chunks(b"a:\r\n" * 256))) == [b"200"]
    of_claude = head(JSON, b"anthropic-version: 1", b"transfer-encoding: chunked", path=b"/", length=None)
    got = everything(running.port, of_claude + in_chunks(b"a:\r\n" * 257))
    assert statuses(got) == [b"431"]
    assert b"more than 256 trailers" in got
    assert b'{"type":"error","error":{' in got, (
        "in the format of the request, whose headers are not forgotten"
    )


@pytest.mark.parametrize("other", [b"host: localhost", b"Host: evil.example"])
def test_two_hosts_are_refused(running: Running, other: bytes) -> None:
    """Whoever stands in front may have looked at the other one (RFC 9112, section 3.2)."""
    got = everything(running.port, head(JSON, other) + ASKED)
    assert statuses(got) == [b"400"]
    assert b"more than one Host header" in got
    repeated = head(JSON, b"x-a: 1", b"x-a: 2", b"connection: close") + ASKED
    assert statuses(everything(running.port, repeated)) == [b"200"]

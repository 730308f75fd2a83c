"""A stream whose upstream is silent is kept alive with what clients ignore, and differs in nothing else."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx
import openai
import pytest

from pointsman.upstreams.port import ServerSpec
from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS
from pointsman.wire.translate import translated_formats
from support.servers import Asked, ScriptedUpstream, gateway, reply, state_for
from support.translation import CHAT, MESSAGES, RESPONSES, SAMPLES, TEXT, payloads

pytestmark = pytest.mark.integration

STREAM = [(b"content-type", b"text/event-stream")]
SECONDS = 0.05
PLAIN = [False]  # without calls
#: Where an upstream says nothing.
SILENCES = ("before the head", "before the first event", "within an event", "between events")


class Silent:
    """An upstream that says nothing at one place until it is told to go on."""

    def __init__(self, spoken: WireFormat, silence: str) -> None:
        self.events = SAMPLES[spoken].events(*PLAIN)
        self.silence = silence
        self.go_on = asyncio.Event()
        self.loop: asyncio.AbstractEventLoop | None = None

    def wake(self) -> None:
        assert self.loop is not None
        self.loop.call_soon_threadsafe(self.go_on.set)

    async def __call__(self, asked: Asked, send: Any) -> None:
        if not json.loads(asked.body).get("stream"):
            await reply(send, 200, b"{}")
            return
        self.loop = asyncio.get_running_loop()
        first, *rest = self.events
        await self._pause("before the head")
        await send({"type": "http.response.start", "status": 200, "headers": STREAM})
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        await self._pause("before the first event")
        await self._write(send, first)
        await self._pause("between events")
        half = len(rest[0]) // 2
        await self._write(send, rest[0][:half])
        await self._pause("within an event")
        await self._write(send, rest[0][half:] + b"".join(rest[1:]))
        await send({"type": "http.response.body", "body": b""})

    async def _pause(self, place: str) -> None:
        if self.silence == place:
            await self.go_on.wait()

    @staticmethod
    async def _write(send: Any, data: bytes) -> None:
        await send({"type": "http.response.body", "body": data, "more_body": True})


@contextmanager
def served(answering: Any, spoken: WireFormat, seconds: float = SECONDS, **spec: Any) -> Iterator[str]:
    formats = frozenset({spoken})
    with ScriptedUpstream(answering).running() as url:
        server = ServerSpec(port=0, keep_alive=seconds)
        state = state_for(
            f"{url}/v1", formats=formats, translated=translated_formats(formats), server=server, **spec
        )
        with gateway(state) as gate:
            yield gate.url


def read(url: str, caller: WireFormat, upstream: Silent, marks: int = 3) -> bytes:
    """Read a stream; let the upstream go on when so many marks have come."""
    mark, body = FORMATS[caller].keep_alive, b""
    asked = {**SAMPLES[caller].request(), "stream": True}
    with httpx.stream("POST", url + SAMPLES[caller].path, json=asked, timeout=60) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["x-pointsman-decision-id"]
        for chunk in answer.iter_raw():
            body += chunk
            if body.count(mark) >= marks:
                upstream.wake()
    return body


@pytest.mark.parametrize("silence", SILENCES)
@pytest.mark.parametrize("wire", WireFormat)
def test_marks_come_between_events_and_change_no_byte(wire: WireFormat, silence: str) -> None:
    upstream = Silent(wire, silence)
    with served(upstream, wire) as url:
        body = read(url, wire, upstream)
    mark = FORMATS[wire].keep_alive
    assert body.count(mark) >= 3
    assert body.replace(mark, b"") == b"".join(upstream.events).replace(mark, b"")


@pytest.mark.parametrize("silence", SILENCES)
def test_a_translated_stream_gets_marks_of_the_callers_format(silence: str) -> None:
    upstream = Silent(CHAT, silence)
    with served(upstream, CHAT) as url:
        body = read(url, MESSAGES, upstream)
    assert body.count(b'event: ping\ndata: {"type": "ping"}\n\n') >= 3
    spoken = SAMPLES[MESSAGES]
    assert spoken.read_stream([each for each in payloads(body) if each["type"] != "ping"]).text == TEXT
    assert body.count(spoken.closing) == 1


@pytest.mark.parametrize("silence", SILENCES)
@pytest.mark.parametrize("wire", WireFormat)
def test_the_official_sdks_ignore_them(wire: WireFormat, silence: str) -> None:
    upstream = Silent(CHAT, silence)
    with served(upstream, CHAT) as url, _waking(upstream):
        assert _sdk(wire, url) == TEXT


@contextmanager
def _waking(upstream: Silent) -> Iterator[None]:
    """Let the upstream go on after some periods of silence."""

    def wake() -> None:
        while upstream.loop is None:
            threading.Event().wait(0.01)
        threading.Event().wait(SECONDS * 4)
        upstream.wake()

    thread = threading.Thread(target=wake)
    thread.start()
    yield
    thread.join()


def _sdk(wire: WireFormat, url: str) -> str:
    if wire is MESSAGES:
        anthropic_client = anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)
        with anthropic_client.messages.stream(
            model="auto", max_tokens=99, messages=[{"role": "user", "content": "hi"}]
        ) as message:
            return message.get_final_text()
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)
    if wire is RESPONSES:
        with client.responses.stream(model="auto", input="hi") as stream:
            return stream.get_final_response().output_text
    with client.chat.completions.stream(model="auto", messages=[{"role": "user", "content": "hi"}]) as chat:
        return chat.get_final_completion().choices[0].message.content or ""


def test_none_when_switched_off_or_not_streamed() -> None:
    upstream = Silent(CHAT, "between events")
    with served(upstream, CHAT, seconds=0.0) as url, _waking(upstream):
        body = httpx.post(
            f"{url}/v1/chat/completions", json={**SAMPLES[CHAT].request(), "stream": True}, timeout=60
        )
        assert body.content == b"".join(upstream.events)


@pytest.mark.parametrize("wire", WireFormat)
def test_a_failure_after_the_first_mark_is_an_error_event(wire: WireFormat) -> None:
    upstream = Silent(wire, "before the head")

    async def failing(asked: Asked, send: Any) -> None:
        upstream.loop = asyncio.get_running_loop()
        await upstream.go_on.wait()
        await reply(send, 400, json.dumps(SAMPLES[wire].error).encode())

    with served(failing, wire) as url:
        body = read(url, wire, upstream)
    assert SAMPLES[wire].closing not in body
    last = payloads(body)[-1]
    assert last["error"]["message"] == "max_tokens is too large"


def test_a_whole_answer_to_a_stream_that_has_begun_is_an_error_event() -> None:
    upstream = Silent(CHAT, "before the head")

    async def whole(asked: Asked, send: Any) -> None:
        upstream.loop = asyncio.get_running_loop()
        await upstream.go_on.wait()
        await reply(send, 200, json.dumps(SAMPLES[CHAT].answer(*PLAIN)).encode())

    with served(whole, CHAT) as url:
        body = read(url, CHAT, upstream)
    assert (
        payloads(body)[-1]["error"]["message"]
        == "the upstream answered a request for a stream with no stream"
    )


def test_another_model_takes_over_after_the_first_mark() -> None:
    upstream = Silent(CHAT, "before the head")
    asked_before: list[Asked] = []

    async def failing_first(asked: Asked, send: Any) -> None:
        upstream.loop = asyncio.get_running_loop()
        asked_before.append(asked)
        if len(asked_before) == 1:
            await upstream.go_on.wait()
            await reply(send, 500, b"{}")
            return
        await upstream(asked, send)

    with served(failing_first, CHAT, retries=1) as url:
        body = read(url, CHAT, upstream)
    assert len(asked_before) == 2
    assert body.replace(FORMATS[CHAT].keep_alive, b"") == b"".join(upstream.events)

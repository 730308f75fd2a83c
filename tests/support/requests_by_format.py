"""One small request and its answer in each wire format, for what must hold in all three."""

from typing import Any

import httpx

from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS, Reply

WORDS = "What is the capital of France?"
PATHS = {wire: f"/v1{FORMATS[wire].path.decode()}" for wire in WireFormat}
EVENT_STREAM = ("content-type", "text/event-stream")

_REPLY = Reply(id="0123abcd", model="model-0", text="Paris, of course.", input_tokens=7, output_tokens=4)


def request(wire: WireFormat, **more: Any) -> dict[str, Any]:
    """A request as an agent would send it."""
    said = WORDS if wire is WireFormat.RESPONSES else [{"role": "user", "content": WORDS}]
    limit = {"max_tokens": 100} if wire is WireFormat.MESSAGES else {}
    return {"model": "auto", FORMATS[wire].items: said, **limit, **more}


def post(url: str, **given: Any) -> httpx.Response:
    """Ask without reading the machine's certificates first, which takes longer than the answer."""
    return httpx.post(url, verify=False, trust_env=False, timeout=60, **given)


def format_of(path: str) -> WireFormat:
    """The format of the endpoint an upstream was asked at."""
    return next(wire for wire in WireFormat if path.partition("?")[0].endswith(FORMATS[wire].path.decode()))


def answer(wire: WireFormat) -> bytes:
    """A whole answer."""
    return FORMATS[wire].answer(_REPLY)


def events(wire: WireFormat) -> list[bytes]:
    """The same answer as events."""
    return list(FORMATS[wire].answer_events(_REPLY))


async def start_stream(send: Any, *first: bytes) -> None:
    """Answer with the head of a stream and its first events."""
    head = [(EVENT_STREAM[0].encode(), EVENT_STREAM[1].encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    for part in first:
        await send({"type": "http.response.body", "body": part, "more_body": True})

"""A scripted Envoy: speaks to the external processor as Envoy's filter does, over real gRPC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import grpc

from pointsman.ext_proc import messages as proto

__all__ = ["Processed", "ScriptedEnvoy", "head"]

BUFFERED, DUPLEX, NONE, STREAMED = 2, 4, 0, 1


def head(fields: Mapping[str, str]) -> Any:
    """Headers as Envoy sends them."""
    return {"headers": [{"key": name, "raw_value": value.encode()} for name, value in fields.items()]}


class Processed:
    """What a request and its response became."""

    def __init__(self) -> None:
        self.immediate: Any = None  # the answer that Envoy gives at once
        self.request_headers: dict[str, str] = {}  # those that were set
        self.removed: list[str] = []
        self.body: bytes | None = None  # that replaces the request's; None: it stays
        self.clears_route = False
        self.response_headers: dict[str, str] = {}
        self.response_body = b""  # as repeated in full duplex
        self.kinds: list[str] = []  # of the answers, in order

    def take(self, answer: Any) -> None:
        kind = answer.WhichOneof("response")
        self.kinds.append(kind)
        if kind == "immediate_response":
            self.immediate = answer.immediate_response
            return
        if kind.endswith("trailers"):
            return
        common = getattr(answer, kind).response
        headers = {
            option.header.key: option.header.raw_value.decode()
            for option in common.header_mutation.set_headers
        }
        if kind.startswith("response"):
            self.response_headers |= headers
            if common.body_mutation.WhichOneof("mutation"):
                self.response_body += common.body_mutation.streamed_response.body
            return
        self.request_headers |= headers
        self.removed += common.header_mutation.remove_headers
        self.clears_route |= common.clear_route_cache
        match common.body_mutation.WhichOneof("mutation"):
            case "body":
                self.body = common.body_mutation.body
            case "streamed_response":
                self.body = (self.body or b"") + common.body_mutation.streamed_response.body


class ScriptedEnvoy:
    """Sends requests through an external processor at an address."""

    def __init__(self, channel: Any) -> None:
        self._call = channel.stream_stream(
            f"/{proto.SERVICE}/Process",
            request_serializer=proto.ProcessingRequest.SerializeToString,
            response_deserializer=proto.ProcessingResponse.FromString,
        )

    def begin(self) -> Any:
        """Open the stream of one request."""
        return self._call(timeout=60)

    def first(self, headers: Mapping[str, str] | None = None, *, ends: bool = False) -> Any:
        """Return its first message."""
        usual = {":method": "POST", ":path": "/v1/chat/completions", ":authority": "gateway.example"}
        sent = usual | {"content-type": "application/json"} | dict(headers or {})
        return proto.ProcessingRequest(request_headers={"headers": head(sent), "end_of_stream": ends})

    async def process(
        self,
        body: bytes,
        *,
        path: str = "/v1/chat/completions",
        headers: Mapping[str, str] | None = None,
        mode: int = BUFFERED,
        response_mode: int = BUFFERED,
        says_modes: bool = True,
        chunk: int = 1 << 20,
        trailers: bool = False,
        response: tuple[int, Mapping[str, str], Sequence[bytes]] | None = None,
        response_trailers: bool = False,
        method: str = "POST",
    ) -> Processed:
        """Process one request, and the response that its upstream gives; None: it gives none."""
        found, stream = Processed(), self.begin()
        first = self.first({":method": method, ":path": path, **(headers or {})}, ends=not body)
        if says_modes:
            first.protocol_config.request_body_mode = mode
            first.protocol_config.response_body_mode = response_mode
        await stream.write(first)
        if mode != DUPLEX:
            found.take(await stream.read())
        if body and mode != NONE and found.immediate is None:
            await self._send_body(stream, found, body, mode, chunk, trailers=trailers)
        if found.immediate is None and response is not None:
            await self._respond(stream, found, response, response_mode, trailers=response_trailers)
        await stream.done_writing()
        while (answer := await stream.read()) is not grpc.aio.EOF:
            found.take(answer)
        return found

    async def _send_body(
        self, stream: Any, found: Processed, body: bytes, mode: int, chunk: int, *, trailers: bool
    ) -> None:
        size = len(body) if mode == BUFFERED else chunk
        parts = [body[start : start + size] for start in range(0, len(body), size)]
        for number, part in enumerate(parts, 1):
            ends = number == len(parts) and not trailers
            sent = {"body": part, "end_of_stream": ends}
            await stream.write(proto.ProcessingRequest(request_body=sent))
            if mode != DUPLEX:
                found.take(await stream.read())
                if found.immediate is not None:
                    return
        if trailers:
            await stream.write(proto.ProcessingRequest(request_trailers={}))
        if mode == DUPLEX:
            await self._read_until_done(stream, found, trailers=trailers)

    async def _read_until_done(self, stream: Any, found: Processed, *, trailers: bool) -> None:
        """Read until the whole request has been given back, as Envoy waits for it."""
        while True:
            answer = await stream.read()
            found.take(answer)
            kind = found.kinds[-1]
            if kind == "immediate_response" or (trailers and kind == "request_trailers"):
                return
            if kind == "request_body":
                part = answer.request_body.response.body_mutation.streamed_response
                if part.end_of_stream:
                    return

    async def _respond(
        self,
        stream: Any,
        found: Processed,
        response: tuple[int, Mapping[str, str], Sequence[bytes]],
        mode: int,
        *,
        trailers: bool,
    ) -> None:
        status, headers, parts = response
        sent = {":status": str(status), "content-type": "application/json"} | dict(headers)
        headed = {"headers": head(sent), "end_of_stream": not parts}
        await stream.write(proto.ProcessingRequest(response_headers=headed))
        found.take(await stream.read())
        if mode == NONE:
            return
        for number, part in enumerate(parts, 1):
            sent_body = {"body": part, "end_of_stream": number == len(parts) and not trailers}
            await stream.write(proto.ProcessingRequest(response_body=sent_body))
            found.take(await stream.read())
        if trailers:
            await stream.write(proto.ProcessingRequest(response_trailers={}))
            found.take(await stream.read())

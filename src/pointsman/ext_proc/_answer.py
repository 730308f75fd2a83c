"""The messages that a stream answers Envoy with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pointsman.ext_proc import messages as proto
from pointsman.upstreams.port import Headers

__all__ = ["body_parts", "continued", "immediate", "mutated", "plain"]

#: Bytes of one message with a part of a body: what Envoy writes at once.
_PART: Final = 64 << 10
#: What Envoy writes by itself in an answer.
_OWN: Final = frozenset({b"content-length", b"connection", b"transfer-encoding"})


def _options(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[Any]:
    for name, value in headers:
        header = proto.HeaderValue(key=name.decode("latin-1"), raw_value=value)
        yield proto.HeaderValueOption(header=header, append_action=proto.OVERWRITE)


def mutated(headers: Iterable[tuple[bytes, bytes]], removed: Iterable[str] = ()) -> Any:
    """Return a mutation that sets some headers and removes others."""
    return proto.HeaderMutation(set_headers=_options(headers), remove_headers=removed)


def continued(kind: str, common: Any = None) -> Any:
    """Return a response of a kind (``request_headers``, …) that lets the request go on."""
    if kind.endswith("trailers"):
        return proto.ProcessingResponse(**{kind: proto.TrailersResponse()})
    of = proto.HeadersResponse if kind.endswith("headers") else proto.BodyResponse
    return proto.ProcessingResponse(**{kind: of(response=common) if common is not None else of()})


def plain(kind: str, *, streams: bool, body: bytes = b"", ends: bool = False) -> Any:
    """Return a response to a part of a body that goes on as it came, which some modes want repeated."""
    if not streams:
        return continued(kind)
    part = proto.StreamedBodyResponse(body=body, end_of_stream=ends)
    return continued(kind, proto.CommonResponse(body_mutation=proto.BodyMutation(streamed_response=part)))


def body_parts(kind: str, body: bytes, *, ends: bool) -> Iterator[Any]:
    """Yield a whole body in parts, for a mode in which each is a message."""
    for start in range(0, max(len(body), 1), _PART):
        part = body[start : start + _PART]
        yield plain(kind, streams=True, body=part, ends=ends and start + _PART >= len(body))


def immediate(status: int, headers: Headers, body: bytes) -> Any:
    """Return the answer that Envoy gives at once, instead of asking an upstream."""
    return proto.ProcessingResponse(
        immediate_response=proto.ImmediateResponse(
            status=proto.HttpStatus(code=status),
            headers=mutated(pair for pair in headers if pair[0] not in _OWN),
            body=body,
            details="pointsman",
        )
    )

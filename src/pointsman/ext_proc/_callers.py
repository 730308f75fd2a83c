"""Caller of a request from Envoy, and whether the request may pass unchanged.

With configured keys no request skips the check: the head of each request is checked before
any part is forwarded. A request that is passed unchanged has no known cost, so a key whose cost or models are
bounded is refused instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pointsman.access import Grant
from pointsman.errors import (
    CallerError,
    MalformedRequest,
    Overloaded,
    RoleForbids,
    StoreUnavailable,
    TooLarge,
)
from pointsman.ext_proc import messages as proto
from pointsman.gateway.parts import LiveState, Scope, authorise, send_refusal
from pointsman.upstreams.port import Headers
from pointsman.wire import FORMATS, Format, guess_wire

# The messages that a stream answers Envoy with.

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
    """Return a response of a kind (``request_headers``, …) that lets the request continue."""
    if kind.endswith("trailers"):
        return proto.ProcessingResponse(**{kind: proto.TrailersResponse()})
    of = proto.HeadersResponse if kind.endswith("headers") else proto.BodyResponse
    return proto.ProcessingResponse(**{kind: of(response=common) if common is not None else of()})


def plain(kind: str, *, streams: bool, body: bytes = b"", ends: bool = False) -> Any:
    """Return a response to a part of a body that passes unchanged, which some modes want repeated."""
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


#: What is decided, by path.
ENDPOINTS: Final = {prefix + wire.path: wire for wire in FORMATS.values() for prefix in (b"", b"/v1")}
#: What a key with limits may do where nothing is decided: no model works for it.
_READS: Final = frozenset({b"GET", b"HEAD", b"OPTIONS", b"DELETE"})


def admitted(state: LiveState, sent: Headers) -> Grant | None:
    """Return the permissions of a request's key; None: all, or no key is required.

    Args:
        state: Names the keys.
        sent: The headers of the request.

    Raises:
        Unauthorized: no key, or an unknown one.
        Forbidden: it is no longer valid.
    """
    if not state.server.keys:  # Envoy decides who may call
        return None
    caller = authorise(dict(sent), state.server, state.callers)
    if state.access is None:
        return None
    state.access.admit(caller)
    return state.access.grants.get(caller)


def is_bounded(grant: Grant | None) -> bool:
    """Whether a request with this key has to be decided."""
    return grant is not None and grant.bounds_cost


async def check_passed(state: LiveState, grant: Grant | None, why: str, method: bytes, sent: Headers) -> None:
    """Pass a request unchanged, and count it against the rate limit of its key.

    Args:
        state: Counts.
        grant: From ``admitted``.
        why: The request is not decided.
        method: Of the request.
        sent: Its headers.

    Raises:
        CallerError: its key may not do that, or its rate limit is used up.
        Overloaded: that is unknown, or the request cannot be decided now.
    """
    if grant is None or state.access is None:
        return
    grant.check_role()
    reads = method in _READS and all(name != b"upgrade" for name, _ in sent)
    if grant.bounds_cost and not reads:
        raise _not_passed(grant, why, state.server.limits.body_bytes)
    try:
        await state.access.begin(grant).count_request()
    except StoreUnavailable:
        raise Overloaded("the limits of the key cannot be checked", hint="send the request later") from None


def _not_passed(grant: Grant, why: str, limit: int) -> CallerError | Overloaded:
    match why:
        case "too_large":
            return TooLarge(f"the request body is larger than {limit} bytes, or is not shown as a whole")
        case "no_body":
            return MalformedRequest("the request has no body")
        case "overloaded" | "failed":
            return Overloaded("the request cannot be decided now", hint="send it again later")
    return RoleForbids(
        f'key "{grant.name}" has a budget, a token limit or a list of models, '
        "and what is passed on as it came has no known cost",
        hint="POST a whole body to /v1/chat/completions, /v1/responses or /v1/messages",
    )


async def refused(error: CallerError | Overloaded, scope: Scope) -> Any:
    """Return Envoy's answer to a refused request, in the caller's format."""
    answer: list[Any] = []

    async def send(message: Any) -> None:
        answer.append(message)

    headers: Headers = scope["headers"]
    await send_refusal(_wire(scope["raw_path"], headers), error, dict(headers), send, scope)
    body = b"".join(message.get("body", b"") for message in answer)
    return immediate(answer[0]["status"], answer[0]["headers"], body)


def _wire(path: bytes, headers: Headers) -> Format:
    return ENDPOINTS.get(path) or guess_wire((name for name, _ in headers), path.decode("ascii", "replace"))

"""Whose request Envoy shows, and whether it may go on as it came.

Where keys are configured nobody chooses that no key is asked for: the head of each request is checked before
anything of it goes on. What is passed on as it came has no known cost, so a key whose cost or models are
bounded is refused instead.
"""

from __future__ import annotations

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
from pointsman.ext_proc._answer import immediate
from pointsman.gateway.parts import LiveState, Scope, authorise, send_refusal
from pointsman.upstreams.port import Headers
from pointsman.wire import WIRES, Wire, guess_wire

__all__ = ["ENDPOINTS", "admitted", "check_passed", "is_bounded", "refused"]

#: What is decided, by path.
ENDPOINTS: Final = {prefix + wire.path: wire for wire in WIRES.values() for prefix in (b"", b"/v1")}
#: What a key with limits may do where nothing is decided: no model works for it.
_READS: Final = frozenset({b"GET", b"HEAD", b"OPTIONS", b"DELETE"})


def admitted(state: LiveState, sent: Headers) -> Grant | None:
    """Return what the key of a request may do; None: everything, or no key is asked for.

    Args:
        state: Names the keys.
        sent: The headers of the request.

    Raises:
        Unauthorized: no key, or not one of ours.
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
    """Let a request go on as it came, and count it against the rate limit of its key.

    Args:
        state: Counts.
        grant: From ``admitted``.
        why: The request is not decided.
        method: Of the request.
        sent: Its headers.

    Raises:
        CallerError: its key may not do that, or its rate limit is used up.
        Overloaded: that cannot be told, or the request cannot be decided now.
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
    """Return Envoy's answer to a request that may not go on, in the caller's format."""
    answer: list[Any] = []

    async def send(message: Any) -> None:
        answer.append(message)

    headers: Headers = scope["headers"]
    await send_refusal(_wire(scope["raw_path"], headers), error, dict(headers), send, scope)
    body = b"".join(message.get("body", b"") for message in answer)
    return immediate(answer[0]["status"], answer[0]["headers"], body)


def _wire(path: bytes, headers: Headers) -> Wire:
    return ENDPOINTS.get(path) or guess_wire((name for name, _ in headers), path.decode("ascii", "replace"))

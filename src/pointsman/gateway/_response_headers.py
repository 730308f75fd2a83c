"""Builds the response headers: the relayed headers of the upstream and the ``x-pointsman-*`` headers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from pointsman.decision.decision import Decision
from pointsman.gateway._request import HOP_BY_HOP, KEPT_NAMES, OWN_PREFIX
from pointsman.gateway.upstream import Target, printable
from pointsman.upstreams import port
from pointsman.vocabulary import AgentRequest

__all__ = ["Headers", "downstream", "request_id", "response_headers"]

Headers: TypeAlias = list[tuple[bytes, bytes]]

_REQUEST_ID: Final = 128  # characters of a caller's request id that are kept

#: Not for a caller: framing, which our server does anew, and what would speak for another host.
_NOT_DOWN: Final = HOP_BY_HOP | {
    b"content-length", b"date", b"server", b"set-cookie", b"alt-svc", b"strict-transport-security",
    b"x-should-retry",  # the gateway is who retries
}  # fmt: skip

#: The caller's own or the decision's id goes by this name; the upstream's keeps one beside it.
_RENAMED: Final = {b"x-request-id": b"x-pointsman-upstream-request-id"}


def downstream(sent: port.Headers, secret: bytes) -> Headers:
    """Return what of an upstream's headers goes to the caller, without any that repeats our key."""
    passed = [(new, value) for name, value in sent if (new := _name_down(name))]
    return [pair for pair in passed if secret not in pair[1]] if secret else passed


@lru_cache(KEPT_NAMES)
def _name_down(name: bytes) -> bytes:
    """The name under which a header goes to the caller; empty when it does not."""
    if name in _NOT_DOWN or name.startswith(OWN_PREFIX):
        return b""
    return _RENAMED.get(name, name)


def response_headers(
    decision: Decision,
    target: Target | None,
    attempts: int,
    overhead: float,
    headers: Mapping[bytes, bytes],
    debug: AgentRequest | None,
) -> Headers:
    """Build the ``x-pointsman-*`` response headers, and ``x-request-id``.

    Args:
        decision: What was decided.
        target: The model that answered, if one did.
        attempts: How many tries that took.
        overhead: Seconds from the request's arrival to the first try.
        headers: The caller's headers, by name.
        debug: The request, when the caller asked for more with ``x-pointsman-debug: 1``.
    """
    tier = decision.tier
    own: Headers = [
        (b"x-pointsman-tier", tier.tier.encode() if tier else b"none"),
        (b"x-pointsman-decision-id", decision.id.encode()),
        (b"x-pointsman-overhead-ms", b"%.2f" % (overhead * 1e3)),
        (b"x-pointsman-attempts", b"%d" % attempts),
    ]
    if target is not None:
        own.append((b"x-pointsman-model", target.shown))
    own.append((b"x-request-id", request_id(headers) or decision.id.encode()))
    if debug is not None:
        own += _debug_headers(decision, debug)
    return own


def request_id(headers: Mapping[bytes, bytes]) -> bytes:
    """Return the id that a caller gave its request; empty when it gave none that can be sent back."""
    asked = headers.get(b"x-request-id", b"")
    return asked[:_REQUEST_ID] if asked.isascii() else b""


def _guidance(decision: Decision) -> str:
    guidance = decision.guidance
    if guidance is None or guidance.firing is None:
        return ""
    return f"{guidance.firing.classifier}; {guidance.arm}; {guidance.firing.rung}"


def _debug_headers(decision: Decision, request: AgentRequest) -> Headers:
    tier = decision.tier
    shown = {
        "session": request.session,
        "policy": decision.policy,
        "chain": " ".join(decision.chain),
        "decide-us": f"{decision.elapsed_us:.0f}",
        "domains": decision.domains.signature if decision.domains else "",
        "domains-rule": decision.domains.rule if decision.domains else "",
        "guidance": _guidance(decision),
        "reasons": "; ".join(reason.code for reason in decision.reasons),
        "abstained": "; ".join(reason.code for reason in decision.abstained),
    }
    if tier:
        shown |= {
            "score": f"{tier.score:.4f}",
            "confidence": f"{tier.confidence:.4f}",
            "stage": tier.stage,
            "signals": "; ".join(tier.signals),
        }
    return [(f"x-pointsman-{name}".encode(), printable(text)) for name, text in shown.items() if text]

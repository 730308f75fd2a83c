"""The headers that are the gateway's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pointsman.decision.decision import Decision
from pointsman.gateway import headers
from pointsman.gateway.relay import Headers
from pointsman.gateway.upstream import Target
from pointsman.vocabulary import AgentRequest

__all__ = ["asked_id", "own_headers"]

_REQUEST_ID: Final = 128  # characters of a caller's request id that are kept


def own_headers(
    decision: Decision,
    target: Target | None,
    attempts: int,
    spent: float,
    named: Mapping[bytes, bytes],
    debug: AgentRequest | None,
) -> Headers:
    """Return what an answer says about how it came about.

    Args:
        decision: What was decided.
        target: The model that answered, if one did.
        attempts: How many tries that took.
        spent: Seconds from the request's arrival to the first try.
        named: The caller's headers.
        debug: The turn, when the caller asked for more with ``x-pointsman-debug: 1``.
    """
    tier = decision.tier
    own: Headers = [
        (b"x-pointsman-tier", tier.tier.encode() if tier else b"none"),
        (b"x-pointsman-decision-id", decision.id.encode()),
        (b"x-pointsman-overhead-ms", b"%.2f" % (spent * 1e3)),
        (b"x-pointsman-attempts", b"%d" % attempts),
    ]
    if target is not None:
        own.append((b"x-pointsman-model", target.shown))
    own.append((b"x-request-id", asked_id(named) or decision.id.encode()))
    if debug is not None:
        own += _debug_headers(decision, debug)
    return own


def asked_id(named: Mapping[bytes, bytes]) -> bytes:
    """Return the id that a caller gave its request; empty when it gave none that can be sent back."""
    asked = named.get(b"x-request-id", b"")
    return asked[:_REQUEST_ID] if asked.isascii() else b""


def _guided(decision: Decision) -> str:
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
        "guidance": _guided(decision),
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
    return [(f"x-pointsman-{name}".encode(), headers.printable(text)) for name, text in shown.items() if text]

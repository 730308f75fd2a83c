"""Headers of a response: what of the upstream's is relayed, and the gateway's own ``x-pointsman-*``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from operator import itemgetter
from typing import Final, TypeAlias

from pointsman.access import Spending
from pointsman.decision.decision import Decision
from pointsman.decision.permission import LOW_BUDGET, OVER_TIER
from pointsman.gateway._failures import Failure
from pointsman.gateway._request import DecidedRequest
from pointsman.gateway.upstream import CONNECTION, HeadPlan, Target, Upstream, header_value
from pointsman.upstreams import port
from pointsman.upstreams.relayed_headers import HeaderNames, is_well_formed, name_down
from pointsman.vocabulary import AgentRequest

__all__ = [
    "Headers", "answer_lines", "downstream_headers", "own_headers", "request_id", "response_headers",
]  # fmt: skip

Headers: TypeAlias = list[tuple[bytes, bytes]]

_name: Final = itemgetter(0)
_value: Final = itemgetter(1)
#: Comes once, and the first one counts here: with two, the caller's client could read another format.
_TYPE: Final = b"content-type"
_SELECTED: Final = 1_000  # characters of the names of capabilities in a header
_REQUEST_ID: Final = 128  # characters of a caller's request id that are kept
#: The gateway's own headers of an answer; those from a debug header on are built one by one.
_OWN: Final = (
    b"x-pointsman-tier: %b\r\nx-pointsman-decision-id: %b\r\nx-pointsman-overhead-ms: %.2f\r\n"
    b"x-pointsman-attempts: %d\r\nx-pointsman-model: %b\r\nx-request-id: %b\r\n"
)
#: Headers without which the head of an answer is one format: how the connection and the body end.
_FRAMING: Final = frozenset({CONNECTION, b"transfer-encoding", b"content-length"})
#: Combinations of names of which the format is remembered, for each upstream: it sends the same few.
_MOST_PLANS: Final = 64


def answer_lines(request: DecidedRequest, target: Target, sent: port.Headers) -> bytes:
    """Return the lines of an answer's head: the upstream's headers and the gateway's, as the two below.

    Empty where the headers have to be looked at one by one.
    """
    upstream, headers = target.upstream, request.inbound.headers
    names = tuple(map(_name, sent))
    plan = upstream.plans.get(names) or _plan(upstream, names)
    if not plan.lines or b"x-pointsman-debug" in headers:
        return b""
    if plan.is_kept_alive and dict(sent)[CONNECTION] != b"keep-alive":
        return b""  # it names headers of this connection
    decision = request.decision
    tier, named = decision.tier, decision.id.encode()
    lines = plan.lines % (
        *compress(map(_value, sent), plan.relayed),
        tier.tier.encode() if tier else b"none",
        named,
        request.overhead * 1e3,
        request.attempts,
        target.shown,
        request_id(headers) or named if b"x-request-id" in headers else named,
    )
    total = plan.total
    if request.spending is not None:
        limits = _limit_headers(decision, request.spending)
        lines += b"".join(b"%b: %b\r\n" % pair for pair in limits)
        total += len(limits)
    for secret in upstream.secrets:
        if secret in lines:
            return b""
    return lines if is_well_formed(lines, total) else b""


def _plan(upstream: Upstream, names: tuple[bytes, ...]) -> HeadPlan:
    """Plan the heads of answers with headers of these names, and remember the plan."""
    renamed = [name_down(name) for name in names]
    passed = [name for name in renamed if name]
    own = upstream.relayed.returned is not None and any(name in upstream.relayed.returned for name in names)
    is_plain = (
        not own
        and names.count(CONNECTION) < 2
        and passed.count(_TYPE) < 2
        and _FRAMING.isdisjoint(passed)
        and not any(b":" in name or b"%" in name for name in passed)
    )
    lines = b"".join(b"%b: %%b\r\n" % name for name in passed) + _OWN if is_plain else b""
    if len(upstream.plans) >= _MOST_PLANS:
        upstream.plans.clear()
    plan = HeadPlan(lines, tuple(map(bool, renamed)), len(passed) + _OWN.count(b"\n"), CONNECTION in names)
    upstream.plans[names] = plan
    return plan


def own_headers(request: DecidedRequest, target: Target | None) -> Headers:
    """Build the gateway's headers of an answer; with limits those too, and why a lower tier serves."""
    headers, spending = request.inbound.headers, request.spending
    own = response_headers(
        request.decision, target, request.attempts, request.overhead, headers, request.turn, request.left_out
    )
    return own if spending is None else own + _limit_headers(request.decision, spending)


def _limit_headers(decision: Decision, spending: Spending) -> Headers:
    """Return the rest of the limits, and why a lower tier serves than the prompt asks for."""
    sent = spending.headers()
    for reason in decision.reasons:
        if reason.code in {OVER_TIER, LOW_BUDGET}:
            sent.append((b"x-pointsman-tier-lowered", header_value(f"{reason.code}: {reason.detail}")))
    return sent


def downstream_headers(
    sent: port.Headers, secrets: Sequence[bytes], returned: HeaderNames | None = None
) -> Headers:
    """Return the headers of an upstream that go to the caller, without any that repeats a secret.

    Args:
        sent: The upstream's headers.
        secrets: Texts that none may hold.
        returned: Other headers that this upstream is configured to return.
    """
    names = list(map(name_down, map(_name, sent)))
    passed = list(compress(zip(names, map(_value, sent), strict=True), names))
    if returned is not None:
        passed += [pair for pair in sent if not name_down(pair[0]) and pair[0] in returned]
    if b"connection" in map(_name, sent):  # it names headers of this connection
        nominated = [value for name, value in sent if name == b"connection"]
        hops = {each.strip().lower() for value in nominated for each in value.split(b",")}
        passed = [pair for pair in passed if pair[0] not in hops]
    told = b"\n".join(map(_value, passed))
    for secret in secrets:
        if secret in told:
            passed = [pair for pair in passed if secret not in pair[1]]
    if len(dict(passed)) < len(passed):  # some name comes twice
        first = next((pair for pair in passed if pair[0] == _TYPE), None)
        passed = [pair for pair in passed if pair[0] != _TYPE or pair is first]
    return passed


def response_headers(
    decision: Decision,
    target: Target | None,
    attempts: int,
    overhead: float,
    headers: Mapping[bytes, bytes],
    request: AgentRequest | None,
    left_out: Sequence[tuple[Target, Failure]] = (),
) -> Headers:
    """Build the ``x-pointsman-*`` response headers, and ``x-request-id``.

    Args:
        decision: Of the request.
        target: The model that answered, if one did.
        attempts: How many tries that took.
        overhead: Seconds from the request's arrival to the first try.
        headers: The caller's headers, by name.
        request: For those that the caller asks for with ``x-pointsman-debug: 1``; None: not at hand.
        left_out: The models that did not answer, and why.
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
    asked = request_id(headers) if b"x-request-id" in headers else b""
    own.append((b"x-request-id", asked or decision.id.encode()))
    if request is not None and headers.get(b"x-pointsman-debug") == b"1":
        own += _debug_headers(decision, request, left_out)
    return own


def request_id(headers: Mapping[bytes, bytes]) -> bytes:
    """Return the id that a caller gave its request; empty when it gave none that can be sent back."""
    asked = headers.get(b"x-request-id", b"")
    return asked[:_REQUEST_ID] if asked.isascii() else b""


def _guidance(decision: Decision) -> str:
    guidance = decision.guidance
    if guidance is None or not guidance.firings:
        return ""
    fired = ", ".join(firing.classifier for firing in guidance.firings)
    return f"{fired}; {guidance.arm}; {guidance.firings[0].rung}"


def _capabilities(decision: Decision) -> str:
    """The names selected, cut: an agent may offer hundreds of tools."""
    selected = decision.capabilities
    if selected is None:
        return ""
    names = " ".join(selected.selected)
    shown = names if len(names) <= _SELECTED else names[:_SELECTED].rpartition(" ")[0] + " ..."
    return f"bypass; {shown}" if selected.bypass else shown


def _debug_headers(
    decision: Decision, request: AgentRequest, left_out: Sequence[tuple[Target, Failure]]
) -> Headers:
    tier = decision.tier
    shown = {
        "session": request.session,
        "left-out": "; ".join(f"{target.model.name}: {failure.kind}" for target, failure in left_out),
        "policy": decision.policy,
        "chain": " ".join(decision.chain),
        "parameters": "; ".join(f"{model}: {given}" for model, given in decision.parameters.items()),
        "decide-us": f"{decision.elapsed_us:.0f}",
        "domains": decision.domains.signature if decision.domains else "",
        "domains-rule": decision.domains.rule if decision.domains else "",
        "guidance": _guidance(decision),
        "capabilities": _capabilities(decision),
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
    return [(f"x-pointsman-{name}".encode(), header_value(text)) for name, text in shown.items() if text]

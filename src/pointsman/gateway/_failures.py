"""Failed tries: what each means for the caller, the next try, its pause, the next model; several as one."""

from __future__ import annotations

import email.utils
import math
import random
import time
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pointsman.decoding import decoded_or
from pointsman.errors import (
    CallerError,
    LimitReached,
    PreviousResponseNotFound,
    Unauthorized,
    UpstreamBusy,
    UpstreamError,
    UpstreamMalformed,
    UpstreamTimeout,
    UpstreamTooLarge,
    UpstreamUnavailable,
)
from pointsman.gateway.upstream import Target, Upstream
from pointsman.stores.ledger.port import NOT_ASKED
from pointsman.upstreams.port import Exchange, Headers, read_at_most
from pointsman.wire import Fault, Format, Usage
from pointsman.wire.format import error_message
from pointsman.wire.sse import masked

__all__ = [
    "Failure",
    "backoff",
    "connection_failure",
    "error_body",
    "failure_kind",
    "is_retryable",
    "misconfigured",
    "not_sent",
    "pass_over",
    "refused_key",
    "refuses_our_key",
    "retry_after",
    "status_failure",
    "together",
    "unreadable_answer",
]

#: First pause and longest pause in seconds: those of the OpenAI and Anthropic SDKs.
_FIRST: Final = 0.5
_LONGEST: Final = 8.0

#: Below 500, what may pass by itself: request timeout, conflict (a lock), too early, too many requests.
_TRANSIENT: Final = frozenset({408, 409, 425, 429})
#: The upstream refused the gateway's own key or account; nothing the caller sends can change that.
_CREDENTIALS: Final = frozenset({401, 402, 403})


def is_retryable(status: int) -> bool:
    """Whether the same request may succeed a little later."""
    return status >= 500 or status in _TRANSIENT


def backoff(tries: int) -> float:
    """Return seconds to wait after ``tries`` failures in a row.

    Exponential, with a random half, so that requests which failed together do not come back together.
    """
    pause: float = min(_FIRST * 2 ** (tries - 1), _LONGEST)
    return pause * random.uniform(0.5, 1.0)


def retry_after(headers: Headers) -> float | None:
    """Return the seconds an upstream asks to wait; None when it does not say.

    ``retry-after-ms`` is OpenAI's; ``retry-after`` holds seconds or a date (RFC 9110, section 10.2.3).
    """
    try:
        seconds = _asked(dict(headers))
    except (ValueError, OverflowError):
        return None
    return max(seconds, 0.0) if seconds is not None and math.isfinite(seconds) else None


def _asked(headers: Mapping[bytes, bytes]) -> float | None:
    if milliseconds := headers.get(b"retry-after-ms"):
        return float(milliseconds) / 1000
    value = headers.get(b"retry-after", b"").decode("latin-1").strip()
    if not value:
        return None
    if value.replace(".", "", 1).isdigit():
        return float(value)
    return email.utils.parsedate_to_datetime(value).timestamp() - time.time()


#: Bytes of an error that are read: several pages.
_MAX_ERROR: Final = 1 << 20
#: Classes of failure by error; the first that fits counts.
_KINDS: Final[Mapping[type[UpstreamError], str]] = {
    UpstreamTimeout: "timeout",
    UpstreamBusy: "busy",
    UpstreamUnavailable: "connect",
    UpstreamTooLarge: "too_large",
    UpstreamMalformed: "malformed",
}
#: Failures after which the same model is not asked again. A request that timed out may have cost its whole
#: answer already, a long answer has, and one that found all connections in use has waited for one.
_NOT_RETRIED: Final = frozenset({"timeout", "too_large", "busy"})
#: Of an upstream that refuses the operator's key. Agents end at once at 403; a 5xx they try again for half a
#: minute, and 401 would make them ask for the caller's own key, which is right.
_REFUSED_STATUS: Final = 403
#: What the operator alone can mend; it is told before everything else.
_OPERATORS: Final = frozenset({"upstream_refused_key", "upstream_redirect"})
#: Characters of an upstream's own words that are repeated beside those of others.
_WORDS: Final = 200


class Failure(msgspec.Struct, frozen=True):
    """One try failed, or could not be made."""

    fault: Fault
    kind: str  # as the ledger's ``Attempt.error``
    upstream: Upstream | None = None
    status: int = 0  # as the upstream answered; 0 when it did not
    headers: Headers = ()
    body: bytes = b""
    wire: Format | None = None  # of the body
    retry: bool = True  # the same request may succeed later
    fall_back: bool = True  # another model may serve it
    wait: float | None = None  # seconds the upstream asked for
    why: str = ""  # of several failures, for the log: without the upstreams' own words
    limit: LimitReached | None = None  # that has no room for it
    model: str = ""  # that it has no room for

    @property
    def is_operators(self) -> bool:
        """Whether only the operator can do something about it."""
        return self.fault.code in _OPERATORS


def together(failures: Sequence[Failure]) -> Failure:
    """Return one failure for those of all models, in the order of asking: it names each upstream's error.

    A budget without room is named once, with each model. An upstream's verdict on the request itself
    is passed on as it is. Otherwise the last upstream that was asked decides the status: a failure that may
    pass before one that only the operator can mend. The operator's failures come first in the message.
    """
    failures = _by_budget(failures)
    asked = [failure for failure in failures if failure.kind not in NOT_ASKED]
    asked = [failure for failure in asked if not failure.is_operators] or asked
    # What an upstream said explains more than that the next one was not asked.
    chosen = asked[-1] if asked else failures[0]
    ordered = sorted(failures, key=lambda failure: not failure.is_operators)
    why = "; ".join(dict.fromkeys(failure.fault.message for failure in ordered))
    if not chosen.fall_back or len({failure.fault.message for failure in failures}) == 1:
        return msgspec.structs.replace(chosen, why=why)
    message = "; ".join(dict.fromkeys(map(_in_full, ordered)))
    fault = Fault(chosen.fault.status, message, chosen.fault.code, chosen.fault.param)
    return msgspec.structs.replace(chosen, fault=fault, status=0, body=b"", why=why)


def _by_budget(failures: Sequence[Failure]) -> Sequence[Failure]:
    """Return the failures, those of one budget as one: it waits for the model that has room first."""
    found: dict[object, list[Failure]] = {}
    for place, failure in enumerate(failures):
        found.setdefault(failure.limit.left if failure.limit else place, []).append(failure)
    return [_of_models(each) if len(each) > 1 else each[0] for each in found.values()]


def _of_models(failures: Sequence[Failure]) -> Failure:
    """Return one failure for several models that one limit has no room for."""
    soonest = min(failures, key=lambda failure: math.inf if failure.wait is None else failure.wait)
    limit = soonest.limit
    if limit is None:
        return soonest
    models: dict[str, list[str]] = {}  # by what they may take
    for each in failures:
        models.setdefault(each.limit.asked if each.limit else "", []).append(f'"{each.model}"')
    asked = ", ".join(f"{amount} with {' or '.join(names)}" for amount, names in models.items())
    message = f"{limit.left}; this request may take {asked}; {limit.hint}"
    return msgspec.structs.replace(soonest, fault=msgspec.structs.replace(soonest.fault, message=message))


def _in_full(failure: Failure) -> str:
    """A failure with the upstream's own words, without a secret that it repeats."""
    body, said = failure.body, failure.fault.message
    if failure.is_operators or not body or failure.upstream is None:
        return said
    words = decoded_or("", error_message, masked(body, failure.upstream.secrets))
    return f"{said}: {words[:_WORDS]}" if words else said


def failure_kind(error: UpstreamError) -> str:
    """Return the class of a failure, as the ledger names it."""
    for kind, name in _KINDS.items():
        if isinstance(error, kind):
            return name
    return "cut"


def connection_failure(upstream: Upstream, error: UpstreamError) -> Failure:
    """The upstream was not reached, or did not answer to the end."""
    kind = failure_kind(error)
    fault = Fault(error.status, f'{error.message} (upstream "{upstream.spec.name}")', f"upstream_{kind}")
    return Failure(fault, kind, upstream, retry=kind not in _NOT_RETRIED)


def unreadable_answer(upstream: Upstream, wire: Format | None, usage: Usage) -> Failure:
    """The upstream answered with something else than a format that is translated; without one, than JSON.

    An answer with its usage is paid for: a retry would cost as much once more.
    """
    is_paid = usage.output is not None
    what = f"one of the format {wire.format} that can be translated" if wire else "JSON"
    message = f'the upstream\'s answer is not {what} (upstream "{upstream.spec.name}")'
    return Failure(Fault(502, message, "upstream_malformed"), "malformed", upstream, retry=not is_paid)


def status_failure(
    upstream: Upstream, exchange: Exchange, wire: Format, body: bytes, status: int = 0
) -> Failure:
    """The upstream answered with an error; ``status``: another than its answer has."""
    status = status or exchange.status
    operators, retryable = misconfigured(upstream, status), is_retryable(status)
    message = f'upstream "{upstream.spec.name}" answered with status {status}'
    return Failure(
        operators or Fault(status, message, "upstream_error"),
        "status",
        upstream,
        status,
        exchange.headers,
        body,
        wire,
        retry=retryable and dict(exchange.headers).get(b"x-should-retry") != b"false",
        fall_back=retryable or operators is not None,
        wait=retry_after(exchange.headers),
    )


def refuses_our_key(upstream: Upstream, status: int) -> bool:
    """Whether the operator's key was refused: a credential of the caller's own is the caller's business."""
    return status in _CREDENTIALS and not upstream.spec.forward_auth


def misconfigured(upstream: Upstream, status: int) -> Fault | None:
    """Return the error in place of an answer that only the operator can act on; None for any other status."""
    if refuses_our_key(upstream, status):
        return refused_key(upstream, status)
    if 300 <= status < 400:
        message = f'upstream "{upstream.spec.name}" redirects; name its final address'
        return Fault(502, message, "upstream_redirect")
    return None


def refused_key(upstream: Upstream, status: int) -> Fault:
    """The upstream refuses the key that the operator configured: until that is mended no request succeeds."""
    name = upstream.spec.name
    message = f'upstream "{name}" refuses the key it is configured with (status {status})'
    return Fault(_REFUSED_STATUS, message, "upstream_refused_key")


def _without_credential(target: Target, error: Unauthorized) -> Failure:
    """The upstream takes the caller's own credential, and there is none."""
    message = f'{error.message} (upstream "{target.upstream.spec.name}"); {error.hint}'
    return Failure(
        Fault(error.status, message, "invalid_api_key"), "credential", target.upstream, retry=False
    )


def _untranslatable(target: Target, error: CallerError) -> Failure:
    """The request cannot be expressed in the upstream's format."""
    hint = f"; {error.hint}" if error.hint else ""
    unknown = isinstance(error, PreviousResponseNotFound)
    code = "previous_response_not_found" if unknown else "untranslatable"
    fault = Fault(error.status, f"{error.message}{hint}", code, error.param)
    return Failure(fault, "translation", target.upstream, retry=False)


def circuit_open(upstream: Upstream, wait: float) -> Failure:
    """The upstream has failed too often to be asked now."""
    name = upstream.spec.name
    fault = Fault(503, f'the circuit breaker of upstream "{name}" is open', "upstream_unavailable")
    return Failure(fault, "breaker", upstream, wait=wait)


def _over_limit(target: Target, error: LimitReached) -> Failure:
    """A limit of the key or its team has no room for a try of this model; a cheaper one may fit a budget."""
    is_money = error.kind == "money"
    is_spent = is_money and not error.is_passing
    return Failure(  # the codes are OpenAI's own
        Fault(error.status, str(error), "insufficient_quota" if is_spent else "rate_limit_exceeded"),
        "budget" if is_money else "rate",
        target.upstream,
        retry=False,
        fall_back=is_money,
        wait=error.wait,
        limit=error if is_money else None,
        model=target.model.name,
    )


def held(upstream: Upstream, wait: float) -> Failure:
    """The upstream asked for no request until then."""
    message = f'upstream "{upstream.spec.name}" asked to wait for another {wait:.0f} s (Retry-After)'
    return Failure(Fault(429, message, "upstream_held"), "held", upstream, wait=wait)


def not_sent(target: Target, error: CallerError) -> Failure:
    """Return why nothing is sent: no credential, a limit of the caller's key, or untranslatable."""
    if isinstance(error, Unauthorized):
        return _without_credential(target, error)
    return _over_limit(target, error) if isinstance(error, LimitReached) else _untranslatable(target, error)


def pass_over(target: Target, session: str) -> Failure | None:
    """Return why a model is not asked now; None if it is."""
    upstream = target.upstream
    if (wait := upstream.held(target.model.name)) and not upstream.may_probe():
        return held(upstream, wait)
    if wait := upstream.breaker.seconds_to_wait(time.monotonic(), session):
        return circuit_open(upstream, wait)
    return None


async def error_body(exchange: Exchange) -> bytes:
    """Return the body of an error; nothing of one that is too long to be an explanation."""
    return await read_at_most(exchange, _MAX_ERROR)

"""All errors that Pointsman raises deliberately, by the responsible side.

PointsmanError
 ├─ CallerError            the request is wrong                      4xx
 │   ├─ MalformedRequest   not JSON, not the shape                   400
 │   ├─ UnknownModel       names the known ones                      404
 │   ├─ NoCapableModel     no model asked for can serve it           400
 │   ├─ NotFound           no such path                              404
 │   ├─ PreviousResponseNotFound  continues a deleted response      400
 │   ├─ UnknownDecision    the ledger holds no decision of this id   404
 │   ├─ MethodNotAllowed   the path is there for other methods       405
 │   ├─ TooManyOutcomes    a decision has as many as it may have     409
 │   ├─ IdempotencyKeyReused  its key was used for another request   422
 │   ├─ TooLarge           body, header or nesting over its limit    413
 │   ├─ WrongContentType   not application/json                      415
 │   ├─ Unauthorized       missing or wrong key                      401
 │   ├─ Forbidden          not allowed for this key                  403
 │   │   ├─ KeyExpired     its last day is over
 │   │   ├─ KeyRevoked     it was revoked
 │   │   ├─ RoleForbids    its role does not allow it
 │   │   └─ ModelNotAllowed  it may use no model that could serve
 │   └─ LimitReached       a rate limit or budget of the key is used up  429; with the time to retry
 ├─ ConfigError            the operator's file is wrong              refuses to start; names file and line
 │   └─ LexiconError       a pattern or lexicon file is wrong
 ├─ StoreUnavailable       the ledger or the sessions cannot be read 503; "unavailable" is not "nothing there"
 ├─ MissingExtra           an optional dependency is not installed   names the extra
 ├─ Overloaded             the gateway holds too much at once        503; the same request again, later
 └─ UpstreamError          the provider failed                       502; never carries a key or a body
     ├─ StaleConnection    a pooled connection was closed      502
     ├─ UpstreamMalformed  invalid HTTP or SSE  502
     ├─ UpstreamTooLarge   an answer, event or head over its limit   502
     ├─ UpstreamTimeout    no answer in time                         504
     └─ UpstreamUnavailable  unreachable, or its breaker is open     503
         └─ UpstreamBusy     all connections it may have are in use  503
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pointsman.printable import printable

__all__ = [
    "CallerError",
    "ConfigError",
    "Forbidden",
    "IdempotencyKeyReused",
    "KeyExpired",
    "KeyRevoked",
    "LexiconError",
    "LimitReached",
    "MalformedRequest",
    "MethodNotAllowed",
    "MissingExtra",
    "ModelNotAllowed",
    "NotFound",
    "Overloaded",
    "PointsmanDeprecationWarning",
    "PointsmanError",
    "PreviousResponseNotFound",
    "RoleForbids",
    "StaleConnection",
    "StoreUnavailable",
    "TooLarge",
    "TooManyOutcomes",
    "Unauthorized",
    "UnknownDecision",
    "UnknownModel",
    "UpstreamBusy",
    "UpstreamError",
    "UpstreamMalformed",
    "UpstreamTimeout",
    "UpstreamTooLarge",
    "UpstreamUnavailable",
    "WrongContentType",
    "did_you_mean",
]

#: Characters of a whole message to a caller.
_LONGEST_MESSAGE: Final = 4_000


#: Characters of a name that a message repeats.
_LONGEST_NAME: Final = 128


def shown(text: str, longest: int = _LONGEST_NAME) -> str:
    """Return a request's text for messages and logs: truncated, without control characters."""
    return printable(text[:longest], instead="?")


class PointsmanDeprecationWarning(DeprecationWarning):
    """A public name, option or format is still there, and a later version removes it."""


class PointsmanError(Exception):
    """Base of every deliberate error."""

    status: int = 500  # hint for HTTP

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint  # the way out, one line

    @property
    def docs(self) -> str:
        """Return the page and section about this error, relative to ``docs/``."""
        named = next(
            kind.__name__
            for kind in type(self).__mro__
            if kind.__module__.startswith("pointsman.") and not kind.__name__.startswith("_")
        )
        return f"how-to/troubleshooting.md#{named.lower()}"

    def __str__(self) -> str:
        """The message, and the way out where one is known; ``message`` is the message alone."""
        return f"{self.message}; {self.hint}" if self.hint else self.message


class CallerError(PointsmanError):
    """The request is wrong; sending it again unchanged cannot help."""

    status = 400

    def __init__(self, message: str, *, hint: str = "", param: str | None = None, decision: str = "") -> None:
        # A message quotes the request, which may hold names of megabytes and forge lines of the log.
        super().__init__(shown(message, _LONGEST_MESSAGE), hint=hint)
        self.param = param if param is None else shown(param)  # the field at fault, when one is
        self.decision = decision  # id of the decision that refused; empty where none was made


class MalformedRequest(CallerError):
    """The body is not JSON or not of the format's shape."""


class UnknownModel(CallerError):
    """The model id is neither a tier nor configured."""

    status = 404


class NotFound(CallerError):
    """There is no such path."""

    status = 404


class MethodNotAllowed(CallerError):
    """The path is there for other methods."""

    status = 405

    def __init__(self, method: str, *, allowed: str = "") -> None:
        """Name the method used, and those allowed, separated by commas."""
        super().__init__(f"{method} is not allowed here", hint=f"send {allowed}")
        self.allowed = allowed


class NoCapableModel(CallerError):
    """Every model that may serve the request is known to be unable; the message has the reason of each."""


class PreviousResponseNotFound(CallerError):
    """The request continues a response that is not stored."""


class UnknownDecision(CallerError):
    """The ledger holds no decision with the id named."""

    status = 404


class TooManyOutcomes(CallerError):
    """A decision has as many outcomes as a ledger allows."""

    status = 409  # not 429: SDKs send that again, and it cannot help


class IdempotencyKeyReused(CallerError):
    """A request with the same ``Idempotency-Key`` had another body."""

    status = 422


class IdempotencyKeyBusy(CallerError):
    """As many requests as may wait already do for the first one with their ``Idempotency-Key``."""

    status = 409


class TooLarge(CallerError):
    """A body, header set or nesting is over its limit."""

    status = 413


class WrongContentType(CallerError):
    """The body is not declared as JSON."""

    status = 415


class Unauthorized(CallerError):
    """The key is missing or wrong."""

    status = 401


class Forbidden(CallerError):
    """The key is known, and may not do this."""

    status = 403


class KeyExpired(Forbidden):
    """The last day of the key, or of its team, is over."""


class KeyRevoked(Forbidden):
    """The key, or its team, is revoked."""


class RoleForbids(Forbidden):
    """The role of the key does not allow it."""


class ModelNotAllowed(Forbidden):
    """The key may not use any model that could serve the request."""


class LimitReached(CallerError):
    """A rate limit or a budget of the key, or of its team, is used up."""

    status = 429

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        asked: str = "",
        wait: float | None = 1.0,
        kind: str = "requests",
        is_passing: bool = False,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        super().__init__(f"{message}; this request may take {asked}" if asked else message, hint=hint)
        self.left = message  # of which limit how much is left
        self.asked = asked  # the most that the request may take, in words
        self.wait = wait  # seconds until there may be room; None: no window has room for it
        self.kind = kind  # "requests", "tokens" or "money"
        self.is_passing = is_passing  # only reservations of requests in progress leave no room
        self.headers = headers  # what is left of each limit


class ConfigError(PointsmanError):
    """The operator's configuration is wrong. ``place`` is ``file:line`` where known."""

    def __init__(self, message: str, *, place: str = "", hint: str = "") -> None:
        super().__init__(f"{place}: {message}" if place else message, hint=hint)
        self.place = place


class LexiconError(ConfigError):
    """A lexicon file or one of its patterns is wrong."""


class StoreUnavailable(PointsmanError):
    """The ledger or the session store cannot be read: not the same as nothing being there."""

    status = 503


class Overloaded(PointsmanError):
    """The gateway is at a limit over all requests; the same request may be served in a moment."""

    status = 503


class MissingExtra(PointsmanError):
    """An optional dependency is not installed."""

    def __init__(self, extra: str, *, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs an optional dependency", hint=f"pip install 'pointsman[{extra}]'"
        )
        self.extra = extra


class UpstreamError(PointsmanError):
    """The provider failed. The message never carries a key or a body."""

    status = 502

    def __init__(self, message: str, *, hint: str = "", answered: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.answered = answered  # the status that the provider answered with; 0: no answer


class MissingKey(UpstreamError):
    """The provider refuses requests without a key, and none is configured for it."""


class StaleConnection(UpstreamError):
    """A pooled connection was closed when the request was sent; the next one is sent on a new one."""


class UpstreamMalformed(UpstreamError):
    """The provider's response is not valid HTTP, or not a valid event stream."""


class UpstreamTooLarge(UpstreamError):
    """The provider sent more than an answer, an event or its headers may have."""


class UpstreamTimeout(UpstreamError):
    """The provider did not answer in time."""

    status = 504


class UpstreamUnavailable(UpstreamError):
    """The provider cannot be reached, or its circuit breaker is open."""

    status = 503


class UpstreamBusy(UpstreamUnavailable):
    """As many requests as the provider may have connections are in progress. It has not failed."""


def did_you_mean(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return ``; did you mean "…"?`` with the nearest known word, or nothing when none is near."""
    from difflib import get_close_matches  # only for an error

    near = get_close_matches(word, list(known), n=1, cutoff=cutoff)  # 0.6 is the library's own
    return f'; did you mean "{near[0]}"?' if near else ""

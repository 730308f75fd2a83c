"""An upstream at run time: its client, its circuit breaker, and its credentials."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from itertools import compress
from operator import itemgetter
from typing import Final, NamedTuple

import msgspec

from pointsman.gateway._circuit_breaker import CircuitBreaker, Trouble
from pointsman.upstreams.port import Headers, UpstreamClient, UpstreamSpec
from pointsman.upstreams.relayed_headers import HeaderNames, credentials, goes_up
from pointsman.vocabulary import ModelSpec, WireFormat

__all__ = [
    "HeadPlan", "Target", "Upstream", "connected", "header_value", "targets", "upstream_headers",
    "without_providers",
]  # fmt: skip

#: Retries that may be in progress at once: a share of the requests that wait, and a few at least, as in
#: Envoy's retry budget. Three retries of every request would be four times the load on what fails from load.
_RETRY_SHARE: Final = 0.2
_LEAST_RETRIES: Final = 3
#: As long as an upstream may be silent between two events by default.
_LONGEST_QUIET: Final = 300.0
#: Longest time in seconds for which all requests wait because one was told to; then one asks again.
_LONGEST_HOLD: Final = 60.0
#: Seconds of a hold after which one request asks: the answer to one request may have been about it alone. As
#: the first pause of the circuit breaker.
_PROBE: Final = 5.0
_RATE_LIMITED: Final = 429
#: Rate limits in a row that say no time and begin a hold: of a second, then of twice as long each time.
_LIMITED: Final = 3
_LONGEST_UNSAID: Final = 8.0

CONNECTION: Final = b"connection"
_IDEMPOTENCY_KEY: Final = b"idempotency-key"
_name: Final = itemgetter(0)
#: How the names of headers begin that have a meaning to one provider alone.
_PROVIDERS: Final = (b"anthropic-", b"openai-", b"chatgpt-")


class HeadPlan(NamedTuple):
    """How the head of an answer is made from an upstream's headers of certain names."""

    lines: bytes  # a format of all values; empty: there is none
    relayed: tuple[bool, ...]  # which of the upstream's values it takes
    total: int  # of lines
    is_kept_alive: bool  # ``Connection`` is one of the names


class RelayedHeaders(NamedTuple):
    """Further headers that an upstream is configured to relay; None: no others."""

    taken: HeaderNames | None  # of callers
    returned: HeaderNames | None  # of its answers


class Upstream:
    """One configured provider. Lives as long as its part of the configuration stays the same."""

    def __init__(self, spec: UpstreamSpec, client: UpstreamClient) -> None:
        self.spec = spec
        self.client = client
        self.breaker = CircuitBreaker()
        self.trouble = Trouble(spec.name)
        self.has_several_callers = False  # set with every state, a reload may change it
        self.secrets = spec.secrets
        self.relayed = RelayedHeaders(
            HeaderNames.taken(spec.pass_headers, forward_auth=spec.forward_auth) or None,
            HeaderNames(name.encode() for name in spec.return_headers) or None,
        )
        #: Models whose tokens it does not count, by id, and until when: seconds of ``time.monotonic``.
        self.uncounted: dict[bytes, float] = {}
        #: Requests that wait for the beginning of a response, and how many of these are retries.
        self.waiting = self.retrying = 0
        #: Until when it asked for no request (``Retry-After``), in seconds of ``time.monotonic``: by model,
        #: or for all of them under "".
        self.holds: dict[str, float] = {}
        self._next_probe = 0.0  # during a hold
        #: Heads of answers by the names of the upstream's headers.
        self.plans: dict[tuple[bytes, ...], HeadPlan] = {}
        #: Rate limits in a row that said no time, by model.
        self.limited: dict[str, int] = {}
        #: The headers that every request of a format carries.
        self.headers = {
            wire: [(b"content-type", b"application/json"), *credentials(spec, wire)] for wire in WireFormat
        }

    @property
    def longest_quiet(self) -> float:
        """Seconds in which a stream must bring an event with data; comments alone are no progress."""
        return max(_LONGEST_QUIET, self.spec.timeouts.first_byte or 0.0)

    @property
    def may_retry(self) -> bool:
        """Whether the retry budget allows a retry: a share of the requests that wait, and a few at least."""
        return self.retrying < max(_LEAST_RETRIES, _RETRY_SHARE * self.waiting)

    def asked_to_wait(self, status: int, seconds: float | None, model: str = "") -> None:
        """Hold the requests that an answer with ``Retry-After`` is about, or a rate limit without one.

        A rate limit (429) is of the model that was asked; an upstream that cannot serve (5xx) serves none. A
        conflict, a request that came too slowly and one that came too early (409, 408, 425) are of one
        request.
        """
        if seconds and status >= 500:
            self.hold("", seconds)
        elif status == _RATE_LIMITED and model and seconds != 0:
            if seconds is None:
                self.limited[model] = times = self.limited.get(model, 0) + 1
                seconds = 0.0 if times < _LIMITED else min(2.0 ** (times - _LIMITED), _LONGEST_UNSAID)
            if seconds:
                self.hold(model, seconds)

    def hold(self, model: str, seconds: float) -> None:
        """Ask others first for some seconds: instead of one model, or with "" instead of any.

        With the caller's own credential the limit is the caller's, and no other has to wait.
        """
        if not self.spec.forward_auth:
            now = time.monotonic()
            if not self.holds:
                self._next_probe = now + _PROBE
            until = now + min(seconds, _LONGEST_HOLD)
            self.holds[model] = max(until, self.holds.get(model, 0.0))

    def held(self, model: str) -> float:
        """Return the seconds for which a model is asked after others; 0 for none."""
        now = time.monotonic()
        self.holds = {name: until for name, until in self.holds.items() if until > now}
        return max(self.holds.get(model, now), self.holds.get("", now)) - now

    def may_probe(self) -> bool:
        """Whether this request may be sent during a hold; if so, no other for some seconds."""
        now = time.monotonic()
        if now < self._next_probe:
            return False
        self._next_probe = now + _PROBE
        return True

    def lift(self, model: str) -> None:
        """End the holds of a model: it has answered a request that was sent during them."""
        self.limited.pop(model, None)
        self.holds.pop("", None)
        self.holds.pop(model, None)

    def failed(
        self, why: str, session: str | None = None, caller: str = "", *, request: int = 0, took: float = 0.0
    ) -> None:
        """A request was not answered, or with an error of the upstream; ``why`` is logged, once.

        Args:
            why: What happened.
            session: Of the request, if the request itself may be the cause.
            caller: Name of the key that it came with.
            request: Hash of its body.
            took: Seconds from its sending until now.
        """
        now = time.monotonic()
        named = caller if self.has_several_callers else ""
        self.breaker.record_failure(now, session, named, request, took)
        self.trouble.failed(why, now)
        if self.breaker.is_open:
            self.trouble.opened(why, self.breaker.failures, self.breaker.requests, self.breaker.pause)

    def worked(self, sent: float | None = None) -> None:
        """It answered what had been ``sent`` then, in seconds of ``time.monotonic``."""
        self.breaker.record_success(time.monotonic(), sent)
        if self.trouble.is_told:
            self.trouble.worked()


class Target(NamedTuple):
    """A configured model and its upstream."""

    model: ModelSpec
    upstream: Upstream
    id: bytes  # what the upstream calls it, as JSON
    shown: bytes  # its name as a header's value
    as_sent: frozenset[WireFormat] = frozenset()  # formats of requests of which only the model's name changes


def upstream_headers(
    sent: Headers, taken: HeaderNames | None = None, caller: str = ""
) -> list[tuple[bytes, bytes]]:
    """Return the headers of a caller that go to an upstream, which may be configured to take others.

    Args:
        sent: The caller's, names in lower case.
        taken: Other headers that the upstream takes.
        caller: Name of the key it came with. An upstream knows all callers by one key, and would send one the
            answer to another's request of the same ``Idempotency-Key``: it gets a digest of both.
    """
    relayed = list(compress(sent, map(goes_up, map(_name, sent))))
    if taken is not None:
        relayed = [pair for pair in sent if goes_up(pair[0]) or pair[0] in taken]
    if CONNECTION in map(_name, sent):
        relayed = _without_hops(sent, relayed)
    if caller and _IDEMPOTENCY_KEY in map(_name, relayed):
        for place, (name, value) in enumerate(relayed):
            if name == _IDEMPOTENCY_KEY:
                whose = b"%b/%b" % (caller.encode(), value)  # names of callers hold no slash
                relayed[place] = name, hashlib.blake2b(whose, digest_size=16).hexdigest().encode()
    return relayed


def _without_hops(sent: Headers, relayed: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers without those that ``Connection`` names: they are of this connection alone."""
    # Most say keep-alive, and are not looked at further.
    named = [value for name, value in sent if name == CONNECTION and value != b"keep-alive"]
    hops = {each.strip().lower() for value in named for each in value.split(b",")}
    return [pair for pair in relayed if pair[0] not in hops] if hops else relayed


def without_providers(sent: Headers) -> list[tuple[bytes, bytes]]:
    """Return the headers that go to a provider of another format too."""
    return [pair for pair in sent if not pair[0].startswith(_PROVIDERS)]


def connected(
    specs: Mapping[str, UpstreamSpec],
    connect: Callable[[UpstreamSpec], UpstreamClient],
    known: Mapping[str, Upstream],
) -> dict[str, Upstream]:
    """Return every upstream by name; an unchanged one retains its connections and circuit breaker."""
    upstreams = {name: Upstream(spec, connect(spec)) for name, spec in specs.items()}
    for name, upstream in upstreams.items():
        if name in known and known[name].client is upstream.client:
            upstreams[name] = known[name]
    return upstreams


def targets(models: Mapping[str, ModelSpec], upstreams: Mapping[str, Upstream]) -> dict[str, Target]:
    """Return every model with its upstream."""
    return {name: _target(model, upstreams[model.upstream]) for name, model in models.items()}


def _target(model: ModelSpec, upstream: Upstream) -> Target:
    is_changed = model.max_output_tokens is not None or upstream.spec.forward_auth
    as_sent: frozenset[WireFormat] = frozenset() if is_changed else frozenset(model.formats)
    return Target(model, upstream, msgspec.json.encode(model.id), header_value(model.name), as_sent)


def header_value(text: str, limit: int = 200) -> bytes:
    """Return text as a header value: printable ASCII, other characters replaced, cut at ``limit``."""
    if text.isascii() and text.isprintable():
        return text[:limit].encode("ascii")
    return "".join(c if " " <= c <= "~" else "?" for c in text[:limit]).encode("ascii")

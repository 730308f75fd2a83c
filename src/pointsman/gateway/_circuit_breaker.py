"""A circuit breaker, and the log lines about its upstream.

It opens when most requests to an upstream fail, then probes it with one request. It looks at the share of
failed requests, not at failures in a row, so that an upstream which fails now and then is still used; in the
order in which they were sent, so that neither quick answers nor quick failures count alone; and it counts
failures that a request may have caused once per request, a few per session, and a few per caller if there are
several, so that no caller can take an upstream away from others. If requests of one session fail one after
the other, that session alone is sent elsewhere (docs/decisions/0146).
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

__all__ = ["CircuitBreaker", "Trouble"]

log = logging.getLogger(__name__)

#: The latest requests that are looked at, how old they may be in seconds, and how few are not judged. Where
#: three in ten fail by chance, eight of ten do once in 600 times, sixteen of twenty once in 200,000.
_REQUESTS: Final = 20
_WINDOW: Final = 60.0
_LEAST: Final = 10
#: Failures of one session, and of one of several callers, that count at a time: two must fail. As many
#: requests of a session that fail without any success of the upstream send the session elsewhere.
_OF_ONE: Final = _LEAST // 2
#: The share of failures that opens it.
_SHARE: Final = 0.8
#: Seconds before the first probe; doubled after each probe that fails, up to the longest pause.
_PAUSE: Final = 5.0
_LONGEST: Final = 20.0
#: A probe that takes long to fail makes a caller wait: the pause is at least this many times as long, so that
#: one agent alone waits for a fifth of its time at most. And the longest of these pauses, in seconds.
_TIMES_AS_LONG: Final = 4.0
_LONGEST_AFTER_TIMEOUT: Final = 600.0
#: Sessions whose failures are known at a time.
_SESSIONS: Final = 1_000
#: Seconds between two warnings that one upstream began to fail: it may fail and work in turn.
_EVERY: Final = 60.0


class _Failed(NamedTuple):
    sent: float
    at: float
    session: str | None
    request: int
    caller: str


class _Probes:
    """When a probe may be sent after a failure: one at a time."""

    def __init__(self, now: float) -> None:
        self.pause = _PAUSE  # seconds before the next probe
        self.next = now + self.pause
        self._is_out = False

    def seconds_to_wait(self, now: float) -> float:
        """Return seconds until a request may be sent; 0 lets this one through, as the probe."""
        left = self.next - now
        if left > 0:
            return left
        self.next = now + self.pause
        self._is_out = True
        return 0.0

    def failed(self, now: float, took: float) -> None:
        """A request failed: the probe, if one is out, else one that was sent before."""
        if self._is_out:
            self._is_out = False
            slow = min(took * _TIMES_AS_LONG, _LONGEST_AFTER_TIMEOUT)
            self.pause = max(min(self.pause * 2, _LONGEST), slow)
            self.next = now + self.pause


@dataclass(slots=True)
class _Streak:
    """The requests of a session that failed since the upstream's last success."""

    requests: set[int] = field(default_factory=set)
    probes: _Probes | None = None  # once there are enough


class CircuitBreaker:
    """Judges one upstream by its latest requests. Time is given in seconds of any steady clock."""

    def __init__(self) -> None:
        self.failures = self.requests = 0  # failures among the latest requests, and how many it knows
        #: Whether some request failed since all was well; until then a success is only noted in ``answered``.
        self.is_alert = False
        self.answered: deque[float] = deque(maxlen=_REQUESTS)  # when what was answered last had been sent
        self._failed: list[_Failed] = []
        self._since = inf  # when the first had been sent that failed since all was well
        self._probes: _Probes | None = None  # while open
        self._streaks: dict[str, _Streak] = {}

    @property
    def is_open(self) -> bool:
        """Whether requests are sent elsewhere first."""
        return self._probes is not None

    @property
    def pause(self) -> float:
        """Seconds before the next probe, once open."""
        return _PAUSE if self._probes is None else self._probes.pause

    def is_pausing(self, now: float) -> bool:
        """Whether no request may be sent now. Nothing changes: ``seconds_to_wait`` lets a probe through."""
        return self._probes is not None and now < self._probes.next

    def is_probe(self, session: str) -> bool:
        """Whether a request of a session would be a probe, if it is sent."""
        return self._probes_of(session) is not None

    def seconds_to_wait(self, now: float, session: str = "") -> float:
        """Return seconds until a request of a session may be sent; 0 lets this one through.

        While open, the request let through is the probe: others wait until it has come back, or the pause is
        over once more.
        """
        probes = self._probes_of(session)
        return 0.0 if probes is None else probes.seconds_to_wait(now)

    def _probes_of(self, session: str) -> _Probes | None:
        if self._probes is not None:
            return self._probes
        streak = self._streaks.get(session)
        return None if streak is None else streak.probes

    def record_success(self, now: float, sent: float | None = None) -> None:
        """A request was answered; ``sent`` is when it had been sent, at once by default."""
        self.answered.append(now if sent is None else sent)
        self._streaks.clear()
        if self._probes is not None:
            self._probes = None
            self._failed = []
        self._judge(now)
        self.is_alert = bool(self.failures)

    def record_failure(
        self, now: float, session: str | None = None, caller: str = "", request: int = 0, took: float = 0.0
    ) -> None:
        """Count a request that failed: without an answer, or with an error of the upstream.

        Args:
            now: The time.
            session: Of the request, if the request itself may be the cause; None if it cannot.
            caller: Name of the key, if there are several; empty: of the only one.
            request: Hash of its body, which identifies it within its session.
            took: Seconds from its sending until now.
        """
        self.is_alert = True
        if self._probes is not None:
            self._probes.failed(now, took)
            return
        if session is not None:
            self._continue_streak(session, request, now, took)
        self._judge(now)
        if session is not None and self._counts_already(session, request, caller):
            return
        self._failed.append(_Failed(now - took, now, session, request, caller))
        self._judge(now)
        if self.requests >= _LEAST and self.failures >= _SHARE * self.requests:
            self._probes = _Probes(now)

    def _continue_streak(self, session: str, request: int, now: float, took: float) -> None:
        streak = self._streaks.get(session)
        if streak is None:
            if len(self._streaks) >= _SESSIONS:
                del self._streaks[next(iter(self._streaks))]
            streak = self._streaks[session] = _Streak()
        if streak.probes is not None:
            streak.probes.failed(now, took)
            return
        streak.requests.add(request)
        if len(streak.requests) >= _OF_ONE:
            streak.probes = _Probes(now)

    def _counts_already(self, session: str, request: int, caller: str) -> bool:
        of_session = [each.request for each in self._failed if each.session == session]
        if request in of_session or len(of_session) >= _OF_ONE:
            return True
        of_caller = sum(each.session is not None and each.caller == caller for each in self._failed)
        return bool(caller) and of_caller >= _OF_ONE

    def _judge(self, now: float) -> None:
        """Count the latest requests in the order of their sending, from the first that failed.

        Answers before it are not counted: an upstream that answered a thousand requests and then dies is one
        that fails.
        """
        failed = sorted(each for each in self._failed if now - each.at <= _WINDOW)
        self._since = min(self._since, failed[0].sent) if failed else inf
        sent = sorted([each.sent for each in failed] + [each for each in self.answered if each > self._since])
        oldest = sent[-_REQUESTS:][0] if sent else now
        self._failed = [each for each in failed if each.sent >= oldest][-_REQUESTS:]
        self.failures = len(self._failed)
        self.requests = min(len(sent), _REQUESTS) if failed else 0


class Trouble:
    """Warns once of an upstream's failures in a row, not at each. Time is given in seconds of any clock."""

    def __init__(self, name: str) -> None:
        self.is_told = False  # that it fails; nothing to be said of one that works
        self._name = name
        self._is_open = False
        self._next = float("-inf")

    def failed(self, why: str, now: float) -> None:
        """It failed: ``why``, which may name it."""
        if self.is_told or now < self._next:
            return
        self.is_told, self._next = True, now + _EVERY
        log.warning('upstream "%s" began to fail: %s', self._name, self._bare(why))

    def opened(self, why: str, failures: int, requests: int, seconds: float) -> None:
        """It is not asked for some seconds after this many failures among its latest requests."""
        if self._is_open:
            return
        self.is_told = self._is_open = True
        log.warning(
            'the circuit breaker of upstream "%s" opened: '
            "%d of the last %d requests failed, next try in %.0f s; the last: %s",
            self._name,
            failures,
            requests,
            seconds,
            self._bare(why),
        )

    def worked(self) -> None:
        """Note a success after logged failures."""
        self.is_told = self._is_open = False
        log.warning('upstream "%s" works again', self._name)

    def _bare(self, why: str) -> str:
        name = f'upstream "{self._name}"'
        return why.removesuffix(f" ({name})").removeprefix(f"{name} ")

"""A circuit breaker: opens when most requests to an upstream fail, then probes it with one request.

It looks at the share of failed requests, not at failures in a row, so that an upstream which fails now and
then goes on serving; and it counts failures that a request may have caused once per session, and a few per
caller where there are several, so that nobody can take an upstream away from others (docs/decisions/0146).
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

__all__ = ["CircuitBreaker"]

#: The latest requests that are looked at, how old they may be in seconds, and how few are not judged. Where
#: three in ten fail by chance, eight of ten do once in 600 times, sixteen of twenty once in 200,000.
_REQUESTS: Final = 20
_WINDOW: Final = 60.0
_LEAST: Final = 10
#: Failures of one of several callers that count at a time: a caller names its sessions, so two must fail.
_OF_CALLER: Final = _LEAST // 2
#: The share of failures that opens it.
_SHARE: Final = 0.8
#: Seconds before the first probe; doubled after each probe that fails, up to the longest pause.
_PAUSE: Final = 5.0
_LONGEST: Final = 20.0


class _Result(NamedTuple):
    at: float
    failed: bool
    session: str | None
    caller: str


class CircuitBreaker:
    """Judges one upstream by its latest requests. Time is given in seconds of any steady clock."""

    def __init__(self) -> None:
        self.failures = 0  # among the latest requests; while there is none, successes need not be told
        self.pause = _PAUSE  # seconds before the next probe, once open
        self.is_open = False
        self._results: deque[_Result] = deque(maxlen=_REQUESTS)
        self._next_probe = 0.0  # once open
        self._is_probing = False

    @property
    def requests(self) -> int:
        """How many of the latest requests it knows."""
        return len(self._results)

    def is_pausing(self, now: float) -> bool:
        """Whether no request may be sent now. Nothing changes: ``seconds_to_wait`` lets a probe through."""
        return self.is_open and now < self._next_probe

    def seconds_to_wait(self, now: float) -> float:
        """Return seconds until a request may be sent; 0 lets this one through.

        While open, the request let through is the probe: others wait until it has come back, or the pause is
        over once more.
        """
        if not self.is_open:
            return 0.0
        left = self._next_probe - now
        if left <= 0:
            self._next_probe = now + self.pause
            self._is_probing = True
            return 0.0
        return left

    def record_success(self, now: float) -> None:
        """A request was answered."""
        if self.is_open:
            self._close()
            return
        self._forget(now)
        if self.failures:
            self._add(_Result(now, failed=False, session=None, caller=""))

    def record_failure(self, now: float, session: str | None = None, caller: str = "") -> None:
        """A request was not answered, or with an error of the upstream's own.

        Args:
            now: The time.
            session: Whose it was, where the request itself may be the cause; None where it cannot.
            caller: Name of the key, where there are several; empty: of the only one.
        """
        if self.is_open:
            if self._is_probing:
                self._is_probing = False
                self.pause = min(self.pause * 2, _LONGEST)
                self._next_probe = now + self.pause
            return
        self._forget(now)
        if session is not None and self._counts_already(session, caller):
            return
        self._add(_Result(now, failed=True, session=session, caller=caller))
        if self.requests >= _LEAST and self.failures >= _SHARE * self.requests:
            self.is_open = True
            self._is_probing = False
            self._next_probe = now + self.pause

    def _counts_already(self, session: str, caller: str) -> bool:
        if any(each.session == session for each in self._results):
            return True
        of_caller = sum(each.session is not None and each.caller == caller for each in self._results)
        return bool(caller) and of_caller >= _OF_CALLER

    def _add(self, result: _Result) -> None:
        self._results.append(result)
        self.failures = sum(each.failed for each in self._results)

    def _forget(self, now: float) -> None:
        """Drop what is too old, and everything once no failure is left."""
        results = self._results
        while results and now - results[0].at > _WINDOW:
            results.popleft()
        self.failures = sum(each.failed for each in results)
        if not self.failures:
            results.clear()

    def _close(self) -> None:
        self._results.clear()
        self.failures = 0
        self.pause = _PAUSE
        self.is_open = self._is_probing = False

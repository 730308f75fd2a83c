"""A circuit breaker: opens after repeated failures of an upstream, then probes it with one request."""

from __future__ import annotations

from typing import Final

__all__ = ["CircuitBreaker"]

#: Failures in a row that open it. One in three answers failing by chance gives five in a row once in 240.
_THRESHOLD: Final = 5
#: Seconds before the first probe; doubled after each probe that fails.
_PAUSE: Final = 5.0
#: Longest pause. Providers' incidents last minutes; nobody should wait longer than one to see the end.
_LONGEST: Final = 60.0


class CircuitBreaker:
    """Counts failures of one upstream. Time is given in seconds of any steady clock."""

    def __init__(self) -> None:
        self.failures = 0  # in a row
        self.pause = _PAUSE  # seconds before the next probe, once open
        self._next_probe = 0.0  # once open

    @property
    def is_open(self) -> bool:
        """True while requests are held back."""
        return self.failures >= _THRESHOLD

    def seconds_to_wait(self, now: float) -> float:
        """Return seconds until a request may be sent; 0 lets this one through.

        While open, the request let through is the probe: others wait until it has come back.
        """
        if self.failures < _THRESHOLD:
            return 0.0
        left = self._next_probe - now
        if left <= 0:
            self._next_probe = now + self.pause
            return 0.0
        return left

    def record_success(self) -> None:
        """The upstream answered."""
        self.failures = 0
        self.pause = _PAUSE

    def record_failure(self, now: float) -> None:
        """The upstream did not answer, or with an error of its own."""
        self.failures += 1
        if self.failures == _THRESHOLD:
            self._next_probe = now + self.pause
        elif self.failures > _THRESHOLD:
            self.pause = min(self.pause * 2, _LONGEST)
            self._next_probe = now + self.pause

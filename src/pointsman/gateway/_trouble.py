"""The log of an upstream: that it began to fail, that its circuit breaker opened, that it works again."""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["Trouble"]

log = logging.getLogger(__name__)

#: Seconds between two warnings that one upstream began to fail: it may fail and work in turn.
_EVERY: Final = 60.0


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

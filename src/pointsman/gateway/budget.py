"""How many bytes of request bodies the gateway holds at once, over all callers."""

from __future__ import annotations

from typing import Final

from pointsman.errors import Overloaded
from pointsman.vocabulary import LARGE

__all__ = ["Budget", "Share"]

#: Of the budget, what bodies above ``LARGE`` may fill: the rest is left to the others, whoever sends what.
_OF_LARGE: Final = 3 / 4


class Budget:
    """Counts what has arrived of all bodies, until their requests are answered."""

    def __init__(self) -> None:
        self.held = 0  # bytes

    def share(self, total: int) -> Share:
        """Return what counts the body of one request; all together hold at most ``total`` bytes."""
        return Share(self, total)


class Share:
    """The bytes of one request's body. What a caller only announces is not counted."""

    __slots__ = ("_budget", "_held", "_total")

    def __init__(self, budget: Budget, total: int) -> None:
        self._budget = budget
        self._total = total
        self._held = 0

    def take(self, count: int) -> None:
        """Count some bytes more.

        Raises:
            Overloaded: the bodies of all requests together are too large.
        """
        budget = self._budget
        self._held += count
        budget.held += count
        if budget.held <= self._total * _OF_LARGE:
            return
        if self._held > LARGE or budget.held > self._total:
            raise Overloaded(
                "the gateway holds too many bytes of requests under way", hint="send the request again later"
            )

    def release(self) -> None:
        """The request is over."""
        self._budget.held -= self._held
        self._held = 0

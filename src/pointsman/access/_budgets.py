"""Counters of all limits over one store, and what this process does while that store fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from pointsman.errors import PointsmanError, StoreUnavailable
from pointsman.stores.batch_writer import BatchWriter
from pointsman.stores.budgets import BudgetStore, Claim, MemoryBudgets, Reserved, Settlement

__all__ = ["Budgets"]

log = logging.getLogger(__name__)

#: Settlements that wait for the store; beyond, and at the end, they are lost: their leases end them.
_WAITING: Final = 100_000
#: Seconds for which settlements gather. Until then what was reserved counts: never too little.
_LINGER: Final = 0.02


class Budgets:
    """Reserves and settles. A store that may wait (Valkey, a file) is called in a thread.

    While that store fails, requests are counted in this process alone, from what it knew last, or are
    refused: as ``fails_open`` says. Settlements wait until it is back.
    """

    def __init__(self, store: BudgetStore, *, fails_open: bool = True) -> None:
        """Count in a store; ``fails_open``: also while it fails."""
        self.store: Final = store
        self.fails_open = fails_open
        self.outages = 0  # reservations that the store did not answer
        self.outage = ""  # why it failed since it last answered
        self._here: Final = store if isinstance(store, MemoryBudgets) else MemoryBudgets()
        self._writer: Final = BatchWriter[Settlement](
            self._settle_shared, size=_WAITING, name="pointsman-budgets", linger=_LINGER
        )

    @property
    def lost(self) -> int:
        """Settlements that did not reach the store."""
        return self._writer.lost

    @property
    def fault(self) -> str:
        """Why the store fails just now; empty when all is well."""
        return self.outage or self._writer.fault

    async def reserve(self, reservation: str, claims: Sequence[Claim]) -> Reserved:
        """Reserve all claims, or none.

        Raises:
            StoreUnavailable: the store fails, and ``fails_open`` is false.
        """
        if not self.store.waits:
            return self.store.reserve(reservation, claims)
        asked = asyncio.get_running_loop().run_in_executor(None, self._reserve_shared, reservation, claims)
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            # The caller left while the store was asked: what it reserves then is given back.
            asked.add_done_callback(lambda done: self._give_back(done, reservation, claims))
            raise

    def settle(self, reservation: str, used: Mapping[str, int]) -> None:
        """End a reservation; ``used`` has every counter that was claimed. Never waits."""
        settlement = Settlement(reservation, used)
        self._here.settle([settlement])
        if self._here is not self.store:
            self._writer.put(settlement)

    def known(self, counter: str) -> int:
        """Return what this process knows of a counter, without asking anybody."""
        return self._here.totals((counter,))[0]

    def read(self, counters: Sequence[str]) -> tuple[int, ...]:
        """Return what is used and reserved of counters; waits for the store, or says what is known here."""
        try:
            return self.store.totals(counters)
        except StoreUnavailable:
            return self._here.totals(counters)

    def flush(self) -> None:
        """Wait a minute at most until what was settled has reached the store; for tests."""
        self._writer.flush(60.0)

    def close(self) -> None:
        """Send what waits, and release the store."""
        self._writer.close()
        self.store.close()

    def _reserve_shared(self, reservation: str, claims: Sequence[Claim]) -> Reserved:
        try:
            found = self.store.reserve(reservation, claims)
        except StoreUnavailable as error:
            self._tell(error)
            if not self.fails_open:
                raise
            return self._here.reserve(reservation, claims)
        if self.outage:
            log.warning("the budget store answers again")
            self.outage = ""
        self._here.note(reservation, claims, found)
        return found

    def _tell(self, error: StoreUnavailable) -> None:
        """Count an outage. The log gets one line for it, not one for each request."""
        self.outages += 1
        if not self.outage:
            then = (
                "each gateway counts by itself, from what it knew last"
                if self.fails_open
                else "requests of keys with limits are refused"
            )
            log.error("budgets and rate limits: %s; %s until it answers", error, then)
        self.outage = str(error)

    def _settle_shared(self, batch: Sequence[Settlement]) -> int:
        """Settle a batch; return how many settlements the store cannot take."""
        try:
            self.store.settle(batch)
        except (PointsmanError, OSError):
            raise  # the whole batch is tried again
        except Exception:
            log.exception("a batch of settlements cannot be written; each is tried by itself")
            return sum(not self._settle_alone(settlement) for settlement in batch)
        return 0

    def _settle_alone(self, settlement: Settlement) -> bool:
        """Settle one of a batch that failed: one that is wrong takes no others with it."""
        try:
            self.store.settle((settlement,))
        except Exception as error:  # noqa: BLE001 - counted as lost; its lease ends it
            log.error("a settlement is lost: %s", error)  # noqa: TRY400 - the batch has told the trace
            return False
        return True

    def _give_back(self, done: asyncio.Future[Reserved], reservation: str, claims: Sequence[Claim]) -> None:
        if not done.cancelled() and done.exception() is None and done.result().ok:
            self.settle(reservation, {claim.counter: 0 for claim in claims})

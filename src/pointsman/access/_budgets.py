"""Counters of all limits over one store, and their local fallback while that store fails."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pointsman.errors import PointsmanError, StoreUnavailable
from pointsman.stores.batch_writer import BatchWriter
from pointsman.stores.budgets import (
    SHARE_SECONDS,
    BudgetStore,
    Claim,
    MemoryBudgets,
    Reserved,
    Settlement,
    ValkeyBudgets,
)

# What a process may spend while the store of budgets cannot be asked.

#: Part of a budget that all processes together may spend while the store cannot be asked.
TENTH: Final = 0.1


class Outage:
    """Reserves against local knowledge, within the process's share. For any thread."""

    def __init__(self, known: MemoryBudgets, clock: Callable[[], float]) -> None:
        """Begin without a share. ``known``: the totals that were heard last; ``clock``: seconds."""
        self._known: Final = known
        self._clock: Final = clock
        self._lock: Final = threading.Lock()
        self._share = 0.0
        self._until = float("-inf")
        self._spent: Final[dict[str, int]] = {}  # by counter: reserved or used, and not yet counted there
        self._reserved: Final[dict[str, Sequence[Claim]]] = {}

    def share(self, share: float, began: float) -> None:
        """Take the share that the store has given at a moment of the clock, or later."""
        with self._lock:
            self._share, self._until = share, began + SHARE_SECONDS

    def reserve(self, reservation: str, claims: Sequence[Claim]) -> Reserved:
        """Reserve all claims, or none, without the store.

        Raises:
            StoreUnavailable: the share of this process is used up, so a budget cannot be guaranteed.
        """
        with self._lock:
            for claim in claims:
                spent = self._spent.get(claim.counter, 0)
                if spent + claim.amount > self._most(claim):
                    raise StoreUnavailable(
                        "no store can vouch for a budget, and this process has spent its share for an outage",
                        hint="the store of budgets has to answer; see [access]",
                    )
            found = self._known.reserve(reservation, claims)
            if found.ok:
                self._reserved[reservation] = claims
                for claim in claims:
                    self._spent[claim.counter] = self._spent.get(claim.counter, 0) + claim.amount
        return found

    def settled(self, reservation: str, used: Mapping[str, int]) -> Sequence[Claim]:
        """Note the end of a reservation; return its claims if the store was not asked for it."""
        if not self._reserved:
            return ()
        with self._lock:
            claims = self._reserved.pop(reservation, ())
            for claim in claims:
                self._spent[claim.counter] += used.get(claim.counter, 0) - claim.amount
        return claims

    def delivered(self, settlements: Sequence[Settlement]) -> None:
        """Note that the store has counted settlements: their use is no longer local."""
        with self._lock:
            for _, used, claims in settlements:
                for claim in claims:
                    left = self._spent.get(claim.counter, 0) - used.get(claim.counter, 0)
                    if left > 0:
                        self._spent[claim.counter] = left
                    else:
                        self._spent.pop(claim.counter, None)

    def _most(self, claim: Claim) -> float:
        """Return the most that may be spent of a counter without the store."""
        has_share = self._clock() < self._until
        if claim.lasting:
            return claim.limit * TENTH * self._share if has_share else 0.0
        return claim.limit * self._share if has_share and self._share else float(claim.limit)


log = logging.getLogger(__name__)

#: Settlements that wait for the store; beyond, and at the end, they are lost: what was reserved stays used.
_WAITING: Final = 100_000
#: Seconds for which settlements gather. Until then what was reserved counts: never too little.
_LINGER: Final = 0.02
#: Seconds between two renewals of the share that this process may spend in an outage, and between two
#: attempts where it has none.
_RENEWAL: Final = 60.0
_AGAIN: Final = 1.0


class Budgets:
    """Reserves and settles. A store that may wait (Valkey, a file) is called in a thread.

    While that store fails, this process spends at most its share of what all processes together may spend
    without it (``Outage``), or refuses: according to ``fails_open``. Settlements wait until it is back.
    """

    def __init__(
        self,
        store: BudgetStore,
        *,
        fails_open: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Count in a store; ``fails_open``: also while it fails. ``clock``: seconds that only go forward."""
        self.store: Final = store
        self.fails_open = fails_open
        self.outage = ""  # why it failed since it last answered
        self._is_used_up = False  # what this process may spend meanwhile, as the log has told
        self._process: Final = secrets.token_hex(8)
        self._numbers: Final = itertools.count(1)  # of reservations
        self._here: Final = store if isinstance(store, MemoryBudgets) else MemoryBudgets()
        self._alone: Final = Outage(self._here, clock)
        self._clock: Final = clock
        self._renew_at = float("-inf")
        self._renewing: Final = threading.Lock()
        self._writer: Final = BatchWriter[Settlement](
            self._settle_shared, size=_WAITING, name="pointsman-budgets", linger=_LINGER
        )

    @property
    def lost(self) -> int:
        """Settlements that did not reach the store, or its durable record."""
        return self._writer.lost + (self.store.lost if isinstance(self.store, ValkeyBudgets) else 0)

    @property
    def fault(self) -> str:
        """Why the store fails just now; empty when all is well."""
        recording = self.store.fault if isinstance(self.store, ValkeyBudgets) else ""
        return self.outage or self._writer.fault or recording

    def start(self) -> None:
        """Ask the store for this process's share in an outage, in a thread: before the first request."""
        if self.store.waits:
            threading.Thread(target=self._renew, name="pointsman-budgets-share", daemon=True).start()

    def new_reservation(self) -> str:
        """Return the id of a reservation: the process, and a number."""
        return f"{self._process}-{next(self._numbers):x}"

    async def reserve(self, reservation: str, claims: Sequence[Claim]) -> Reserved:
        """Reserve all claims, or none.

        Raises:
            StoreUnavailable: the store fails, and ``fails_open`` is false or this process's share is used up.
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
        self._here.settle([Settlement(reservation, used)])
        if self._here is not self.store:
            claims = self._alone.settled(reservation, used)
            self._writer.put(Settlement(reservation, used, claims))

    def known(self, counter: str) -> int:
        """Return the local value of a counter, without a call to the store."""
        return self._here.totals((counter,))[0]

    async def learn(self, claims: Sequence[Claim]) -> None:
        """Ask the store for the totals of counters of which this process has not heard; for claims of 0."""
        if self._here is self.store:
            return
        new = [claim for claim in claims if not self._here.knows(claim.counter)]
        if new:
            totals = await asyncio.to_thread(self.read, [claim.counter for claim in new])
            self._here.note("", new, Reserved(totals, refused=0))

    def read(self, counters: Sequence[str]) -> tuple[int, ...]:
        """Return used and reserved amounts of counters; waits for the store, or returns local values."""
        try:
            return self.store.totals(counters)
        except StoreUnavailable:
            return self._here.totals(counters)

    def close(self) -> None:
        """Send waiting settlements, return the share if none is left, and release the store."""
        self._writer.close()
        if self._renew_at > float("-inf") and not self._writer.lost and not self._writer.waiting:
            try:
                self.store.leave(self._process)
            except StoreUnavailable as error:
                log.warning("budgets: the share of this process stays its own for an hour: %s", error)
        self.store.close()

    def _reserve_shared(self, reservation: str, claims: Sequence[Claim]) -> Reserved:
        if self._clock() >= self._renew_at:
            self._renew()
        try:
            found = self.store.reserve(reservation, claims)
        except StoreUnavailable as error:
            self._tell(error)
            if not self.fails_open:
                raise
            return self._reserve_alone(reservation, claims)
        if self.outage:
            log.warning("the budget store answers again")
            self.outage, self._is_used_up = "", False
        self._here.note(reservation, claims, found)
        return found

    def _reserve_alone(self, reservation: str, claims: Sequence[Claim]) -> Reserved:
        try:
            return self._alone.reserve(reservation, claims)
        except StoreUnavailable as error:
            if not self._is_used_up:
                log.error("budgets and rate limits: %s; what needs more is refused", error)  # noqa: TRY400
            self._is_used_up = True
            raise

    def _renew(self) -> None:
        """Have the share of this process renewed; one thread does."""
        if not self._renewing.acquire(blocking=False):
            return
        try:
            began = self._clock()
            try:
                self._alone.share(self.store.join(self._process), began)
            except StoreUnavailable:
                self._renew_at = began + _AGAIN  # the next reservation tells why
            else:
                self._renew_at = began + _RENEWAL
        finally:
            self._renewing.release()

    def _tell(self, error: StoreUnavailable) -> None:
        """Note an outage. The log gets one line for it, not one for each request."""
        if not self.outage:
            then = (
                "each process spends at most its share of a tenth of each budget"
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
        self._alone.delivered(batch)
        return 0

    def _settle_alone(self, settlement: Settlement) -> bool:
        """Settle one of a batch that failed: one that is wrong takes no others with it."""
        try:
            self.store.settle((settlement,))
        except Exception as error:  # noqa: BLE001 - counted as lost; what was reserved stays used
            log.error("a settlement is lost: %s", error)  # noqa: TRY400 - the batch has told the trace
            return False
        self._alone.delivered((settlement,))
        return True

    def _give_back(self, done: asyncio.Future[Reserved], reservation: str, claims: Sequence[Claim]) -> None:
        if not done.cancelled() and done.exception() is None and done.result().ok:
            self.settle(reservation, {claim.counter: 0 for claim in claims})

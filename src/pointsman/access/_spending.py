"""Reservations and settlements of one request under the limits of its key and team."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import ceil
from typing import Final

from pointsman.access._budgets import Budgets
from pointsman.access._limits import UNIT, Grant, Limit, time_text
from pointsman.errors import LimitReached, StoreUnavailable
from pointsman.prices import Prices
from pointsman.stores.budgets import Claim, Reserved
from pointsman.wire.conversation import Usage

#: Failures for which a provider charges nothing: it refused, or was not reached.
_FREE: Final = frozenset({"status", "connect", "busy", "stale"})
#: Tokens of one answer that are believed at most, and the most one attempt can cost: counters hold 64 bits.
_MOST_TOKENS: Final = 1_000_000_000
_MOST_MONEY: Final = 100_000_000
#: Seconds after which a request is sent again that only the reservations of running ones leave no room for:
#: most answers take less, and each retry that comes too early costs the store one call.
_RUNNING: Final = 10.0


class Hold:
    """Reservation of one attempt. It ends once; later calls have no effect."""

    __slots__ = ("_budgets", "_claims", "_id", "_prices", "_tokens", "so_far")

    def __init__(
        self,
        budgets: Budgets,
        reservation: str,
        claims: Sequence[tuple[Limit, Claim]],
        prices: Prices,
        tokens: tuple[int, int],
    ) -> None:
        """Use the reservation for input and output ``tokens``."""
        self._budgets = budgets
        self._id = reservation
        self._claims: Sequence[tuple[Limit, Claim]] | None = claims
        self._prices = prices
        self._tokens = tokens
        #: Of a stream: counted as far as its upstream has not reported it, and whether any of it was.
        self.so_far: tuple[Usage, bool] | None = None

    def finish(self, error: str, usage: Usage, *, estimated: bool = False) -> float:
        """Settle the attempt; return its cost, in US dollars.

        Usage that the upstream reports counts. Without it, a failure for which nothing is charged gives all
        back; another failure has used the input; a success, or a caller that left, has used the larger of the
        reservation and the tokens sent: the upstream may continue without a reader, and may hide reasoning.

        Args:
            error: Class of failure as the ledger names it; empty for a success.
            usage: As far as it is known.
            estimated: The upstream has not reported all usage.
        """
        read, written = self._tokens
        if self.so_far is not None:
            usage, estimated = self.so_far
            is_open = estimated and not error
        else:
            is_open = error == "disconnect" and (estimated or usage.output is None)
        known = _believed(usage)
        sent = known.input or 0
        cached = min(known.cached or 0, sent)
        to_cache = min(known.written or 0, sent - cached)
        for_an_hour = min(known.written_1h or 0, to_cache)
        if is_open:
            return self._settle(max(sent, read), 0, max(known.output or 0, written), to_cache, for_an_hour)
        if known.input is not None and known.output is not None:
            return self._settle(sent, cached, known.output, to_cache, for_an_hour)
        if error in _FREE:
            return self._settle(0, 0, 0)
        used = (known.input if known.input is not None else read), known.output
        if error:
            return self._settle(used[0], 0, used[1] or 0)
        return self._settle(used[0], 0, written if used[1] is None else used[1])

    def keep(self) -> None:
        """Settle an unfinished attempt at its reservation."""
        self._settle(self._tokens[0], 0, self._tokens[1])

    def _settle(self, read: int, cached: int, written: int, to_cache: int = 0, for_an_hour: int = 0) -> float:
        if self._claims is None:
            return 0.0
        claims, self._claims = self._claims, None
        cost = self._prices.cost(read, cached, written, to_cache, for_an_hour) or 0.0
        amounts = {"money": _units(cost), "tokens": read + written, "requests": 1}
        used = {claim.counter: amounts[limit.kind] for limit, claim in claims}
        self._budgets.settle(self._id, used)
        return cost


class Spending:
    """The limits of one request: reserves for each attempt, and reports the rest."""

    __slots__ = ("_clock", "_counts_request", "_holds", "_known", "budgets", "grant", "output_tokens")

    def __init__(
        self, grant: Grant, budgets: Budgets, output_tokens: int, clock: Callable[[], float] = time.time
    ) -> None:
        """Begin a request.

        Args:
            grant: Of its key.
            budgets: The counters.
            output_tokens: Reserved where the request states no limit.
            clock: Seconds since the epoch.
        """
        self.grant = grant
        self.budgets = budgets
        self.output_tokens = output_tokens
        self._clock = clock
        self._counts_request = True  # it counts once, however many attempts it takes
        self._known: dict[Limit, int] = {}  # what was used of each limit when last asked
        self._holds: list[Hold] = []

    def check_rate(self) -> None:
        """Refuse a request with a rate limit known to be used up, before any work is done for it.

        Raises:
            LimitReached: requests of this minute are used up: their number never falls within it.
        """
        now = self._clock()
        for limit in self.grant.limits:
            if limit.kind == "requests":
                total = self.budgets.known(limit.counter(now))
                if total >= limit.most:
                    self._known[limit] = total
                    raise self._reached(limit, total, 1, now)

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left of a budget, as far as this process knows."""
        now = self._clock()
        return any(
            limit.kind == "money" and self.budgets.known(limit.counter(now)) >= limit.most
            for limit in self.grant.limits
        )

    async def check_budget(self) -> None:
        """Refuse a request of which no part can be paid for. Asks the store where this process knows nothing.

        Raises:
            LimitReached: nothing is left of a budget.
        """
        now = self._clock()
        budgets = [limit for limit in self.grant.limits if limit.kind == "money"]
        await self.budgets.learn([limit.claim(0, now) for limit in budgets])
        for limit in budgets:
            total = self._known[limit] = self.budgets.known(limit.counter(now))
            if total >= limit.most:
                await self._check_again(limit, total, now)

    async def _check_again(self, limit: Limit, total: int, now: float) -> None:
        """Ask the store whether anything is left: requests of other processes may have ended meanwhile."""
        reservation = self.budgets.new_reservation()
        claim = limit.claim(0, now)._replace(limit=limit.most - 1)  # refused where the total is the limit
        try:
            found = await self.budgets.reserve(reservation, [claim])
        except StoreUnavailable:
            found = Reserved((total,), refused=0)
        self._known[limit] = found.totals[0]
        if not found.ok:
            raise self._reached(limit, found.totals[0], 0, now, found.held)
        self.budgets.settle(reservation, {claim.counter: 0})

    def beside(self) -> Spending:
        """Return the same limits for extra calls of the request, which count as no request."""
        other = Spending(self.grant, self.budgets, self.output_tokens, self._clock)
        other._counts_request = False
        return other

    async def count_request(self) -> None:
        """Count a request, regardless of its result; its cost is reserved separately.

        Raises:
            LimitReached: its rate limit is used up.
            StoreUnavailable: that is unknown, and requests are then refused.
        """
        hold = await self._reserve(Prices(), (0, 0))
        hold.keep()

    async def reserve(self, prices: Prices, input_tokens: int, output_tokens: int) -> Hold:
        """Reserve the possible cost of one attempt in every window of every level.

        Args:
            prices: Of the model.
            input_tokens: Estimate.
            output_tokens: The request's limit; 0 if it states none.

        Raises:
            LimitReached: a limit has no room; nothing is reserved.
            StoreUnavailable: that is unknown, and requests are then refused.
        """
        return await self._reserve(prices, (input_tokens, output_tokens or self.output_tokens))

    async def _reserve(self, prices: Prices, tokens: tuple[int, int]) -> Hold:
        now = self._clock()
        reservation = self.budgets.new_reservation()
        claims = self._claims(prices, tokens, now)
        hold = Hold(self.budgets, reservation, claims, prices, tokens)
        if claims:
            found = await self.budgets.reserve(reservation, [claim for _, claim in claims])
            self._known.update((limit, total) for (limit, _), total in zip(claims, found.totals, strict=True))
            if not found.ok:
                limit, claim = claims[found.refused]
                raise self._reached(limit, found.totals[found.refused], claim.amount, now, found.held)
        self._counts_request = False
        self._holds.append(hold)
        return hold

    def _claims(self, prices: Prices, tokens: tuple[int, int], now: float) -> list[tuple[Limit, Claim]]:
        cost = prices.cost(tokens[0], 0, tokens[1]) or 0.0  # without a price: refused by the decision
        amounts = {
            "money": _units(cost),
            "tokens": sum(tokens),
            "requests": 1 if self._counts_request else 0,
        }
        found = [(limit, amounts[limit.kind]) for limit in self.grant.limits]
        return [(limit, limit.claim(amount, now)) for limit, amount in found if amount]

    def end(self) -> None:
        """The request is over: unsettled reservations count as used."""
        for hold in self._holds:
            hold.keep()

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the rest: ``x-ratelimit-*`` as OpenAI's, and the tightest budget."""
        tightest: dict[str, tuple[int, Limit]] = {}
        for limit, total in self._known.items():
            left = limit.most - total
            if limit.kind not in tightest or left < tightest[limit.kind][0]:
                tightest[limit.kind] = left, limit
        now, found = self._clock(), list[tuple[bytes, bytes]]()
        for kind, (left, limit) in tightest.items():
            if kind == "money":
                said = f'{limit.left(limit.most - left)}; {limit.level} "{limit.name}"'
                found.append((b"x-pointsman-budget-left", said.encode()))
                continue
            name = kind.encode()
            found += [
                (b"x-ratelimit-limit-" + name, b"%d" % limit.most),
                (b"x-ratelimit-remaining-" + name, b"%d" % max(left, 0)),
                (b"x-ratelimit-reset-" + name, _duration(limit.window(now).end - now)),
            ]
        return found

    def _reached(self, limit: Limit, total: int, amount: int, now: float, held: int = 0) -> LimitReached:
        """Return the refusal of an amount; ``held``: of the total, reserved by requests in progress."""
        end = limit.window(now).end
        is_counted = limit.kind == "requests"
        rest = max(end - now, 1.0)
        wait: float | None = rest
        is_passing = not is_counted and held > 0 and total - held + max(amount, 1) <= limit.most
        if amount > limit.most:
            wait = None  # no window will have room for it
            hint = (
                f"set a lower max_tokens (without one {self.output_tokens:,} are reserved), "
                f"or ask for a cheaper model: it is more than all of {limit}"
            )
        elif is_passing:
            wait = min(_RUNNING, rest)
            hint = f"requests in progress have reserved {limit.amount(held)}: send it again in {ceil(wait)} s"
        else:
            hint = f"send it again in {ceil(rest)} s, at {time_text(end)}"
        return LimitReached(
            f"{limit} has {limit.left(total)} left",
            hint=hint,
            asked=limit.amount(amount) if amount and not is_counted else "",
            wait=wait,
            kind=limit.kind,
            is_passing=is_passing,
            headers=self.headers(),
        )


def _units(money: float) -> int:
    """Whole parts of the unit, rounded up; float errors are ignored."""
    return ceil(round(min(money, _MOST_MONEY) * UNIT, 3))


def _believed(usage: Usage) -> Usage:
    """Usage reported by an upstream, within plausible bounds; a negative number is no report."""
    read, cached, output, written = map(_count, (usage.input, usage.cached, usage.output, usage.written))
    return Usage(read, cached, output, written, written_1h=_count(usage.written_1h))


def _count(tokens: int | None) -> int | None:
    return None if tokens is None or tokens < 0 else min(tokens, _MOST_TOKENS)


def _duration(seconds: float) -> bytes:
    """Write a time as OpenAI does: ``59s``, ``6m0s``."""
    minutes, rest = divmod(max(ceil(seconds), 0), 60)
    return b"%dm%ds" % (minutes, rest) if minutes else b"%ds" % rest

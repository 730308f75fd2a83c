"""The summary of a replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from pointsman.decision.diff import PARTS
from pointsman.prices import dollars
from pointsman.reports.replay import Cache, Replayed, Source
from pointsman.reports.usage import PRICED

__all__ = ["Summary"]

Key = TypeVar("Key")

_HONEST = (
    "Signals that the other policy adds cannot be found where no words were kept; text the models would have",
    "written otherwise, and what people would have asked next, are taken as they were recorded.",
)


@dataclass(slots=True)
class Summary:
    """Counts over replayed turns. Its text and JSON are the same on every machine."""

    policy: str  # version of the policy replayed
    turns: int = 0
    refused: Counter[str] = field(default_factory=Counter)  # by reason
    sources: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)  # by part; "any"
    tiers: Counter[tuple[str, str]] = field(default_factory=Counter)  # (then, now), where they differ
    models: Counter[tuple[str, str]] = field(default_factory=Counter)
    caches: Counter[str] = field(default_factory=Counter)
    asks: Counter[str] = field(default_factory=Counter)
    unknown: int = 0  # turns replayed from signals of which this policy does not have all
    up: int = 0
    down: int = 0
    priced: int = 0  # turns with both costs
    then_cost: float = 0.0
    now_cost: float = 0.0

    def add(self, line: Replayed) -> Replayed:
        """Count one turn, and return it."""
        self.turns += 1
        if line.refused:
            self.refused[line.refused] += 1
            return line
        self.sources[line.source] += 1
        self.unknown += line.unknown > 0 and line.source is Source.SIGNALS
        self.caches[line.cache] += line.cache is not Cache.NONE
        self.asks[line.asks] += bool(line.asks)
        self._add_changes(line)
        then, now = line.then.cost, line.now.cost
        if then is not None and now is not None:
            self.priced += 1
            self.then_cost += then
            self.now_cost += now
        return line

    def _add_changes(self, line: Replayed) -> None:
        self.changed.update(line.changed)
        self.changed["any"] += bool(line.changed)
        then, now = line.then.tier, line.now.tier
        if then != now:
            self.tiers[then or "-", now or "-"] += 1
        if then and now:
            self.up += now.rank > then.rank
            self.down += now.rank < then.rank
        if "model" in line.changed:
            self.models[line.then.model or "-", line.now.model or "-"] += 1

    @property
    def replayed(self) -> int:
        """Turns that were decided again."""
        return self.turns - self.refused.total()

    def to_json(self) -> dict[str, object]:
        """Plain values, in a fixed order."""
        return {
            "policy": self.policy,
            "turns": self.turns,
            "replayed": self.replayed,
            "refused": dict(_ordered(self.refused)),
            "sources": dict(_ordered(self.sources)),
            "signals_unknown_to_policy": self.unknown,
            "changed": dict(_ordered(self.changed)),
            "up": self.up,
            "down": self.down,
            "tiers": [{"then": a, "now": b, "turns": n} for (a, b), n in _ordered(self.tiers)],
            "models": [{"then": a, "now": b, "turns": n} for (a, b), n in _ordered(self.models)],
            "cache": dict(_ordered(self.caches)),
            "asks": dict(_ordered(self.asks)),
            "cost": {
                "turns": self.priced,
                "lacking_data": self.replayed - self.priced,
                "then": round(self.then_cost, PRICED) if self.priced else None,
                "now": round(self.now_cost, PRICED) if self.priced else None,
            },
        }

    def lines(self) -> Iterator[str]:
        """The summary for a person."""
        yield f"replayed {self.replayed:,} of {self.turns:,} turns under policy {self.policy}"
        for why, count in _ordered(self.refused):
            yield f"  not replayed: {count:,}: {why}"
        yield "  from " + ", ".join(f"{name}: {count:,}" for name, count in _ordered(self.sources))
        if self.unknown:
            yield f"  {self.unknown:,} of those from signals had signals that this policy does not have"
        yield from self.differences()
        yield from _HONEST

    def differences(self) -> Iterator[str]:
        """What the other policy does otherwise, and what that costs, for a person."""
        yield f"changed: {self._share(self.changed['any'])}"
        for part in PARTS:
            yield f"  {part:<13}{self._share(self.changed[part])}"
        yield f"tiers: up {self._share(self.up)}, down {self._share(self.down)}"
        for (then, now), count in [*_ordered(self.tiers), *_ordered(self.models)]:
            yield f"  {then} -> {now}: {count:,}"
        asked = self.asks.total()
        if asked:
            yield f"asks a model: {self._share(asked)}, answered from the record: {self.asks['record']:,}"
        yield from self._money()

    def _money(self) -> Iterator[str]:
        lacking = self._share(self.replayed - self.priced)
        if not self.priced:
            yield f"cost: unknown; usage or prices are lacking for {lacking}"
            return
        change = f" ({self.now_cost / self.then_cost - 1:+.1%})" if self.then_cost else ""
        yield f"cost of answers: {dollars(self.then_cost)} then, {dollars(self.now_cost)} now{change}"
        yield f"  at the prices of this policy, over {self.priced:,} turns; data is lacking for {lacking}"
        kept, lost = self.caches[Cache.KEPT], self.caches[Cache.LOST]
        if kept or lost:
            yield f"  cached input: {kept:,} turns keep it by staying, {lost:,} lose it by changing model"

    def _share(self, count: int) -> str:
        return f"{count:,} ({count / self.replayed:.1%})" if self.replayed else f"{count:,}"


def _ordered(counts: Counter[Key]) -> list[tuple[Key, int]]:
    """Counts, the largest first, equal ones by name; none that is zero."""
    return sorted(((k, n) for k, n in counts.items() if n), key=lambda item: (-item[1], str(item[0])))

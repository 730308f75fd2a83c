"""Replay: decides recorded requests under another policy, and explains the differences.

Deterministic: the same ledger and policy give the same values on every machine. Nothing is asked of a model;
a turn whose tier a model verified then gets the recorded tier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

import msgspec

from pointsman.decision.decision import Decision
from pointsman.decision.diff import PARTS, REFUSED, AsDecided, Verdict, changed, reasons, verdict
from pointsman.decision.engine import Engine
from pointsman.decision.memory import Memory
from pointsman.drivers import drive
from pointsman.errors import UnknownModel
from pointsman.prices import dollars
from pointsman.reports.good_enough import GoodEnough
from pointsman.reports.labels import ScoredAnswers
from pointsman.reports.usage import PRICED, Usage, answered, cost, kept_words, usage
from pointsman.stores.ledger import Attempt, Record
from pointsman.vocabulary import ModelSpec

__all__ = [
    "Cache",
    "Replay",
    "Replayed",
    "SessionState",
    "Side",
    "Source",
    "Summary",
    "costs",
    "differences",
    "served",
]


class Source(StrEnum):
    """Input of a turn's repeated decision."""

    WORDS = "words"  # the user's words, kept whole
    ALTERED = "altered words"  # kept cut or redacted
    SIGNALS = "signals"  # no words kept: what this policy adds cannot be found
    NOTHING = "nothing"  # not decided again, see ``refused``


class Cache(StrEnum):
    """What happens to the share of the input that was read from the provider's cache."""

    AS_RECORDED = "as recorded"  # the same model as then, and before it the same as then
    KEPT = "kept"  # the session stays with its model
    LOST = "lost"  # the session changes its model where it did not, or to another
    NONE = ""  # nothing was cached, or no usage is recorded


class Side(Verdict, frozen=True):
    """Decision of one policy about a turn, and its cost."""

    cost: float | None = None  # of the answer; None where usage or price is lacking

    @classmethod
    def of(cls, said: Verdict, cost: float | None) -> Side:
        """Compute the price of a decision."""
        return cls(said.tier, said.model, said.domains, said.rule, said.guidance, said.capabilities, cost)


class Replayed(msgspec.Struct, frozen=True):
    """One turn under both policies."""

    id: str
    session: str
    arrived_at: float  # seconds since the epoch
    source: Source
    then: Side
    now: Side
    changed: tuple[str, ...] = ()  # of ``diff.PARTS``
    why: tuple[str, ...] = ()
    gained: tuple[str, ...] = ()  # signals found only now, where something changed
    lost: tuple[str, ...] = ()  # signals found only then, where something changed
    unknown: int = 0  # signals found then that this policy does not have
    cache: Cache = Cache.NONE
    asks: str = ""  # how this policy's question was answered: "record", "no-model"; empty: it asks nothing
    refused: str = ""  # why the turn could not be decided again


class SessionState(msgspec.Struct, frozen=True, omit_defaults=True):
    """State of a replay between turns of one session."""

    memory: Memory = Memory()  # under the new policy
    then: str = ""  # model that answered the turn before
    now: str = ""  # model that would have


class Replay:
    """Decides recorded turns again, in the order they are given. ``sessions`` is all its state."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.sessions: dict[str, SessionState] = {}
        self._known = frozenset(signal.id for signal in engine.scanner.table.signals)

    def turns(self, records: Iterable[Record]) -> Iterator[Replayed]:
        """Decide all records, the oldest first."""
        return map(self.turn, records)

    def turn(self, record: Record) -> Replayed:
        """Decide one record, the next of its session."""
        then, session = record.decision, record.decision.input.conversation
        named = then.input.session  # a helper call reads the memory of its session, and leaves it as it is
        known = self.sessions.get(named, SessionState()) if named else SessionState()
        before = known if session else SessionState(known.memory)
        text, source = _words(record)
        ask = AsDecided(then)
        try:
            reading = self.engine.reader.recall(then, before.memory, text)
            decided = drive(self.engine.decide(reading, before.memory, then.id), ask)
        except UnknownModel as error:
            return _refused(then, record.attempts, self.engine.policy.models, str(error))
        now = decided.decision
        was = served(then, record.attempts)
        would = was if now.chain[:1] == then.chain[:1] else "".join(now.chain[:1])
        if session:
            self.sessions[session] = SessionState(decided.memory, was, would)
        used = usage(answered(record.attempts))
        cache, paid, pays = costs(used, self.engine.policy.models, before, was, would)
        line = Replayed(
            id=then.id,
            session=then.input.session,
            arrived_at=then.input.arrived_at,
            source=source,
            then=Side.of(verdict(then), paid),
            now=Side.of(verdict(now), pays),
            unknown=sum(signal not in self._known for signal in then.input.signals),
            cache=cache,
            asks=ask.answered,
        )
        return _explained(line, then, now)


def differences(then: Verdict, now: Verdict, parts: Iterable[str]) -> str:
    """Return the parts in which two policies differ, with both decisions."""
    return ", ".join(f"{part} {getattr(then, part) or '-'} -> {getattr(now, part) or '-'}" for part in parts)


def _words(record: Record) -> tuple[str | None, Source]:
    text = kept_words(record.text)
    if text is None:
        return None, Source.SIGNALS
    whole = len(text) == record.decision.input.characters
    return text, Source.WORDS if whole else Source.ALTERED


def served(then: Decision, attempts: Sequence[Attempt]) -> str:
    """The model that answered; without such an attempt, the first of the chain."""
    answer = answered(attempts)
    return answer.model if answer else "".join(then.chain[:1])


def costs(
    used: Usage | None, models: Mapping[str, ModelSpec], before: SessionState, was: str, would: str
) -> tuple[Cache, float | None, float | None]:
    """Effect on the prompt cache, and cost of the turn's answer then and now."""
    if used is None:
        return Cache.NONE, None, None
    cache = _cache(before, was, would)
    paid = _without_cache(used) if cache is Cache.LOST else used
    return cache if used.cached else Cache.NONE, _cost(models, was, used), _cost(models, would, paid)


def _without_cache(used: Usage) -> Usage:
    """Usage of a turn that reads nothing from a cache, and writes all to it."""
    written_1h = used.written_1h and used.written_1h + used.cached
    return used._replace(cached=0, written=used.written + used.cached, written_1h=written_1h)


def _cache(before: SessionState, served: str, would: str) -> Cache:
    if (before.then, served) == (before.now, would):
        return Cache.AS_RECORDED
    # On a session's first turn only another model can lose what an earlier session left in the cache.
    stays = would == before.now if before.now else would == served
    return Cache.KEPT if stays else Cache.LOST


def _cost(models: Mapping[str, ModelSpec], model: str, used: Usage | None) -> float | None:
    paid = cost(models.get(model), used)
    return None if paid is None else round(paid, PRICED)


def _explained(line: Replayed, then: Decision, now: Decision) -> Replayed:
    """The line with what changed and why."""
    parts = changed(line.then, line.now)
    if not parts:
        return line
    return msgspec.structs.replace(
        line,
        changed=parts,
        why=tuple(reasons(then, now, parts)),
        gained=tuple(signal for signal in now.input.signals if signal not in then.input.signals),
        lost=tuple(signal for signal in then.input.signals if signal not in now.input.signals),
    )


def _refused(
    then: Decision, attempts: Sequence[Attempt], models: Mapping[str, ModelSpec], why: str
) -> Replayed:
    spent = _cost(models, served(then, attempts), usage(answered(attempts)))
    return Replayed(
        id=then.id,
        session=then.input.session,
        arrived_at=then.input.arrived_at,
        source=Source.NOTHING,
        then=Side.of(verdict(then), spent),
        now=Side(),
        refused=why,
    )


# The summary of a replay.

Key = TypeVar("Key")

_NO_PRICE = "Not known: without the prices of both, nothing says which model is the cheaper one."
_HONEST = (
    "Signals that the other policy adds cannot be found where no words were kept; text the models would have",
    "written otherwise, and what people would have asked next, are taken as they were recorded.",
)


@dataclass(slots=True)
class Summary:
    """Counts over replayed turns. Its text and JSON are the same on every machine."""

    policy: str  # version of the policy replayed
    answers: ScoredAnswers | None = None  # with the scores of the records; None: they were not read
    turns: int = 0
    refused: Counter[str] = field(default_factory=Counter)  # by reason
    sources: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)  # by part; "any"
    tiers: Counter[tuple[str, str]] = field(default_factory=Counter)  # (then, now), where they differ
    models: Counter[tuple[str, str]] = field(default_factory=Counter)
    labelled: dict[tuple[str, str], list[str]] = field(default_factory=dict)  # of these, with scores of two
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
            moved = line.then.model or "-", line.now.model or "-"
            self.models[moved] += 1
            if self.answers is not None and line.id in self.answers:
                self.labelled.setdefault(moved, []).append(line.id)

    @property
    def replayed(self) -> int:
        """Turns that were decided again."""
        return self.turns - self.refused.total()

    def to_json(self) -> dict[str, object]:
        """Plain values, in a fixed order."""
        said = self._qualities()
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
            "models": [
                {"then": a, "now": b, "turns": n, "quality": said.get((a, b))}
                for (a, b), n in _ordered(self.models)
            ],
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
        """Differences of the other policy, and their cost, for display."""
        yield f"changed: {self._share(self.changed['any'])}"
        for part in PARTS:
            yield f"  {part:<13}{self._share(self.changed[part])}"
        yield f"tiers: up {self._share(self.up)}, down {self._share(self.down)}"
        for (then, now), count in _ordered(self.tiers):
            yield f"  {then} -> {now}: {count:,}"
        said = self._qualities()
        for moved, count in _ordered(self.models):
            yield f"  {' -> '.join(moved)}: {count:,}"
            if moved in said:
                yield f"    good enough? {said[moved]}"
        asked = self.asks.total()
        if asked:
            yield f"asks a model: {self._share(asked)}, answered from the record: {self.asks['record']:,}"
        yield from self._money()

    def _qualities(self) -> dict[tuple[str, str], str]:
        """The sentence of page Quality on each change of a model, from the requests that change so.

        There is none where a turn has no model, or no score was read. The sentences share the level.
        """
        if self.answers is None:
            return {}
        moves = [moved for moved in self.models if not {REFUSED, "-"} & {*moved}]
        priced = [moved for moved in moves if self.answers.is_priced(*moved)]
        found = self.answers.together({moved: self.labelled.get(moved, ()) for moved in priced})
        return dict.fromkeys(moves, _NO_PRICE) | {
            moved: self._said(*moved, of) for moved, of in found.items()
        }

    def _said(self, then: str, now: str, found: GoodEnough) -> str:
        both, turns = found.pairs + found.repeated, self.models[then, now]
        labelled = f"{both:,} of the {turns:,} requests that change have"
        if turns == 1:
            labelled = "the one request that changes has" if both else "the one request that changes lacks"
        said = found.sentence(f"{labelled} labels of both models")
        if found.answer != "not known yet" or both == turns:
            return said
        return f'{said} [shadow] model = "{now}" asks it beside “{then}”.'

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

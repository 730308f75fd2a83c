"""Replay: decides recorded requests under another policy, and explains the differences.

Deterministic: the same ledger and policy give the same values on every machine. Nothing is asked of a model;
a turn whose tier a model verified then is answered with the tier recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

import msgspec

from pointsman.decision.decision import Decision
from pointsman.decision.diff import AsDecided, Verdict, changed, reasons, verdict
from pointsman.decision.engine import Engine
from pointsman.decision.memory import Memory
from pointsman.drivers import drive
from pointsman.errors import UnknownModel
from pointsman.reports.usage import HASHED, PRICED, Usage, answered, cost, usage
from pointsman.stores.ledger import Attempt, Record
from pointsman.vocabulary import ModelSpec

__all__ = ["Cache", "Replay", "Replayed", "SessionState", "Side", "Source", "costs", "served"]


class Source(StrEnum):
    """What a turn was decided again from."""

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
    """What one policy said about a turn, and what that costs."""

    cost: float | None = None  # of the answer; None where usage or price is lacking

    @classmethod
    def of(cls, said: Verdict, cost: float | None) -> Side:
        """Put a price to what was said."""
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
    """What a replay carries from turn to turn of one session."""

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
            reading = self.engine.recall(then, before.memory, text)
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


def _words(record: Record) -> tuple[str | None, Source]:
    text = record.text
    if not text or text.startswith(HASHED):
        return None, Source.SIGNALS
    whole = len(text) == record.decision.input.characters
    return text, Source.WORDS if whole else Source.ALTERED


def served(then: Decision, attempts: Iterable[Attempt]) -> str:
    """The model that answered; the one that was to, where no attempt was recorded as answering."""
    answer = answered(attempts)
    return answer.model if answer else "".join(then.chain[:1])


def costs(
    used: Usage | None, models: Mapping[str, ModelSpec], before: SessionState, was: str, would: str
) -> tuple[Cache, float | None, float | None]:
    """What happens to the prompt cache, and what the turn's answer costs then and now."""
    if used is None:
        return Cache.NONE, None, None
    cache = _cache(before, was, would)
    paid = used._replace(cached=0) if cache is Cache.LOST else used
    return cache if used.cached else Cache.NONE, _cost(models, was, used), _cost(models, would, paid)


def _cache(before: SessionState, served: str, would: str) -> Cache:
    if (before.then, served) == (before.now, would):
        return Cache.AS_RECORDED
    # On a session's first turn only another model can lose what an earlier session left in the cache.
    stays = would == before.now if before.now else would == served
    return Cache.KEPT if stays else Cache.LOST


def _cost(models: Mapping[str, ModelSpec], model: str, used: Usage) -> float | None:
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
    then: Decision, attempts: Iterable[Attempt], models: Mapping[str, ModelSpec], why: str
) -> Replayed:
    answer = answered(attempts)
    used = usage(answer)
    spent = _cost(models, answer.model, used) if answer and used else None
    return Replayed(
        id=then.id,
        session=then.input.session,
        arrived_at=then.input.arrived_at,
        source=Source.NOTHING,
        then=Side.of(verdict(then), spent),
        now=Side(),
        refused=why,
    )

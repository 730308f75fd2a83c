"""Memory: what a message changes about the task a conversation is in. The table is the truth.

Momentum counts the turns that confirmed the task pair; from three on the pair is *strong* and resists chores,
side remarks and ties. Source: the rule table of docs/explanation/domains.md, which is printed from
``TRANSITIONS``; the constants are the seed's where it has them (docs/decisions/0042).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from itertools import product
from typing import Final

import msgspec

from pointsman.domains.data import DomainSet
from pointsman.domains.scoring import Reading
from pointsman.domains.values import Compound, DomainClass, DomainMemory, Outcome, Pair, Part

__all__ = ["MOMENTUM_THRESHOLD", "TRANSITIONS", "Insistence", "Rule", "Strength", "Subject", "remember"]

#: Confirming turns from which the pair is strong. Source: seed, "Step 3".
MOMENTUM_THRESHOLD: Final = 3

#: A quiet conversation keeps its subject for this many messages: longer small talk has left it.
QUIET_LIMIT: Final = 6

#: Chores in a row after which they are the task. A strong pair is given twice the patience.
OPERATIONAL_LIMIT: Final = {False: 3, True: 6}

#: A primary that was not mentioned for this many confirming turns yields its place to the secondary.
SWAP_AFTER: Final = 2

#: A secondary that was not mentioned for this many confirming turns is dropped.
DROP_AFTER: Final = 3

#: Signals with which a rival takes the secondary's place at once; with fewer it must come twice.
RIVAL_SIGNALS: Final = 2


class Subject(StrEnum):
    """What a message is about, seen from the task pair."""

    NULL = "nothing"  # no signal, or small talk only
    OPERATIONAL = "a chore"
    RELATED = "the task"  # the primary of the message is in the pair
    FOREIGN = "another task"


class Strength(StrEnum):
    """How firmly the task pair is held."""

    WEAK = "weak"
    STRONG = "strong"


class Insistence(StrEnum):
    """Whether the message, or the run it belongs to, asks for a change."""

    CALM = "calm"
    INSISTENT = "insistent"


class Effective(StrEnum):
    """What the turn counts as."""

    RAW = "this message"
    PAIR = "the pair"
    LAST = "the pair, else the last chore, else conversation"


class PairChange(StrEnum):
    """What becomes of the task pair."""

    KEEP = "kept"
    SET = "set to this message"
    CONFIRM = "set to this message; a tie keeps the roles"
    ADJUST = "adjusted"
    CLEAR = "cleared"


class MomentumChange(StrEnum):
    """What becomes of the momentum."""

    KEEP = "unchanged"
    RAISE = "+ 1"
    ONE = "1"
    ZERO = "0"


class Rule(msgspec.Struct, frozen=True):
    """One row of the table."""

    name: str
    effective: Effective
    pair: PairChange
    momentum: MomentumChange


_CARRY = Rule("R0", Effective.LAST, PairChange.KEEP, MomentumChange.KEEP)
_EXPIRE = Rule("R0", Effective.RAW, PairChange.CLEAR, MomentumChange.ZERO)
_HOLD_CHORE = Rule("R1a", Effective.PAIR, PairChange.KEEP, MomentumChange.KEEP)
_PARK = Rule("R1b", Effective.RAW, PairChange.KEEP, MomentumChange.KEEP)
_TOO_MANY = Rule("R1c", Effective.RAW, PairChange.CLEAR, MomentumChange.ZERO)
_CONFIRM = Rule("R2a", Effective.PAIR, PairChange.CONFIRM, MomentumChange.RAISE)
_START = Rule("R2b", Effective.RAW, PairChange.SET, MomentumChange.ONE)
_STAY = Rule("R3", Effective.PAIR, PairChange.ADJUST, MomentumChange.RAISE)
_BREAK = Rule("R4a", Effective.RAW, PairChange.SET, MomentumChange.ONE)
_HOLD_TIE = Rule("R4b", Effective.PAIR, PairChange.KEEP, MomentumChange.KEEP)

#: (subject, strength of the pair, insistence) -> rule. Every combination is here, or the import fails.
TRANSITIONS: Final[Mapping[tuple[Subject, Strength, Insistence], Rule]] = {
    (Subject.NULL, Strength.WEAK, Insistence.CALM): _CARRY,
    (Subject.NULL, Strength.STRONG, Insistence.CALM): _CARRY,
    (Subject.NULL, Strength.WEAK, Insistence.INSISTENT): _EXPIRE,
    (Subject.NULL, Strength.STRONG, Insistence.INSISTENT): _EXPIRE,
    (Subject.OPERATIONAL, Strength.WEAK, Insistence.INSISTENT): _TOO_MANY,
    (Subject.OPERATIONAL, Strength.STRONG, Insistence.INSISTENT): _TOO_MANY,
    (Subject.OPERATIONAL, Strength.STRONG, Insistence.CALM): _HOLD_CHORE,
    (Subject.OPERATIONAL, Strength.WEAK, Insistence.CALM): _PARK,
    (Subject.RELATED, Strength.WEAK, Insistence.CALM): _CONFIRM,
    (Subject.RELATED, Strength.WEAK, Insistence.INSISTENT): _CONFIRM,
    (Subject.FOREIGN, Strength.WEAK, Insistence.CALM): _START,
    (Subject.FOREIGN, Strength.WEAK, Insistence.INSISTENT): _START,
    (Subject.RELATED, Strength.STRONG, Insistence.CALM): _STAY,
    (Subject.RELATED, Strength.STRONG, Insistence.INSISTENT): _STAY,
    (Subject.FOREIGN, Strength.STRONG, Insistence.INSISTENT): _BREAK,
    (Subject.FOREIGN, Strength.STRONG, Insistence.CALM): _HOLD_TIE,
}
if set(TRANSITIONS) != set(product(Subject, Strength, Insistence)):
    raise AssertionError("the rule table of domains has a hole")


def remember(reading: Reading, memory: DomainMemory, domains: DomainSet, key: str) -> DomainMemory:
    """Apply the rule table to one message; the result is the ``outcome`` of the memory that is returned."""
    subject = _subject(reading, memory.pair, domains)
    strong = memory.momentum >= MOMENTUM_THRESHOLD
    insists = _insists(subject, reading, memory, strong=strong)
    rule = TRANSITIONS[
        subject,
        Strength.STRONG if strong else Strength.WEAK,
        Insistence.INSISTENT if insists else Insistence.CALM,
    ]
    pair = _change_pair(rule.pair, reading, memory.pair)
    momentum = _change_momentum(rule.momentum, memory.momentum)
    quiet = subject is Subject.NULL
    chore = subject is Subject.OPERATIONAL
    primary = reading.raw.primary.domain
    operational = "" if rule is _EXPIRE else memory.operational
    if chore and rule.effective is Effective.RAW:
        operational = primary
    return DomainMemory(
        pair=pair,
        momentum=momentum,
        operational=operational,
        last=memory.last if quiet else primary,
        operational_run=memory.operational_run + chore if quiet or chore else 0,
        quiet=memory.quiet + 1 if quiet else 0,
        key=key,
        outcome=Outcome(
            raw=reading.raw,
            effective=_effective(rule.effective, reading, pair, operational),
            momentum=momentum,
            rule=rule.name,
            passed_over=reading.passed_over,
        ),
    )


def _subject(reading: Reading, pair: Pair, domains: DomainSet) -> Subject:
    primary = reading.raw.primary.domain
    kind = domains[primary].kind
    if kind is DomainClass.TASK:
        return Subject.RELATED if primary in pair else Subject.FOREIGN
    return Subject.OPERATIONAL if kind is DomainClass.OPERATIONAL else Subject.NULL


def _insists(subject: Subject, reading: Reading, memory: DomainMemory, *, strong: bool) -> bool:
    if subject is Subject.NULL:
        return memory.quiet >= QUIET_LIMIT
    if subject is Subject.OPERATIONAL:
        return memory.operational_run + 1 >= OPERATIONAL_LIMIT[strong]
    if subject is Subject.RELATED:
        return False
    primary = reading.raw.primary
    outscored = all(
        primary.confidence > part.confidence for part in reading.parts if part.domain in memory.pair
    )
    return outscored or reading.cue or memory.last == primary.domain


def _change_momentum(change: MomentumChange, momentum: int) -> int:
    match change:
        case MomentumChange.KEEP:
            return momentum
        case MomentumChange.RAISE:
            return momentum + 1
        case MomentumChange.ONE:
            return 1
        case MomentumChange.ZERO:
            return 0


def _change_pair(change: PairChange, reading: Reading, pair: Pair) -> Pair:
    match change:
        case PairChange.KEEP:
            return pair
        case PairChange.SET:
            return Pair(*reading.raw.domains)
        case PairChange.CONFIRM:
            return _confirm(pair, reading.raw)
        case PairChange.ADJUST:
            return _adjust(pair, reading)
        case PairChange.CLEAR:
            return Pair()


def _confirm(pair: Pair, raw: Compound) -> Pair:
    """R2a: the message's pair. Priority may choose between strangers, not turn a pair's roles round."""
    first, second = raw.primary, raw.secondary
    if second and second.domain == pair.primary and second.confidence == first.confidence:
        return Pair(second.domain, first.domain)
    return Pair(*raw.domains)


def _adjust(pair: Pair, reading: Reading) -> Pair:
    """R3: the roles follow what the person keeps talking about, a few turns behind."""
    first, second = pair.primary, pair.secondary
    first_silent = 0 if reading.part(first) else pair.primary_silent + 1
    second_silent = 0 if reading.part(second) else pair.secondary_silent + 1
    if first_silent >= SWAP_AFTER and second:
        first, second, first_silent, second_silent = second, first, second_silent, first_silent
    challenger = reading.raw.secondary
    rival = challenger.domain if challenger and challenger.domain not in pair else ""
    takes_over = challenger and rival and (challenger.confidence >= RIVAL_SIGNALS or rival == pair.rival)
    if takes_over and reading.raw.primary.domain != second:
        return Pair(first, rival, first_silent)
    if second and second_silent < DROP_AFTER:
        return Pair(first, second, first_silent, second_silent, rival)
    return Pair(first, next((name for name in reading.raw.domains if name != first), ""), first_silent)


def _effective(effective: Effective, reading: Reading, pair: Pair, operational: str) -> Compound:
    if effective is Effective.RAW:
        return reading.raw
    if pair.primary:
        second = _restore(pair.secondary, reading) if pair.secondary else None
        return Compound(_restore(pair.primary, reading), second)
    return Compound(Part(operational, carried=True)) if operational else reading.raw


def _restore(domain: str, reading: Reading) -> Part:
    """A domain of the pair with this message's signals; marked as carried when it has none."""
    return reading.part(domain) or Part(domain, carried=True)

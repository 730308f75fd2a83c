"""The domain decision of one turn: memory as a transition table, enrichment plan, reasons.

Momentum counts the turns that confirmed the task pair; from three on the pair is *strong* and resists
operational domains, side remarks and ties. Source: the rule table of docs/explanation/domains.md, which is
printed from ``TRANSITIONS``; limits: docs/sources/compound-domains.md and docs/notebook/0042.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from itertools import product
from typing import Any, Final

import msgspec

from pointsman.domains.data import (
    PERMISSIVE,
    Compound,
    DomainClass,
    DomainMemory,
    DomainSet,
    ModelProfile,
    MomentumStep,
    Pair,
    Part,
    Source,
)
from pointsman.domains.enrichment import DISABLED, EnrichmentPlan, Texts
from pointsman.domains.scoring import ExampleMatcher, Reading, Scorer
from pointsman.evidence import SignalTable
from pointsman.printable import counted
from pointsman.vocabulary import Encoder, Evidence

_log: Final = logging.getLogger("pointsman.domains")
_NEW: Final = DomainMemory()

#: Confirming turns from which the pair is strong.
#: Source: docs/sources/compound-domains.md, "Step 3: apply compound momentum".
MOMENTUM_THRESHOLD: Final = 3

#: A quiet conversation holds on to its subject for this many messages; after more of them the subject is
#: still carried, but no longer held against anything.
QUIET_LIMIT: Final = 6

#: Operational messages in a row from which they replace a weak and a strong pair.
OPERATIONAL_LIMIT_WEAK: Final = 3
OPERATIONAL_LIMIT_STRONG: Final = 6

#: A primary that was not mentioned for this many confirming turns yields its place to the secondary.
SWAP_AFTER: Final = 2

#: A secondary that was not mentioned for this many confirming turns is dropped.
DROP_AFTER: Final = 3

#: Signals with which a rival takes the secondary's place at once; with fewer it must come twice.
RIVAL_SIGNALS: Final = 2


class Subject(StrEnum):
    """Class of a message relative to the task pair."""

    NULL = "no domain"  # no signal, or small talk only
    OPERATIONAL = "an operational domain"
    RELATED = "a domain of the pair"  # the primary of the message is in the pair
    FOREIGN = "another task domain"


class Strength(StrEnum):
    """How firmly the task pair is held."""

    WEAK = "weak"
    STRONG = "strong"


class Insistence(StrEnum):
    """Whether the message, or the run it belongs to, asks for a change."""

    CALM = "calm"
    INSISTENT = "insistent"


# Members by plain name: Python 3.11 finds a member through a descriptor, 0.15 µs each time.
NULL, OPERATIONAL, RELATED, FOREIGN = Subject
WEAK, STRONG = Strength
CALM, INSISTENT = Insistence
_TASK, _CHORE, _SMALL_TALK = DomainClass


def keep(pair: Pair, _reading: Reading) -> Pair:
    """Leave the pair as it is."""
    return pair


def clear(_pair: Pair, _reading: Reading) -> Pair:
    """Forget the pair."""
    return Pair()


def take(_pair: Pair, reading: Reading) -> Pair:
    """Make the message's domains the pair."""
    return Pair(*reading.raw.domains)


def confirm(pair: Pair, reading: Reading) -> Pair:
    """Like ``take``, but priority may choose between strangers, not turn a pair's roles round."""
    first, second = reading.raw.primary, reading.raw.secondary
    if second and second.domain == pair.primary and second.confidence == first.confidence:
        return Pair(second.domain, first.domain)
    return take(pair, reading)


def adjust(pair: Pair, reading: Reading) -> Pair:
    """Let the roles follow the user's topic, a few turns behind."""
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


def as_said(reading: Reading, _pair: Pair, _operational: str) -> Compound:
    """Use the domains of the message for the turn."""
    return reading.raw


def as_pair(reading: Reading, pair: Pair, _operational: str) -> Compound:
    """Let the turn count as the pair."""
    return Compound(
        _restore(pair.primary, reading), _restore(pair.secondary, reading) if pair.secondary else None
    )


def as_before(reading: Reading, pair: Pair, operational: str) -> Compound:
    """Let the turn count as the pair, else as the last operational domain, else as small talk."""
    if pair.primary:
        return as_pair(reading, pair, operational)
    return Compound(Part(operational, carried=True)) if operational else reading.raw


def _restore(domain: str, reading: Reading) -> Part:
    """A domain of the pair with this message's signals; marked as carried when it has none."""
    return reading.part(domain) or Part(domain, carried=True)


class Transition(msgspec.Struct, frozen=True):
    """One row of the table: the turn's class, and the new pair and momentum."""

    name: str
    effective: Callable[[Reading, Pair, str], Compound]
    pair: Callable[[Pair, Reading], Pair]
    kept: int  # momentum afterwards = momentum * kept + gained
    gained: int


_CARRY = Transition("R0", as_before, keep, kept=1, gained=0)
_EXPIRE = Transition("R0", as_before, keep, kept=0, gained=0)
_HOLD_CHORE = Transition("R1a", as_pair, keep, kept=1, gained=0)
_PARK = Transition("R1b", as_said, keep, kept=1, gained=0)
_TOO_MANY = Transition("R1c", as_said, clear, kept=0, gained=0)
_CONFIRM = Transition("R2a", as_pair, confirm, kept=1, gained=1)
_START = Transition("R2b", as_said, take, kept=0, gained=1)
_STAY = Transition("R3", as_pair, adjust, kept=1, gained=1)
_BREAK = Transition("R4a", as_said, take, kept=0, gained=1)
_HOLD_TIE = Transition("R4b", as_pair, keep, kept=1, gained=0)

#: (subject, strength of the pair, insistence) -> rule. Every combination is here, or the import fails.
TRANSITIONS: Final[Mapping[tuple[Subject, Strength, Insistence], Transition]] = {
    (NULL, WEAK, CALM): _CARRY,
    (NULL, STRONG, CALM): _CARRY,
    (NULL, WEAK, INSISTENT): _EXPIRE,
    (NULL, STRONG, INSISTENT): _EXPIRE,
    (OPERATIONAL, WEAK, INSISTENT): _TOO_MANY,
    (OPERATIONAL, STRONG, INSISTENT): _TOO_MANY,
    (OPERATIONAL, STRONG, CALM): _HOLD_CHORE,
    (OPERATIONAL, WEAK, CALM): _PARK,
    (RELATED, WEAK, CALM): _CONFIRM,
    (RELATED, WEAK, INSISTENT): _CONFIRM,
    (FOREIGN, WEAK, CALM): _START,
    (FOREIGN, WEAK, INSISTENT): _START,
    (RELATED, STRONG, CALM): _STAY,
    (RELATED, STRONG, INSISTENT): _STAY,
    (FOREIGN, STRONG, INSISTENT): _BREAK,
    (FOREIGN, STRONG, CALM): _HOLD_TIE,
}
if set(TRANSITIONS) != set(product(Subject, Strength, Insistence)):
    raise AssertionError("the rule table of domains is incomplete")


def remember(
    reading: Reading, memory: DomainMemory, domains: DomainSet, key: str
) -> tuple[MomentumStep, DomainMemory]:
    """Apply the rule table to one message, and return the result with the new memory."""
    primary = reading.raw.primary.domain
    subject = _subject(domains.domains[primary].kind, primary, memory.pair)
    strong = memory.momentum >= MOMENTUM_THRESHOLD
    insists = _insists(subject, reading, memory, strong=strong)
    rule = TRANSITIONS[subject, STRONG if strong else WEAK, INSISTENT if insists else CALM]
    pair = rule.pair(memory.pair, reading)
    operational = primary if rule is _PARK or rule is _TOO_MANY else memory.operational
    momentum = memory.momentum * rule.kept + rule.gained
    effective = rule.effective(reading, pair, operational)
    outcome = MomentumStep(reading.raw, effective, momentum, rule.name, reading.passed_over)
    if subject is NULL:
        last, run, quiet = memory.last, memory.operational_run, memory.quiet + 1
    else:
        last, run, quiet = primary, memory.operational_run + 1 if subject is OPERATIONAL else 0, 0
    return outcome, DomainMemory(pair, momentum, operational, last, run, quiet, key, outcome)


def _subject(kind: DomainClass, primary: str, pair: Pair) -> Subject:
    if kind is _TASK:
        return RELATED if primary in pair else FOREIGN
    return OPERATIONAL if kind is _CHORE else NULL


def _insists(subject: Subject, reading: Reading, memory: DomainMemory, *, strong: bool) -> bool:
    if subject is NULL:
        return memory.quiet >= QUIET_LIMIT
    if subject is OPERATIONAL:
        limit = OPERATIONAL_LIMIT_STRONG if strong else OPERATIONAL_LIMIT_WEAK
        return memory.operational_run + 1 >= limit
    if subject is RELATED:
        return False
    primary = reading.raw.primary
    return reading.cue or memory.last == primary.domain or not _is_matched(primary, reading, memory.pair)


def _is_matched(primary: Part, reading: Reading, pair: Pair) -> bool:
    """Whether a domain of the pair has as many signals as the message's primary."""
    for part in reading.parts:
        if part.confidence < primary.confidence:
            return False
        if part.domain in pair:
            return True
    return False


class DomainDecision(msgspec.Struct, frozen=True, gc=False):
    """Domains of one turn, effect of memory, and injected text."""

    raw: Compound  # this message alone
    effective: Compound  # after memory
    momentum: int  # turns that confirmed the task pair
    rule: str  # row of the rule table: "R0" to "R4b"
    enrichment_plan: EnrichmentPlan
    enrichment: str  # text for the model; empty when there is nothing to say

    @property
    def signature(self) -> str:
        """The effective domains in alphabetical order: ``coding+investigation``."""
        return self.effective.signature

    def to_json(self) -> dict[str, object]:
        """The shape of ``pointsman classify``: domains by name, raw and effective.

        A decision by an example utterance has a further key in ``raw``: ``source``.
        """
        raw, effective = self.raw.domains, self.effective.domains
        source = self.raw.primary.source
        label = {} if source is Source.SIGNALS else {"source": str(source)}
        return {
            "raw": {"primary": raw[0], "secondary": raw[1] or None, **label},
            "effective": {
                "primary": effective[0],
                "secondary": effective[1] or None,
                "carried": self.effective.carried,
            },
            "signature": self.signature,
            "momentum": self.momentum,
            "rule": self.rule,
            "enrichment_plan": msgspec.structs.asdict(self.enrichment_plan),
        }

    def to_dict(self) -> dict[str, Any]:
        """The effective domains in the shape of docs/sources/compound-domains.md, "Data structures".

        A part that memory restored has one key more, ``carried``, and confidence 0.
        """
        secondary = self.effective.secondary
        return {
            "primary": _part(self.effective.primary),
            "secondary": _part(secondary) if secondary else None,
            "compound_signature": self.signature,
            "momentum_turns": self.momentum,
            "enrichment_plan": msgspec.structs.asdict(self.enrichment_plan),
        }


def _part(part: Part) -> dict[str, Any]:
    known = {"domain": part.domain, "confidence": part.confidence, "matched_signals": list(part.signals)}
    return {**known, "carried": True} if part.carried else known


class DomainTracker:
    """Decides the domains of a session's turns, one user message after the other."""

    def __init__(
        self, domains: DomainSet, table: SignalTable, encoder: Encoder | None = None, *, label: str = ""
    ) -> None:
        """Prepare for one domain set.

        Args:
            domains: the domains to tell apart.
            table: the signal table that scans the texts; must hold ``domains.signals()``.
            encoder: compares messages without signals with the domains' examples; None: nothing does.
            label: put before the guidance text of each domain and before each log line.
        """
        self.domains: Final = domains
        self._scorer = Scorer(domains, table)
        self._examples = ExampleMatcher(domains, encoder) if encoder else None
        self._label = label
        self._texts = Texts(domains, label)
        self._names = frozenset(domains.domains) | {""}

    def decide(
        self,
        evidence: Evidence,
        memory: DomainMemory,
        user_message_key: str,
        profile: ModelProfile = PERMISSIVE,
    ) -> tuple[DomainDecision, DomainMemory]:
        """Decide one turn.

        Args:
            evidence: the scan of the user message.
            memory: session memory; ``DomainMemory()`` for a new one.
            user_message_key: identifies the user message. The tool iterations that follow it come with the
                same key, and get the stored result.
            profile: of the model that will answer.

        Returns:
            The decision, and the memory for the next turn.
        """
        before = memory if memory == _NEW or self._knows(memory) else _NEW
        outcome, after = self._outcome(evidence, before, user_message_key)
        decision = self._decision(outcome, profile)
        if after is not before and _log.isEnabledFor(logging.INFO):
            for line in lines(before, outcome, decision.enrichment_plan, profile):
                _log.info("%s%s", self._label, line)
        return decision, after

    def primary(self, evidence: Evidence, memory: DomainMemory, user_message_key: str) -> str:
        """The first of the domains that ``decide`` will find, for decisions before a model is known."""
        before = memory if memory == _NEW or self._knows(memory) else _NEW
        return self._outcome(evidence, before, user_message_key)[0].effective.domains[0]

    def _outcome(
        self, evidence: Evidence, before: DomainMemory, user_message_key: str
    ) -> tuple[MomentumStep, DomainMemory]:
        if before.outcome and user_message_key and before.key == user_message_key:
            return before.outcome, before
        return remember(self._read(evidence, before), before, self.domains, user_message_key)

    def _read(self, evidence: Evidence, memory: DomainMemory) -> Reading:
        scorer = self._scorer
        reading = scorer.read(evidence) if evidence.hits & scorer.mask else scorer.silence
        if self._examples is None or reading.raw.primary.signals:
            return reading
        return self._examples.read(evidence.text, carrying=bool(memory.pair.primary)) or reading

    def _knows(self, memory: DomainMemory) -> bool:
        """False for a memory of domains that have since been taken out of the domain file."""
        known, pair, outcome = self._names, memory.pair, memory.outcome
        if pair.primary not in known or pair.secondary not in known or memory.operational not in known:
            return False
        if outcome is None:
            return True
        first, second = outcome.effective.primary, outcome.effective.secondary
        return first.domain in known and (second is None or second.domain in known)

    def _decision(self, outcome: MomentumStep, profile: ModelProfile) -> DomainDecision:
        effective = outcome.effective
        plan, text = self._texts.enrichment(effective, profile.disabled, passed_over=outcome.passed_over)
        return DomainDecision(outcome.raw, effective, outcome.momentum, outcome.rule, plan, text)


# The log lines of a turn. Source of the formats: docs/sources/compound-domains.md, "Logging".

#: Rules under which the pair withstood a message, and under which it gave way.
_HELD = frozenset({"R1a", "R4b"})
_BROKEN = frozenset({"R4a"})


def lines(
    before: DomainMemory, outcome: MomentumStep, plan: EnrichmentPlan, profile: ModelProfile
) -> Iterator[str]:
    """Describe one turn, for the log and never for a prompt."""
    parts = [part for part in (outcome.effective.primary, outcome.effective.secondary) if part]
    switches = f"primary={_switch(plan.primary_enrichment)} secondary={_switch(plan.secondary_enrichment)}"
    yield (
        f"{' + '.join(map(_narrated, parts))} | sig={outcome.effective.signature}"
        f" | momentum={outcome.momentum} | enrichment: {switches}"
    )
    was = f"{before.pair.signature} ({counted(before.momentum, 'turn')})"
    rival = f"{outcome.raw.primary.domain} ({counted(outcome.raw.primary.confidence, 'signal')}"
    if outcome.rule in _HELD:
        yield f"Momentum held: {was} resisted {rival})"
    if outcome.rule in _BROKEN:
        yield f"Momentum break: {was} → {rival}, not in compound)"
    model = f" ({profile.model})" if profile.model else ""
    reasons = (plan.reason_primary_skipped, plan.reason_secondary_skipped)
    for role, part, reason in zip(("Primary", "Secondary"), parts, reasons, strict=False):
        if reason == DISABLED:
            yield f"{role} enrichment skipped for {part.domain}: {reason}{model}"


def _narrated(part: Part) -> str:
    carried = ", carried" if part.carried else ""
    found = "1 example" if part.source is Source.EXAMPLES else counted(part.confidence, "signal")
    return f"{part.domain} ({found}{carried})"


def _switch(on: bool) -> str:
    return "ON" if on else "OFF"

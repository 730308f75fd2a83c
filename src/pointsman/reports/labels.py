"""Labelling progress: the next decision, and the number of missing labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import combinations, islice
from math import inf
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from pointsman.decision.decision import Decision
from pointsman.decision.diff import verdict
from pointsman.learning.datasets import LEAST_FOR_POLICY, LEAST_FOR_TIERS
from pointsman.learning.intervals import MARGIN
from pointsman.printable import Block, Column, TextTable, counted
from pointsman.remembering import grouped
from pointsman.reports.good_enough import LEVEL, GoodEnough, decided
from pointsman.reports.outcomes import IMPLICIT, Fittable, by_people, kept_answers, prompts, scored, scores_of
from pointsman.reports.usage import answer_costs, answered, kept_words, session_of
from pointsman.stores.ledger import DecisionFilter, Record, Search
from pointsman.tiers.ngrams import ngram_key
from pointsman.vocabulary import AgentRole, ModelSpec, Stage

__all__ = [
    "Labels",
    "Pairs",
    "QualityReport",
    "Queued",
    "ScoredAnswers",
    "count_pairs",
    "good_enough",
    "labels",
    "quality_report",
    "queue",
]

# Which answers are most worth an outcome: near a boundary, unfamiliar, or of an agent in trouble.

#: Confidence below which a tier is near a boundary: .5 is on it (docs/notebook/0023).
_NEAR: Final = 0.55
#: Similarity to the training data below which the learned router does not know a prompt well.
_UNFAMILIAR: Final = 0.5
_BY_SCORE: Final = frozenset({Stage.RULES, Stage.LEARNED})
_TROUBLE: Final = ("escalation.", "guidance.")
#: By the number of kept answers without a label: labels of both models are what ``fit tiers`` compares.
_KEPT: Final[tuple[tuple[str, ...], ...]] = (
    (), ("the other answer has no label",), ("answers of two models are kept",),
)  # fmt: skip


class Queued(NamedTuple):
    """A decision that an outcome would tell most about."""

    decision: str
    why: tuple[str, ...]  # empty: ordinary traffic
    project: str  # its key
    at: float
    name: str = ""  # of the project, or the program, where it is known


def queue(records: Iterable[Record]) -> list[Queued]:
    """Return the decisions without an outcome, the most reasons first, then the newest; ordinary ones last.

    Those with kept answers of two models come first, the newest first whatever the reasons: models are
    compared by labels of both, and trouble is that of the one which served. Those without stored words come
    last, because no fit can use their labels. Records come newest first. Of one user message only the first
    in this order is returned, of equals its first request, and none where one of it has an outcome that was
    not derived.
    """
    best: dict[tuple[str, int | str], Queued] = {}
    judged: set[tuple[str, int | str]] = set()
    wordless: set[str] = set()
    paired: set[str] = set()  # an answer beside another has no label

    def rank(each: Queued) -> tuple[bool, int]:
        is_paired = each.decision in paired
        return not is_paired, 0 if is_paired else -len(each.why)  # pairs where one did badly are no sample

    for each in records:
        asked = each.decision.input
        open_answers = [answer for answer in kept_answers(each) if not answer.is_labelled]
        if not open_answers and any(not outcome.source.startswith(IMPLICIT) for outcome in each.outcomes):
            judged.add((asked.session, asked.user_message or each.decision.id))
        if (
            (each.outcomes and not open_answers)
            or answered(each.attempts) is None
            or asked.role is AgentRole.HELPER
        ):
            continue
        why = (*(_KEPT[len(open_answers)]), *_reasons(each.decision))
        name = asked.project_name or asked.client
        found = Queued(each.decision.id, why, asked.project, asked.arrived_at, name)
        if kept_words(each.text) is None:
            wordless.add(found.decision)
        if open_answers:
            paired.add(found.decision)
        key = (asked.session, asked.user_message or found.decision)
        if key not in best or rank(found) <= rank(best[key]):
            best[key] = found
    left = [each for key, each in best.items() if key not in judged]
    return sorted(left, key=lambda each: (each.decision in wordless, *rank(each), -each.at, each.decision))


def _reasons(decision: Decision) -> Iterator[str]:
    tier = decision.tier
    if tier is not None and tier.stage in _BY_SCORE and tier.confidence < _NEAR:
        yield f"near a boundary (confidence {tier.confidence:.2f})"
    learned = tier.learned_router if tier is not None else None
    if learned is not None and learned.similarity < _UNFAMILIAR:
        yield f"unfamiliar (similarity {learned.similarity:.2f})"
    codes = [reason.code for reason in decision.reasons]
    if any(code.startswith(_TROUBLE) for code in codes):
        yield "the agent was in trouble"
    if "routing.lower-tier" in codes:
        yield "a lower tier served"
    if "projects.explore" in codes:
        yield "a cheaper tier was tried"


#: Decisions that the queue is chosen from, the newest; and labelled ones that are counted.
NEWEST: Final = 2_000
#: Labelled decisions whose number is told.
_LABELLED: Final = 5_000
#: Labelled decisions before these whose words and scores are read.
OLDER: Final = 1_000


class Pairs(NamedTuple):
    """What ``pointsman fit`` gets: prompts with labels of the same two models."""

    models: tuple[str, ...] = ()  # the two that most prompts have labels of; empty where there are none
    prompts: int = 0  # different ones, as ``fit`` counts them: case, spaces and numbers do not count
    single: int = 0  # prompts with labels of one model alone

    @property
    def missing_for_tiers(self) -> int:
        """Prompts until ``pointsman fit tiers`` can report."""
        return max(0, LEAST_FOR_TIERS - self.prompts)

    @property
    def missing_for_policy(self) -> int:
        """Prompts until ``pointsman fit policy`` can report."""
        return max(0, LEAST_FOR_POLICY - self.prompts)


class Labels(msgspec.Struct, frozen=True):
    """The state of labelling."""

    queue: tuple[Queued, ...]  # what teaches most first
    labelled: frozenset[str]  # decisions with an outcome of a person or a program, about the served answer
    scored: Mapping[str, Fittable]  # by decision: what is counted of it
    is_complete: bool  # False: there are more decisions than were read


def labels(ledger: Search, *, limit: int = 100) -> Labels:
    """Return the queue among the newest decisions, and what ``fit`` can use of those that are labelled.

    Raises:
        StoreUnavailable: the ledger cannot be read.
    """
    newest = ledger.records(limit=NEWEST + 1, newest_first=True)
    read: dict[str, Fittable | None] = {}
    waiting = queue(_noted(islice(newest, NEWEST), read))
    said = ledger.search(DecisionFilter(labelled=True), limit=_LABELLED)
    older = [row.id for row in said.rows if row.id not in read]
    since = min((row.at for row in said.rows), default=inf)
    for _ in _noted(ledger.records_of(older[:OLDER], since=since, with_text=True).values(), read):
        pass
    return Labels(
        queue=tuple(waiting[:limit]),
        labelled=frozenset(row.id for row in said.rows),
        scored={name: each for name, each in read.items() if each is not None},
        is_complete=next(newest, None) is None or (said.next is None and len(older) <= OLDER),
    )


def _noted(records: Iterable[Record], read: dict[str, Fittable | None]) -> Iterator[Record]:
    for each in records:
        read[each.decision.id] = scored(each, callers=False)
        yield each


def count_pairs(found: Iterable[Fittable]) -> Pairs:
    """Count what ``prompts`` yields for the two models that most prompts have scores of."""
    rows = list(prompts(found))
    counts = Counter(pair for row in rows for pair in combinations(sorted(row.scores), 2))
    if not counts:
        return Pairs(single=len(rows))
    weak, strong = max(counts, key=lambda pair: (counts[pair], pair))
    different = {ngram_key(row.prompt) for row in rows if weak in row.scores and strong in row.scores}
    return Pairs((weak, strong), len(different), sum(len(row.scores) == 1 for row in rows))


class ScoredAnswers:
    """The scored answers of records, by which any two models can be compared.

    Only pairs count: models that serve different requests cannot be compared. They count in the order in
    which their second score was given, and only the first of each session: those of one session are alike.
    Both scores must be by people or programs: verdicts of judges and implicit signs are left out.
    """

    def __init__(self, models: Mapping[str, ModelSpec], margin: float = MARGIN) -> None:
        self._margin: Final = margin
        self._costs: Final = answer_costs(models)
        self._turns: Final[dict[str, _Turn]] = {}  # by decision
        self._kept: Final = set[tuple[str, bool]]()  # sessions with answers of two models; both have a label

    def __contains__(self, decision: str) -> bool:
        """Whether a decision has outcomes enough for a pair."""
        return decision in self._turns

    def is_priced(self, *models: str) -> bool:
        """Whether prices tell which of the models is the cheap one."""
        return self._costs.keys() >= {*models}

    def noted(self, records: Iterable[Record]) -> Iterator[Record]:
        """Pass records on. Of pairs scored at once, as by an import, the older request counts first."""
        for record in records:
            if record.decision.input.role is not AgentRole.HELPER and (kept := kept_answers(record)):
                self._kept.add((session_of(record.decision), all(answer.is_labelled for answer in kept)))
            if len(record.outcomes) > 1:
                self._turns[record.decision.id] = _Turn.of(record, self._costs)
            yield record

    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of models that requests have scored answers of, the most frequent first."""
        seen = Counter(pair for turn in self._turns.values() for pair in combinations(sorted(turn.said), 2))
        return sorted(seen, key=lambda pair: (-seen[pair], pair))

    def compare(self, *models: str, among: Iterable[str] | None = None, tries: int = 1) -> GoodEnough:
        """Compare two models with prices.

        Args:
            models: Their names.
            among: Decisions of which pairs count; None: all. A model that does as well on easy requests need
                not on others.
            tries: Comparisons that are made at once, which share the level (Bonferroni).
        """
        turns = list(self._turns.values()) if among is None else [self._turns[each] for each in among]
        both = [turn for turn in turns if turn.said.keys() >= {*models}]
        left_out = sum(turn.scored >= {*models} for turn in turns) - len(both)
        cheap, strong = sorted(models, key=lambda name: (self._costs[name], name))
        in_order = sorted(both, key=lambda turn: turn.at)
        first = [turns[0] for turns in grouped((turn.session, turn) for turn in in_order).values()]
        differences = [turn.said[cheap] - turn.said[strong] for turn in first]
        found = decided(cheap, strong, differences, self._margin, LEVEL / tries)
        tiers = Counter(turn.tier for turn in first[: found.looked or None]).most_common()
        named = ", ".join(f"{tier} ({count:,})" for tier, count in tiers)
        return replace(found, left_out=left_out, repeated=len(both) - len(first), tiers=named)

    def together(
        self, moves: Mapping[tuple[str, str], Collection[str] | None]
    ) -> dict[tuple[str, str], GoodEnough]:
        """Compare several pairs of models at once: those with a labelled request share the level.

        Args:
            moves: By pair of models with prices, the decisions of which pairs count, as of ``compare``.
        """
        tries = sum(
            among is None or any(self._turns[each].said.keys() >= {*pair} for each in among)
            for pair, among in moves.items()
        )
        return {pair: self.compare(*pair, among=among, tries=max(tries, 1)) for pair, among in moves.items()}

    def report(self) -> QualityReport:
        """Compare every pair of models that can be compared; without one, report that."""
        found = tuple(self.together(dict.fromkeys(self.pairs())).values())
        waiting = sum((session, True) not in self._kept for session, _ in self._kept)
        return QualityReport(found or (self.most_frequent(),), waiting)

    def most_frequent(self) -> GoodEnough:
        """Compare the two models that most requests have scored answers of, and no others."""
        if pairs := self.pairs():
            return self.compare(*pairs[0])
        left_out = sum(len(turn.scored) > 1 for turn in self._turns.values())
        return GoodEnough("not known yet", left_out=left_out, margin=self._margin)


#: As the fields of ``GoodEnough``.
_COLUMNS: Final = (
    *map(Column, ("answer", "cheap", "strong")),
    *(Column(name, right=True) for name in ("pairs", "looked")),
    *(Column(name, right=True, show="{:+.2f}".format) for name in ("difference", "low", "high")),
    *(Column(name, right=True) for name in ("missing", "left out", "repeated", "margin")),
    Column("level", right=True, show="{:.2%}".format),
    Column("tiers"),
)


_LEGEND: Final = (
    "pairs: one of each session; looked: the first, that decided; missing: more, to the look that decides; "
    "left out: scored by judges or signs; repeated: of the same sessions; level: of error, at one look."
)
_NEXT: Final = (
    '[shadow] model keeps a second answer to be scored on the page Label, with text = "redacted" there and '
    "under [ledger]; both models need a price."
)
_USE: Final = (
    "To use a model that is good enough: name it for those tiers under [tiers] in a copy of pointsman.toml; "
    "pointsman replay --policy COPY says what it saves."
)


class QualityReport(msgspec.Struct, frozen=True):
    """Whether cheap models are good enough, each compared with a stronger one."""

    found: tuple[GoodEnough, ...]  # that with the most pairs first; never empty
    waiting: int = 0  # sessions with kept answers of two models, and no labels of both

    def to_json(self) -> object:
        """Plain values, with the answer in words."""
        return [{"sentence": each.sentence(), **msgspec.structs.asdict(each)} for each in self.found]

    def blocks(self) -> Iterator[Block]:
        """The answers in words, then their figures."""
        yield from (each.sentence() for each in self.found)
        compared = [msgspec.structs.astuple(each) for each in self.found if each.cheap]
        yield TextTable(_COLUMNS, compared)
        left_out = sum(each.left_out for each in self.found)
        if left_out and not compared:
            yield f"left out: {left_out:,} pairs with a score that only a judge or an implicit sign gave"
        if compared:
            yield _LEGEND
        if any(each.answer == "yes" for each in self.found):
            yield _USE
        if self.waiting:
            kept = counted(self.waiting, "session")
            yield f"{kept} with answers of two models: give both a score on the page Label (pointsman open)."
        elif not compared:
            yield _NEXT


def good_enough(records: Iterable[Record], models: Mapping[str, ModelSpec]) -> GoodEnough:
    """Compare the two models that most requests have scored answers of.

    Args:
        records: Of which the outcomes are read.
        models: With their prices.
    """
    return _noted_answers(records, models, MARGIN).most_frequent()


def quality_report(
    records: Iterable[Record], models: Mapping[str, ModelSpec], margin: float = MARGIN
) -> QualityReport:
    """Compare every two models that requests have scored answers of, as ``ScoredAnswers`` does."""
    return _noted_answers(records, models, margin).report()


def _noted_answers(
    records: Iterable[Record], models: Mapping[str, ModelSpec], margin: float
) -> ScoredAnswers:
    answers = ScoredAnswers(models, margin)
    for _ in answers.noted(records):
        pass
    return answers


class _Turn(NamedTuple):
    """The scores of one turn."""

    session: str  # as of ``session_of``
    said: Mapping[str, float]  # by model with a price, its score by people and programs
    scored: frozenset[str]  # models with a price that have a score of any kind
    at: tuple[float, float]  # when the last answer had its first score by people and programs; the request
    tier: str  # that was decided, or "no tier"

    @classmethod
    def of(cls, record: Record, priced: Collection[str]) -> _Turn:
        """Read a record: verdicts of judges and implicit signs are not on the scale of a score."""
        said = by_people(record)
        scores = dict(scores_of(said))
        answer = answered(record.attempts)
        served = answer.model if answer else ""
        times = grouped((each.model or served, each.at) for each in said.outcomes if each.score is not None)
        return cls(
            session_of(record.decision),
            {name: score for name, score in scores.items() if name in priced},
            frozenset(name for name, _ in scores_of(record) if name in priced),
            (max(map(min, times.values()), default=0.0), record.decision.input.arrived_at),
            verdict(record.decision).tier or "no tier",
        )

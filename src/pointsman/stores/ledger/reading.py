"""Reads of a ledger without the bodies of its decisions: rows of a summary, their sums, and their totals."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from pointsman.decision.decision import Decision
from pointsman.prices import Prices
from pointsman.remembering import grouped
from pointsman.vocabulary import OF_SUBAGENT, AgentRole

__all__ = [
    "FIELDS",
    "FIRED",
    "FLAGS",
    "GAPS",
    "HOUR",
    "MOST_ROWS",
    "NO_PRICES",
    "RESULTS",
    "SELECTED",
    "DecisionFilter",
    "DecisionRow",
    "Page",
    "Part",
    "PartTotals",
    "Position",
    "Reason",
    "Result",
    "Spender",
    "Totals",
    "TurnTotals",
    "Usage",
    "belongs",
    "beside_of",
    "row_of",
    "spenders_of",
    "tokens_of",
    "totals_of",
]

HOUR: Final = 3_600.0

NO_PRICES: Final[Mapping[str, Prices]] = {}

#: Rows of one page, and of one session, at most.
MOST_ROWS: Final = 10_000

#: Lower bounds, in seconds, of the classes of time since the turn before. Providers keep a prompt cache for
#: 5 minutes, an hour or a day; a class is taken to be beyond a cache's life when its lower bound is.
GAPS: Final = (0, 60, 120, 180, 240, 300, 600, 900, 1_800, 3_600, 7_200, 86_400)

#: How a turn ended: without an answer, with one whose upstream reported no tokens, or with its tokens.
Result = Literal["no_answer", "no_usage", "counted"]
RESULTS: Final[tuple[Result, ...]] = get_args(Result)

#: Why something was removed: it was older than ``keep_days``, or there is more than ``max_mb``.
Reason = Literal["age", "size"]

#: Where a page ends: the arrival and the id of its last row.
Position = tuple[float, str]


#: Before the name of a classifier that fired, or of a capability that was selected, among the signals of a
#: row: there they are found as signals are. No id of a signal begins so.
FIRED: Final = "stuck:"
SELECTED: Final = "selected:"


#: Boolean fields of rows that a filter may name.
FLAGS: Final = ("stuck", "downgraded", "abstained", "labelled")


class DecisionFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which decisions are searched for: those that meet every field that is set."""

    session: str = ""  # itself, and those of its sub-agents
    caller: str = ""
    tier: str = ""
    model: str = ""  # that answered, or was to
    role: str = ""
    project: str = ""  # key
    client: str = ""  # the program
    domain: str = ""  # one of the domains
    signal: str = ""  # id of a signal found
    classifier: str = ""  # that found the agent stuck
    capability: str = ""  # selected, of the registry
    stuck: bool | None = None
    downgraded: bool | None = None
    abstained: bool | None = None
    labelled: bool | None = None
    status: int | None = None  # of the last attempt; 0: none was answered
    cost_at_least: float | None = None  # what the answer cost, at the prices given
    label: str = ""
    since: float | None = None  # seconds since the epoch, included
    until: float | None = None  # seconds since the epoch, excluded
    text: str = ""  # part of the words, if words are stored; letters A to Z in either case

    @property
    def in_signals(self) -> tuple[str, ...]:
        """All signals that a row has to contain."""
        classifier = self.classifier and FIRED + self.classifier
        return tuple(filter(None, (self.signal, classifier, self.capability and SELECTED + self.capability)))


PartKind: TypeAlias = Literal["retry", "shadow", "unmetered"]


class Part(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Tokens that a turn used apart from its answer; of a call that ended before its usage came, none."""

    kind: PartKind
    model: str
    input: int
    cached: int
    output: int
    written: int = 0
    written_1h: int = 0


class DecisionRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One decision in a list, with what became of it."""

    id: str
    at: float  # arrival, seconds since the epoch
    session: str
    caller: str
    role: str
    project: str = ""  # key; empty in rows of before 24 November 2026
    project_name: str = ""  # of its folder; empty where none was named
    client: str = ""  # the program, as it names itself; empty in rows of before 24 November 2026
    tier: str  # empty where none was decided
    model: str  # that answered; else the first of the chain
    result: Result
    status: int  # of the last attempt; 0: none, or nothing came
    attempts: int
    domains: tuple[str, ...]
    # ids, as in the decision's input; then ``FIRED`` with each classifier, ``SELECTED`` with each capability
    signals: tuple[str, ...]
    stuck: bool  # a pattern of a stuck agent was found, whether a hint was given or withheld
    downgraded: bool  # a lower tier serves, or another model than the first of the chain answered
    abstained: bool  # a part of the decision failed open
    label: str  # of the last outcome of the answer that was neither derived nor judged by a model
    score: float | None  # of the same
    labelled: bool  # there is such an outcome
    input: int = 0  # tokens of the answer, where ``result`` is "counted"
    cached: int = 0
    output: int = 0
    written: int = 0  # to the provider's cache; 0 in rows of before 30 November 2026
    written_1h: int = 0  # of these, kept for an hour
    gap: int = -1  # place in ``GAPS`` of the time since the session's turn before; -1: no such turn
    reused: int = 0  # input tokens that a cache holding the turn before would have had, at least ``cached``
    own: str = ""  # the one model that was tried in this turn and the one before
    switched: bool = False  # another model answered the turn before
    asked: bool = False  # a verification of the tier was paid for
    trials: int = 0  # answers of shadow models
    added: int = 0  # tokens of the text added to the last message, a quarter of its characters
    judging: float = 0.0  # what judges of its answers cost, as recorded with their verdicts
    parts: tuple[Part, ...] = ()
    cost: float | None = None  # filled by ``reports.usage.priced``; None where a price is unknown

    @property
    def classifiers(self) -> tuple[str, ...]:
        """Names of the classifiers that found the agent stuck."""
        return tuple(each.removeprefix(FIRED) for each in self.signals if each.startswith(FIRED))

    @property
    def capabilities(self) -> tuple[str, ...]:
        """Names of the registry's capabilities that were selected for this message, the first sixteen."""
        return tuple(each.removeprefix(SELECTED) for each in self.signals if each.startswith(SELECTED))

    @property
    def domain(self) -> str:
        """The first domain; empty if there is none."""
        return self.domains[0] if self.domains else ""


_LISTS: Final = ("domains", "signals", "parts")
#: Fields of a row but the cost, which depends on prices; lists are the last.
FIELDS: Final = (
    *(name for name in DecisionRow.__struct_fields__ if name not in {*_LISTS, "cost"}),
    *_LISTS,
)


def row_of(values: Iterable[Any]) -> DecisionRow:
    """Return the row of the values of ``FIELDS``, the result by its number; more values are left out."""
    found: dict[str, Any] = dict(zip(FIELDS, values, strict=False))
    found["result"] = RESULTS[found["result"]]
    return DecisionRow(**found)


class Page(NamedTuple):
    """Rows found, the newest first."""

    rows: tuple[DecisionRow, ...]
    next: Position | None  # ``before`` of the page after it; None where this is the last


class TurnTotals(msgspec.Struct, frozen=True, gc=False):
    """Turns that are alike in all but their tokens, added up."""

    hour: int  # since the epoch
    tier: str
    model: str  # that answered; empty for none
    result: Result
    own: str
    gap: int
    asked: bool
    beside: str  # models of the parts, sorted, a line each
    turns: int
    input: int
    cached: int
    output: int
    written: int
    written_1h: int
    rest: int  # of ``written``, what a cache holding the turn before would not have had, turn by turn
    rest_1h: int  # likewise of ``written_1h``
    reused: int
    assumed: int  # turns in which ``reused`` is more than ``cached``
    switches: int
    trials: int
    added: int
    judging: float
    stuck: int
    downgraded: int
    abstained: int


class PartTotals(msgspec.Struct, frozen=True, gc=False):
    """Parts of turns that are alike, added up."""

    hour: int
    tier: str
    model: str  # of the turn's answer
    result: Result
    asked: bool
    beside: str
    kind: PartKind
    part_model: str
    parts: int
    input: int
    cached: int
    output: int
    written: int
    written_1h: int


#: Sums of what was written to caches, which migrations add; the first two are columns of a row, too.
WRITTEN: Final = ("written", "written_1h", "rest", "rest_1h")


class Usage(NamedTuple):
    """Tokens of an attempt, or of several."""

    input: int
    cached: int  # of the input, read from the provider's cache
    output: int
    written: int  # of the input, to the cache
    written_1h: int  # of these, kept for an hour


def tokens_of(counted: DecisionRow | Part | TurnTotals | PartTotals) -> Usage:
    """Return the tokens of an answer, of a part of a turn, or of several."""
    return Usage(counted.input, counted.cached, counted.output, counted.written, counted.written_1h)


class Totals(NamedTuple):
    """All that money and usage are computed from."""

    turns: tuple[TurnTotals, ...]
    parts: tuple[PartTotals, ...]


class Spender(NamedTuple):
    """The project, program, caller and role that used the tokens of a turn."""

    project: str  # key; empty if unknown
    project_name: str  # of its folder
    client: str  # the program
    caller: str  # name of the key; empty: none was asked for
    role: str


#: Sums by the hour and what else turns have in common; in the order of the fields after these.
TurnSums = dict[tuple[int, str, str, Result, str, int, bool, str], list[float]]
#: Likewise of parts; before the tokens stands the number of parts.
PartSums = dict[tuple[int, str, str, Result, bool, str, str, str], list[float]]


def belongs(decision: Decision, session: str) -> bool:
    """Whether a decision is of a session, or of a sub-agent with a session named after it."""
    asked = decision.input
    if asked.session == session:
        return True
    return asked.role is AgentRole.SUBAGENT and asked.session.startswith(session + OF_SUBAGENT)


def totals_of(
    rows: Iterable[DecisionRow], *, since: float = -math.inf, until: float = math.inf, zone: int = 0
) -> Totals:
    """Add up rows, as ``Ledger.totals`` does."""
    first, end = since / HOUR, until / HOUR
    turns: TurnSums = {}
    parts: PartSums = {}
    for row in rows:
        hour = row.at // HOUR
        if hour + 1 > first and hour < end:
            _add_row(row, int(hour + zone) // 24 * 24 - zone, turns, parts)
    return Totals(
        tuple(TurnTotals(*key, *sums) for key, sums in turns.items()),  # type: ignore[arg-type]
        tuple(PartTotals(*key, *sums[:6]) for key, sums in parts.items()),  # type: ignore[arg-type]
    )


def spenders_of(rows: Iterable[DecisionRow], since: float, until: float) -> dict[Spender, Totals]:
    """Add up rows for each spender, as ``Ledger.spenders`` does."""
    found = grouped(
        (
            Spender(row.project, row.project_name, row.client, row.caller, row.role),
            msgspec.structs.replace(row, tier="", at=0.0),
        )
        for row in rows
        if since <= row.at < until
    )
    return {spender: totals_of(of) for spender, of in found.items()}


#: Sums before the first row, and the tokens of a turn that has none.
_NOTHING: Final = (0,) * 17
_NONE: Final = (0,) * 9


def _add_row(row: DecisionRow, hour: int, turns: TurnSums, parts: PartSums) -> None:
    """Add a row to the sums of an hour."""
    result = row.result
    is_counted = result == "counted"
    model = "" if result == "no_answer" else row.model
    beside = beside_of(row.parts) if row.parts else ""
    key = (hour, row.tier, model, result, row.own, row.gap, row.asked, beside)
    more = row.reused - row.cached
    rest = max(row.written - more, 0), max(row.written_1h - more, 0)
    tokens = (*tokens_of(row), *rest, row.reused, more > 0) if is_counted else _NONE
    values = (
        1, *tokens, row.switched, row.trials, row.added if is_counted else 0, row.judging, row.stuck,
        row.downgraded, row.abstained,
    )  # fmt: skip
    turns[key] = list(map(operator.add, turns.get(key, _NOTHING), values))
    for part in row.parts:
        of = (hour, row.tier, model, result, row.asked, beside, part.kind, part.model)
        spent = (1, *tokens_of(part))
        parts[of] = list(map(operator.add, parts.get(of, _NOTHING), spent))


def beside_of(parts: Iterable[Part]) -> str:
    """The models of a turn's parts, sorted, a line each."""
    return "\n".join(sorted({part.model for part in parts}))

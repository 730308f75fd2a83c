"""The page of one session: the run as a lane, and the decision on each request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Final, NamedTuple

from pointsman.console._names import name_of
from pointsman.console._policy import engine_of, version_choices
from pointsman.console._view import GatewayView, Missing, Page, Visit
from pointsman.decision.decision import Decision
from pointsman.printable import TextTable
from pointsman.reports.outcomes import kept_answers
from pointsman.reports.replay import Replay, Replayed
from pointsman.reports.savings import Savings, SavingsCalculator, merged, usual_baseline
from pointsman.reports.usage import answered, cost, kept_words, usage
from pointsman.stores.ledger import Record
from pointsman.stores.ledger.reading import Usage, totals_of
from pointsman.stores.ledger.turns import rows_of
from pointsman.trajectory.step import Step
from pointsman.vocabulary import ModelSpec, Tier

#: Requests of a session that are shown, the first ones.
MOST_SHOWN: Final = 500
_COLUMNS: Final = ("decision", "at", "tier", "model", "status", "input", "output", "cost")
#: Units between two marks, and from the left to the first.
_STEP: Final = 16
_LEFT: Final = 70
_NARROWEST: Final = 320
#: Height of the lanes: who spoke, the model's tier, tool calls, guidance.
_LANES: Final = {"user": 18, "model": 50, "tools": 82, "guidance": 114}


class Mark(NamedTuple):
    """One event of a run."""

    lane: str
    kind: str  # "user", a tier, a call's outcome, "fired", "withheld"
    x: int
    y: int
    title: str
    decision: str  # id
    tier: Tier | None = None


class Lane(NamedTuple):
    """A run in one picture."""

    marks: tuple[Mark, ...]
    switches: tuple[int, ...]  # places where the model changed
    width: int
    height: int = 132
    lanes: Mapping[str, int] = _LANES


class Switch(NamedTuple):
    """A change of model, and the part of the prompt cache that it lost."""

    before: str
    after: str
    tokens: int  # of input that the cache would have had
    cost: float | None  # what they cost more; None where a price is unknown


class _Line(NamedTuple):
    record: Record
    words: str | None  # of the user message, with its first request; None where they are not kept
    answer: str | None  # its text, where a shadow model's is kept beside it
    calls: tuple[Step, ...]  # of tools, that the answer asked for, as the next request tells
    baseline: float | None  # the least that the most expensive model would have cost
    now: Replayed | None  # under another policy
    model: str
    status: int
    input: int | None
    output: int | None
    cost: float | None
    switch: Switch | None
    follow_up: str  # what came after the last hint


def session(visit: Visit) -> Page:
    """Show a session and its sub-agents."""
    wanted = visit.parts["id"]
    records = list(islice(visit.view.ledger.records(session=wanted, limit=MOST_SHOWN + 1), MOST_SHOWN + 1))
    if not records:
        raise Missing(
            f'the ledger holds no decision of session "{wanted[:80]}"',
            hint="it was removed by retention, or never recorded",
        )
    shown = records[:MOST_SHOWN]
    version = visit.asked("version")
    replayed = list(Replay(engine_of(visit.view, "", version)).turns(shown)) if version else []
    baseline = usual_baseline(visit.view.config.models)
    money = SavingsCalculator.of(visit.view.engine.policy, baseline) if baseline else None
    spent = [money.total(totals_of([row])) for row in rows_of(shown)] if money else []
    total = merged({"": each} for each in spent).get("")
    lines = list(_lines(shown, visit.view, replayed, spent))
    context = {
        "session": wanted,
        "name": name_of(wanted, shown[0].decision, shown[0].text),
        "first": shown[0].decision.input,
        "lines": lines,
        "lane": lane(shown),
        "is_cut": len(records) > MOST_SHOWN,
        "cost": _sum(line.cost for line in lines),
        "baseline": baseline,
        "total": None if total is None or total.is_unknown else total,
        "messages": [list(of) for _, of in groupby(lines, _message)],
        "text_mode": visit.view.config.ledger.text,
        "versions": version_choices(visit.view),
        "version": version,
        "now_cost": _sum(line.now.now.cost for line in lines if line.now),
        "calls": sum(len(each.decision.input.steps) for each in shown),
        "errors": sum(step.is_error for each in shown for step in each.decision.input.steps),
        "switches": [line.switch for line in lines if line.switch],
        "firings": sum(_fired(each.decision) for each in shown),
    }
    rows = [_row(line) for line in lines]
    return Page("session.html", context, shown, TextTable.of(_COLUMNS, rows))


def _row(line: _Line) -> tuple[object, ...]:
    decision = line.record.decision
    at, tier = decision.input.arrived_at, decision.tier.tier if decision.tier else ""
    return decision.id, at, tier, line.model, line.status, line.input, line.output, line.cost


def lane(records: Sequence[Record]) -> Lane:
    """Place the events of a run one after another, each in its lane."""
    marks: list[Mark] = []
    switches: list[int] = []
    x, message, model = _LEFT, -1, ""
    for record in records:
        decision = record.decision
        for mark in _marks(decision, new_message=decision.input.user_message != message):
            marks.append(mark._replace(x=x, y=_LANES[mark.lane]))
            x += 0 if mark.lane == "guidance" else _STEP
        served = answered(record.attempts)
        if served is not None:
            if model not in {"", served.model}:
                switches.append(x - _STEP - _STEP // 2)
            model = served.model
        message = decision.input.user_message or message
    return Lane(tuple(marks), tuple(switches), max(x + _STEP, _NARROWEST))


def _marks(decision: Decision, *, new_message: bool) -> Iterator[Mark]:
    """The news of one request: calls of tools, the person's words, the tier, and what fired.

    Guidance is below the request that it was added to.
    """
    asked, of = decision.input, decision.id
    spoke = Mark("user", "user", 0, 0, f"user message {asked.user_message}", of)
    speaks = new_message and bool(asked.user_message)
    if speaks and not asked.person_spoke:  # the words came before the calls, or there were none
        yield spoke
    for step in asked.steps:
        name = f"{step.tool_name}: {step.outcome}" + (f", {step.message}" if step.message else "")
        yield Mark("tools", step.outcome, 0, 0, name, of)
    if speaks and asked.person_spoke:
        yield spoke
    if decision.guidance:
        for firing in decision.guidance.firings:
            kind = "fired" if firing.delivered else "withheld"
            yield Mark("guidance", kind, 0, 0, f"{firing.classifier}: {firing.reason} ({kind})", of)
    tier = decision.tier.tier if decision.tier else None
    model = "".join(decision.chain[:1])
    yield Mark("model", "request", 0, 0, f"{tier or 'by name'} → {model or 'none'}", of, tier)


def _lines(
    records: Sequence[Record], view: GatewayView, replayed: Sequence[Replayed], spent: Sequence[Savings]
) -> Iterator[_Line]:
    models = view.config.models
    before, sent, message = "", 0, -1
    for number, record in enumerate(records):
        asked = record.decision.input
        is_new, message = asked.user_message != message, asked.user_message
        answer = answered(record.attempts)
        used = usage(answer)
        last = answer or (record.attempts[-1] if record.attempts else None)
        model = last.model if last else "".join(record.decision.chain[:1])
        switch = None
        if answer and before not in {"", answer.model} and used:
            lost = max(0, min(sent, used.input) - used.cached)
            switch = Switch(before, answer.model, lost, _lost(models.get(answer.model), lost, used))
        yield _Line(
            record,
            kept_words(record.text) if is_new else None,
            next((each.text for each in kept_answers(record) if not each.model), None),
            _called(record, islice(records, number + 1, None)),
            spent[number].expected if spent and spent[number].counted else None,
            replayed[number] if replayed else None,
            model,
            last.status if last else 0,
            used.input if used else None,
            used.output if used else None,
            cost(models.get(model), used),
            switch,
            _follow_up(record.decision),
        )
        before = answer.model if answer else before
        sent = used.input if used else sent


def _message(line: _Line) -> int:
    return line.record.decision.input.user_message


def _called(record: Record, later: Iterable[Record]) -> tuple[Step, ...]:
    """The calls of tools that the next request of the same conversation brings the results of."""
    session = record.decision.input.session
    following = next((each for each in later if each.decision.input.session == session), None)
    return following.decision.input.steps if following else ()


def _lost(model: ModelSpec | None, tokens: int, used: Usage) -> float | None:
    """Extra cost of tokens that are not read from the cache; with their writing, if the turn wrote any."""
    if model is None:
        return None
    return model.rebuild(tokens) if used.written else model.missing(tokens)


def _follow_up(decision: Decision) -> str:
    guidance = decision.guidance
    if guidance is None or guidance.follow_up is None:
        return ""
    return "the streak went on" if guidance.follow_up.continued else "the streak ended"


def _fired(decision: Decision) -> int:
    return len(decision.guidance.firings) if decision.guidance else 0


def _sum(costs: Iterable[float | None]) -> float | None:
    known = [each for each in costs if each is not None]
    return sum(known) if known else None

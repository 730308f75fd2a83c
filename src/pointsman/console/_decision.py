"""The page of one decision: its input, its outcome, and the decision of another policy."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable

from pointsman.console._marks import marked
from pointsman.console._names import names_of
from pointsman.console._policy import engine_of, version_choices
from pointsman.console._svg import score_bar
from pointsman.console._view import GatewayView, Missing, Page, Redirect, Unusable, Visit
from pointsman.decision.decision import Decision
from pointsman.decision.diff import PARTS
from pointsman.decision.engine import Engine
from pointsman.decision.memory import Memory
from pointsman.diagnostics.explained import STAGES, describe_selection
from pointsman.errors import PointsmanError
from pointsman.factory import policy_toml
from pointsman.printable import TextTable
from pointsman.reports.outcomes import kept_answers
from pointsman.reports.replay import served
from pointsman.reports.replay_period import decide_again as again
from pointsman.reports.usage import USAGE_ASKED, cost, kept_words, usage
from pointsman.stores.ledger import Attempt, Record
from pointsman.stores.ledger.export import Format, export, record
from pointsman.stores.ledger.outcome_reports import report
from pointsman.stores.ledger.port import NOT_ASKED
from pointsman.tiers import Explanation, explain


def decision(visit: Visit) -> Page:
    """Show one decision."""
    return _page(visit, record_of(visit))


def set_outcome(visit: Visit, *, note: Callable[[GatewayView, str], None]) -> Page | Redirect:
    """Record a person's outcome of a decision; ``note`` counts it on the page Label."""
    found = record_of(visit)
    try:
        outcome_of(visit, found)
    except PointsmanError as error:
        return _page(visit, found, outcome_error=error)
    note(visit.view, found.decision.id)
    return Redirect(f"/console/decisions/{found.decision.id}#outcome")


def outcome_of(visit: Visit, found: Record) -> None:
    """Record the outcome of a form, for the answer at the named place; else the caller's.

    Raises:
        Unusable: a field is out of bounds.
        CallerError: the decision takes no more, or is not there.
    """
    try:
        given = report(
            found.decision.id,
            score=_score(visit.form.get("score", "").strip()),
            label=visit.form.get("label", "").strip(),
            comment=visit.form.get("comment", "").strip(),
            model=_model_of(visit.form.get("answer", ""), found),
            at=time.time(),
        )
    except ValueError as error:
        raise Unusable(str(error)) from None
    visit.view.ledger.add_outcome(given)
    visit.view.ledger.flush()


def _model_of(place: str, found: Record) -> str:
    """The model of an answer as an outcome names it, from the place at which a page shows that answer."""
    if not place:
        return ""
    kept = {str(number): each.model for number, each in enumerate(kept_answers(found), start=1)}
    if place not in kept:
        raise Unusable(f'no answer "{place[:40]}" is kept of this decision', hint="load the page again")
    return kept[place]


def _score(text: str) -> float | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise Unusable(f'"score" must be a number from 0 to 1, not "{text[:40]}"') from None


def decide_again(visit: Visit) -> Page:
    """Decide a recorded request under an edited policy, next to the recorded decision."""
    found = record_of(visit)
    text = visit.form.get("policy", "")
    try:
        engine = engine_of(visit.view, text, visit.form.get("version", ""))
    except PointsmanError as error:
        return _page(visit, found, policy_text=text, policy_error=error)
    return _page(visit, found, engine=engine, policy_text=text)


def record_of(visit: Visit) -> Record:
    """Raise ``Missing`` where the ledger holds no such decision (any more)."""
    ledger, wanted = visit.view.ledger, visit.parts["id"]
    found = ledger.get(wanted)
    if found is None:
        kept = visit.view.config.ledger
        raise Missing(
            f'the ledger holds no decision "{wanted[:80]}"',
            hint="it was removed by retention, or never recorded; under [ledger]: "
            f"keep_days = {kept.keep_days}, max_mb = {kept.max_mb} (0: no limit)",
        )
    return record(ledger, found)


def _page(
    visit: Visit,
    found: Record,
    *,
    engine: Engine | None = None,
    policy_text: str = "",
    policy_error: PointsmanError | None = None,
    outcome_error: PointsmanError | None = None,
) -> Page:
    view, decided = visit.view, found.decision
    words = kept_words(found.text)
    explained = _explained(view.engine, decided, words)
    context = {
        "found": found,
        "answers": kept_answers(found),
        "decision": decided,
        "session_name": names_of(view.ledger, [decided.input.session]).get(decided.input.session),
        "served": served(decided, found.attempts),
        "stages": STAGES,
        "explained": explained,
        "is_current": decided.policy == view.engine.version,
        "pieces": marked(words, explained.contributions) if words is not None else None,
        "text_mode": view.config.ledger.text,
        "is_cut": words is not None and len(words) > 20_000,
        "bar": (
            score_bar(decided.tier.score, explained.boundaries, "Score of this decision")
            if decided.tier
            else None
        ),
        "usage_asked": USAGE_ASKED,
        "attempts": [_attempt(view, attempt) for attempt in found.attempts],
        "longest": max((attempt.total_ms for attempt in found.attempts), default=1.0) or 1.0,
        "selection": list(describe_selection(decided.capabilities)) if decided.capabilities else [],
        "again": _compared(view, engine, decided.id, visit.form.get("version", "")) if engine else None,
        "versions": version_choices(view),
        "policy_text": policy_text or policy_toml(view.config),
        "policy_error": policy_error,
        "outcome_error": outcome_error,
        "form": visit.form,
    }
    columns, *rows = csv.reader(io.StringIO("".join(export([found], Format.CSV)), newline=""))
    table = TextTable.of(columns, rows)
    return Page("decision.html", context, found, table, 400 if policy_error or outcome_error else 200)


def _explained(engine: Engine, decided: Decision, words: str | None) -> Explanation:
    """Take the tier apart by the policy in force, from the words or, without them, from recorded signals."""
    reading = engine.reader.recall(decided, Memory(), words)
    domain = decided.domains.effective.primary.domain if decided.domains else ""
    return explain(engine.scorer_of(decided.input), reading.evidence, domain)


def _attempt(view: GatewayView, attempt: Attempt) -> dict[str, object]:
    paid = cost(view.config.models.get(attempt.model), usage(attempt))
    return {"attempt": attempt, "cost": paid, "not_asked": NOT_ASKED.get(attempt.error, "")}


def _compared(view: GatewayView, engine: Engine, wanted: str, version: str) -> dict[str, object]:
    """Decide again after the turns of the session before, and return what differs part by part."""
    line = again(view.ledger, wanted, engine)
    then, now = line.then, line.now
    return {
        "rows": [(part, getattr(then, part), getattr(now, part), part in line.changed) for part in PARTS],
        "costs": (then.cost, now.cost),
        "why": [line.refused] if line.refused else line.why,
        "policy": engine.version,
        "asked": version or engine.version,  # another where a file that it names has changed
        "source": line.source,
    }

"""``pointsman decisions``: list, show and export decisions from the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import merge
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Final

import typer

from pointsman.cli.ledger import has_no_demo, is_demo_newer, opened
from pointsman.cli.output import (
    ConfigOption,
    DemoOption,
    Group,
    JsonLinesOption,
    JsonOption,
    LedgerOption,
    echo,
    json_line,
    print_either,
    print_table,
    read_config,
    utc_time,
)
from pointsman.cli.sessions import explained_run, run_cells, run_json
from pointsman.config.shapes import demo_config
from pointsman.decision.decision import Decision
from pointsman.decision.diff import verdict
from pointsman.diagnostics.explained import STAGES, describe_selection
from pointsman.errors import ConfigError, PointsmanError
from pointsman.guidance import Arm, Firing
from pointsman.prices import dollars
from pointsman.printable import Column, printable
from pointsman.reports.replay import differences
from pointsman.reports.usage import USAGE_ASKED, answered, cost, usage
from pointsman.stores.ledger import (
    Attempt,
    ComparedAnswers,
    Outcome,
    Record,
    RunEntry,
    Search,
    Shadow,
    ShadowAnswer,
)
from pointsman.stores.ledger.export import Format, export, record
from pointsman.stores.ledger.port import NOT_ASKED
from pointsman.stores.ledger.runs import run_record
from pointsman.vocabulary import AgentRole, ModelSpec

_COLUMNS: Final = (
    Column("time (UTC)", whole=True),
    Column("decision", whole=True),
    Column("asked for"),
    Column("tier", whole=True),
    Column("conf", right=True),
    Column("by"),
    Column("answered by"),
    Column("status"),
    Column("translated +added stuck:… selected:…"),
)
#: A table is as wide as its widest row: more rows are printed as further tables, as they are read.
_ROWS: Final = 1_000
#: Capabilities of a decision that a line names.
_MOST_SELECTED: Final = 3


decisions: Final = typer.Typer(cls=Group, no_args_is_help=True, help="List, show or export decisions.")


@decisions.command("list")
def list_decisions(
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number, newest first.")] = 20,
    session: Annotated[str, typer.Option(help="Only those of one session and its sub-agents.")] = "",
    ledger: LedgerOption = None,
    demo: DemoOption = False,
    config: ConfigOption = None,
    as_json: JsonLinesOption = False,
) -> None:
    """List decisions and runs of agents, one per line, newest first."""
    if has_no_demo(ledger, demo=demo):
        return
    with opened(ledger, config, demo=demo) as store:
        newest = _newest(store, session, limit)
        if as_json:
            for found in newest:
                echo(json_line(found if isinstance(found, Decision) else run_json(found)))
        else:
            missing = f'no decision of session "{session}"' if session else "no decisions yet"
            while rows := [_cells(found, store) for found in islice(newest, _ROWS)]:
                print_table(_COLUMNS, rows)
                missing = ""
            if missing:
                echo(missing, err=True)
    if ledger is None and not demo and is_demo_newer(config):
        echo("that of pointsman serve --demo is newer: --demo lists it", err=True)


@decisions.command()
def show(
    decision_id: Annotated[
        str,
        typer.Argument(metavar="ID", help="Decision id, from the header x-pointsman-decision-id, or run id."),
    ],
    *,
    ledger: LedgerOption = None,
    demo: DemoOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain one decision (signals, reasons, attempts and outcomes), or the run of an agent."""
    models = {} if as_json else _models(config, demo=demo)
    with opened(ledger, config, demo=demo) as store:
        if run := run_record(store, decision_id):
            print_either(run, *map(printable, explained_run(run, models)), as_json=as_json)
            return
        decision = store.get(decision_id)
        if decision is None:
            more = "" if demo or ledger else "; --demo looks in the ledger of pointsman serve --demo"
            raise PointsmanError(
                f'there is no decision "{decision_id}"', hint=f"pointsman decisions list{more}"
            )
        found = record(store, decision)
    print_either(found, *map(printable, _explained(found, models)), as_json=as_json)


def _newest(store: Search, session: str, limit: int) -> Iterator[Decision | tuple[RunEntry, ...]]:
    """Decisions and runs, the newest first."""
    decisions = ((each.input.arrived_at, each) for each in store.decisions(limit=limit, session=session))
    runs = ((each[0].at, each) for each in store.runs(limit=limit, session=session))
    both: Iterator[tuple[float, Decision | tuple[RunEntry, ...]]]
    both = merge(decisions, runs, key=itemgetter(0), reverse=True)
    return (found for _, found in islice(both, limit))


@decisions.command("export")
def export_decisions(
    *,
    format: Annotated[Format, typer.Option(help="Output format.")] = Format.JSONL,  # noqa: A002 - the option's name
    session: Annotated[str, typer.Option(help="Only decisions of one session and its sub-agents.")] = "",
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Maximum number.")] = None,
    runs: Annotated[
        bool, typer.Option("--runs", help="Append the runs of agents, newest first (not in CSV).")
    ] = False,
    ledger: LedgerOption = None,
    demo: DemoOption = False,
    config: ConfigOption = None,
) -> None:
    """Write decisions with their attempts and outcomes to standard output, oldest first."""
    with opened(ledger, config, demo=demo) as store:
        of_agents = store.runs(session=session, limit=limit) if runs else ()
        for piece in export(store.records(session=session, limit=limit), format, of_agents):
            echo(piece, nl=False)


def _cells(found: Decision | tuple[RunEntry, ...], store: Search) -> tuple[str, ...]:
    """A decision or a run as the cells of a table. An exclamation mark: a part of it failed open."""
    if not isinstance(found, Decision):
        when, run, way = run_cells(found)
        return when, run, "run", "-", "-", "-", "-", "-", way
    tier, attempts = found.tier, store.attempts(found.id)
    judged = (str(tier.tier), f"{tier.confidence:.2f}", str(tier.stage)) if tier else ("-", "-", "-")
    said = [f"+{','.join(each.source for each in found.injections)}"] if found.injections else []
    if found.input.role is AgentRole.SUBAGENT:
        said.append("(sub-agent)")
    said += _parts(found)
    last = answered(attempts) or (attempts[-1] if attempts else None)
    if last is not None and last.translated:
        said.insert(0, last.translated.partition(";")[0])
    by = judged[2] + ("!" if found.abstained else "")
    asked = found.input.model_asked or "-"
    return (
        utc_time(found.input.arrived_at),
        found.id,
        asked,
        *judged[:2],
        by,
        *_answered_by(found, last),
        " ".join(said),
    )


def _parts(decision: Decision) -> Iterator[str]:
    """The classifiers that fired, and the capabilities selected anew."""
    if (guidance := decision.guidance) and guidance.firings:
        yield f"stuck:{','.join(each.classifier for each in guidance.firings)}"
    if (chosen := decision.capabilities) and chosen.selected and not chosen.continued:
        names = chosen.selected
        more = f",+{len(names) - _MOST_SELECTED}" if len(names) > _MOST_SELECTED else ""
        yield f"selected:{','.join(names[:_MOST_SELECTED])}{more}"


def _answered_by(decision: Decision, last: Attempt | None) -> tuple[str, str]:
    """The model that answered and its status, or the reason for none; the first choice without a record."""
    if last is None:  # decided by the library or a hook, which ask no model
        chosen = f"chosen: {decision.chain[0]}" if decision.chain else "-"
        return ("none", "refused") if decision.refused else (chosen, "-")
    if last.error in NOT_ASKED:
        return "none", last.error
    return last.model if not last.error else "none", str(last.status or last.error)


def _models(config: Path | None, *, demo: bool) -> Mapping[str, ModelSpec]:
    """The configured models, or the demo's, for their prices.

    There are none without a configuration, or with a wrong one of no name.

    Raises:
        ConfigError: the file that is named is wrong.
    """
    if demo:
        return demo_config().models
    try:
        return read_config(config).models
    except ConfigError as error:
        if config:
            raise
        echo(f"costs are unknown: {error}", err=True)
        return {}


def _explained(found: Record, models: Mapping[str, ModelSpec]) -> Iterator[str]:
    decision = found.decision
    yield f"{decision.id}  {utc_time(decision.input.arrived_at)} UTC  session {decision.input.session or '-'}"
    given = decision.input
    role = f", role {given.role}" if given.role else ""
    role += f" ({given.purpose})" if given.purpose else ""
    name = given.project_name or given.client
    named = f"{name} ({given.project})" if name and given.project else given.project
    role += f", project {named}" if named else ""
    caller = f", caller {decision.input.caller}" if decision.input.caller else ""
    asked = f"requested {decision.input.model_asked}, format {decision.input.format}{role}{caller}"
    yield f"{asked}; policy {decision.policy}"
    if tier := decision.tier:
        yield f"tier {tier.tier}, {STAGES[tier.stage]}"
        yield f"  score {tier.score:.3f}, confidence {tier.confidence:.2f}"
        yield from (f"  {signal}" for signal in tier.signals)
        yield from (f"  {reason.code}: {reason.detail}" for reason in tier.reasons)
    if decision.refused:
        yield "refused: no model can serve this request"
    yield from (f"  {reason.code}: {reason.detail}" for reason in decision.refused)
    yield f"fallback chain: {', '.join(decision.chain) or '-'}"
    yield from (f"  {model}: {parameters}" for model, parameters in decision.parameters.items())
    yield from (f"  {reason.code}: {reason.detail}" for reason in decision.reasons)
    if domains := decision.domains:
        yield f"domains {domains.signature} (rule {domains.rule})"
    if guidance := decision.guidance:
        yield from (_hint(firing, guidance.arm) for firing in guidance.firings)
    if decision.capabilities:
        yield from describe_selection(decision.capabilities)
    yield from (f"added by {injection.source}: {injection.text}" for injection in decision.injections)
    yield from (f"failed open: {reason.code}: {reason.detail}" for reason in decision.abstained)
    yield f"{decision.input.characters} characters, about {decision.input.tokens} tokens"
    yield f"decided in {decision.elapsed_us:.0f} µs"
    if found.text is not None:
        yield "text:"
        yield from (f"  {line}" for line in found.text.split("\n"))
    yield from (_attempt(attempt) + _cost(attempt, models) for attempt in found.attempts)
    yield from map(_outcome, found.outcomes)
    for shadow in found.shadows:
        yield from _shadow(shadow, found, models)


def _hint(firing: Firing, arm: Arm) -> str:
    spoke = f"; {firing.provider}, confidence {firing.confidence:.2f}" if firing.version else ""
    return f"guidance: {firing.reason or firing.classifier} ({arm}{spoke})"


def _attempt(attempt: Attempt) -> str:
    if attempt.error in NOT_ASKED:
        return f"left out: {attempt.model} at {attempt.upstream}: {NOT_ASKED[attempt.error]}"
    translated = f", translated {attempt.translated}" if attempt.translated else ""
    return f"attempt {attempt.number}: {_call(attempt)}{' (estimated)' * attempt.estimated}{translated}"


def _call(made: Attempt | ShadowAnswer) -> str:
    """The call of a model, with its status, time and tokens."""
    how = f"status {made.status}" if made.status else "no response"
    cause = f" ({made.error})" if made.error else ""
    is_known = made.input_tokens is not None and made.output_tokens is not None
    used = f", {made.input_tokens} tokens in and {made.output_tokens} out" if is_known else ""
    if is_known and (made.cached_tokens or made.written_tokens):
        used += f" ({made.cached_tokens or 0} read from the cache, {made.written_tokens or 0} written to it)"
    return f"{made.model} at {made.upstream}: {how}{cause}, {made.total_ms:.0f} ms{used}"


def _cost(attempt: Attempt | ShadowAnswer, models: Mapping[str, ModelSpec]) -> str:
    """Cost of a call at today's prices; "unknown" without a price, or without usage of an answer."""
    if not models:
        return ""
    model, used = models.get(attempt.model), usage(attempt)
    if used is None:
        return f", cost unknown: no usage ({USAGE_ASKED})" if attempt.status // 100 == 2 else ""
    paid = cost(model, used)
    if paid is None:
        return ", cost unknown: no price"
    return f", cost {dollars(paid)}"


def _shadow(shadow: Shadow, found: Record, models: Mapping[str, ModelSpec]) -> Iterator[str]:
    if isinstance(shadow, ShadowAnswer):
        yield _shadow_answer(shadow) + _cost(shadow, models)
        return
    if isinstance(shadow, ComparedAnswers):
        yield shadow.line()
        return
    name = f"shadow policy {shadow.policy}"
    if shadow.error:
        yield f"{name}: could not decide this request ({shadow.error})"
        return
    changed = differences(verdict(found.decision), shadow.verdict, shadow.changed)
    yield f"{name}: {changed or 'the same'}"
    yield from (f"  {reason}" for reason in shadow.why)


def _shadow_answer(answer: ShadowAnswer) -> str:
    calls = f", calls {', '.join(answer.said.tools)}" if answer.said.tools else ""
    finish = f", ended with {answer.said.finish}" if answer.said.finish else ""
    return f"shadow model {_call(answer)}{finish}{calls}"


def _outcome(outcome: Outcome) -> str:
    score = "" if outcome.score is None else f" score {outcome.score:g}"
    label = f" {outcome.label}" if outcome.label else ""
    comment = f": {outcome.comment}" if outcome.comment else ""
    whose = f" of {outcome.model}'s answer" if outcome.model else ""
    return f"outcome ({outcome.source}){whose}{score}{label}{comment}"

"""``pointsman report``: savings, and what changed them; roles, projects, kinds, drift, agreement and more."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from pointsman.cli.decisions import opened
from pointsman.cli.fit import KeepOption, TargetOption, tiers_of
from pointsman.cli.options import ConfigOption, DemoOption, JsonOption, LedgerOption
from pointsman.cli.output import (
    OpenGroup,
    config_file,
    echo,
    needs_extra,
    print_blocks,
    print_json,
    print_report,
    print_table,
)
from pointsman.cli.report_change import report_change
from pointsman.config import AnyKey, Config, load
from pointsman.encoders.learned_routers import load_learned_router
from pointsman.errors import ConfigError, PointsmanError, StoreUnavailable
from pointsman.factory import build_policy
from pointsman.integrations.hooks import HookState
from pointsman.prices import dollars
from pointsman.printable import Column, TextTable
from pointsman.reports.agreement import agreement_report
from pointsman.reports.drift import drift
from pointsman.reports.escalation import SourceRuns, escalations, runs_in
from pointsman.reports.guidance_effect import compare
from pointsman.reports.guidance_report import GuidanceReport, guidance_report
from pointsman.reports.judge import judged_in
from pointsman.reports.roles import KindRow, kinds_of
from pointsman.reports.roles import roles as add_up
from pointsman.reports.savings import SavingsCalculator
from pointsman.reports.shadow import shadow_report
from pointsman.reports.spending import SpendingRow, spending_by
from pointsman.reports.summary import all_totals
from pointsman.tiers.escalation import ENOUGH_RUNS

__all__ = ["register"]


# ``pointsman report shadow``: compare shadow policy and shadow model with those that serve.


def shadow(
    *,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Report how the shadow policy and the shadow model differ from those that serve, with costs.

    Costs are at the prices of the configuration.
    """
    models = load(config_file(config), AnyKey()).models
    with opened(ledger, config) as store:
        found = shadow_report(store.records(), models)
    print_report(found, as_json=as_json)


# ``pointsman report roles``: what each role of an agent's requests costs.


def roles(*, ledger: LedgerOption = None, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Report requests, tokens and costs by role, and what the tiers of [tiers.roles] alone save.

    Costs are at the prices of the configuration.
    """
    models = load(config_file(config), AnyKey()).models
    with opened(ledger, config) as store:
        found = add_up(store.records(), models)
    print_report(found, as_json=as_json)


# ``pointsman report projects``: what own outcomes say of each project.


def projects(
    *,
    target: TargetOption = 0.95,
    keep: KeepOption = False,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Report the outcomes of each project by model, what is expected, and the tier that is good enough."""
    with needs_extra("fit", "pointsman report projects"):
        from pointsman.learning.projects import fit_projects
        from pointsman.reports.projects import clients_of, outcomes_of, project_blocks, uses
    tiers = tiers_of(load(config_file(config), AnyKey()))
    with opened(ledger, config) as store:
        records = list(store.records())
    found = fit_projects(list(outcomes_of(records)), tiers, target=target, keep=keep)
    counts = uses(records)
    if as_json:
        print_json({"projects": found, "requests": counts})
        return
    print_blocks(project_blocks(found, clients_of(records), counts))


# ``pointsman report kinds``: the kinds of prompts that recorded decisions were near.

_KIND_COLUMNS: Final = (
    Column("messages", right=True),
    Column("shift", right=True),
    Column("likeness", right=True),
    Column("kind"),
    Column("tiers"),
)


def kinds(*, ledger: LedgerOption = None, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Report the kinds of prompts near the recorded ones, what they added to the score, and the tiers.

    Empty where kinds is "off" under [tiers], or the extra static is not installed.
    """
    with opened(ledger, config) as store:
        rows, none = kinds_of(store.records())
    if as_json:
        print_json({"kinds": rows, "near_none": none})
        return
    print_table(_KIND_COLUMNS, list(map(_kind_cells, rows)))
    echo(f"{none:,} user messages near no kind")


def _kind_cells(row: KindRow) -> tuple[str, ...]:
    tiers = ", ".join(f"{tier} {count}" for tier, count in row.tiers.items())
    return f"{row.messages:,}", f"{row.shift:+.2f}", f"{row.likeness:.2f}", row.sentence, tiers


# ``pointsman report judge``: what is known of the judges whose labels the ledger holds.


def judge(*, ledger: LedgerOption = None, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Report each judge's ties, position bias, cost, and agreement with outcomes of people."""
    with opened(ledger, config) as store:
        found = judged_in(store.records())
    if as_json:
        print_json(
            {
                name: {
                    "pairs": each.pairs,
                    "ties": each.ties,
                    "by_position": each.by_position,
                    "compared": each.compared,
                    "agreement": round(each.agreement, 6),
                    "interval": each.interval,
                    "counts": each.counts,
                    "constant": round(each.constant, 6),
                    "tries": each.tries,
                    "refused": each.refused,
                    "cost": each.cost,
                }
                for name, each in found.items()
            }
        )
        return
    if not found:
        echo("no model has judged; pointsman outcomes judge lets one")
    for name, each in found.items():
        echo(f"judge {name}")
        for line in each.lines():
            echo(f"  {line}")


# ``pointsman report escalation``: lengths of own successful runs, and the effect of raising the tier.

_RUNS: Final = (
    Column("source", least=38),
    *(Column(name, right=True) for name in ("runs", "succeeded", "failed", "limit")),
)


def escalation(
    *,
    quantile: Annotated[
        float, typer.Option(min=0.95, max=1, help="Of the successful runs; 1 for the longest.")
    ] = 1.0,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Report how long own successful runs are, by project and model, and the effect of escalation.

    The limits are printed as lines for [tiers.escalation].
    """
    with opened(ledger, config) as store:
        records = list(store.records())
    sources, effect = runs_in(records), escalations(records)
    limits = {each.source: limit for each in sources if (limit := each.limit(quantile)) is not None}
    if as_json:
        print_json({"sources": sources, "longest": limits, "effect": effect})
        return
    print_table(_RUNS, [_run_cells(each, limits.get(each.source)) for each in sources])
    if len(limits) < len(sources):
        echo(f"a limit needs {ENOUGH_RUNS} successful runs of its source")
    for line in effect.lines():
        echo(line)
    if limits:
        echo("\n[tiers.escalation.longest]")
    for source, limit in limits.items():
        echo(f"{msgspec.json.encode(source).decode()} = {limit}")


def _run_cells(each: SourceRuns, limit: float | None) -> tuple[str, ...]:
    counts = (each.runs, len(each.successes), len(each.failures))
    return each.source, *map(str, counts), "-" if limit is None else str(limit)


# ``pointsman report drift``: compare live prompts with the learned router's training data.


def report_drift(
    *,
    learned_router: Annotated[
        Path | None, typer.Option(help="The learned router file; default: the configured one.")
    ] = None,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Report drift: whether live prompts still resemble the learned router's training data.

    Uses the length and the similarity recorded with every decision; no stored words are needed.
    """
    found = load_learned_router(learned_router or _learned_router_file(config))
    with opened(ledger, config) as store:
        shown = drift(store.records(), found)
    print_report(shown, as_json=as_json)


def _learned_router_file(config: Path | None) -> Path:
    spec = load(config_file(config), AnyKey()).tiers.learned_router
    if spec is None:
        raise ConfigError(
            "no learned router is configured", hint="name one with --learned-router, or in the configuration"
        )
    return spec.file


# ``pointsman report agreement``: what asking two cheap models saved, and what it would save.


def agreement(
    *, ledger: LedgerOption = None, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Report how often two cheap models agreed, and what that saved against the strong model alone.

    Each recorded request is also decided again by today's [agreement.NAME] tables. Costs are at the prices of
    the configuration; a request that a cheap model served is taken to use as many tokens of the strong one.
    """
    settings = load(config_file(config), AnyKey())
    with opened(ledger, config) as store:
        found = agreement_report(store.records(), settings.models, settings.agreement)
    print_report(found, as_json=as_json)


class SavingsDivision(StrEnum):
    """By what savings are divided: ``reports.spending.Division``."""

    PROJECT = "project"
    CLIENT = "client"
    PERSON = "person"
    ROLE = "role"


_report: Final = typer.Typer(
    cls=OpenGroup,
    no_args_is_help=True,
    help="Report savings, change, roles, projects, kinds, escalation, drift, shadow, agreement and guidance.",
)


def register(app: typer.Typer) -> None:
    """Add ``report`` to the command line."""
    _report.command("change")(report_change)
    _report.command("drift")(report_drift)
    _report.command("escalation")(escalation)
    _report.command("judge")(judge)
    _report.command("kinds")(kinds)
    _report.command("projects")(projects)
    _report.command("roles")(roles)
    _report.command("shadow")(shadow)
    _report.command("agreement")(agreement)
    app.add_typer(_report, name="report")


@_report.command("guidance")
def guidance(
    *,
    ledger: Annotated[
        str | None, typer.Option(help="Ledger of the gateway: SQLite file, or address of PostgreSQL.")
    ] = None,
    hooks: Annotated[Path | None, typer.Option(help="File in which the hook stores its sessions.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Report the effect of guidance: treated sessions against the control group.

    By the call after the first hint that was due, and, if the ledger has outcomes, by how sessions ended.
    """
    if (ledger is None) == (hooks is None):
        raise PointsmanError("give --ledger or --hooks", hint="--ledger FILE or --hooks FILE, not both")
    found = _in_ledger(ledger) if ledger else _in_hooks(hooks or Path())
    if as_json:
        print_json(found.to_json())
        return
    print_blocks(found.blocks())


@_report.command("savings")
def saved(
    *,
    baseline: Annotated[
        str,
        typer.Option(
            help="Baseline: name or id of the model that would have served every request; default: the one "
            "whose answers cost most."
        ),
    ] = "",
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    demo: DemoOption = False,
    by: Annotated[
        SavingsDivision | None, typer.Option(help="Divide by this, the one that spent most first.")
    ] = None,
    prices_as_of: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d"],
            help="Date that the report states for its prices, no amount changes; default: of each model.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Report net savings against a baseline model, after verification, retries and lost prompt caches."""
    from pointsman.gateway.build import demo_config  # loads the gateway

    file = None if demo else config_file(config)
    loaded = load(file, AnyKey()) if file else demo_config()
    policy = build_policy(loaded)
    dates = {
        name: prices_as_of.date() if prices_as_of else model.prices_as_of
        for name, model in policy.models.items()
        if model.is_priced
    }
    money = SavingsCalculator.of(policy, _configured_name(baseline, loaded) if baseline else "")
    with opened(ledger, config, demo=demo) as store:
        found = money.total(all_totals(store))
        spent = store.spenders(since=-math.inf, until=math.inf) if by else {}
        spenders = {spender: money.total(totals) for spender, totals in spent.items()}
    rows = spending_by(by.value, spenders) if by else ()
    if as_json:
        divided = {"by": {by.value: [row.to_json() for row in rows]}} if by else {}
        print_json({"prices_as_of": _oldest(dates), "prices": dates, **found.to_json(), **divided})
        return
    echo("\n".join(found.lines()))
    if by:
        print_blocks(["", spending_table(by.value, rows)])
    if file:
        echo(_dated(dates, file))


def _configured_name(asked: str, config: Config) -> str:
    """The configured name of a model that is named by it, by its id or by an alias; else what was said."""
    from pointsman.diagnostics.aliases import model_names

    if asked in config.models:
        return asked
    by_id = [name for name, model in config.models.items() if model.id == asked]
    if len(by_id) == 1:
        return by_id[0]
    named = model_names(config).resolve(asked)
    return (named.target.model if named else "") or asked


def _oldest(dates: Mapping[str, date | None]) -> date | None:
    """The date of the oldest price; None where one is unknown."""
    known = [day for day in dates.values() if day is not None]
    return min(known) if known and len(known) == len(dates) else None


def _dated(dates: Mapping[str, date | None], file: Path) -> str:
    if len(set(dates.values())) == 1 and (day := _oldest(dates)):
        return f"prices as of {day}, from {file}"
    each = ", ".join(f"{name} {day or 'unknown'}" for name, day in dates.items())
    return f"prices as of: {each}; from {file}, where prices_as_of dates them"


def _existing(file: Path) -> Path:
    if not file.is_file():
        raise StoreUnavailable(f"there is no file of the hook at {file}", hint="--hooks names another")
    return file


def _in_ledger(file: str) -> GuidanceReport:
    with opened(file, None) as ledger:
        return guidance_report(ledger.records())


def _in_hooks(file: Path) -> GuidanceReport:
    rows = tuple(HookState(_existing(file)).followed())
    return GuidanceReport(rows, compare(rows))


def spending_table(by: str, rows: Iterable[SpendingRow]) -> TextTable:
    """A row for each project, client, person or role: requests, spent, saved, and the key that finds it."""
    amounts = (Column(name, right=True) for name in ("requests", "spent", "saved"))
    columns = (Column(by), *amounts, Column("key"))
    found = [
        (row.name, f"{row.money.turns:,}", dollars(row.money.paid), dollars(row.money.net), row.key)
        for row in rows
    ]
    return TextTable(columns, found)

"""``pointsman report``: savings, roles, projects, kinds, escalation, drift, shadows, agreement, guidance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from pointsman.cli.decisions import opened
from pointsman.cli.options import ConfigOption, DemoOption, JsonOption, LedgerOption
from pointsman.cli.output import Group, config_file, echo, print_blocks, print_json
from pointsman.cli.report_agreement import agreement
from pointsman.cli.report_drift import report_drift
from pointsman.cli.report_escalation import escalation
from pointsman.cli.report_judge import judge
from pointsman.cli.report_kinds import kinds
from pointsman.cli.report_projects import projects
from pointsman.cli.report_roles import roles
from pointsman.cli.report_shadow import shadow
from pointsman.config import AnyKey, Config, load
from pointsman.errors import PointsmanError, StoreUnavailable
from pointsman.factory import build_policy, question_price
from pointsman.guidance import Arm
from pointsman.guidance.memory import Followed
from pointsman.integrations.hooks import HookState
from pointsman.printable import Block, Column, TextTable
from pointsman.reports.ending_effect import Ended, EndingEffect, compare_endings
from pointsman.reports.guidance_effect import Effect, compare
from pointsman.reports.guidance_report import GuidanceReport, guidance_report
from pointsman.reports.savings import savings, usual_baseline
from pointsman.reports.summary import all_totals

__all__ = ["register"]

_report: Final = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="Report savings, roles, projects, kinds, escalation, drift, shadow, agreement and guidance.",
)


def register(app: typer.Typer) -> None:
    """Add ``report`` to the command line."""
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
    effect = [*effect_lines(found.effect), *ending_lines(found.endings)]
    print_blocks([classifier_table(found.rows), "", *effect])
    print_blocks(source_blocks(found.rows, found.said))


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
    prices_as_of: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], help="Date of the prices; default: of each model, as configured."),
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
    with opened(ledger, config, demo=demo) as store:
        found = savings(
            all_totals(store),
            policy.models,
            _configured_name(baseline, loaded) if baseline else usual_baseline(policy.models),
            question=question_price(policy),
            verifier=policy.verify.model if policy.verify else "",
        )
    if as_json:
        print_json({"prices_as_of": _oldest(dates), "prices": dates, **found.to_json()})
        return
    echo("\n".join(found.lines()))
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


def classifier_table(rows: Iterable[Followed]) -> TextTable:
    """A row for each classifier: interventions on each side, and after how many the streak went on."""
    counts: dict[str, dict[Arm, list[bool]]] = {}
    for row in rows:
        sides = counts.setdefault(row.classifier, {Arm.TREATED: [], Arm.CONTROL: []})
        sides[row.arm].append(row.continued)
    found = []
    for classifier, sides in sorted(counts.items()):
        given, control = sides[Arm.TREATED], sides[Arm.CONTROL]
        numbers = (len(given), sum(given), len(control), sum(control))
        found.append((classifier, *map(str, numbers)))
    return TextTable(_FIRED, found)


def effect_lines(effect: Effect) -> list[str]:
    """The comparison, by each session's first intervention."""
    sides = (("guidance given", effect.treated), ("guidance withheld", effect.control))
    lines = [
        f"{name}: {side.sessions} sessions, the streak went on in {side.continued} ({side.share:.0%})"
        for name, side in sides
    ]
    if effect.enough:
        lines.append(
            f"difference: {effect.difference:+.0%}, 95 % interval {effect.low:+.0%} to {effect.high:+.0%}"
        )
    return [*lines, effect.verdict]


_SIDES: Final = ("given", "went on", "withheld", "went on")
_FIRED: Final = (Column("fired", least=22), *(Column(name, right=True) for name in _SIDES))
_BY_PROGRAM: Final = (
    Column("program", least=18),
    *(Column(name, right=True) for name in (*_SIDES, "score given", "withheld")),
)
_ENDED: Final = {
    "said": "how sessions ended, by the scores given from the first due hint on (1 is good)",
    "signs": "sessions without a retry or a correction from the first due hint on, as derived",
}


def ending_lines(effects: Mapping[str, EndingEffect]) -> Iterator[str]:
    """How sessions ended, each way it is known."""
    for name, effect in effects.items():
        yield ""
        yield f"{_ENDED[name]}:"
        for label, side in (("guidance given", effect.treated), ("guidance withheld", effect.control)):
            yield f"{label}: {side.mean:.2f} in {side.scored} of {side.sessions} sessions"
        if effect.enough:
            interval = f"95 % interval {effect.low:+.2f} to {effect.high:+.2f}"
            yield f"difference: {effect.difference:+.2f}, {interval}"
        yield effect.verdict


def source_blocks(rows: Sequence[Followed], ended: Sequence[Ended]) -> Iterator[Block]:
    """A row for each program whose agents were treated or in the control group, where there are several.

    Agents differ in how often they fail and recover, so a difference between all of them says little of one.
    """
    sources = sorted({row.source for row in rows} | {each.source for each in ended})
    if len(sources) < 2:
        return
    yield ""
    found = []
    for source in sources:
        effect = compare(row for row in rows if row.source == source)
        scores = compare_endings([each for each in ended if each.source == source])
        sides = (effect.treated, effect.control)
        given, withheld = ((each.sessions, f"{each.share:.0%}" if each.sessions else "-") for each in sides)
        means = [f"{s.mean:.2f}" if s.scored else "-" for s in (scores.treated, scores.control)]
        found.append((source or "(not known)", *map(str, (*given, *withheld, *means))))
    yield TextTable(_BY_PROGRAM, found)

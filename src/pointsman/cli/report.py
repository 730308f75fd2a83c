"""``pointsman report``: savings, and what changed them; roles, projects, kinds, quality, drift and more.

Each command is a function from a ledger to a report, with the options of that report alone. The common
options are added once: the places of ledger and configuration, and the form of the output.
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final

import typer

from pointsman.cli.fit import KeepOption, TargetOption, tiers_of
from pointsman.cli.ledger import has_no_demo, opened
from pointsman.cli.output import (
    ConfigOption,
    CsvOption,
    DemoOption,
    JsonOption,
    LedgerOption,
    MarginOption,
    OpenGroup,
    Report,
    config_file,
    echo,
    needs_extra,
    print_report,
)
from pointsman.config import AnyKey, Config, find, load
from pointsman.config.files import names_code
from pointsman.config.shapes import demo_config
from pointsman.encoders.learned_routers import load_learned_router
from pointsman.errors import ConfigError, PointsmanError, StoreUnavailable
from pointsman.factory import build_policy
from pointsman.integrations.hooks import HookState
from pointsman.learning.intervals import MARGIN
from pointsman.reports.change import Change, change_between
from pointsman.reports.escalation import EscalationReport, escalation_report
from pointsman.reports.guidance import GuidanceReport, compare, guidance_report
from pointsman.reports.judge import Judges, judged_in
from pointsman.reports.labels import QualityReport, quality_report
from pointsman.reports.quality import Drift
from pointsman.reports.quality import drift as drift_of
from pointsman.reports.roles import Kinds, Roles, kinds_of
from pointsman.reports.roles import roles as roles_of
from pointsman.reports.savings import Division, SavingsCalculator, SavingsReport, spending_by
from pointsman.reports.shadow import AgreementReport, ShadowReport, agreement_report, shadow_report
from pointsman.reports.usage import all_totals
from pointsman.stores.ledger import Ledger, Record

_HOUR: Final = 3_600
_FORMATS: Final = ["%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H", "%Y-%m-%d"]


class _Source:
    """The ledger and the configuration of a report; neither is opened before it is used."""

    def __init__(self, ledger: str | None, config: Path | None, *, demo: bool, stack: ExitStack) -> None:
        self.is_named: Final = ledger is not None or demo
        self._ledger: Final = ledger
        self._config: Final = config
        self._demo: Final = demo
        self._stack: Final = stack

    @cached_property
    def store(self) -> Ledger:
        """The ledger, until the report is printed. Before the demo has one there is nothing to report."""
        if has_no_demo(self._ledger, demo=self._demo):
            raise typer.Exit
        return self._stack.enter_context(opened(self._ledger, self._config, demo=self._demo))

    @property
    def records(self) -> Sequence[Record]:
        """All decisions, the oldest first."""
        return list(self.store.records())

    @cached_property
    def file(self) -> Path | None:
        """The configuration file; None for the demo, and for a ledger alone."""
        is_alone = self.is_named and not (self._config or find())
        return None if self._demo or is_alone else config_file(self._config)

    @cached_property
    def settings(self) -> Config:
        """The configuration; of a ledger alone, its latest policy."""
        if self.file:
            return load(self.file, AnyKey())
        return demo_config() if self._demo else self._latest()

    def _latest(self) -> Config:
        """The latest policy that the ledger holds the text of, which has the prices."""
        uses = [use for use in self.store.policies() if use.has_text]
        text = self.store.policy(max(uses, key=lambda use: use.last).version) if uses else None
        if text is None:
            config_file(None)  # raises: there is neither
        why = "it names Python code, which a report does not run"  # the ledger may be another's
        if not names_code(text or ""):
            try:
                return load(Path("pointsman.toml"), AnyKey({}), text=text or "")
            except ConfigError as error:
                why = error.message.removeprefix(f"{error.place}: ")
        raise ConfigError(
            f"the latest policy of the ledger cannot be read here: {why}",
            hint="--config names the configuration with the prices",
        )


report: Final = typer.Typer(
    cls=OpenGroup,
    no_args_is_help=True,
    help="Report savings, change, roles, projects, kinds, quality, escalation, drift, shadow, agreement "
    "and guidance.",
)


def _common(
    *,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    demo: DemoOption = False,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """The options of every report."""


def _command(compute: Callable[..., Report]) -> Callable[..., Report]:
    """Make a command of a function of a ``_Source`` and the options of one report."""

    def command(
        *, ledger: str | None, config: Path | None, demo: bool, as_json: bool, as_csv: bool, **options: object
    ) -> None:
        with ExitStack() as stack:
            found = compute(_Source(ledger, config, demo=demo, stack=stack), **options)
            print_report(found, as_json=as_json, as_csv=as_csv)

    own = list(inspect.signature(compute, eval_str=True).parameters.values())[1:]
    common = inspect.signature(_common, eval_str=True).parameters.values()
    command.__signature__ = inspect.Signature([*own, *common])  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in (*own, *common)}
    command.__doc__ = compute.__doc__
    report.command(compute.__name__)(command)
    return compute


@_command
def agreement(source: _Source) -> AgreementReport:
    """Report how often two cheap models agreed, and the savings against the strong model alone.

    Each recorded request is also decided again by today's [agreement.NAME] tables. Costs are at the prices of
    the configuration; a request that a cheap model served is taken to use as many tokens of the strong one.
    """
    settings = source.settings
    return agreement_report(source.store.records(), settings.models, settings.agreement)


@_command
def change(
    source: _Source,
    *,
    to: Annotated[
        datetime | None,
        typer.Option(
            formats=_FORMATS, help="First hour of the later period; default: the last that is over."
        ),
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(
            "--from", formats=_FORMATS, help="That of the earlier one; default: just before the later."
        ),
    ] = None,
    hours: Annotated[int, typer.Option(min=1, max=24 * 366, help="Length of both periods in hours.")] = 1,
) -> Change:
    """Report why a period cost more than another: requests, model mix, tokens, cache share, prices.

    The contributions add up to the difference. Times are those of this machine's zone; a period begins with a
    whole hour. Each period is counted at the prices of the policy then in force if the ledger has it, else
    at the configured prices.
    """
    policy = build_policy(source.settings)
    length = hours * _HOUR
    after = _hour(to.timestamp() if to else time.time() - length)
    before = _hour(since.timestamp()) if since else after - length
    if before == after:
        raise PointsmanError("both periods begin with the same hour", hint="--from and --to are two hours")
    found = change_between(source.store, policy, before, after, length)
    if not (found.before.turns or found.after.turns) and (used := source.store.policies()):
        newest = time.strftime("%Y-%m-%dT%H:%M", time.localtime(used[0].last))
        echo(f"the hour of the newest request: pointsman report change --to {newest}", err=True)
    return found


def _hour(seconds: float) -> float:
    return seconds // _HOUR * _HOUR


@_command
def drift(
    source: _Source,
    *,
    learned_router: Annotated[
        Path | None, typer.Option(help="The learned router file; default: the configured one.")
    ] = None,
) -> Drift:
    """Report drift: whether live prompts still resemble the learned router's training data.

    Uses the length and the similarity recorded with every decision; no stored words are needed.
    """
    if learned_router is None:
        spec = source.settings.tiers.learned_router
        if spec is None:
            raise ConfigError(
                "no learned router is configured",
                hint="name one with --learned-router, or in the configuration",
            )
        learned_router = spec.file
    return drift_of(source.store.records(), load_learned_router(learned_router))


@_command
def escalation(
    source: _Source,
    *,
    quantile: Annotated[
        float, typer.Option(min=0.95, max=1, help="Of the successful runs; 1 for the longest.")
    ] = 1.0,
) -> EscalationReport:
    """Report how long own successful runs are, by project and model, and the effect of escalation.

    The limits are printed as lines for [tiers.escalation].
    """
    return escalation_report(source.records, quantile)


@_command
def guidance(
    source: _Source,
    *,
    hooks: Annotated[Path | None, typer.Option(help="File in which the hook stores its sessions.")] = None,
) -> GuidanceReport:
    """Report the effect of guidance: treated sessions against the control group.

    By the call after the first hint that was due, and, if the ledger has outcomes, by how sessions ended.
    With --hooks, of the sessions of an agent's hook instead.
    """
    if hooks is None:
        return guidance_report(source.store.records())
    if source.is_named:
        raise PointsmanError(
            "--hooks names a source of its own", hint="--hooks FILE without --ledger and --demo"
        )
    if not hooks.is_file():
        raise StoreUnavailable(f"there is no file of the hook at {hooks}", hint="--hooks names another")
    rows = tuple(HookState(hooks).followed())
    return GuidanceReport(rows, compare(rows))


@_command
def judge(source: _Source) -> Judges:
    """Report each judge's ties, position bias, cost, and agreement with outcomes of people."""
    return judged_in(source.store.records())


@_command
def kinds(source: _Source) -> Kinds:
    """Report the kinds of prompts near the recorded ones, their share of the score, and the tiers.

    Empty where kinds is "off" under [tiers], or the extra static is not installed.
    """
    return kinds_of(source.store.records())


@_command
def projects(source: _Source, *, target: TargetOption = 0.95, keep: KeepOption = False) -> Report:
    """Report the outcomes of each project by model, the expected success, and the tier good enough."""
    with needs_extra("fit", "pointsman report projects"):
        from pointsman.learning.projects import fit_projects
        from pointsman.reports.projects import ProjectReport, outcomes_of, seen_in, uses
    tiers, records = tiers_of(source.settings), source.records
    found = fit_projects(list(outcomes_of(records)), tiers, target=target, keep=keep)
    return ProjectReport(found, seen_in(records), uses(records))


@_command
def quality(source: _Source, *, margin: MarginOption = MARGIN) -> QualityReport:
    """Report whether a cheap model is good enough: of every two models that answered the same requests.

    Only scores of people and programs count, and of each session the first pair. The page Quality states the
    same of its newest decisions. Prices of the configuration tell which model is the cheap one.
    """
    return quality_report(source.store.records(), source.settings.models, margin)


@_command
def roles(source: _Source) -> Roles:
    """Report requests, tokens and costs by role, and the savings of the tiers of [tiers.roles] alone.

    Costs are at the prices of the configuration.
    """
    return roles_of(source.store.records(), source.settings.models)


@_command
def savings(
    source: _Source,
    *,
    baseline: Annotated[
        str,
        typer.Option(
            help="Baseline: name or id of the model that would have served every request; default: the one "
            "whose answers cost most."
        ),
    ] = "",
    by: Annotated[
        Division | None, typer.Option(help="Divide by this, the one that spent most first.")
    ] = None,
    prices_as_of: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d"],
            help="Date that the report states for its prices, no amount changes; default: of each model.",
        ),
    ] = None,
) -> SavingsReport:
    """Report net savings against a baseline model, after verification, retries and lost prompt caches."""
    settings = source.settings
    money = SavingsCalculator.of(
        build_policy(settings), _configured_name(baseline, settings) if baseline else ""
    )
    dates = {
        name: prices_as_of.date() if prices_as_of else model.prices_as_of
        for name, model in settings.models.items()
        if model.is_priced
    }
    spent = source.store.spenders(since=-math.inf, until=math.inf) if by else {}
    rows = spending_by(by, {each: money.total(found) for each, found in spent.items()}) if by else ()
    total = money.total(all_totals(source.store))
    return SavingsReport(total, dates, str(source.file or ""), by, rows)


def _configured_name(asked: str, config: Config) -> str:
    """The configured name of a model that is named by it, by its id or by an alias; else the name itself."""
    from pointsman.diagnostics.clients import model_names

    if asked in config.models:
        return asked
    by_id = [name for name, model in config.models.items() if model.id == asked]
    if len(by_id) == 1:
        return by_id[0]
    named = model_names(config).resolve(asked)
    return (named.target.model if named else "") or asked


@_command
def shadow(source: _Source, *, margin: MarginOption = MARGIN) -> ShadowReport:
    """Report how the shadow policy and the shadow model differ from those that serve, with costs.

    Costs are at the prices of the configuration.
    """
    return shadow_report(source.store.records(), source.settings.models, margin)

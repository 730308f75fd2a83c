"""``pointsman fit``: train on outcomes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from pointsman.cli.fit_policy import policy
from pointsman.cli.ledger import opened
from pointsman.cli.output import (
    ConfigOption,
    JsonOption,
    LedgerOption,
    OutcomesOption,
    SlowGroup,
    StrongOption,
    WeakOption,
    config_file,
    needs_extra,
    print_either,
    read_lines,
    save,
    writable,
)
from pointsman.cli.tasks import CapabilitiesFile, EncoderName
from pointsman.config import AnyKey, Config, load
from pointsman.encoders import load_encoder
from pointsman.errors import PointsmanError
from pointsman.learning.capabilities import CalibrationReport, fit_capabilities, read_labelled
from pointsman.learning.datasets import Features, read_difficulties, read_served
from pointsman.orchestrator import load_capabilities
from pointsman.printable import Column, TextTable, counted

if TYPE_CHECKING:
    from pointsman.learning.fit import Fit
    from pointsman.learning.intervals import Power
    from pointsman.learning.one_sided import Sides


# ``pointsman fit projects``: learn from own outcomes which tier is good enough for each project.

TargetOption = Annotated[
    float,
    typer.Option(min=0, max=1, help="Success that is good enough; with --keep, of that of the last tier."),
]
KeepOption = Annotated[
    bool, typer.Option("--keep", help="The target is a share of the success of the last tier's models.")
]


def tiers_of(config: Config) -> dict[str, tuple[str, ...]]:
    """The models of each configured tier by its name in lower case, the cheapest first."""
    return {tier.lower(): tuple(entry.model for entry in pool) for tier, pool in config.tiers.pools.items()}


def projects(
    *,
    out: Annotated[Path, typer.Option(help="Output file.")],
    target: TargetOption = 0.95,
    keep: KeepOption = False,
    certainty: Annotated[
        float, typer.Option(min=0.5, max=1, help="Probability with which the target is reached.")
    ] = 0.9,
    half_life: Annotated[float, typer.Option(min=1, help="Days after which an outcome counts half.")] = 90.0,
    data: Annotated[
        Path | None,
        typer.Option(
            help="JSON lines: id, project, model, score, and at, kind, role, by_chance, session; "
            "default: the ledger."
        ),
    ] = None,
    by_chance: Annotated[
        bool,
        typer.Option("--by-chance", help="Use only outcomes of models that exploration or shadow chose."),
    ] = False,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Learn from own outcomes which tier is good enough for each project.

    A tier is named only if it reaches the target with the certainty. [tiers.projects] uses the file.
    """
    with needs_extra("fit", "pointsman fit"):
        from pointsman.learning.projects import fit_projects, read_project_outcomes
        from pointsman.reports.projects import CONDITION, outcomes_of
    tiers = tiers_of(load(config_file(config), AnyKey()))
    if len(tiers) < 2:
        raise PointsmanError(
            "fewer than two tiers have a model", hint="[tiers] names the models of each tier"
        )
    writable(out)
    if data:
        outcomes = read_project_outcomes(data)
    else:
        with opened(ledger, config) as store:
            outcomes = list(outcomes_of(store.records()))
    drawn = [each for each in outcomes if each.by_chance]
    others = len(outcomes) - len(drawn)
    if by_chance:
        outcomes = drawn
    found = fit_projects(outcomes, tiers, target=target, keep=keep, certainty=certainty, half_life=half_life)
    save(out, msgspec.json.encode(found))
    named = sum(bool(cell.tier) for cell in found.cells.values())
    left = "left out" if by_chance else "used"
    ruled = f"{others:,} of models chosen by rules or a policy"
    print_either(
        {
            "file": str(out),
            "outcomes": len(outcomes),
            "by_chance": len(drawn),
            "cells": len(found.cells),
            "with_tier": named,
        },
        f"{counted(len(outcomes), 'outcome')}, {counted(len(found.cells), 'cell')}, {named:,} with a tier; "
        f"written to {out}",
        f"{len(drawn):,} of models chosen by chance; {ruled}, {left}",
        *([CONDITION] if named and others and not by_chance else []),
        as_json=as_json,
    )


# ``pointsman fit kinds``: kinds of prompts with how hard each is, from outcomes.


def kinds(
    *,
    data: Annotated[
        Path,
        typer.Option(
            help="JSON lines: prompt, and difficulty (0 to 1), scores by model, or weak and strong."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Output file.")],
    source: Annotated[str, typer.Option(help="Origin of the data, named in the file.")] = "",
    licence: Annotated[str, typer.Option(help="Licence of the data, named in the file.")] = "",
    count: Annotated[int, typer.Option(min=2, max=256, help="Number of kinds.")] = 64,
    weight: Annotated[
        float, typer.Option(min=0, help="Weight of a difference in difficulty relative to ln(characters).")
    ] = 2.0,
    seed: Annotated[int, typer.Option(help="Random seed of the clusters.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Find kinds of prompts and how often models fail at each, from outcomes.

    kinds = "FILE" under [tiers] uses the file. It holds no prompt text. Needs the extra static.
    """
    with needs_extra("fit", "pointsman fit kinds"):
        from pointsman.encoders import StaticEncoder
        from pointsman.encoders.learned_routers import table_hash
        from pointsman.learning.kinds import fit_kinds
        from pointsman.learning.rankers import persons_text
        from pointsman.tiers.kinds import Origin

    writable(out)
    rows = read_difficulties(data)
    encoder = StaticEncoder()
    found = fit_kinds(
        [persons_text(prompt) for prompt, _ in rows],
        [failed for _, failed in rows],
        encoder,
        table=table_hash(encoder),
        origins=[
            Origin(data.name, source, licence, hashlib.sha256(data.read_bytes()).hexdigest(), len(rows))
        ],
        count=count,
        weight=weight,
        seed=seed,
    )
    save(out, msgspec.json.encode(found))
    ordered = sorted(found.kinds, key=lambda each: -each.difficulty)
    print_either(
        {"file": str(out), "mean": found.mean, "kinds": found.kinds},
        *(f"{kind.difficulty:4.0%} of {kind.prompts:>6,}  {kind.sentence}" for kind in ordered),
        f"{len(found.kinds)} kinds of {len(rows):,} prompts, of which models fail {found.mean:.0%}: {out}",
        as_json=as_json,
    )


# ``pointsman fit capabilities``: calibrate the selection on labelled tasks.


def capabilities(
    *,
    data: Annotated[Path, typer.Option(help='JSON lines: {"task", "capabilities": [name, …]}.')],
    capabilities: CapabilitiesFile,
    out: Annotated[Path, typer.Option(help="Output file of the calibration.")],
    encoder: EncoderName = "none",
    as_json: JsonOption = False,
) -> None:
    """Calibrate the selection of capabilities, and report results on held-out tasks.

    Use the result with pointsman select --calibration and the same --encoder.
    """
    writable(out)
    registry = load_capabilities(capabilities)
    tasks = read_labelled(read_lines(data), str(data))
    with needs_extra("fit", "pointsman fit capabilities"):
        fitted = fit_capabilities(registry, tasks, encoder=load_encoder(encoder))
    save(out, msgspec.json.format(msgspec.json.encode(fitted.calibration.to_json()), indent=2))
    print_either(
        {"calibration": str(out), "before": fitted.before, "after": fitted.after},
        TextTable(
            _CALIBRATED,
            [_shares("guides' own", fitted.before), _shares("fitted, unseen tasks", fitted.after)],
        ),
        f"{fitted.after.tasks} tasks; calibration written to {out}",
        as_json=as_json,
    )


_SHARES: Final = ("exact", "recall", "rejected", "error")
_CALIBRATED: Final = (
    Column("", least=24),
    *(Column(name, right=True, least=max(len(name), 6), show="{:.3f}".format) for name in _SHARES),
)


def _shares(name: str, report: CalibrationReport) -> list[object]:
    shares = (getattr(report, each) for each in _SHARES)
    return [name, *("–" if share is None else share for share in shares)]


fit = typer.Typer(cls=SlowGroup, no_args_is_help=True, help="Train on your own outcomes.")


fit.command()(capabilities)
fit.command()(kinds)
fit.command()(policy)
fit.command()(projects)


@fit.command()
def tiers(
    *,
    data: OutcomesOption,
    out: Annotated[Path, typer.Option(help="Output file of the learned router.")],
    weak: WeakOption = "",
    strong: StrongOption = "",
    features: Annotated[Features, typer.Option(help="Features of the learned router.")] = Features.AUTO,
    seed: Annotated[int, typer.Option(help="Random seed of the folds and the bootstrap.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Fit a learned router, and test whether it is significantly better than the rules.

    It ranks prompts by the expected gain of the strong model. It is written in any case; use it only if the
    improvement is significant. The outcome of one model counts where chance chose that model; where a rule
    did, it calibrates that model alone.
    """
    with needs_extra("fit", "pointsman fit"):
        from pointsman.learning.fit import fit_tiers
        from pointsman.learning.intervals import power_of
        from pointsman.learning.tiers import RANKING_LEGEND, ranking_table

    writable(out)
    outcomes = read_served(data, weak=weak, strong=strong)
    fitted = fit_tiers(outcomes, features=features, weak_model=weak, strong_model=strong, seed=seed)
    save(out, msgspec.json.encode(fitted.learned_router))
    claim, offsets = fitted.learned_router.claim, fitted.learned_router.offsets
    errors = dict(zip(("weak", "strong"), fitted.calibration_errors, strict=True))
    shown = (f"{name} {each.value:.3f} ({each.low:.3f} .. {each.high:.3f})" for name, each in errors.items())
    sides = _sides(fitted.sides)
    print_either(
        {
            "learned_router": str(out),
            "improvement": claim.improves,
            "claim": claim,
            "power": power_of(claim),
            "prompts": fitted.sides,
            "calibration_error": {name: each.value for name, each in errors.items()},
            "calibration_intervals": {name: (each.low, each.high) for name, each in errors.items()},
            "offsets": offsets,
            "rows": fitted.rows,
        },
        *([sides] if sides else []),
        ranking_table(fitted.rows),
        RANKING_LEGEND,
        _verdict(fitted),
        _power(power_of(claim), fitted.learned_router.rows),
        f"calibration error on traffic like the training data: {', '.join(shown)}",
        *(
            f"offset of {name}: weak {weak:+.3f}, strong {strong:+.3f}"
            for name, (weak, strong) in offsets.items()
        ),
        f"learned router written to {out}",
        as_json=as_json,
    )


def _sides(sides: Sides) -> str:
    """Report the use of prompts with the outcome of one model; empty if there is no such prompt."""
    said = [f"{sides.paired:,} prompts with outcomes of both models"]
    if sides.drawn:
        said.append(f"{sides.drawn:,} with the outcome of one that chance chose, weighted by its chance")
    if sides.ruled:
        rare = f", or chance with less than .1 ({sides.rare:,})" if sides.rare else ""
        said.append(
            f"{sides.ruled:,} with the outcome of one that a rule chose{rare}: "
            "they calibrate that model alone, wrongly if the rule used more than the prompt"
        )
    return "; ".join(said) if len(said) > 1 else ""


def _power(power: Power, rows: int) -> str:
    smallest = f"{rows:,} labels show a difference to length of {power.smallest:.3f} in 4 of 5 cases"
    if power.labels is None:
        return f"{smallest}; the measured one is not above zero"
    if power.labels <= rows:
        return f"{smallest}; the measured one is {power.difference:+.3f}"
    return f"{smallest}; for the measured {power.difference:+.3f} about {power.labels:,} labels are needed"


def _verdict(fitted: Fit) -> str:
    shown = "; ".join(
        f"{rival} {more:+.3f} ({low:+.3f} .. {high:+.3f})"
        for rival, (more, low, high) in fitted.learned_router.claim.against.items()
    )
    if fitted.improves:
        return f"improvement: held out, the learned router ranks better than {shown}"
    claim = fitted.learned_router.claim
    if claim.beats_length:
        others = ", ".join(
            rival for rival, (_, low, _) in claim.against.items() if rival != "length" and not low > 0
        )
        but = f"no improvement shown over {others}" if others else "and its interval reaches below zero"
        said = f"; the prompts say more than their length (p = {claim.signal:.3f})" if claim.signal else ""
        return f"better than length, {but}: held out, learned router minus {shown}{said}"
    return f"no improvement shown: held out, learned router minus {shown}; an interval reaches below zero"

"""``pointsman fit``: train on outcomes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from pointsman.cli.fit_capabilities import capabilities
from pointsman.cli.fit_kinds import kinds
from pointsman.cli.fit_policy import policy
from pointsman.cli.fit_projects import projects
from pointsman.cli.options import JsonOption, OutcomesOption, StrongOption, WeakOption
from pointsman.cli.output import SlowGroup, echo, needs_extra, print_json, save, writable
from pointsman.learning.datasets import read_outcomes
from pointsman.learning.features import Features

if TYPE_CHECKING:
    from pointsman.learning.fit import Fit, Power
    from pointsman.learning.metrics import Interval

__all__ = ["register"]

fit = typer.Typer(cls=SlowGroup, no_args_is_help=True, help="Train on your own outcomes.")


def register(app: typer.Typer) -> None:
    """Add the command group."""
    app.add_typer(fit, name="fit")


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
    improvement is significant.
    """
    with needs_extra("fit", "pointsman fit"):
        from pointsman.learning.fit import fit_tiers, power_of
        from pointsman.learning.show import ranking_table

    writable(out)
    outcomes = read_outcomes(data, weak=weak, strong=strong)
    fitted = fit_tiers(outcomes, features=features, weak_model=weak, strong_model=strong, seed=seed)
    save(out, msgspec.json.encode(fitted.learned_router))
    if as_json:
        claim = fitted.learned_router.claim
        print_json(
            {
                "learned_router": str(out),
                "improvement": claim.improves,
                "claim": claim,
                "power": power_of(claim),
                "calibration_error": {name: error.value for name, error in _errors(fitted).items()},
                "calibration_intervals": {
                    name: (error.low, error.high) for name, error in _errors(fitted).items()
                },
                "offsets": fitted.learned_router.offsets,
                "rows": fitted.rows,
            }
        )
        return
    echo(ranking_table(fitted.rows))
    echo(_verdict(fitted))
    echo(_power(power_of(fitted.learned_router.claim), fitted.learned_router.rows))
    errors = (
        f"{name} {error.value:.3f} ({error.low:.3f} .. {error.high:.3f})"
        for name, error in _errors(fitted).items()
    )
    echo(f"calibration error on traffic like the training data: {', '.join(errors)}")
    for domain, (of_weak, of_strong) in fitted.learned_router.offsets.items():
        echo(f"offset of {domain}: weak {of_weak:+.3f}, strong {of_strong:+.3f}")
    echo(f"learned router written to {out}")


def _power(power: Power, rows: int) -> str:
    smallest = f"{rows:,} labels show a difference to length of {power.smallest:.3f} in 4 of 5 cases"
    if power.labels is None:
        return f"{smallest}; the measured one is not above zero"
    if power.labels <= rows:
        return f"{smallest}; the measured one is {power.difference:+.3f}"
    return f"{smallest}; for the measured {power.difference:+.3f} about {power.labels:,} labels are needed"


def _errors(fitted: Fit) -> dict[str, Interval]:
    weak, strong = fitted.calibration_errors
    return {"weak": weak, "strong": strong}


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

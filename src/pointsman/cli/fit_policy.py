"""``pointsman fit policy``: choose tier boundaries from outcomes, for a quality or a cost target."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from pointsman.cli.fit_policy_models import NamedModels, ServedModels, served_models
from pointsman.cli.options import JsonOption, OutcomesOption, StrongOption, WeakOption
from pointsman.cli.output import FAILED, echo, needs_extra, print_json, save, writable
from pointsman.config import AnyKey, Config, load
from pointsman.config.edit import write_file
from pointsman.decision.choosing import ANSWER
from pointsman.encoders.learned_routers import load_learned_router
from pointsman.errors import ConfigError, PointsmanError
from pointsman.factory import build_policy, read_profile
from pointsman.learning.datasets import read_graded
from pointsman.reports.quality import PolicySavings
from pointsman.tiers import TierProfile

if TYPE_CHECKING:
    from pointsman.learning.boundaries import Target
    from pointsman.learning.policy import Fitted, PolicyReport

__all__ = ["policy"]

_PROFILE: Final = "default"


_LearnedCut = Annotated[
    Path | None,
    typer.Option(
        "--learned-router",
        help="Choose boundaries for this learned router's score; default: for the profile's.",
    ),
]
_Base = Annotated[
    Path | None,
    typer.Option(
        "--config", help="Configuration to change; its [tiers] names the models, with their prices."
    ),
]
_Profile = Annotated[str, typer.Option("--profile", help="Without --config: seed, default, or a file.")]
_Quality = Annotated[
    float | None,
    typer.Option(
        "--quality", min=0, max=1, help="Quality target: reach this share of the best tier's quality."
    ),
]
_Budget = Annotated[
    float | None, typer.Option("--budget", min=0, help="Cost target: spend at most this on 1,000 prompts.")
]
_WeakPrice = Annotated[
    float | None, typer.Option("--price-weak", min=0, help="Price of a call of the weak model.")
]
_StrongPrice = Annotated[
    float | None, typer.Option("--price-strong", min=0, help="Price of a call of the strong model.")
]
_Models = Annotated[
    list[str] | None,
    typer.Option("--model", help="NAME=PRICE of a call, once for each of four tiers, SIMPLE first."),
]
_AnswerTokens = Annotated[
    int, typer.Option("--answer-tokens", min=0, help="With --config: tokens of an answer, for its cost.")
]


def policy(
    *,
    data: OutcomesOption,
    out: Annotated[Path, typer.Option(help="Output file of the policy (TOML).")],
    learned_router: _LearnedCut = None,
    config: _Base = None,
    profile: _Profile = _PROFILE,
    tiers: Annotated[int, typer.Option(help="Number of tiers: 2 or 4.")] = 2,
    quality: _Quality = None,
    budget: _Budget = None,
    weak: WeakOption = "",
    strong: StrongOption = "",
    price_weak: _WeakPrice = None,
    price_strong: _StrongPrice = None,
    model: _Models = None,
    answer_tokens: _AnswerTokens = ANSWER,
    curve: Annotated[Path | None, typer.Option(help="Write the cost-quality curve as JSON.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the curve: .svg, or .png (extra plot).")] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the folds and the bootstrap.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Choose tier boundaries from outcomes, for a quality or a cost target.

    The report uses held-out prompts. The file is accepted as a configuration: pointsman replay --policy shows
    the changes it makes. If the target cannot be reached, no file is written and the exit code is 1.
    """
    with needs_extra("fit", "pointsman fit policy"):
        from pointsman.learning.policy import fit_policy

    for file in filter(None, (out, curve, picture)):
        writable(file)
    target = _target(quality, budget)
    settings = load(config, AnyKey()) if config else None
    learned_router = learned_router or _configured_router(settings)
    named = NamedModels(weak, strong, price_weak, price_strong, tuple(model or ()))
    served = served_models(settings, tiers, named)
    rows = read_graded(data, served.names)
    fitted = fit_policy(
        rows,
        served.costs(rows, answer_tokens),
        target=target,
        tiers=2 if tiers == 2 else 4,
        profile=_profile(settings, profile),
        learned_router=load_learned_router(learned_router) if learned_router else None,
        seed=seed,
    )
    _show_curve(fitted, curve, picture)
    if fitted.report.reached:
        _write(out, _text(fitted, config, served, profile, learned_router))
    _print(fitted, out, as_json=as_json)
    if not fitted.report.reached:
        raise typer.Exit(FAILED)


def _target(quality: float | None, budget: float | None) -> Target:
    from pointsman.learning.boundaries import Budget, Kept

    if quality is not None and budget is None:
        return Kept(quality)
    if budget is not None and quality is None:
        return Budget(budget)
    raise PointsmanError("name one target", hint="--quality 0.95, or --budget COST of 1,000 prompts")


def _configured_router(settings: Config | None) -> Path | None:
    return settings.tiers.learned_router.file if settings and settings.tiers.learned_router else None


def _profile(settings: Config | None, named: str) -> TierProfile:
    if settings is None:
        return read_profile(named)
    if named != _PROFILE:
        raise PointsmanError("--config names the profile already", hint="profile = … in its [tiers]")
    return build_policy(settings).profile


def _text(
    fitted: Fitted, config: Path | None, served: ServedModels, profile: str, learned_router: Path | None
) -> str:
    from pointsman.learning.policy_file import policy_text

    return policy_text(
        config.read_text("utf-8") if config else "",
        fitted.boundaries,
        fitted.report,
        profile="" if profile == _PROFILE else profile,
        learned_router=learned_router.resolve() if learned_router else None,
        models=served.by_tier() if config else None,
    )


def _write(out: Path, text: str) -> None:
    """Write the policy and read it back, so that an error is found now and not at the next start."""
    before = out.read_bytes() if out.exists() else None
    write_file(out, text)
    try:
        build_policy(load(out, AnyKey()))
    except ConfigError as error:
        if before is None:
            out.unlink()
        else:
            out.write_bytes(before)
        raise ConfigError(
            f"the policy could not be read back: {error}",
            hint="paths in a configuration are relative to it: write --out to its directory",
        ) from error


def _show_curve(fitted: Fitted, curve: Path | None, picture: Path | None) -> None:
    from pointsman.learning.picture import Picture, draw

    report, points = fitted.report, fitted.curve
    if curve:
        chosen = {"cost": report.cost.value, "kept": report.kept, "savings": _savings(report)}
        written = {"models": report.models, "points": points, "chosen": chosen}
        save(curve, msgspec.json.format(msgspec.json.encode(written)))
    if picture:
        with needs_extra("plot", "a picture as PNG"):
            draw(
                Picture(
                    curve=[(point.cost, point.kept.value) for point in points],
                    low=[point.kept.low for point in points],
                    high=[point.kept.high for point in points],
                    models=sorted(report.models),
                    chosen=(report.cost.value, report.kept.value),
                    unit="on 1,000 prompts",
                ),
                picture,
            )


def _savings(report: PolicyReport) -> PolicySavings | None:
    found = report.savings
    if found is None:
        return None
    row = {"prompts": report.prompts, **msgspec.to_builtins(found)}
    return msgspec.convert(row, PolicySavings)


def _print(fitted: Fitted, out: Path, *, as_json: bool) -> None:
    from pointsman.learning.policy_file import policy_lines

    if as_json:
        print_json(
            {
                "policy": str(out) if fitted.report.reached else None,
                "boundaries": [edge if isfinite(edge) else str(edge) for edge in fitted.boundaries],
                "held_out": fitted.report,
                "curve": fitted.curve,
            }
        )
        return
    lines = policy_lines(fitted)
    if row := _savings(fitted.report):
        lines.append(row.sentence())
    echo("\n".join([*lines, f"policy written to {out}"] if fitted.report.reached else lines))

"""``pointsman fit policy``: choose tier boundaries from outcomes, for a quality or a cost target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from pointsman.cli.output import (
    FAILED,
    JsonOption,
    OutcomesOption,
    StrongOption,
    WeakOption,
    echo,
    needs_extra,
    print_json,
    save,
    writable,
)
from pointsman.config import AnyKey, Config, load
from pointsman.config.edit import write_file
from pointsman.decision.choosing import ANSWER
from pointsman.encoders.learned_routers import load_learned_router
from pointsman.errors import ConfigError, PointsmanError
from pointsman.evidence import estimate_tokens
from pointsman.factory import build_policy, read_profile
from pointsman.learning.datasets import Graded, read_graded
from pointsman.reports.quality import PolicySavings, WorkingPoint
from pointsman.tiers import TierProfile
from pointsman.vocabulary import TIERS, ModelSpec, Tier

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pointsman.learning.boundaries import Target
    from pointsman.learning.policy import Fitted, PolicyReport

_PROFILE: Final = "default"


def policy(
    *,
    data: OutcomesOption,
    out: Annotated[Path, typer.Option(help="Output file of the policy (TOML).")],
    learned_router: Annotated[
        Path | None,
        typer.Option(help="Choose boundaries for this learned router's score; default: for the profile's."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Configuration to change; its [tiers] names the models, with their prices."),
    ] = None,
    profile: Annotated[str, typer.Option(help="Without --config: seed, default, or a file.")] = _PROFILE,
    tiers: Annotated[int, typer.Option(help="Number of tiers: 2 or 4.")] = 2,
    quality: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Quality target: reach this share of the best tier's quality."),
    ] = None,
    budget: Annotated[
        float | None, typer.Option(min=0, help="Cost target: spend at most this on 1,000 prompts.")
    ] = None,
    show: Annotated[
        float | None,
        typer.Option(min=0, help="Level to show, held out, where the target aims beyond it; default: it."),
    ] = None,
    weak: WeakOption = "",
    strong: StrongOption = "",
    price_weak: Annotated[
        float | None, typer.Option(min=0, help="Price of a call of the weak model.")
    ] = None,
    price_strong: Annotated[
        float | None, typer.Option(min=0, help="Price of a call of the strong model.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(help="NAME=PRICE of a call, once for each of four tiers, SIMPLE first."),
    ] = None,
    answer_tokens: Annotated[
        int, typer.Option(min=0, help="With --config: tokens of an answer, for its cost.")
    ] = ANSWER,
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
    target = _target(quality, budget, show)
    settings = load(config, AnyKey()) if config else None
    if learned_router is None and settings and settings.tiers.learned_router:
        learned_router = settings.tiers.learned_router.file
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


def _target(quality: float | None, budget: float | None, show: float | None) -> Target:
    from pointsman.learning.boundaries import Budget, QualityTarget

    if quality is not None and budget is None:
        if show is not None and show > quality:
            raise PointsmanError(f"--show {show:g} is above the quality that is aimed at, {quality:g}")
        return QualityTarget(quality, show)
    if budget is not None and quality is None:
        if show is not None and show < budget:
            raise PointsmanError(f"--show {show:g} is below the money that is aimed at, {budget:g}")
        return Budget(budget, show)
    raise PointsmanError("name one target", hint="--quality 0.95, or --budget COST of 1,000 prompts")


def _profile(settings: Config | None, named: str) -> TierProfile:
    if settings is None:
        return read_profile(named)
    if named != _PROFILE:
        raise PointsmanError("--config names the profile already", hint="profile = … in its [tiers]")
    return build_policy(settings).profile


def _text(
    fitted: Fitted, config: Path | None, served: ServedModels, profile: str, learned_router: Path | None
) -> str:
    from pointsman.learning.policy import policy_text

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
    from pointsman.learning.policy_verdict import policy_verdict

    report, points = fitted.report, fitted.curve
    if curve:
        chosen = WorkingPoint(
            report.cost.value,
            report.kept,
            _savings(report),
            report.shown,
            "; ".join(policy_verdict(report)),
            report.safer,
        )
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
    return PolicySavings(report.prompts, found.success_minus_strong, found.cost, found.saved_beyond_coin)


def _print(fitted: Fitted, out: Path, *, as_json: bool) -> None:
    from pointsman.learning.policy_verdict import policy_lines

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


@dataclass(frozen=True)
class ServedModels:
    """The models of the tiers in use, cheapest first: name in the data, and cost of a call."""

    names: tuple[str, ...]
    calls: tuple[float, ...] = ()  # money for one call; empty: by the specs
    specs: tuple[ModelSpec, ...] = ()

    def costs(self, rows: Sequence[Graded], answer: int) -> NDArray[np.float64]:
        """Money on 1,000 prompts like each. Shape ``(n, models)``."""
        import numpy as np

        if self.calls:
            return np.tile(1000 * np.array(self.calls), (len(rows), 1))
        tokens = np.array([estimate_tokens(row.prompt) for row in rows])
        each = [[spec.cost(count, 0, answer) or 0.0 for count in tokens] for spec in self.specs]
        return 1000 * np.array(each, dtype=np.float64).T

    def by_tier(self) -> dict[Tier, str]:
        """Configured name per tier: of two models, each serves two tiers."""
        return {tier: self.names[tier.rank * len(self.names) // len(TIERS)] for tier in TIERS}


@dataclass(frozen=True)
class NamedModels:
    """Models and prices of a call as options name them."""

    weak: str
    strong: str
    price_weak: float | None
    price_strong: float | None
    models: tuple[str, ...]  # NAME=PRICE


def served_models(settings: Config | None, tiers: int, named: NamedModels) -> ServedModels:
    """The models in use, from the configuration or from the options.

    Raises:
        PointsmanError: they do not name as many as there are tiers, or lack prices.
    """
    pair = (named.weak, named.strong, named.price_weak, named.price_strong)
    if tiers == 2:
        if named.models:
            raise PointsmanError("for two tiers use --weak and --strong", hint="--model is for four")
        return _two(settings, *pair)
    if tiers != 4:
        raise PointsmanError(f"{tiers} tiers cannot be fitted", hint="--tiers 2 or --tiers 4")
    if any(each not in {"", None} for each in pair):
        raise PointsmanError("four tiers are named by --model", hint="--weak and --strong are for two")
    return _four(settings, named.models)


def _two(
    settings: Config | None, weak: str, strong: str, price_weak: float | None, price_strong: float | None
) -> ServedModels:
    if settings:
        models = settings.tiers.models
        return _configured(
            settings, (weak or models.get(Tier.SIMPLE, ""), strong or models.get(Tier.COMPLEX, ""))
        )
    if price_weak is None or price_strong is None:
        raise PointsmanError(
            "a cost needs prices", hint="--price-weak and --price-strong, or --config pointsman.toml"
        )
    if price_strong <= price_weak:
        raise PointsmanError("the strong model is not more expensive than the weak one")
    return ServedModels((weak, strong), (price_weak, price_strong))


def _four(settings: Config | None, models: Sequence[str]) -> ServedModels:
    if settings:
        named = settings.tiers.models
        return _configured(settings, tuple(named.get(tier, "") for tier in TIERS))
    if len(models) != len(TIERS):
        raise PointsmanError(
            "four tiers need four models",
            hint="--model NAME=PRICE four times, or --config pointsman.toml",
        )
    names, prices = zip(*(_priced(each) for each in models), strict=True)
    return ServedModels(names, prices)


def _priced(text: str) -> tuple[str, float]:
    name, _, price = text.rpartition("=")
    try:
        return name, float(price)
    except ValueError:
        raise PointsmanError(f'"{text}" is not a model and a price', hint="--model NAME=0.002") from None


def _configured(settings: Config, names: tuple[str, ...]) -> ServedModels:
    for name in names:
        if name not in settings.models:
            known = ", ".join(settings.models) or "none"
            raise ConfigError(
                f'no model "{name}" for a tier' if name else "a tier in use has no model",
                place=settings.source,
                hint=f"models here: {known}; [tiers] names one for each tier, --weak and --strong two others",
            )
    specs = tuple(settings.models[name] for name in names)
    unpriced = [spec.name for spec in specs if not spec.is_priced]
    if unpriced or not any(spec.input_per_million or spec.output_per_million for spec in specs):
        raise ConfigError(
            f"models have no prices: {', '.join(unpriced or names)}",
            place=settings.source,
            hint="set input_per_million and output_per_million",
        )
    return ServedModels(names, specs=specs)

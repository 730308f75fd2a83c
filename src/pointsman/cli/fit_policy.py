"""``pointsman fit policy``: boundaries of tiers from outcomes, for a quality to keep or money to spend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from pointsman.assembly import build_policy, read_profile
from pointsman.cli.output import FAILED, needs_extra, print_json
from pointsman.config import AnyKey, Config, load
from pointsman.config.edit import write_file
from pointsman.engine import ANSWER
from pointsman.errors import ConfigError, PointsmanError
from pointsman.evaluation.datasets import Graded, read_graded
from pointsman.models.heads import load_head
from pointsman.text.tokens import estimate_tokens
from pointsman.tiers import TierProfile
from pointsman.types import ModelSpec, Tier

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pointsman.evaluation.boundaries import Target
    from pointsman.evaluation.policy import Fitted

__all__ = ["policy"]

_TIERS: Final = tuple(Tier)
_PROFILE: Final = "default"


@dataclass(frozen=True)
class _Served:
    """The models of the tiers in use, cheapest first: name in the data, and what a call costs."""

    names: tuple[str, ...]
    calls: tuple[float, ...] = ()  # money for one call; empty: by the specs
    specs: tuple[ModelSpec, ...] = ()

    def costs(self, rows: Sequence[Graded], answer: int) -> NDArray[np.float64]:
        """Money on 1,000 prompts like each. Shape ``(n, models)``."""
        import numpy as np

        if self.calls:
            return np.tile(1000 * np.array(self.calls), (len(rows), 1))
        tokens = np.array([estimate_tokens(row.prompt) for row in rows])
        prices = [(spec.price_in, spec.price_out) for spec in self.specs]
        return np.stack([1e-3 * (tokens * paid + answer * written) for paid, written in prices], axis=1)

    def by_tier(self) -> dict[Tier, str]:
        """Configured name per tier: of two models, each serves two tiers."""
        return {tier: self.names[tier.rank * len(self.names) // len(_TIERS)] for tier in _TIERS}


@dataclass(frozen=True)
class _Named:
    """Models and prices of a call as options name them."""

    weak: str
    strong: str
    price_weak: float | None
    price_strong: float | None
    models: tuple[str, ...]  # NAME=PRICE


def policy(
    *,
    data: Annotated[Path, typer.Option(help="JSON lines: prompt, weak, strong; or prompt, scores.")],
    out: Annotated[Path, typer.Option(help="Where to write the policy (TOML).")],
    head: Annotated[
        Path | None, typer.Option(help="Cut the score of this head; default: that of the profile.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Configuration to change; its [tiers] names models, their prices count."),
    ] = None,
    profile: Annotated[str, typer.Option(help="Without --config: seed, default, or a file.")] = _PROFILE,
    tiers: Annotated[int, typer.Option(help="Tiers in use: 2 or 4.")] = 2,
    quality: Annotated[
        float | None, typer.Option(min=0, max=1, help="Keep this share of the best tier's quality.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(min=0, help="Or spend at most this on 1,000 prompts.")
    ] = None,
    weak: Annotated[str, typer.Option(help="The weak model, where lines hold scores by model.")] = "",
    strong: Annotated[str, typer.Option(help="The strong model, where lines hold scores by model.")] = "",
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
        int, typer.Option(min=0, help="With --config: tokens of an answer, for its price.")
    ] = ANSWER,
    curve: Annotated[Path | None, typer.Option(help="Write the cost-quality curve as JSON.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the curve: .svg, or .png (extra plot).")] = None,
    seed: Annotated[int, typer.Option(help="Of folds and resamples.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Choose where a score is cut into tiers, on outcomes, for a quality to keep or for money to spend.

    What is reported was measured on prompts the boundaries were not chosen on. The file is accepted as a
    configuration: pointsman replay --policy shows what it would have changed. Exit code 1, and no file, when
    the target cannot be reached.
    """
    with needs_extra("fit", "pointsman fit policy"):
        from pointsman.evaluation.policy import fit_policy

    target = _target(quality, budget)
    settings = load(config, AnyKey()) if config else None
    if settings and settings.tiers.head and head is None:
        head = settings.tiers.head.file
    named = _Named(weak, strong, price_weak, price_strong, tuple(model or ()))
    served = _served(settings, tiers, named)
    rows = read_graded(data, served.names)
    fitted = fit_policy(
        rows,
        served.costs(rows, answer_tokens),
        target=target,
        tiers=2 if tiers == 2 else 4,
        profile=_profile(settings, profile),
        head=load_head(head) if head else None,
        seed=seed,
    )
    _show_curve(fitted, curve, picture)
    if fitted.report.reached:
        _write(out, _text(fitted, config, served, profile, head))
    _print(fitted, out, as_json=as_json)
    if not fitted.report.reached:
        raise typer.Exit(FAILED)


def _target(quality: float | None, budget: float | None) -> Target:
    from pointsman.evaluation.boundaries import Budget, Kept

    if quality is not None and budget is None:
        return Kept(quality)
    if budget is not None and quality is None:
        return Budget(budget)
    raise PointsmanError("name one target", hint="--quality 0.95, or --budget MONEY on 1,000 prompts")


def _profile(settings: Config | None, named: str) -> TierProfile:
    if settings is None:
        return read_profile(named)
    if named != _PROFILE:
        raise PointsmanError("--config names the profile already", hint="profile = … in its [tiers]")
    return build_policy(settings).profile


def _text(fitted: Fitted, config: Path | None, served: _Served, profile: str, head: Path | None) -> str:
    from pointsman.evaluation.policy_file import policy_text

    return policy_text(
        config.read_text("utf-8") if config else "",
        fitted.boundaries,
        fitted.report,
        profile="" if profile == _PROFILE else profile,
        head=head.resolve() if head else None,
        models=served.by_tier() if config else None,
    )


def _served(settings: Config | None, tiers: int, named: _Named) -> _Served:
    """The models in use, from the configuration or from the options.

    Raises:
        PointsmanError: they do not name as many as there are tiers, or lack prices.
    """
    pair = (named.weak, named.strong, named.price_weak, named.price_strong)
    if tiers == 2:
        if named.models:
            raise PointsmanError("two tiers are named by --weak and --strong", hint="--model is for four")
        return _two(settings, *pair)
    if tiers != 4:
        raise PointsmanError(f"{tiers} tiers cannot be fitted", hint="--tiers 2 or --tiers 4")
    if any(each not in {"", None} for each in pair):
        raise PointsmanError("four tiers are named by --model", hint="--weak and --strong are for two")
    return _four(settings, named.models)


def _two(
    settings: Config | None, weak: str, strong: str, price_weak: float | None, price_strong: float | None
) -> _Served:
    if settings:
        models = settings.tiers.models
        return _configured(
            settings, (weak or models.get(Tier.SIMPLE, ""), strong or models.get(Tier.COMPLEX, ""))
        )
    if price_weak is None or price_strong is None:
        raise PointsmanError(
            "a policy needs prices", hint="--price-weak and --price-strong, or --config pointsman.toml"
        )
    if price_strong <= price_weak:
        raise PointsmanError("the strong model is not dearer than the weak one: nothing to choose")
    return _Served((weak, strong), (price_weak, price_strong))


def _four(settings: Config | None, models: Sequence[str]) -> _Served:
    if settings:
        named = settings.tiers.models
        return _configured(settings, tuple(named.get(tier, "") for tier in _TIERS))
    if len(models) != len(_TIERS):
        raise PointsmanError(
            "four tiers need four models",
            hint="--model NAME=PRICE four times, or --config pointsman.toml",
        )
    names, prices = zip(*(_priced(each) for each in models), strict=True)
    return _Served(names, prices)


def _priced(text: str) -> tuple[str, float]:
    name, _, price = text.rpartition("=")
    try:
        return name, float(price)
    except ValueError:
        raise PointsmanError(f'"{text}" is not a model and a price', hint="--model NAME=0.002") from None


def _configured(settings: Config, names: tuple[str, ...]) -> _Served:
    for name in names:
        if name not in settings.models:
            known = ", ".join(settings.models) or "none"
            raise ConfigError(
                f'no model "{name}" for a tier' if name else "a tier in use has no model",
                place=settings.source,
                hint=f"models here: {known}; [tiers] names one for each tier, --weak and --strong two others",
            )
    specs = tuple(settings.models[name] for name in names)
    if not any(spec.price_in or spec.price_out for spec in specs):
        raise ConfigError("the models have no prices", place=settings.source, hint="in = …, out = …")
    return _Served(names, specs=specs)


def _write(out: Path, text: str) -> None:
    """Write the policy and read it back, so that nobody finds out at the next start."""
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
            hint="paths in a configuration are relative to it: write --out beside it",
        ) from error


def _show_curve(fitted: Fitted, curve: Path | None, picture: Path | None) -> None:
    from pointsman.evaluation.picture import Picture, draw

    report, points = fitted.report, fitted.curve
    if curve:
        curve.write_bytes(
            msgspec.json.format(msgspec.json.encode({"models": report.models, "points": points}))
        )
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


def _print(fitted: Fitted, out: Path, *, as_json: bool) -> None:
    from pointsman.evaluation.show_policy import policy_lines

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
    typer.echo("\n".join([*lines, f"policy written to {out}"] if fitted.report.reached else lines))

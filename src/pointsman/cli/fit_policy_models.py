"""The models that ``fit policy`` and ``eval savings`` choose between, and the cost of a call of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pointsman.config import Config
from pointsman.errors import ConfigError, PointsmanError
from pointsman.evidence import estimate_tokens
from pointsman.learning.datasets import Graded
from pointsman.vocabulary import ModelSpec, Tier

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["NamedModels", "ServedModels", "served_models"]

_TIERS: Final = tuple(Tier)


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
        return {tier: self.names[tier.rank * len(self.names) // len(_TIERS)] for tier in _TIERS}


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
        return _configured(settings, tuple(named.get(tier, "") for tier in _TIERS))
    if len(models) != len(_TIERS):
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

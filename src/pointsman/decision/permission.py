"""Which models a caller may use: patterns of names, a highest tier, known prices, a budget nearly spent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pointsman.decision.aliases import matches
from pointsman.model_choice.chains import TierModels, pools
from pointsman.model_choice.fitness import UNABLE, Barred
from pointsman.vocabulary import ModelSpec, Permission, Reason, Tier

__all__ = ["FORBIDDEN", "LOW_BUDGET", "OVER_TIER", "Permits", "is_permitted"]

#: How reasons against a model begin that the caller may not use.
FORBIDDEN: Final = f"{UNABLE}forbidden."
#: Reasons for a lower tier than the decided one: the caller's highest, and a budget nearly spent.
OVER_TIER: Final = "access.tier"
LOW_BUDGET: Final = "access.budget-low"


def is_permitted(model: str, permission: Permission) -> bool:
    """Whether the patterns of a permission allow a model, by its configured name."""
    return all(any(matches(pattern, model) for pattern in group) for group in permission.models)


class Permits:
    """What permissions mean for the models of one policy; results are cached."""

    def __init__(self, models: Mapping[str, ModelSpec], tier_models: TierModels) -> None:
        self._models = models
        of = pools(tier_models)
        self._tiers = tuple(of)
        #: The lowest tier that has a model.
        self._ranks = {entry.model: tier.rank for tier, pool in reversed(of.items()) for entry in pool}
        #: As many as the configurations that were in force have keys.
        self._kinds: dict[tuple[object, ...], Barred | None] = {}

    def barred(self, permission: Permission | None, *, chosen: bool = True) -> Barred | None:
        """Return the models that may not serve; None where all may.

        Args:
            permission: Of the caller.
            chosen: The gateway chooses the model, and so a budget nearly spent counts.
        """
        if permission is None:
            return None
        highest = self.highest(permission) if chosen else permission.highest
        kind = (permission.models, permission.priced, highest)
        if kind not in self._kinds:
            found = {name: why for name in self._models for why in self._against(name, permission, highest)}
            self._kinds[kind] = Barred(found) if found else None
        return self._kinds[kind]

    def highest(self, permission: Permission) -> Tier | None:
        """Return the highest tier of a request for which a model is chosen; None without a bound."""
        low = permission.low
        if low is not None and low not in self._tiers:
            # A budget nearly spent refuses nothing: it prefers the cheapest tier that there is.
            low = next((tier for tier in self._tiers if tier.rank > low.rank), low)
        bounds = [tier for tier in (permission.highest, low) if tier is not None]
        return min(bounds, key=lambda tier: tier.rank, default=None)

    def capped(self, tier: Tier, permission: Permission) -> tuple[Tier, Reason | None]:
        """Return the tier that may serve, and why it is a lower one than the decided."""
        highest = self.highest(permission)
        if highest is None or tier.rank <= highest.rank:
            return tier, None
        if highest is permission.highest:
            return highest, Reason(OVER_TIER, f"{highest} instead of {tier}: the key's highest tier")
        return highest, Reason(LOW_BUDGET, f"{highest} instead of {tier}: {permission.why_low}")

    def _against(self, name: str, permission: Permission, highest: Tier | None) -> Iterator[Reason]:
        """Yield at most one reason against a model."""
        rank = self._ranks.get(name)
        if not is_permitted(name, permission):
            yield Reason(f"{FORBIDDEN}models", f'"{name}" is none of the models of this key')
        elif permission.priced and not self._models[name].is_priced:
            why = f'the price of "{name}" is unknown, and this key has a budget'
            yield Reason(f"{FORBIDDEN}price", why)
        elif highest is not None and (rank is None or rank > highest.rank):
            yield Reason(f"{FORBIDDEN}tier", f'"{name}" is of no tier up to {highest}')

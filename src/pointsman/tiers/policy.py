"""The configurable policy of verification and of the learned router.

These structs are tables of the configuration: their docstrings are printed in its reference.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from pointsman.remembering import remembered
from pointsman.vocabulary import DAY, Tier

__all__ = ["LearnedRouterSettings", "Spending", "Verification"]

_Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]


class Spending(msgspec.Struct, frozen=True, gc=False):
    """Questions and money since ``opened_at``."""

    opened_at: float = 0.0  # seconds since the epoch
    requests: int = 0
    asked: int = 0
    money: float = 0.0  # in US dollars
    others: dict[str, float] = {}  # the same for questions of other kinds, by kind


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """When a cheap model verifies a tier, and its budget. Without this table no model is asked."""

    model: Annotated[
        str, Meta(description="Name of the model to ask; default: the first model of tier SIMPLE.")
    ] = ""  # source: docs/sources/prompt-classifier.md, "Configuration"
    # The profile `default` has 0.04: asks about 14 % of MMLU, 7 % of GSM8K (docs/explanation/tiers.md).
    margin: Annotated[
        _Share | None,
        Meta(
            description="Ask only if the confidence is this close to .50, its value at a boundary. "
            "Default: the profile's rule, 0.04 in `default` and 0.20 in `seed`."
        ),
    ] = None
    # sources: docs/notebook/0023, docs/notebook/0083
    share: Annotated[_Share, Meta(description="Budget: ask for at most this share of requests.")] = 0.15
    timeout_ms: Annotated[int, Meta(ge=1, description="Timeout in milliseconds; then the rules decide.")] = (
        500
    )
    money_per_day: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Meta(description="Budget: maximum cost per day, in US dollars."),
    ] = None
    cache: Annotated[
        int, Meta(ge=0, description="Cache size: answers kept, so that no text is asked about twice.")
    ] = 4_096  # entries of a hash and a label: under 1 MB

    def request(self, spending: Spending, now: float) -> Spending:
        """Count a request, whether or not it asks: once each, before ``refuses``."""
        if now - spending.opened_at >= DAY:  # counting starts again
            spending = Spending(opened_at=now)
        return msgspec.structs.replace(spending, requests=spending.requests + 1)

    def refuses(self, spending: Spending, price: float | None) -> str:
        """Why this request may not ask for ``price`` (None: unknown); empty when it may."""
        if spending.asked >= self.share * spending.requests:
            return f"{spending.asked} of {spending.requests} requests have asked, the share is {self.share:g}"
        if self.money_per_day is None:
            return ""
        if price is None:
            return f'the price of "{self.model}" is unknown, and {self.money_per_day:g} a day is the most'
        if spending.money + price > self.money_per_day:
            return f"{spending.money:.4f} of {self.money_per_day:g} is spent"
        return ""

    def ask(self, spending: Spending, price: float | None) -> Spending:
        """Count a question and its price, if known."""
        money = spending.money + (price or 0.0)
        return msgspec.structs.replace(spending, asked=spending.asked + 1, money=money)


class LearnedRouterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A router trained on recorded outcomes. The profile decides prompts that are out of distribution."""

    boundaries: Annotated[
        tuple[float, float, float],
        Meta(
            description="Scores of the router at which MEDIUM, COMPLEX and REASONING begin, as "
            "`pointsman fit policy` writes them; `inf` leaves a tier out."
        ),
    ]

    def __post_init__(self) -> None:
        medium, complex_, reasoning = self.boundaries
        if not medium <= complex_ <= reasoning:  # nor where one of them is no number
            raise ValueError("boundaries must not fall from one tier to the next")


# From model ids to the tiers they name.

#: The id that leaves the tier to us.
AUTO: Final = "auto"

#: Prefixes of a model id that names a tier. Source of the second: docs/sources/prompt-classifier.md,
#: "Forced tier override".
_PREFIXES: Final = ("pointsman/", "claw-llm-router/")

#: Model ids kept with their meaning: callers ask for the same few again and again.
_KNOWN: Final = 256
_LONGEST: Final = 256  # characters of such an id


def _forced_tier(model: str) -> Tier | None:
    name = _bare(model).upper()
    return Tier(name) if name in Tier.__members__ else None


def _asks_to_decide(model: str) -> bool:
    return _bare(model).lower() in {AUTO, "", "pointsman"}


def _bare(model: str) -> str:
    for prefix in _PREFIXES:
        if model.lower().startswith(prefix):
            return model[len(prefix) :]
    return model


#: The tier a model id names (``simple``, ``pointsman/simple``), in any case; None for other ids.
forced_tier: Final = remembered(_forced_tier, _KNOWN, _LONGEST)
#: Whether a model id leaves the tier to us: ``auto``, ``pointsman/auto``, ``pointsman``, or no id.
asks_to_decide: Final = remembered(_asks_to_decide, _KNOWN, _LONGEST)

"""The configurable policy of selection, and the error of a selection that is unavailable."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from pointsman.capabilities._registry import CapabilityRegistry
from pointsman.capabilities.calibration import Calibration
from pointsman.errors import ConfigError, UpstreamUnavailable
from pointsman.vocabulary import Mode

__all__ = [
    "CapabilityPolicy",
    "CapabilitySettings",
    "OnFailure",
    "SelectionPolicy",
    "SelectionUnavailable",
    "Strategy",
]


class Strategy(StrEnum):
    """Who judges whether a capability is needed."""

    LOCAL = "local"  # the calibrated score alone
    HYBRID = "hybrid"  # the score; a model where the score is unsure
    LLM = "llm"  # a model judges every capability


class OnFailure(StrEnum):
    """Fallback for judgements that a model could not give."""

    LOCAL = "local"  # the local score decides
    NONE = "none"  # what was not judged is not selected
    ALL = "all"  # what was not judged is selected
    ALWAYS_ACTIVE = "always_active"  # the always-active capabilities and nothing else
    LIST = "list"  # the always-active capabilities and the policy's ``fallback``
    RAISE = "raise"  # ``SelectionUnavailable``


class SelectionUnavailable(UpstreamUnavailable):
    """A model was needed for a selection, could not be asked, and the policy says to raise."""


class SelectionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How capabilities are selected."""

    strategy: Annotated[
        Strategy,
        Meta(
            description="Who judges: `local` the score alone, `hybrid` a model where the score is uncertain, "
            "`llm` a model for every capability."
        ),
    ] = Strategy.LOCAL  # a model costs money and time: nobody asks one unless told to
    # On CLINC150 with ten examples per intent, 0.2 keeps 76 of the 81 points of in-scope accuracy that the
    # static encoder has and rejects 84 % of out-of-scope tasks (docs/decisions/0052).
    threshold: Annotated[
        float, Meta(ge=0, le=1, description="Probability from which a capability is selected.")
    ] = 0.2
    # Their share against accuracy: docs/decisions/0055.
    unsure: Annotated[
        tuple[float, float],
        Meta(
            description="Probabilities between these are uncertain: `hybrid` asks a model, and such a tool "
            "is not removed."
        ),
    ] = (0.1, 0.6)
    # One round at the usual concurrency.
    max_questions: Annotated[
        int,
        Meta(ge=1, description="Questions to a model per task under `hybrid`, the likeliest first."),
    ] = 5
    on_failure: Annotated[
        OnFailure,
        Meta(
            description="What is selected where a model cannot be asked: by the `local` score, `none` or "
            "`all` of what was not judged, `always_active` alone, those and the `list` in `fallback`, or "
            "`raise`: no selection."
        ),
    ] = OnFailure.LOCAL
    fallback: Annotated[
        tuple[str, ...], Meta(description="Capabilities selected with on_failure `list`.")
    ] = ()
    bypass: Annotated[bool, Meta(description="Select everything and judge nothing.")] = False
    model: Annotated[str, Meta(description="Model that judges; needed with strategy `hybrid` and `llm`.")] = (
        ""
    )
    # A judgement with a reason takes a small model 1 to 2 s.
    timeout_ms: Annotated[int, Meta(ge=1, description="Timeout of one question in milliseconds.")] = 5_000

    def __post_init__(self) -> None:
        """Check ranges; names of strategies and failure policies are accepted as text.

        Raises:
            ConfigError: a value is out of range or unknown.
        """
        _choice(self, "strategy", Strategy)
        _choice(self, "on_failure", OnFailure)
        low, high = self.unsure
        if not 0 <= low <= high <= 1:
            raise ConfigError("the unsure band must be two probabilities, the lower first")
        if not 0 <= self.threshold <= 1:
            raise ConfigError("the threshold must be a probability")
        if self.max_questions < 1:
            raise ConfigError("max_questions must be at least 1", hint='to ask nothing, use strategy "local"')


class CapabilitySettings(SelectionPolicy, frozen=True, kw_only=True):
    """How the capabilities of a request are selected."""

    encoder: Annotated[
        Literal["none", "static", "sentence"],
        Meta(description="Local encoder beside n-grams; needs the extra of its name."),
    ] = "none"
    always_active: Annotated[
        tuple[str, ...], Meta(description="Capabilities and tools that are selected for every task.")
    ] = ()
    money_per_day: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Meta(
            description="Budget: maximum cost per day of questions to `model`, in US "
            "dollars. Then `on_failure` decides, as where a price is unknown."
        ),
    ] = None


class CapabilityPolicy(CapabilitySettings, frozen=True, kw_only=True):
    """Which capabilities there are beside the tools of a request, and how they are selected."""

    mode: Mode = Mode.ON  # ``observe`` takes no tool away
    registry: CapabilityRegistry = CapabilityRegistry(())
    calibration: Calibration | None = None  # None: fitted on the guides' own examples


def _choice(policy: SelectionPolicy, field: str, choices: type[StrEnum]) -> None:
    value = getattr(policy, field)
    try:
        msgspec.structs.force_setattr(policy, field, choices(value))
    except ValueError:
        known = ", ".join(choices)
        raise ConfigError(f'unknown {field} "{value}"', hint=f"choose one of {known}") from None

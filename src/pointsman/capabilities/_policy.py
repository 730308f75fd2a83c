"""The configurable policy of selection, and the error of a selection that is unavailable."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pointsman.errors import ConfigError, UpstreamUnavailable

__all__ = ["OnFailure", "SelectionPolicy", "SelectionUnavailable", "Strategy"]


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


@dataclass(frozen=True, slots=True)
class SelectionPolicy:
    """How capabilities are selected."""

    strategy: Strategy = Strategy.HYBRID
    #: Probability from which a capability is selected. On CLINC150 with ten examples per intent, 0.2 keeps
    #: 76 of the 81 points of in-scope accuracy that the static encoder has and rejects 84 % of out-of-scope
    #: tasks (docs/decisions/0052).
    threshold: float = 0.2
    #: Probabilities between these are unsure. Their share against accuracy: docs/decisions/0055.
    unsure: tuple[float, float] = (0.1, 0.6)
    #: Capabilities asked about per task under ``hybrid``, the likeliest first: one round at the usual
    #: concurrency.
    max_questions: int = 5
    on_failure: OnFailure = OnFailure.LOCAL
    fallback: tuple[str, ...] = ()  # for ``OnFailure.LIST``
    bypass: bool = False  # select everything, judge nothing
    model: str = ""  # configured name of the judging model; empty: the driver's default
    timeout_ms: int = 5_000  # of one question; a judgement with a reason takes a small model 1–2 s

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


def _choice(policy: SelectionPolicy, field: str, choices: type[StrEnum]) -> None:
    value = getattr(policy, field)
    try:
        object.__setattr__(policy, field, choices(value))
    except ValueError:
        known = ", ".join(choices)
        raise ConfigError(f'unknown {field} "{value}"', hint=f"choose one of {known}") from None

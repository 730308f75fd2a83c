"""How often a classifier may speak."""

from __future__ import annotations

from dataclasses import dataclass, field

from pointsman.errors import ConfigError
from pointsman.guidance.context import GuidanceClassifier

__all__ = ["ClassifierConfig", "ClassifierCooldownTracker", "check_limits", "may_fire"]


@dataclass(frozen=True, slots=True)
class ClassifierConfig:
    """Limits on one classifier.

    Raises:
        ConfigError: a limit out of its range.
    """

    min_confidence: float = 0.5
    cooldown_turns: int = 0  # turns skipped after firing
    max_fires_per_session: int | None = None

    def __post_init__(self) -> None:
        check_limits(self.min_confidence, self.cooldown_turns, self.max_fires_per_session)


def check_limits(min_confidence: float, cooldown_turns: int, max_fires: int | None) -> None:
    """Refuse limits that could never let anything through, or that mean nothing."""
    if not 0.0 <= min_confidence <= 1.0:
        raise ConfigError(f"min_confidence must be within 0 and 1, not {min_confidence}")
    if cooldown_turns < 0:
        raise ConfigError(f"cooldown_turns must not be negative, and is {cooldown_turns}")
    if max_fires is not None and max_fires < 1:
        raise ConfigError(f"max_fires_per_session must be at least 1, not {max_fires}")


def may_fire(
    last_turn: int | None, fires: int, turn: int, *, cooldown_turns: int, max_fires: int | None
) -> bool:
    """True when neither limit forbids firing. ``cooldown_turns=n`` skips the n turns after a firing."""
    if last_turn is not None and cooldown_turns and turn - last_turn <= cooldown_turns:
        return False
    return max_fires is None or fires < max_fires


@dataclass(slots=True)
class ClassifierCooldownTracker:
    """Remembers when classifiers fired. By instance, since two classifiers may share a name."""

    fires: dict[int, int] = field(default_factory=dict)  # id of a classifier -> turn of its last firing
    counts: dict[int, int] = field(default_factory=dict)  # id of a classifier -> firings
    _kept: list[object] = field(default_factory=list)  # an id is only unique while its object lives

    def can_fire(self, classifier: GuidanceClassifier, current_turn: int, config: ClassifierConfig) -> bool:
        """True when the classifier's limits allow it to fire in this turn."""
        key = id(classifier)
        return may_fire(
            self.fires.get(key),
            self.counts.get(key, 0),
            current_turn,
            cooldown_turns=config.cooldown_turns,
            max_fires=config.max_fires_per_session,
        )

    def record_fire(self, classifier: GuidanceClassifier, turn: int) -> None:
        """Note a firing."""
        key = id(classifier)
        if key not in self.counts:
            self._kept.append(classifier)
        self.fires[key] = turn
        self.counts[key] = self.counts.get(key, 0) + 1

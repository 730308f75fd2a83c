"""How often a provider may speak."""

from __future__ import annotations

from pointsman.errors import ConfigError

__all__ = ["check_limits", "may_fire"]


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

"""Keys of the founding documents that are called otherwise here, and where they went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["elsewhere"]

#: Table and key -> the way out. Source: docs/sources.
_KEYS: Final[Mapping[tuple[str, str], str]] = {
    ("tiers", "confidence"): "verify = { margin = 0.2 } asks a model below a confidence of .50 + .20",
    ("tiers", "classifier"): 'verify = { model = "…" } names the model that is asked',
    ("tiers", "fallback"): 'complex = ["a", "b"]: the models of a tier are each other\'s fallback',
    ("domains", "disabled_domains"): "profiles = DIR: a file for each model, with its disabled_domains",
    ("domains", "momentum_threshold"): "a pair is held from three turns on; that cannot be set",
    ("guidance", "doom_loop"): "loop_repetitions",
    ("guidance", "stall_threshold"): "stall",
    (
        "guidance",
        "max_per_turn",
    ): "a moment gets one text of each of [[guidance.providers]]",
    ("guidance", "cooldown_turns"): "a key of [[guidance.providers]]",
    ("guidance.providers", "max_per_turn"): "a moment gets one text of each provider, ordered by priority",
    ("guidance.providers", "doom_loop"): 'classifier = "doom_loop"',
}


def elsewhere(key: str, path: tuple[str | int, ...]) -> str:
    """Return where a key of a founding document went; empty for every other key."""
    return _KEYS.get((".".join(str(part) for part in path if isinstance(part, str)), key), "")

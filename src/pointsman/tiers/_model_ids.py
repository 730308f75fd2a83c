"""From model ids to the tiers they name."""

from __future__ import annotations

from typing import Final

from pointsman.remembering import remembered
from pointsman.vocabulary import Tier

__all__ = ["AUTO", "asks_to_decide", "forced_tier"]

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

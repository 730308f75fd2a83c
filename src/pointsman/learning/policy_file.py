"""The file ``pointsman fit policy`` writes: a configuration with its boundaries changed, or those alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from pointsman.config.edit import set_value
from pointsman.learning.boundaries import Boundaries, Kept
from pointsman.learning.policy import PolicyReport
from pointsman.vocabulary import Tier

__all__ = ["policy_text"]

#: Digits that tell apart the scores of any two prompts seen so far.
DIGITS: Final = 6


def policy_text(
    base: str,
    boundaries: Boundaries,
    report: PolicyReport,
    *,
    profile: str = "",
    learned_router: Path | None = None,
    models: dict[Tier, str] | None = None,
) -> str:
    """Return a configuration that decides by these boundaries.

    Args:
        base: the configuration to change; empty for the boundaries alone.
        boundaries: scores at which MEDIUM, COMPLEX and REASONING begin.
        report: what they are worth; becomes a comment.
        profile: to name, where the base does not.
        learned_router: whose score they cut; None for the profile's.
        models: configured names by tier, where a configuration has them.

    Raises:
        ConfigError: the configuration writes ``[tiers]`` in a way that cannot be extended.
    """
    literal = f"[{', '.join(_number(value) for value in boundaries)}]"
    text = base
    for tier, name in (models or {}).items():
        text = set_value(text, ("tiers", tier.lower()), json.dumps(name))
    if profile:
        text = set_value(text, ("tiers", "profile"), json.dumps(profile))
    if learned_router is None:
        text = set_value(text, ("tiers", "boundaries"), literal)
    else:
        text = set_value(text, ("tiers", "learned_router", "file"), json.dumps(str(learned_router)))
        text = set_value(text, ("tiers", "learned_router", "boundaries"), literal)
    return "".join(f"# {line}\n" for line in _told(report)) + text.lstrip("\n")


def _number(value: float) -> str:
    return repr(round(value, DIGITS))


def _told(report: PolicyReport) -> list[str]:
    target, kept, cost = report.target, report.kept, report.cost
    if isinstance(target, Kept):
        wanted = f"keep {target.quality:.1%} of the best tier's quality"
    else:
        wanted = f"spend at most {target.money:.4g} on 1,000 prompts"
    spent = f"{cost.value:.4g} on 1,000 prompts ({cost.low:.4g} .. {cost.high:.4g})"
    return [
        f"Boundaries by pointsman fit policy from {report.prompts:,} prompts, to {wanted}.",
        f"Held out: {kept.value:.1%} kept ({kept.low:.1%} .. {kept.high:.1%}), {spent}.",
    ]

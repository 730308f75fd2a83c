"""The file ``pointsman fit policy`` writes: a configuration with its boundaries changed, or those alone."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pointsman.config.edit import set_value
from pointsman.learning.boundaries import Boundaries, Kept, Point
from pointsman.learning.metrics import Interval
from pointsman.learning.policy import Fitted, PolicyReport
from pointsman.vocabulary import Tier

__all__ = ["policy_lines", "policy_text"]

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
        report: their quality and cost; becomes a comment.
        profile: to name, where the base does not.
        learned_router: its score is cut; None for the profile's.
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


# A fitted policy in words: the curve, what was held out, and whether the target is shown to be met.


def policy_lines(fitted: Fitted) -> list[str]:
    """Curve, figures and verdict."""
    report = fitted.report
    edges = sorted({edge for edge in fitted.boundaries if math.isfinite(edge)})
    cost, mixing = report.cost, report.over_mixing
    lines = [
        *_curve(fitted.curve, report),
        "",
        f"boundaries: {', '.join(f'{edge:.4f}' for edge in edges) or 'none: one tier serves everything'}",
        f"held out, {report.prompts:,} prompts: {_shares(report.kept)} of the best tier's quality kept",
        f"cost on 1,000 prompts: {_money(cost)}, {cost.value / report.cost_of_best:.1%} of the best tier's",
        f"quality above drawing models at random for the same money: {_signed(mixing)}",
        "tiers: " + ", ".join(f"{tier} {share:.1%}" for tier, share in report.shares.items()),
    ]
    if report.fixed:
        lines.append(f"{report.fixed:.1%} of prompts keep the tier of the rules, whatever the boundaries are")
    if report.cross_fitted_router:
        lines.append(
            "the router was fitted on these prompts: routers fitted on their other parts were used to choose"
        )
    return [*lines, _verdict(report), *([] if mixing.low > 0 else [_NO_BETTER])]


_NO_BETTER = "not shown to be better than drawing models at random for the same money"


def _curve(points: Sequence[Point], report: PolicyReport) -> list[str]:
    lines = ["cost on 1,000   of best   quality kept   95 % interval"]
    lines += [
        f"{point.cost:>13.4g}   {point.cost / report.cost_of_best:>7.1%}   {point.kept.value:>12.1%}"
        f"   {point.kept.low:.1%} .. {point.kept.high:.1%}"
        for point in points
    ]
    return lines


def _verdict(report: PolicyReport) -> str:
    target, kept = report.target, report.kept
    if isinstance(target, Kept):
        if not report.reached:
            return f"the target cannot be reached: {kept.value:.1%} is the most; no policy is written"
        if report.supported:
            return f"shown: held out, at least {kept.low:.1%} is kept"
        safer = min(target.quality + target.quality - kept.low, 1.0)
        return f"not shown: the interval reaches below {target.quality:.1%}; --quality {safer:.3f} is safer"
    if not report.reached:
        return f"the target cannot be reached: {report.cost.value:.4g} is the least; no policy is written"
    if report.supported:
        return f"shown: held out, at most {report.cost.high:.4g} is spent on 1,000 prompts"
    safer = max(2 * target.money - report.cost.high, 0.0)
    return f"not shown: the interval reaches above {target.money:.4g}; --budget {safer:.4g} is safer"


def _shares(found: Interval) -> str:
    return f"{found.value:.1%} ({found.low:.1%} .. {found.high:.1%})"


def _signed(found: Interval) -> str:
    return f"{found.value:+.3f} ({found.low:+.3f} .. {found.high:+.3f})"


def _money(found: Interval) -> str:
    return f"{found.value:.4g} ({found.low:.4g} .. {found.high:.4g})"

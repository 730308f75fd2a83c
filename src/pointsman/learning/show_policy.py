"""A fitted policy in words: the curve, what was held out, and whether the target is shown to be met."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pointsman.learning.boundaries import Kept, Point
from pointsman.learning.metrics import Interval
from pointsman.learning.policy import Fitted, PolicyReport

__all__ = ["policy_lines"]


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

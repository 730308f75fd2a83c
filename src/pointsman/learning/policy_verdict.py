"""A fitted policy in words: the curve, what was held out, and whether the target is shown to be met."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from pointsman.learning.boundaries import Point, QualityTarget
from pointsman.learning.datasets import LEAST_FOR_POLICY
from pointsman.learning.intervals import Z, more_to_show
from pointsman.learning.metrics import Interval
from pointsman.learning.policy import Fitted, PolicyReport

__all__ = ["policy_lines", "policy_verdict"]


def policy_lines(fitted: Fitted) -> list[str]:
    """Curve, figures and verdict."""
    report = fitted.report
    edges = sorted({edge for edge in fitted.boundaries if math.isfinite(edge)})
    cost, mixing = report.cost, report.over_mixing
    of_best = cost.value / report.cost_of_best
    lines = [
        *_curve(fitted.curve, report),
        "",
        f"boundaries: {', '.join(f'{edge:.4f}' for edge in edges) or 'none: one tier serves everything'}",
        f"held out, {report.prompts:,} prompts: {_said(report.kept, '.1%')} of the best tier's quality kept",
        f"cost on 1,000 prompts: {_said(cost, '.4g')}, {of_best:.1%} of the best tier's",
        f"quality above drawing models at random for the same money: {_said(mixing, '+.3f')}",
        "tiers: " + ", ".join(f"{tier} {share:.1%}" for tier, share in report.shares.items()),
    ]
    if report.fixed:
        lines.append(f"{report.fixed:.1%} of prompts keep the tier of the rules, whatever the boundaries are")
    if report.left_out:
        lines.append(f"the router was fitted on {report.left_out:,} further prompts, which are left out")
    if report.cross_fitted_router:
        lines.append(
            "the router was fitted on these prompts: routers fitted on their other parts were used to choose"
        )
    return [*lines, *policy_verdict(report)]


def policy_verdict(report: PolicyReport) -> list[str]:
    """Whether the target is shown to be met, the evidence missing, and whether chance does as well."""
    return [_verdict(report), *([] if report.over_mixing.low > 0 else [_NO_BETTER])]


_MORE: Final = "only more outcomes can show it"
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
    target, kept, cost = report.target, report.kept, report.cost
    if report.reached and not report.stands:
        return (
            "not shown: the router was fitted on some of these prompts, and on more or fewer; measure it on"
            f" {LEAST_FOR_POLICY} or more that it was not fitted on"
        )
    if isinstance(target, QualityTarget):
        if not report.reached:
            return f"the target cannot be reached: {kept.value:.1%} is the most; no policy is written"
        if report.supported:
            return f"shown: held out, at least {kept.low:.1%} is kept"
        level, safer = target.to_show, report.safer
        advice = _MORE if safer is None else f"--quality {safer:.3f} --show {level:g} is safer"
        more = _more("quality", kept.value - level, kept, report.prompts)
        return f"not shown: the interval reaches below {level:.1%}; {advice}{more}"
    if not report.reached:
        return f"the target cannot be reached: {cost.value:.4g} is the least; no policy is written"
    if report.supported:
        return f"shown: held out, at most {cost.high:.4g} is spent on 1,000 prompts"
    level, safer = target.to_show, report.safer
    advice = _MORE if safer is None else f"--budget {safer:.4g} --show {level:g} is safer"
    more = _more("money", level - cost.value, cost, report.prompts)
    return f"not shown: the interval reaches above {level:.4g}; {advice}{more}"


def _more(of: str, distance: float, found: Interval, prompts: int) -> str:
    """Number of further prompts that would show the measured value; empty within its error."""
    missing = more_to_show(distance, (found.high - found.low) / (2 * Z), prompts)
    if missing is None:
        return ""
    return f"; at the {of} measured, about {missing:,} more prompts show it in 4 of 5 cases"


def _said(found: Interval, form: str) -> str:
    return f"{found.value:{form}} ({found.low:{form}} .. {found.high:{form}})"

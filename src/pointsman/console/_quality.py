"""The page Quality: what labels, the learned router's own measurements and the control group say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pointsman.console._reading import newest_records, search
from pointsman.console._svg import Chart, curve_chart, points_chart
from pointsman.console._view import GatewayView, Page, Visit
from pointsman.errors import PointsmanError
from pointsman.reports.drift import Drift, drift
from pointsman.reports.good_enough import LEVEL, LOOKS, good_enough
from pointsman.reports.guidance_report import guidance_report
from pointsman.reports.projects import ProjectReport, clients_of, uses
from pointsman.reports.quality import Curve, Observed, Point, observed, read_curve, router_quality
from pointsman.stores.ledger import DecisionFilter, Record
from pointsman.tiers import LearnedRouter
from pointsman.tiers.projects import ProjectPolicy

__all__ = ["quality"]

#: Newest decisions that are read whole, and labelled ones whose summaries are.
_LOOKED_AT: Final = 5_000
_LABELLED: Final = 10_000
#: Projects that are listed, those with the most outcomes first.
_SHOWN: Final = 50


def quality(visit: Visit) -> Page:
    """Show how good the answers are, as far as anything says so."""
    view = visit.view
    seen = observed(search(view, DecisionFilter(labelled=True), None, _LABELLED).rows)
    newest = newest_records(view, _LOOKED_AT)
    guidance = guidance_report(newest)
    router = _router(view)
    shift = _drift(newest, router)
    claim = router_quality(router) if router else None
    curve, curve_error = _curve(view)
    policy = _project_policy(view)
    projects = _projects(policy, newest) if policy else None
    verdict = good_enough(newest, view.config.models)
    context = {
        "observed": seen,
        "verdict": verdict,
        "looks": LOOKS,
        "level": LEVEL,
        "chart": _chart(seen),
        "claim": claim,
        "curve": curve,
        "curve_error": curve_error,
        "curve_chart": curve_chart(curve) if curve and curve.points else None,
        "drift": shift,
        "guidance": guidance,
        "projects": projects,
        "mode": policy.mode if policy else "",
        "looked_at": _LOOKED_AT,
    }
    data = {
        "good_enough": verdict,
        "observed": seen,
        "learned_router": claim,
        "curve": curve,
        "drift": shift.to_json() if shift else None,
        "guidance": guidance.to_json(),
        "projects": {"mode": policy.mode, **projects.to_json()} if policy and projects else None,
    }
    return Page("quality.html", context, data, seen.table())


def _project_policy(view: GatewayView) -> ProjectPolicy | None:
    return view.engine.policy.projects


def _projects(policy: ProjectPolicy, newest: Sequence[Record]) -> ProjectReport:
    return ProjectReport(policy.projects, clients_of(newest), uses(newest), _SHOWN)


def _router(view: GatewayView) -> LearnedRouter | None:
    policy = view.engine.policy.learned_router
    return policy.learned_router if policy else None


def _curve(view: GatewayView) -> tuple[Curve | None, PointsmanError | None]:
    """Return the configured curve, or why it cannot be read."""
    file = view.config.console.curve
    if file is None:
        return None, None
    try:
        return read_curve(file), None
    except PointsmanError as error:
        return None, error


def _drift(newest: Sequence[Record], router: LearnedRouter | None) -> Drift | None:
    return drift(newest, router) if router else None


def _chart(seen: Observed) -> Chart | None:
    """Draw the models and the working point where their costs are known."""
    priced = [point for point in (seen.point, *seen.models) if point and point.cost is not None]
    return points_chart([_placed(point) for point in priced]) if len(priced) > 1 else None


def _placed(point: Point) -> tuple[str, float, float, float, float]:
    return point.name, point.cost or 0.0, point.score, point.low, point.high

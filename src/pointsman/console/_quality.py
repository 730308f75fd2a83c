"""The page Quality: what labels, the learned router's own measurements and the control group say."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final, NamedTuple

from markupsafe import Markup

from pointsman.console._filters import search
from pointsman.console._home import Kept
from pointsman.console._svg import points_chart
from pointsman.console._view import GatewayView, Page, Visit
from pointsman.errors import PointsmanError
from pointsman.learning.picture import Picture, curve_svg
from pointsman.reports.good_enough import LEVEL, LOOKS, GoodEnough
from pointsman.reports.guidance import GuidanceReport, guidance_report
from pointsman.reports.labels import good_enough
from pointsman.reports.projects import ProjectReport, seen_in, uses
from pointsman.reports.quality import (
    Curve,
    Drift,
    Observed,
    drift,
    observed,
    read_curve,
    router_quality,
)
from pointsman.stores.ledger import DecisionFilter, DecisionRow
from pointsman.tiers import LearnedRouter
from pointsman.tiers.projects import ProjectPolicy

#: Newest decisions that are read whole: each takes some 50 µs, for which requests wait.
_LOOKED_AT: Final = 2_000
#: Labelled decisions whose summaries are read; of those before the newest, so many that two models answered
#: are read whole too, because pairs of labels are few.
_LABELLED: Final = 10_000
_PAIRED: Final = 1_000
#: Projects that are listed, those with the most outcomes first.
_SHOWN: Final = 50


class _Newest(NamedTuple):
    """The reports of the newest decisions."""

    guidance: GuidanceReport
    drift: Drift | None
    projects: ProjectReport | None
    verdict: GoodEnough


def quality(visit: Visit, kept: Kept) -> Page:
    """Show how good the answers are, by all outcomes.

    Reading the newest decisions is most of the work, so their reports are cached for a while.
    """
    view = visit.view
    labelled = search(view, DecisionFilter(labelled=True), None, _LABELLED).rows
    seen = observed(labelled, view.config.models)
    router, policy = _router(view), _project_policy(view)
    newest = kept.get("newest", view.config, lambda: _newest(view, router, policy, labelled))
    claim = router_quality(router) if router else None
    curve, curve_error = configured_curve(view)
    context = {
        "observed": seen,
        "verdict": newest.verdict,
        "looks": LOOKS,
        "level": LEVEL,
        "chart": _chart(seen),
        "claim": claim,
        "curve": curve,
        "curve_error": curve_error,
        "curve_chart": _drawn(curve) if curve and curve.points else "",
        "drift": newest.drift,
        "guidance": newest.guidance,
        "projects": newest.projects,
        "mode": policy.mode if policy else "",
        "looked_at": _LOOKED_AT,
        "paired": _PAIRED,
    }
    data = {
        "good_enough": newest.verdict,
        "observed": seen,
        "learned_router": claim,
        "curve": curve,
        "drift": newest.drift.to_json() if newest.drift else None,
        "guidance": newest.guidance.to_json(),
        "projects": (
            {"mode": policy.mode, **newest.projects.to_json()} if policy and newest.projects else None
        ),
    }
    return Page("quality.html", context, data, seen.table())


def _project_policy(view: GatewayView) -> ProjectPolicy | None:
    return view.engine.policy.projects


def _newest(
    view: GatewayView,
    router: LearnedRouter | None,
    policy: ProjectPolicy | None,
    labelled: Sequence[DecisionRow],
) -> _Newest:
    records = list(view.ledger.records(limit=_LOOKED_AT, newest_first=True))[::-1]
    read = {each.decision.id for each in records}
    paired = [row.id for row in labelled if (row.trials or row.attempts > 1) and row.id not in read]
    since = min((row.at for row in labelled), default=inf)
    return _Newest(
        guidance_report(records),
        drift(records, router) if router else None,
        ProjectReport(policy.projects, seen_in(records), uses(records), _SHOWN) if policy else None,
        good_enough(
            [*view.ledger.records_of(paired[:_PAIRED], since=since).values(), *records], view.config.models
        ),
    )


def _router(view: GatewayView) -> LearnedRouter | None:
    policy = view.engine.policy.learned_router
    return policy.learned_router if policy else None


def configured_curve(view: GatewayView) -> tuple[Curve | None, PointsmanError | None]:
    """Return the configured curve, or why it cannot be read."""
    file = view.config.console.curve
    if file is None:
        return None, None
    try:
        return read_curve(file), None
    except PointsmanError as error:
        return None, error


def _drawn(curve: Curve) -> Markup:
    points, chosen = curve.points, curve.chosen
    picture = Picture(
        curve=[(each.cost, each.kept.value) for each in points],
        low=[each.kept.low for each in points],
        high=[each.kept.high for each in points],
        models=curve.models,
        chosen=(chosen.cost, chosen.kept.value) if chosen else None,
        unit="of 1,000 prompts",
    )
    return Markup(curve_svg(picture))  # noqa: S704 - numbers alone


def _chart(seen: Observed) -> Markup | None:
    """Draw the models and the working point where their costs are known."""
    points = [
        (each.name, each.cost, each.score, each.low, each.high)
        for each in (seen.point, *seen.models)
        if each and each.cost is not None
    ]
    label = "Mean label over the cost of 1,000 answers; the same is in the table below."
    return points_chart(points, label, "cost of 1,000 answers") if len(points) > 1 else None

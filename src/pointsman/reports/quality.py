"""What is known of the quality of routing: the learned router's claim, and the cost-quality curve."""

from __future__ import annotations

from pathlib import Path

import msgspec

from pointsman.decoding import UNREADABLE, why_unreadable
from pointsman.errors import PointsmanError
from pointsman.tiers import LearnedRouter

__all__ = ["Curve", "CurvePoint", "RouterQuality", "WithInterval", "read_curve", "router_quality"]


class RouterQuality(msgspec.Struct, frozen=True):
    """What held-out prompts showed of a learned router. Values are APGR, bounds 95 % intervals."""

    rows: int  # prompts it was trained on
    apgr: float
    low: float
    high: float
    against: dict[str, tuple[float, float, float]]  # ranker -> learned router minus ranker, with interval
    improves: bool
    refused: str  # why no improvement is claimed; empty where one is
    calibration: dict[str, float]  # expected calibration error: "weak", "strong"


class WithInterval(msgspec.Struct, frozen=True):
    """A value with its 95 % interval."""

    value: float
    low: float
    high: float


class CurvePoint(msgspec.Struct, frozen=True):
    """Costs of 1,000 prompts, and the share of the best model's quality that is kept."""

    cost: float
    kept: WithInterval


class Curve(msgspec.Struct, frozen=True):
    """The file of ``pointsman fit policy --curve``."""

    models: tuple[tuple[float, float], ...]  # cost and quality kept of each model alone
    points: tuple[CurvePoint, ...]
    chosen: CurvePoint | None = None  # the working point; None in a file of an earlier version


_curve = msgspec.json.Decoder(Curve).decode


def router_quality(router: LearnedRouter) -> RouterQuality:
    """Return what was shown of a learned router, and why no more is claimed."""
    claim = router.claim
    unproven = [
        f"{name} {more:+.3f} ({low:+.3f} .. {high:+.3f})"
        for name, (more, low, high) in claim.against.items()
        if low <= 0
    ]
    refused = "" if claim.improves else f"an interval reaches below zero: {'; '.join(unproven)}"
    return RouterQuality(
        rows=claim.rows,
        apgr=claim.apgr,
        low=claim.low,
        high=claim.high,
        against=claim.against,
        improves=claim.improves,
        refused=refused,
        calibration={"weak": router.weak_calibration.error, "strong": router.strong_calibration.error},
    )


def read_curve(file: Path) -> Curve:
    """Return the curve in a file.

    Raises:
        PointsmanError: it cannot be read, or is no such file.
    """
    try:
        return _curve(file.read_bytes())
    except OSError as error:
        raise PointsmanError(f"cannot read {file}: {error.strerror or error}") from error
    except UNREADABLE as error:
        hint = "pointsman fit policy --curve FILE writes one"
        raise PointsmanError(f"{file} is no cost-quality curve: {why_unreadable(error)}", hint=hint) from None

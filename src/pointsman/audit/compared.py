"""Compares runs on two models by what their logs prove, project by project."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, sqrt
from statistics import NormalDist, fmean, variance
from typing import Final, NamedTuple

__all__ = ["Comparison", "Run", "compare", "labels_needed"]

#: Share of false claims that is accepted, over all comparisons of one audit, both sides together.
RISK: Final = 0.05
#: The difference of success that labels should be able to show.
MARGIN: Final = 0.1


class Run(NamedTuple):
    """One session on one model."""

    cluster: str  # the project
    model: str
    solved: bool | None
    cost: float  # dollars
    worth: float = 0.0  # of these, paid by a subscription


class Comparison(NamedTuple):
    """What another model would have done in place of a dearer one."""

    dear: str
    cheap: str
    runs: tuple[int, int]  # with an outcome, in projects that have both
    clusters: int
    difference: float = 0.0  # success of the cheap one minus that of the dear one
    interval: tuple[float, float] = (-1.0, 1.0)
    saved: tuple[float, float] = (0.0, 0.0)  # dollars over the dear model's runs in these projects
    verdict: str = "unknown"  # "saves", "harmful", "unknown"
    missing: str = ""  # why nothing is claimed
    subscribed: float = 0.0  # share of what the dear model's runs cost that a subscription paid


def compare(runs: Iterable[Run], dear: str, cheap: str, *, tries: int = 1) -> Comparison:
    """Compare two models within projects.

    The difference is the Mantel-Haenszel difference of shares; its standard error is that of the
    hypergeometric distribution within each project (Mantel & Haenszel 1959), which also holds for projects
    with few runs. The interval is widened by the number of comparisons (Bonferroni).

    Args:
        runs: Runs of both models and of others.
        dear: The model that was used.
        cheap: The one that would have been used instead.
        tries: Comparisons of this audit.
    """
    z = NormalDist().inv_cdf(1 - RISK / tries / 2)
    clusters = _clusters(runs, dear, cheap)
    judged = {name: _judged(both) for name, both in clusters.items()}
    pairs = [(used, other) for used, other in judged.values() if used and other]
    counts = sum(len(used) for used, _ in pairs), sum(len(other) for _, other in pairs)
    found = Comparison(dear, cheap, counts, len(pairs))
    weight = sum(len(used) * len(other) / (len(used) + len(other)) for used, other in pairs)
    spread = sum(_spread(used, other) for used, other in pairs)
    if not pairs or not spread:
        return found._replace(missing="no project has runs on both models with different outcomes")
    difference = sum(_excess(used, other) for used, other in pairs) / weight
    half = z * sqrt(spread) / weight
    low, high = max(-1.0, difference - half), min(1.0, difference + half)
    found = found._replace(difference=difference, interval=(low, high))
    if high < 0:
        return found._replace(verdict="harmful", missing=f"{cheap} solves fewer of them")
    if low <= 0:
        return found._replace(missing="the outcomes allow for a loss as well as for a gain")
    saved = _saved(clusters, z)
    if saved[0] <= 0:
        return found._replace(missing="its runs do not surely cost less")
    return found._replace(verdict="saves", saved=saved, subscribed=_subscribed(clusters))


_Both = tuple[list[Run], list[Run]]


def _clusters(runs: Iterable[Run], dear: str, cheap: str) -> Mapping[str, _Both]:
    found: dict[str, _Both] = {}
    for run in runs:
        if run.model in (dear, cheap):
            found.setdefault(run.cluster, ([], []))[run.model == cheap].append(run)
    return found


def _judged(both: _Both) -> tuple[list[bool], list[bool]]:
    used, other = ([run.solved for run in side if run.solved is not None] for side in both)
    return used, other


def _excess(used: Sequence[bool], other: Sequence[bool]) -> float:
    """Solved runs of the other model, over the number expected from the project's share."""
    share = (sum(used) + sum(other)) / (len(used) + len(other))
    return sum(other) - len(other) * share


def _spread(used: Sequence[bool], other: Sequence[bool]) -> float:
    total, solved = len(used) + len(other), sum(used) + sum(other)
    return len(used) * len(other) * solved * (total - solved) / (total**2 * (total - 1))


def _saved(clusters: Mapping[str, _Both], z: float) -> tuple[float, float]:
    """Dollars over the dear model's runs: mean costs by project; projects with one run have no spread."""
    saved = spread = 0.0
    for used, other in clusters.values():
        if len(used) < 2 or len(other) < 2:
            continue
        costs, others = [run.cost for run in used], [run.cost for run in other]
        saved += len(used) * (fmean(costs) - fmean(others))
        spread += len(used) ** 2 * (variance(costs) / len(used) + variance(others) / len(other))
    half = z * sqrt(spread)
    return saved - half, saved + half


def _subscribed(clusters: Mapping[str, _Both]) -> float:
    dear = [run for used, _ in clusters.values() for run in used]
    cost = sum(run.cost for run in dear)
    return sum(run.worth for run in dear) / cost if cost else 0.0


def labels_needed(runs: Sequence[Run], dear: str, cheap: str, *, tries: int = 1) -> dict[str, int]:
    """Return how many more outcomes of each model would show a difference of ten points.

    Both models need the same number; outcomes that the log proves count. The share of success is that of the
    log, and one half if it has fewer than ten outcomes.
    """
    z = NormalDist().inv_cdf(1 - RISK / tries / 2)
    own = {name: [run.solved for run in runs if run.model == name] for name in (dear, cheap)}
    known = {name: [each for each in side if each is not None] for name, side in own.items()}
    both = known[dear] + known[cheap]
    share = sum(both) / len(both) if len(both) >= 10 else 0.5
    each = ceil(2 * max(share * (1 - share), 0.05) * (z / MARGIN) ** 2)
    return {name: max(0, each - len(side)) for name, side in known.items()}

"""Calibrating the selection of capabilities on labelled tasks, and measuring it honestly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from pointsman.capabilities import Calibration, CapabilityRegistry, LocalScorer, SelectionPolicy
from pointsman.capabilities.calibration import Observation, fit, observe
from pointsman.errors import ConfigError
from pointsman.jsonl import decoded
from pointsman.vocabulary import Encoder

__all__ = [
    "CalibrationReport",
    "FittedCalibration",
    "LabelledTask",
    "fit_capabilities",
    "read_tasks",
    "report_selection",
]

#: Parts the tasks are divided into; each is measured with a calibration fitted on the others.
FOLDS: Final = 5


class LabelledTask(msgspec.Struct, frozen=True):
    """A task and the capabilities it needs; none is a legal answer."""

    task: str
    capabilities: tuple[str, ...] = ()


class CalibrationReport(msgspec.Struct, frozen=True):
    """Results of a calibration on held-out tasks. Shares are 0 to 1."""

    tasks: int
    exact: float | None  # tasks whose selection is exactly the needed capabilities
    recall: float | None  # needed capabilities that are selected
    rejected: float | None  # tasks that need nothing and get nothing; None when there are none
    error: float | None  # expected calibration error of the selected capabilities' probabilities


class FittedCalibration(msgspec.Struct, frozen=True):
    """A calibration, and both reports: of the guides' own calibration and of this one."""

    calibration: Calibration
    before: CalibrationReport
    after: CalibrationReport


def read_tasks(lines: Iterable[tuple[int, bytes]], place: str) -> list[LabelledTask]:
    """Read JSON lines ``{"task", "capabilities": [name, …]}``.

    Raises:
        ConfigError: a line has another shape; the message names file and line.
    """
    decode = msgspec.json.Decoder(LabelledTask).decode
    return [row for _, row in decoded(lines, decode, place)]


def fit_capabilities(
    registry: CapabilityRegistry,
    tasks: Sequence[LabelledTask],
    *,
    encoder: Encoder | None = None,
    threshold: float | None = None,
) -> FittedCalibration:
    """Fit a calibration to tasks that people labelled, starting from the guides' own.

    Args:
        registry: the capabilities.
        tasks: labelled; ones that need nothing teach what to reject.
        encoder: the one selection will use.
        threshold: probability from which a capability counts as selected; default: the policy's.

    Raises:
        ConfigError: there are no tasks, or one names a capability that is not registered.
    """
    if not tasks:
        raise ConfigError("there is nothing to fit to", hint='give tasks: {"task": …, "capabilities": […]}')
    names = [each.name for each in registry.get_all_capabilities()]
    _check(tasks, names)
    scorer = LocalScorer(registry, encoder)
    scores = [scorer.index.score(each.task) for each in tasks]
    needs = [frozenset(names.index(name) for name in each.capabilities) for each in tasks]
    limit = SelectionPolicy().threshold if threshold is None else threshold
    own = scorer.calibration
    before = [own.probabilities(each, names) for each in scores]
    return FittedCalibration(
        calibration=_fit(scores, needs, own, names, registry.version),
        before=report_selection(before, needs, limit),
        after=report_selection(_cross_fitted(scores, needs, own, names), needs, limit),
    )


Scores = Sequence[Sequence[float]]
Needs = Sequence[frozenset[int]]


def _check(tasks: Sequence[LabelledTask], names: Sequence[str]) -> None:
    unknown = sorted({name for each in tasks for name in each.capabilities} - set(names))
    if unknown:
        raise ConfigError(f"not registered: {', '.join(unknown)}", hint="labels are capability names")


def _fit(scores: Scores, needs: Needs, start: Calibration, names: Sequence[str], version: str) -> Calibration:
    seen: list[Observation] = []
    for line, needed in zip(scores, needs, strict=True):
        seen += observe(line, needed)
    return fit(seen, start, names=names, registry=version)


def _cross_fitted(
    scores: Scores, needs: Needs, start: Calibration, names: Sequence[str]
) -> list[list[float]]:
    """Probabilities of every task under a calibration that has not seen it; folds by position."""
    found: list[list[float]] = [[]] * len(scores)
    for fold in range(FOLDS):
        others = [at for at in range(len(scores)) if at % FOLDS != fold]
        fitted = _fit([scores[at] for at in others], [needs[at] for at in others], start, names, "")
        for at in range(fold, len(scores), FOLDS):
            found[at] = fitted.probabilities(scores[at], names)
    return found


def report_selection(
    probabilities: Sequence[Sequence[float]], needs: Needs, threshold: float
) -> CalibrationReport:
    """The selection at a threshold, compared with the needs of each task (places in the registry)."""
    selected = [
        frozenset(at for at, probability in enumerate(line) if probability >= threshold)
        for line in probabilities
    ]
    pairs = list(zip(selected, needs, strict=True))
    return CalibrationReport(
        tasks=len(pairs),
        exact=_share(chosen == needed for chosen, needed in pairs),
        recall=_share(at in chosen for chosen, needed in pairs for at in needed),
        rejected=_share(not chosen for chosen, needed in pairs if not needed),
        error=_calibration_error(probabilities, needs, threshold),
    )


def _share(flags: Iterable[bool]) -> float | None:
    values = list(flags)
    return sum(values) / len(values) if values else None


def _calibration_error(
    probabilities: Sequence[Sequence[float]], needs: Needs, threshold: float
) -> float | None:
    """``metrics.calibration_error`` over what would be selected; None when that is nothing."""
    from pointsman.learning.metrics import calibration_error  # and with it numpy

    selected = [
        (probability, at in needed)
        for line, needed in zip(probabilities, needs, strict=True)
        for at, probability in enumerate(line)
        if probability >= threshold
    ]
    if not selected:
        return None
    predicted, right = zip(*selected, strict=True)
    return calibration_error(predicted, right)

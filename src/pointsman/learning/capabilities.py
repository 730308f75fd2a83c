"""Calibrating the selection of capabilities on labelled tasks, and measuring it honestly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from zlib import crc32

import msgspec

from pointsman.capabilities import Calibration, CapabilityRegistry, LocalScorer, SelectionPolicy
from pointsman.capabilities.calibration import Observation, fit, observe
from pointsman.errors import ConfigError
from pointsman.jsonl import decoded
from pointsman.vocabulary import Encoder

__all__ = [
    "CalibrationReport",
    "FittedCalibration",
    "Labelled",
    "fit_capabilities",
    "read_labelled",
    "report_selection",
]

#: Parts the tasks are divided into; each is measured with a calibration fitted on the others.
FOLDS: Final = 5

#: One task in so many is judged where lines name no split.
JUDGED: Final = 5

#: Label of a task that needs nothing, in CLINC150 and sets made like it.
NOTHING: Final = "oos"


class Labelled(msgspec.Struct, frozen=True):
    """One line: a task, under any of three names, and its needs, under any of three others."""

    task: str = ""
    text: str = ""
    query: str = ""
    capabilities: tuple[str, ...] | None = None
    label: str = ""
    tool: str | tuple[str, ...] = ()
    split: str = ""

    @property
    def words(self) -> str:
        """The task."""
        return self.task or self.text or self.query

    @property
    def needed(self) -> frozenset[str]:
        """Names of the needed capabilities; empty if none serves it."""
        if self.capabilities is not None:
            return frozenset(self.capabilities)
        tools = (self.tool,) if isinstance(self.tool, str) else self.tool
        return frozenset({self.label, *tools} - {"", NOTHING})

    @property
    def judged(self) -> bool:
        """Whether it is judged, and not an example."""
        if self.split:
            return "train" not in self.split
        return crc32(self.words.encode()) % JUDGED == 0


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


def read_labelled(lines: Iterable[tuple[int, bytes]], place: str) -> list[Labelled]:
    """Read labelled tasks.

    Raises:
        ConfigError: a line has another shape, or there is none; the message names file and line.
    """
    decode = msgspec.json.Decoder(Labelled).decode
    found = []
    for at, row in decoded(lines, decode, place):
        if not row.words:
            raise ConfigError('a line needs a "task"', place=at)
        found.append(row)
    if not found:
        raise ConfigError("there are no tasks", place=place)
    return found


def fit_capabilities(
    registry: CapabilityRegistry,
    tasks: Sequence[Labelled],
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
    scores = [scorer.index.score(each.words) for each in tasks]
    needs = [frozenset(names.index(name) for name in each.needed) for each in tasks]
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


def _check(tasks: Sequence[Labelled], names: Sequence[str]) -> None:
    unknown = sorted({name for each in tasks for name in each.needed} - set(names))
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

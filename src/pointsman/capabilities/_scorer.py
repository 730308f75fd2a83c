"""The local scorer: an index with its calibration, built once per registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pointsman.capabilities._index import Index
from pointsman.capabilities._kernel import KernelIndex
from pointsman.capabilities._lexical import LexicalIndex
from pointsman.capabilities._ordinary import CALIBRATING
from pointsman.capabilities._registry import CapabilityRegistry
from pointsman.capabilities.calibration import (
    Calibration,
    default_calibration,
    fit,
    observe_held_out,
    observe_unserved,
)
from pointsman.errors import ConfigError

if TYPE_CHECKING:
    from pointsman.vocabulary import Encoder

__all__ = ["LocalScorer"]


class LocalScorer:
    """Probabilities that a task needs each capability, from the guides alone."""

    def __init__(
        self,
        registry: CapabilityRegistry,
        encoder: Encoder | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        """Read every guide and calibrate on its examples, each scored without itself, and on ordinary tasks.

        Args:
            registry: the capabilities.
            encoder: a local embedding model, or None for n-grams alone.
            calibration: a fitted one, in place of calibrating on the examples.

        Raises:
            ConfigError: the calibration was fitted for another kind of index.
        """
        self._names = [each.name for each in registry.get_all_capabilities()]
        self.index: Index = LexicalIndex(registry) if encoder is None else KernelIndex(registry, encoder)
        if calibration is None:
            start = default_calibration(self.index.name)
            held_out = list(self.index.held_out())
            observations = [*observe_held_out(held_out), *observe_unserved(held_out, self._unserved())]
            calibration = fit(observations, start, names=self._names)
        elif calibration.index != self.index.name:
            raise ConfigError(
                f'this calibration is for the index "{calibration.index}", not "{self.index.name}"',
                hint="fit it again with the configured encoder",
            )
        self.calibration = calibration
        self.version = f"{registry.version}/{self.index.name}/{calibration.registry or 'own'}"

    def probabilities(self, task: str) -> Mapping[str, float]:
        """The calibrated probability of each capability, in registry order.

        A task of several clauses is also scored clause by clause, and the best counts: "the price of Apple
        and the news about it" is half a match for two capabilities, and each clause a whole one for its
        own.
        """
        if not self._names:
            return {}
        readings = [self._read(text) for text in (task, *clauses(task))]
        return dict(zip(self._names, map(max, zip(*readings, strict=True)), strict=True))

    def _unserved(self) -> Iterator[Sequence[float]]:
        return (self.index.score(task) for task in CALIBRATING)

    def _read(self, text: str) -> list[float]:
        return self.calibration.probabilities(self.index.score(text), self._names)


def clauses(task: str) -> list[str]:
    """The requests a task joins; nothing when it is one. At most four, so that time stays bounded.

    Split at joining words and after questions, not after statements: those are mostly context. On MetaTool's
    two-tool queries this finds exactly the two among 199 several times as often, at a cost of at most a point
    where one is right (docs/decisions/0052).
    """
    for mark in _JOINTS:
        task = task.replace(mark, "\n")
    parts = [part for part in task.split("\n") if len(part.split()) >= _CLAUSE_WORDS]
    return parts[:_MAX_CLAUSES] if len(parts) > 1 else []


_JOINTS: Final = ("? ", "; ", ", and ", " and also ", " and ", " also ", " as well as ", " then ", ", plus ")
_CLAUSE_WORDS: Final = 3  # "bread and butter" is one request
_MAX_CLAUSES: Final = 4

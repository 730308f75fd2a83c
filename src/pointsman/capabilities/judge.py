"""The local judgement: an index and its calibration, made once per registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pointsman.capabilities.calibration import Calibration, default_calibration, fit, observe_held_out
from pointsman.capabilities.index import Index
from pointsman.capabilities.kernel import KernelIndex
from pointsman.capabilities.lexical import LexicalIndex
from pointsman.capabilities.registry import CapabilityRegistry
from pointsman.errors import ConfigError

if TYPE_CHECKING:
    from pointsman.types import Encoder

__all__ = ["LocalJudge"]


class LocalJudge:
    """Probabilities that a task needs each capability, from the guides alone."""

    def __init__(
        self,
        registry: CapabilityRegistry,
        encoder: Encoder | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        """Read every guide and calibrate on its examples, each scored without itself.

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
            calibration = fit(observe_held_out(self.index.held_out()), start, names=self._names)
        elif calibration.index != self.index.name:
            raise ConfigError(
                f'this calibration is for the index "{calibration.index}", not "{self.index.name}"',
                hint="fit it again with the encoder in use",
            )
        self.calibration = calibration
        self.version = f"{registry.version}/{self.index.name}/{calibration.registry or 'own'}"

    def probabilities(self, task: str) -> Mapping[str, float]:
        """The calibrated probability of each capability, in registry order."""
        if not self._names:
            return {}
        scores = self.calibration.probabilities(self.index.score(task), self._names)
        return dict(zip(self._names, scores, strict=True))

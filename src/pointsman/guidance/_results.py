"""What a classifier answers: yes, no, or that it cannot tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pointsman.vocabulary import ModelQuery

__all__ = ["ClassificationResult"]


class ClassificationResult(msgspec.Struct, frozen=True):
    """Whether guidance applies, how sure that is, and why.

    "No" and "cannot tell" are different answers: the opposite of a classifier that timed out is not yes.

    Raises:
        ValueError: ``confidence`` is not within 0 and 1.
    """

    relevant: bool
    confidence: float = 0.0  # 0 to 1
    reason: str | None = None
    metadata: Mapping[str, Any] = {}
    abstained: bool = False
    query: ModelQuery | None = None  # an abstention that a model's answer to this would end

    def __post_init__(self) -> None:
        if not 0.0 <= self.confidence <= 1.0:
            raise ValueError(f"confidence must be within 0 and 1, not {self.confidence}")

    @classmethod
    def yes(
        cls, confidence: float = 1.0, reason: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> ClassificationResult:
        """Guidance applies."""
        return cls(relevant=True, confidence=confidence, reason=reason, metadata=metadata or {})

    @classmethod
    def maybe(
        cls, confidence: float = 0.5, reason: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> ClassificationResult:
        """Guidance applies if the threshold allows so low a confidence."""
        return cls(relevant=True, confidence=confidence, reason=reason, metadata=metadata or {})

    @classmethod
    def no(cls) -> ClassificationResult:
        """Guidance does not apply."""
        return _NO

    @classmethod
    def abstain(cls, reason: str, *, query: ModelQuery | None = None) -> ClassificationResult:
        """Nothing can be said: something failed, is missing, or has to be asked first."""
        return cls(relevant=False, reason=reason, abstained=True, query=query)


_NO = ClassificationResult(relevant=False)

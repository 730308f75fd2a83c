"""Interface, results and configuration of providers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Protocol

from pointsman.errors import ConfigError
from pointsman.guidance._context import ClassificationResult, GuidanceClassifier, GuidanceContext
from pointsman.guidance.cooldown import check_limits

#: Characters of one piece of guidance. Source: docs/reference/guidance.md, "Providers".
MAX_CONTENT: Final = 500
_KEY: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class GuidanceInjection:
    """One piece of guidance.

    Raises:
        ValueError: a key or content out of its limits.
    """

    key: str  # names this guidance in records
    content: str  # 1 to 500 characters
    priority: int = 100  # lower first
    category: str = "general"
    recommends: str = ""  # a tool of the agent that the text tells it to use

    def __post_init__(self) -> None:
        if not _KEY.fullmatch(self.key):
            raise ValueError(f"key must be up to 64 of a-z, 0-9, '.', '_' and '-', not {self.key[:80]!r}")
        if not 1 <= len(self.content) <= MAX_CONTENT:
            raise ValueError(f"content must have 1 to {MAX_CONTENT} characters, and has {len(self.content)}")


class GuidanceProvider(Protocol):
    """Knows when a piece of guidance applies, and its words."""

    @property
    def name(self) -> str:
        """Name shown in records."""
        ...

    @property
    def category(self) -> str:
        """Kind of guidance, for reports: "diagnostic", "loop", "consultation", "efficiency"."""
        ...

    def classify(self, context: GuidanceContext, /) -> ClassificationResult:
        """Judge one moment, where the configuration names no classifier."""
        ...

    def provide(self, context: GuidanceContext, /) -> GuidanceInjection:
        """Put the guidance into words."""
        ...


@dataclass(frozen=True, slots=True)
class GuidanceProviderConfig:
    """A provider, when it may speak, and how often.

    Raises:
        ConfigError: a limit out of its range.
    """

    provider: GuidanceProvider
    classifier: GuidanceClassifier | None = None  # None: the provider's own judgement
    max_per_turn: int = 3
    min_confidence: float = 0.5
    cooldown_turns: int = 0  # turns skipped after firing
    max_fires_per_session: int | None = None

    def __post_init__(self) -> None:
        check_limits(self.min_confidence, self.cooldown_turns, self.max_fires_per_session)
        if self.max_per_turn < 1:
            raise ConfigError(f"max_per_turn must be at least 1, not {self.max_per_turn}")

    @property
    def judge(self) -> GuidanceClassifier:
        """Whoever judges the moment: the configured classifier, or the provider."""
        return self.classifier or self.provider

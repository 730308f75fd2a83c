"""Every limit of a run. Defaults: docs/explanation/routing.md, "Why it ends"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

__all__ = ["DEFAULT_LIMITS", "NODE_POLICIES", "Limits", "RetryPolicy"]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how patiently one node is tried again.

    The delay before retry ``n`` (from 0) is ``delay_seconds * backoff_factor ** n``. Source:
    docs/sources/classification-and-routing.md, "Error handling and retry".
    """

    max_retries: int = 3
    delay_seconds: float = 0.5
    backoff_factor: float = 1.5

    def __post_init__(self) -> None:
        """Refuse negative counts and delays, and factors that shrink the delay.

        Raises:
            ValueError: a value is out of range.
        """
        if self.max_retries < 0 or self.delay_seconds < 0 or self.backoff_factor < 1:
            raise ValueError("a retry policy needs max_retries >= 0, delay_seconds >= 0, backoff_factor >= 1")

    def delay(self, retry_count: int) -> float:
        """Seconds to wait before the retry that follows ``retry_count`` earlier ones."""
        return float(self.delay_seconds * self.backoff_factor**retry_count)


#: Nodes that ask a model recover more slowly than a capability. Source: docs/explanation/routing.md, "Why it
#: ends".
NODE_POLICIES: Final[Mapping[str, RetryPolicy]] = MappingProxyType(
    {
        "task_extraction": RetryPolicy(3, 1.0, 1.5),
        "classifier": RetryPolicy(4, 1.0, 1.8),
        "orchestrator": RetryPolicy(4, 2.0, 2.0),
    }
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one run. Every one is read by ``decide``; a run can exceed none."""

    max_reclassifications: int = 1
    max_planning_attempts: int = 2  # plans of one run, the first included
    max_step_retries: int = 3  # of any capability step, whatever its own policy says
    max_steps: int = 100  # nodes run, retries included
    max_execution_time_seconds: float = 300.0  # of work and waiting, not of a person's approval
    default_policy: RetryPolicy = field(default_factory=RetryPolicy)
    #: By node or capability name.
    policies: Mapping[str, RetryPolicy] = field(default_factory=lambda: NODE_POLICIES)

    def __post_init__(self) -> None:
        """Refuse limits that forbid any run.

        Raises:
            ValueError: a limit is out of range.
        """
        counts = (self.max_reclassifications, self.max_step_retries)
        if min(counts) < 0 or min(self.max_planning_attempts, self.max_steps) < 1:
            raise ValueError("limits must be >= 0; max_planning_attempts and max_steps must be >= 1")
        if self.max_execution_time_seconds <= 0:
            raise ValueError("max_execution_time_seconds must be > 0")

    def policy(self, node: str) -> RetryPolicy:
        """The retry policy of a node or capability."""
        return self.policies.get(node, self.default_policy)

    def retries(self, node: str) -> int:
        """How often ``node`` may be retried: its policy, and for steps ``max_step_retries`` too."""
        own = self.policy(node).max_retries
        return own if node in NODE_POLICIES else min(own, self.max_step_retries)


DEFAULT_LIMITS: Final = Limits()

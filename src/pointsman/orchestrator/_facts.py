"""Inputs of the table's conditions and explanations: a run's state, its errors and its limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

from pointsman.config import RunSpec
from pointsman.errors import MissingExtra, PointsmanError, UpstreamTimeout, UpstreamUnavailable
from pointsman.orchestrator.state import current_step, execution_plan, step_index

# Error severities of a run, and the classification of a node's exceptions.


class ErrorSeverity(StrEnum):
    """How a run continues after a failure."""

    RETRIABLE = "retriable"  # the same node again, after a delay
    REPLANNING = "replanning"  # the steps were wrong: make another plan
    RECLASSIFICATION = "reclassification"  # the capabilities were wrong: select again
    CRITICAL = "critical"  # nothing here can help: tell the person
    FATAL = "fatal"  # going on would do harm: stop at once


@dataclass(frozen=True, slots=True)
class ErrorClassification:
    """A failure as the router sees it. ``technical_details`` is for logs and is never shown to a person."""

    severity: ErrorSeverity
    user_message: str = ""
    technical_details: str = ""

    def __post_init__(self) -> None:
        """Accept the severity's name, refuse anything else.

        Raises:
            ValueError: the severity is not one of the five.
        """
        object.__setattr__(self, "severity", ErrorSeverity(self.severity))

    def to_state(self) -> dict[str, str]:
        """The classification as plain JSON values."""
        return {
            "severity": self.severity.value,
            "user_message": self.user_message,
            "technical_details": self.technical_details,
        }

    @classmethod
    def from_state(cls, value: object) -> ErrorClassification | None:
        """Read ``to_state`` back, or a classification as it is; None when the value is neither."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping) or value.get("severity") not in set(ErrorSeverity):
            return None
        return cls(
            severity=ErrorSeverity(value["severity"]),
            user_message=str(value.get("user_message", "")),
            technical_details=str(value.get("technical_details", "")),
        )


class ClassifiedError(PointsmanError):
    """A failure with a known severity, which a capability raises on purpose."""

    def __init__(self, severity: ErrorSeverity, user_message: str, technical_details: str = "") -> None:
        super().__init__(user_message)
        self.classification = ErrorClassification(severity, user_message, technical_details)


#: Failures of the network and of a provider that passes: the same call may succeed in a moment.
_PASSING = (ConnectionError, TimeoutError, UpstreamTimeout, UpstreamUnavailable)
#: Failures that come back unchanged: wrong values, wrong types, a package that is not installed.
_LASTING = (ValueError, TypeError, LookupError, MissingExtra)


def classify_error(exc: Exception, context: Mapping[str, Any]) -> ErrorClassification:
    """Classify an exception no node has classified itself.

    Args:
        exc: the exception.
        context: where it happened; ``context["node"]`` is the node's name.
    """
    if isinstance(exc, ClassifiedError):
        return exc.classification
    node = context.get("node", "a step")
    details = f"{type(exc).__name__}: {exc}"
    if isinstance(exc, _PASSING):
        return ErrorClassification(
            ErrorSeverity.RETRIABLE, f"{node} is temporarily unavailable, retrying...", details
        )
    if isinstance(exc, _LASTING):
        return ErrorClassification(ErrorSeverity.CRITICAL, f"{node} is set up wrongly", details)
    return ErrorClassification(ErrorSeverity.CRITICAL, f"{node} failed unexpectedly", details)


#: Source: docs/sources/classification-and-routing.md, "Reclassification support".
_REQUESTED: Final = re.compile(
    r"(?:Capability (?P<node>\S{1,200}) requested reclassification: )+(?P<reason>.*)", re.DOTALL
)


@dataclass(frozen=True)
class Facts:
    """A state under its limits. Trusts nothing in the state; never changes it."""

    state: Mapping[str, Any]
    limits: Limits

    @cached_property
    def failure(self) -> tuple[str, ErrorClassification | None]:
        """The failing node and its classification, as far as they can be read."""
        info = self.state.get("control_error_info")
        if not isinstance(info, Mapping):
            return "", None
        return str(info.get("capability_name") or ""), ErrorClassification.from_state(
            info.get("classification")
        )

    @property
    def failed_node(self) -> str:
        """The node with a pending or last explained failure; empty when unknown."""
        return self.failure[0]

    @property
    def severity(self) -> ErrorSeverity | None:
        """How bad the pending failure is; None if unclassified."""
        classification = self.failure[1]
        return classification.severity if classification else None

    @property
    def last_node(self) -> str:
        """The node the router chose last; empty at the start."""
        return str(self.state.get("control_current_node") or "")

    @property
    def retry_delay(self) -> float:
        """Seconds to wait before the failed node is tried again."""
        return self.limits.policy(self.failed_node).delay(self.count("control_retry_count"))

    @property
    def steps_left(self) -> bool:
        """Another node may run."""
        return self.count("control_steps_taken_count") < self.limits.max_steps

    def time_left(self, wait: float = 0.0) -> bool:
        """The deadline has not passed, and will not while waiting ``wait`` seconds."""
        elapsed = float(self.state.get("control_elapsed_seconds") or 0.0)
        return elapsed + wait < self.limits.max_execution_time_seconds

    def may_go_on(self, wait: float = 0.0) -> bool:
        """An error does not suspend the other bounds: no retry of a killed run, none past its deadline."""
        return not self.has("control_is_killed") and self.time_left(wait) and self.steps_left

    def has(self, key: str) -> bool:
        """Whether a key of the state is set to anything."""
        return bool(self.state.get(key))

    def count(self, key: str) -> int:
        """A counter of the state."""
        return int(self.state.get(key) or 0)

    def _complaint(self) -> tuple[str, str]:
        """The node that failed or asks for another selection, and why.

        A reason that was put into the table's words before, by this router or by a capability that follows
        the source, is taken out of them: it will be put into them again.
        """
        node, classification = self.failure
        told = classification.user_message if classification else ""
        message = told or str(self.state.get("control_reclassification_reason") or "")
        node = node or self.last_node
        if match := _REQUESTED.fullmatch(message):
            node, message = match["node"], match["reason"]
        return node or "a step", message or "no reason given"

    def words(self) -> dict[str, Any]:
        """Variables of the table's explanations."""
        node, message = self._complaint()
        return {
            "node": node,
            "message": message,
            "retry": self.count("control_retry_count") + 1,
            "retries": self.limits.retries(self.failed_node),
            "reclassifications": self.limits.max_reclassifications,
            "plans": self.limits.max_planning_attempts,
            "steps": self.limits.max_steps,
            "seconds": self.limits.max_execution_time_seconds,
            "outcome": self.state.get("control_outcome", ""),
            "kill": self.state.get("control_kill_reason") or "asked to stop",
            "last": self.last_node,
            "index": step_index(self.state) + 1,
            "length": len(execution_plan(self.state) or []),
            "step": (current_step(self.state) or {}).get("capability", "nothing"),
        }


# Every limit of a run. Defaults: docs/explanation/routing.md, "Why it ends".


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


class Limits(RunSpec, frozen=True, kw_only=True):
    """Bounds of one run: those of ``[run]``, and how often each node is tried again. A run exceeds none."""

    default_policy: RetryPolicy = RetryPolicy()
    #: By node or capability name.
    policies: Mapping[str, RetryPolicy] = NODE_POLICIES

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

"""Error severities of a run, and the classification of a node's exceptions.

Source: docs/sources/classification-and-routing.md, "Error handling and retry" and "Reclassification support".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pointsman.errors import MissingExtra, PointsmanError, UpstreamTimeout, UpstreamUnavailable

__all__ = ["ClassifiedError", "ErrorClassification", "ErrorSeverity", "classify_error"]


class ErrorSeverity(StrEnum):
    """How a run goes on after a failure."""

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
    """A failure whose severity is known where it is raised: what a capability raises on purpose."""

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
        exc: what was raised.
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

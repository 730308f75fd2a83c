"""The guide of a capability (instructions and few-shot examples), and a model's answer about it.

Source of the names: docs/sources/classification-and-routing.md, "Few-shot classification examples".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

_YES = {"true", "yes"}
_NO = {"false", "no"}


@dataclass(frozen=True, slots=True)
class ClassifierExample:
    """One example of a task and whether the capability is needed for it."""

    query: str
    result: bool
    reason: str = ""

    def __post_init__(self) -> None:
        """Refuse an example without content.

        Raises:
            ValueError: the query is empty.
        """
        if not self.query.strip():
            raise ValueError("an example needs a query")


@dataclass(frozen=True, slots=True)
class TaskClassifierGuide:
    """When a capability is needed: instructions in words, and examples both ways."""

    instructions: str
    examples: Sequence[ClassifierExample] = ()

    def __post_init__(self) -> None:
        """Freeze the examples in the order given: a prompt must be the same on every call."""
        object.__setattr__(self, "examples", tuple(self.examples))

    @property
    def positives(self) -> tuple[str, ...]:
        """Queries for which the capability is needed."""
        return tuple(example.query for example in self.examples if example.result)

    @property
    def negatives(self) -> tuple[str, ...]:
        """Queries for which it is not."""
        return tuple(example.query for example in self.examples if not example.result)


@dataclass(frozen=True, slots=True)
class CapabilityMatch:
    """A model's judgement of one capability."""

    is_match: bool
    reason: str = ""

    @classmethod
    def parse(cls, text: str) -> CapabilityMatch:
        """Read a model's answer: ``{"is_match": …, "reason": …}``, alone or inside other words, or yes/no.

        Raises:
            ValueError: it is neither; an unreadable answer is no answer, not a "no".
        """
        word = text.strip().strip(".\"'`").lower()
        if word in _YES | _NO:
            return cls(word in _YES)
        start, end = text.find("{"), text.rfind("}")
        try:
            value = json.loads(text[start : end + 1])
        except ValueError:
            raise ValueError("the answer is neither JSON nor yes or no") from None
        match = value.get("is_match")
        if not isinstance(match, bool):
            raise ValueError('the answer has no true or false "is_match"')  # noqa: TRY004 - a value from outside
        return cls(match, str(value.get("reason") or ""))

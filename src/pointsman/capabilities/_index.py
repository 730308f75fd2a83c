"""Raw scores of a task against each capability's guide: two implementations of one protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pointsman.capabilities._registry import CapabilityRegistry

__all__ = ["HeldOut", "Index", "TrainingExample", "training_rows"]

#: Rows an index learns from. The kernel's solve grows with the cube: 4,000 rows take 2 s and 16 bytes each
#: per capability; more examples per capability than this allows add little (docs/decisions/0051).
MAX_ROWS: Final = 4_000


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """One text an index learns from."""

    text: str
    capability: int  # position in the registry
    positive: bool
    example: bool  # False for the instructions


@dataclass(frozen=True, slots=True)
class HeldOut:
    """An example scored as though the index had never seen it: what calibration learns from."""

    capability: int
    positive: bool
    scores: Sequence[float]


class Index(Protocol):
    """Scores a task against every capability."""

    @property
    def name(self) -> str:
        """Kind of index and its encoder; calibrations are valid for one kind only."""
        ...

    def score(self, task: str) -> Sequence[float]:
        """One raw score per capability in registry order; around 0 no relation, around 1 the same words."""
        ...

    def held_out(self) -> Iterator[HeldOut]:
        """Every example, scored without itself; nothing when there are only instructions."""
        ...


def training_rows(registry: CapabilityRegistry) -> list[TrainingExample]:
    """Instructions and examples as rows; the first examples of each capability when there are too many.

    Instructions are worth a row: with ten examples they add 2 to 4 points of top-1 on CLINC150 and MetaTool.
    """
    capabilities = registry.get_all_capabilities()
    share = max(MAX_ROWS // max(len(capabilities), 1) - 1, 1)
    rows: list[TrainingExample] = []
    for position, each in enumerate(capabilities):
        # The name is part of what a capability says about itself: "total_query_meta_search_engine".
        words = each.name.replace("_", " ").replace("-", " ")
        rows.append(
            TrainingExample(f"{words}: {each.guide.instructions}", position, positive=True, example=False)
        )
        rows += [
            TrainingExample(example.query, position, positive=example.result, example=True)
            for example in each.guide.examples[:share]
        ]
    return rows

"""Whether an episode continues: whether the call after an intervention fails or brings no progress."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pointsman.trajectory import Step

__all__ = ["streak_continues"]

#: Steps before a call among which its result may be a repetition: the window of the error rate.
RECENT: Final = 10


def streak_continues(before: Sequence[Step], step: Step) -> bool:
    """True when a call after an intervention fails again, or brings what an earlier call had brought."""
    return step.is_error or any(step.same_result(old) for old in before[-RECENT:])

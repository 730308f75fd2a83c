"""What a session remembers of guidance, in plain values."""

from __future__ import annotations

from enum import StrEnum
from hashlib import blake2b

import msgspec

from pointsman.guidance.collect import Fired
from pointsman.trajectory import TrajectoryMemory

__all__ = ["Arm", "Episode", "GuidanceMemory", "Spoken", "arm_of"]


class Arm(StrEnum):
    """Which side of the experiment a session is on."""

    TREATED = "treated"
    WITHHELD = "withheld"


class Episode(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One stretch of being stuck. Calls are counted from the start of the run."""

    started: int  # call at which trouble was first seen
    spoke: int  # call at which the ladder was last climbed
    rung: int = 0  # of the ladder, from 0
    quiet: int = 0  # calls without trouble since


class Spoken(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A firing whose next call has not been seen yet."""

    number: int
    call: int
    classifier: str


class GuidanceMemory(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything a session keeps for guidance."""

    trajectory: TrajectoryMemory = TrajectoryMemory()
    arm: Arm | None = None  # None until the session's first decision
    calls: int = 0  # calls seen at the latest decision
    firings: int = 0
    fired: dict[int, Fired] = {}  # by place of the provider in the configuration
    episode: Episode | None = None
    spoken: Spoken | None = None
    raised: bool = False  # the tier is raised until a person speaks


def arm_of(session: str, *, seed: int, control: float) -> Arm:
    """Draw a session's side: the same for the same seed and session, everywhere and always.

    A caller without a session is treated: without memory there is nothing to compare.
    """
    if not session:
        return Arm.TREATED
    drawn = blake2b(f"{seed}\0{session}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return Arm.WITHHELD if int.from_bytes(drawn) < control * 2**64 else Arm.TREATED

"""Session memory of guidance, in plain values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from pointsman.guidance.providers import GuidanceProviderConfig, may_fire
from pointsman.text.extract import draw
from pointsman.trajectory import TrajectoryMemory

__all__ = ["Arm", "Episode", "Fired", "Followed", "GuidanceMemory", "Spoken", "Thread", "arm_of"]

#: Conversations remembered under one session: an agent and subagents beside it. A thread is up to 8 kB.
MAX_THREADS: Final = 4


class Arm(StrEnum):
    """Which side of the experiment a session is on."""

    TREATED = "treated"
    CONTROL = "control"

    @classmethod
    def _missing_(cls, value: object) -> Arm | None:
        """Read a value stored before 0.1.0, in a session, a ledger or a hook's file."""
        return cls.CONTROL if value == "withheld" else None


@dataclass(frozen=True, slots=True)
class Followed:
    """Result of one intervention, given or withheld."""

    session: str
    arm: Arm
    classifier: str  # what had fired
    continued: bool  # the streak went on with the next call
    source: str = ""  # the program whose agent it was; empty: not known


class Fired(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """How often one configured provider has spoken."""

    turn: int = -1  # of the last time
    in_turn: int = 0  # times in that turn
    total: int = 0

    def again(self, turn: int) -> Fired:
        """Once more, in this turn."""
        return Fired(turn, self.in_turn + 1 if turn == self.turn else 1, self.total + 1)

    def allows(self, config: GuidanceProviderConfig, turn: int) -> bool:
        """True when the provider's limits let it speak in this turn."""
        same_turn = turn == self.turn
        if same_turn and self.in_turn >= config.max_per_turn:
            return False
        return may_fire(
            None if same_turn or not self.total else self.turn,  # a cooldown skips the turns after this one
            self.total,
            turn,
            cooldown_turns=config.cooldown_turns,
            max_fires=config.max_fires_per_session,
        )


class Episode(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One stretch of being stuck. Calls are counted from the start of the run."""

    spoke: int  # call at which the ladder was last climbed
    rung: int = 0  # of the ladder, from 0
    quiet: int = 0  # calls without trouble since


class Spoken(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A firing with no later call yet."""

    number: int
    call: int
    classifier: str


class Thread(msgspec.Struct, frozen=True, omit_defaults=True):
    """State of one conversation."""

    number: int = 0  # within the session, from 1
    trajectory: TrajectoryMemory = TrajectoryMemory()
    calls: int = 0  # calls seen at the latest decision
    firings: int = 0
    fired: dict[int, Fired] = {}  # by place of the provider in the configuration
    episode: Episode | None = None
    spoken: Spoken | None = None
    raised: bool = False  # the tier is raised until a person speaks
    hints: dict[str, Fired] = {}  # by version of the configured provider, and by reasons given once
    turns: int = 0  # of the model, as far as configured providers were asked
    messages: int = -1  # in the history when they were asked last


class GuidanceMemory(msgspec.Struct, frozen=True, omit_defaults=True):
    """All session state of guidance.

    Agents send more than one conversation under one session: subagents, requests for a title. Each has its
    own streaks, so each is remembered by how it opened.
    """

    arm: Arm | None = None  # None until the session's first decision
    threads: dict[str, Thread] = {}  # by opening, the latest last
    opened: int = 0  # conversations so far

    def thread(self, opening: str = "") -> Thread:
        """State of a conversation; empty for a new one."""
        return self.threads.get(opening) or Thread(number=self.opened + 1)

    def without_content(self) -> GuidanceMemory:
        """The same with digests in the place of errors: what may leave the process."""
        return replace(self, threads={key: _without_errors(one) for key, one in self.threads.items()})

    def having(self, opening: str, thread: Thread, arm: Arm) -> GuidanceMemory:
        """The same with one conversation brought up to date; the one unused longest makes room."""
        others = [item for item in self.threads.items() if item[0] != opening]
        threads = dict([*others[1 - MAX_THREADS :], (opening, thread)])
        return GuidanceMemory(arm, threads, max(self.opened, thread.number))


def _without_errors(thread: Thread) -> Thread:
    state = thread.trajectory.state
    steps = tuple(step.without_content() for step in state.steps)
    return replace(thread, trajectory=replace(thread.trajectory, state=replace(state, steps=steps)))


def arm_of(session: str, *, seed: int, control: float) -> Arm:
    """Draw a session's side: the same for the same seed and session, everywhere and always.

    A caller without a session is treated: without memory there is nothing to compare.
    """
    if not session or not control:
        return Arm.TREATED
    return Arm.CONTROL if draw(seed, session) < control else Arm.TREATED

"""Whether to speak at this moment, and how loudly."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from pointsman.drivers import drive, no_model
from pointsman.guidance._context import GuidanceContext
from pointsman.guidance._ladder import Firing, FollowUp, Ladder, follow_up_of, still_valid
from pointsman.guidance._policy import GuidancePolicy, Rung, default_providers
from pointsman.guidance.collect import Judgement, judge_all
from pointsman.guidance.memory import Arm, GuidanceMemory, arm_of
from pointsman.guidance.providers import GuidanceProviderConfig
from pointsman.trajectory import (
    Conversation,
    Step,
    TrajectoryAnalysis,
    TrajectoryBuilder,
    TrajectoryMemory,
    UserSpoke,
    observe,
    opening_of,
    recommended,
)
from pointsman.vocabulary import Mode, ModelQuery, ModelReply, Reason

_OFF: Final = Mode.OFF

__all__ = ["GuidanceDecision", "Guide", "Seen", "without_models"]

#: Questions one decision may ask a model; each may cost the request its timeout.
MAX_QUESTIONS: Final = 2

#: Sessions whose arm is remembered, about 0.2 kB each: to draw one costs 4 µs.
_KEPT_SESSIONS: Final = 4_096


class GuidanceDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What guidance decided for one turn."""

    mode: Mode
    arm: Arm
    firing: Firing | None = None
    injection: str = ""  # for the end of what the model sees, this time only
    raise_tier: bool = False
    stop: bool = False
    follow_up: FollowUp | None = None
    abstained: tuple[Reason, ...] = ()

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why something was said, for the decision's explanation."""
        return (Reason(f"guidance.{self.firing.classifier}", self.firing.reason),) if self.firing else ()


class Seen(NamedTuple):
    """An agent's run, brought up to date by one request or from what was recorded of it."""

    opening: str  # how the conversation began: its name in the session's memory
    trajectory: TrajectoryAnalysis
    memory: TrajectoryMemory  # what to keep of it


class Guide:
    """Guidance under one policy. Immutable: what sessions remember comes in and goes out as a value."""

    def __init__(
        self, policy: GuidancePolicy, providers: Sequence[GuidanceProviderConfig] | None = None
    ) -> None:
        self.policy: Final = policy
        self.providers: Final = tuple(default_providers(policy) if providers is None else providers)
        self.empty: Final = TrajectoryBuilder.from_config(policy.trajectory).build()
        self._ladder: Final = Ladder(policy, self.providers)
        self._quiet: Final = {arm: GuidanceDecision(mode=policy.mode, arm=arm) for arm in Arm}
        #: The decision where there is nothing to decide on, by the arm remembered and the session, whose arm
        #: is drawn where none is.
        self.idle: Final = lru_cache(_KEPT_SESSIONS)(self._idle)

    def turn(
        self, history: Conversation, memory: GuidanceMemory, *, session: str = ""
    ) -> Generator[ModelQuery, ModelReply, tuple[GuidanceDecision, GuidanceMemory]]:
        """Decide for a request, reading only what is new in its history.

        Yields one ``ModelQuery`` per model classifier, at most two.
        """
        seen = self.read(history, memory)
        return (yield from self.proceed(seen, memory, session=session))

    def read(self, history: Conversation, memory: GuidanceMemory) -> Seen | None:
        """Bring a session's run up to date with a request; None where there is nothing to decide on."""
        if self.policy.mode is _OFF:
            return None
        opening = opening_of(history)
        thread = memory.thread(opening)
        trajectory, kept = observe(history, thread.trajectory, self.empty)
        if thread.calls and not trajectory.tool_call_count:
            return None  # a request beside the conversation, such as one for its title
        return Seen(opening, trajectory, kept)

    def recall(
        self, steps: Iterable[Step], memory: GuidanceMemory, *, thread: int, person_spoke: bool
    ) -> Seen | None:
        """Bring a session's run up to date from what was recorded of a request.

        Args:
            steps: What the agent did since the request before.
            memory: What the session remembers.
            thread: Number of the conversation within the session; 0 where there was nothing to decide on.
            person_spoke: Whether a person has spoken since the last of the steps.
        """
        if self.policy.mode is _OFF or not thread:
            return None
        opening = f"#{thread}"
        before = memory.thread(opening).trajectory.state
        trajectory = TrajectoryAnalysis(before, self.empty.lens).with_events(_events(steps, person_spoke))
        return Seen(opening, trajectory, TrajectoryMemory(trajectory.state))

    def proceed(
        self, seen: Seen | None, memory: GuidanceMemory, *, session: str = ""
    ) -> Generator[ModelQuery, ModelReply, tuple[GuidanceDecision, GuidanceMemory]]:
        """Decide on what ``read`` or ``recall`` gave.

        Yields one ``ModelQuery`` per model classifier, at most two.
        """
        if seen is None:
            return self.idle(memory.arm, session), memory
        return (yield from self._decide(seen, memory, session=session))

    def _idle(self, arm: Arm | None, session: str) -> GuidanceDecision:
        policy = self.policy
        if policy.mode is _OFF:
            return self._quiet[arm or Arm.TREATED]
        return self._quiet[arm or arm_of(session, seed=policy.seed, control=policy.control)]

    def decide(
        self, trajectory: TrajectoryAnalysis, memory: GuidanceMemory, *, session: str = ""
    ) -> Generator[ModelQuery, ModelReply, tuple[GuidanceDecision, GuidanceMemory]]:
        """Decide for a moment of a run: ``turn``, for people who build the trajectory themselves."""
        seen = Seen("", trajectory, TrajectoryMemory(trajectory.state))
        return (yield from self._decide(seen, memory, session=session))

    def _decide(
        self, seen: Seen, memory: GuidanceMemory, *, session: str
    ) -> Generator[ModelQuery, ModelReply, tuple[GuidanceDecision, GuidanceMemory]]:
        policy, (opening, trajectory, kept) = self.policy, seen
        arm = memory.arm or arm_of(session, seed=policy.seed, control=policy.control)
        acts = policy.mode is Mode.ON and arm is Arm.TREATED
        thread = still_valid(memory.thread(opening), trajectory)
        thread = msgspec.structs.replace(thread, trajectory=kept)
        if trajectory.tool_call_count == thread.calls:  # nothing has happened since the last decision
            decision = GuidanceDecision(mode=policy.mode, arm=arm, raise_tier=acts and thread.raised)
            return decision, memory.having(opening, thread, arm)
        follow_up, thread = follow_up_of(thread, trajectory)
        judgement = yield from self._judged(trajectory)
        step = self._ladder.step(judgement, GuidanceContext(None, trajectory), thread, acts=acts)
        firing, thread = step.firing, step.thread
        injection = firing.text if firing and acts else ""
        if injection and step.recommends:
            told = recommended(thread.trajectory, step.recommends)
            thread = msgspec.structs.replace(thread, trajectory=told)
        decision = GuidanceDecision(
            mode=policy.mode,
            arm=arm,
            firing=firing,
            injection=injection,
            raise_tier=acts and thread.raised,
            stop=acts and firing is not None and firing.rung is Rung.STOP,
            follow_up=follow_up,
            abstained=judgement.abstained + step.abstained,
        )
        return decision, memory.having(opening, thread, arm)

    def _judged(self, trajectory: TrajectoryAnalysis) -> Generator[ModelQuery, ModelReply, Judgement]:
        """Ask all classifiers; again with each answer that one of them was missing."""
        answers: dict[ModelQuery, ModelReply] = {}
        while True:
            judgement = judge_all(self.providers, GuidanceContext(None, trajectory, answers=answers))
            open_queries = [query for query in judgement.queries if query not in answers]
            if not open_queries or len(answers) == MAX_QUESTIONS:
                return judgement
            answers[open_queries[0]] = yield open_queries[0]


def _events(steps: Iterable[Step], person_spoke: bool) -> Iterator[Step | UserSpoke]:
    for step in steps:
        if step.user_boundary:
            yield UserSpoke(at=step.at)
        yield step
    if person_spoke:
        yield UserSpoke()


def without_models(
    decision: Generator[ModelQuery, ModelReply, tuple[GuidanceDecision, GuidanceMemory]],
) -> tuple[GuidanceDecision, GuidanceMemory]:
    """Drive a decision where no model can be asked: every question is answered "unavailable"."""
    return drive(decision, no_model)

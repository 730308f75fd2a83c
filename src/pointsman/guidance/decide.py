"""Whether to speak at this moment, and how loudly."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from pointsman.guidance.collect import Judgement, judge_all
from pointsman.guidance.context import GuidanceContext
from pointsman.guidance.ladder import Firing, FollowUp, Ladder, follow_up_of, still_valid
from pointsman.guidance.memory import Arm, GuidanceMemory, arm_of
from pointsman.guidance.policy import GuidancePolicy, Rung, default_providers
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

__all__ = ["GuidanceDecision", "Guide", "without_models"]

#: Questions one decision may ask a model; each may cost the request its timeout.
MAX_QUESTIONS: Final = 2


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
    thread: int = 0  # number of the conversation within the session, from 1

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why something was said, for the decision's explanation."""
        return (Reason(f"guidance.{self.firing.classifier}", self.firing.reason),) if self.firing else ()


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

    def turn(
        self, history: Conversation, memory: GuidanceMemory, *, session: str = ""
    ) -> Generator[ModelQuery, ModelReply, tuple[GuidanceDecision, GuidanceMemory]]:
        """Decide for a request, reading only what is new in its history.

        Yields a need for each question of a model classifier, two at most.
        """
        if self.policy.mode is Mode.OFF:
            return GuidanceDecision(mode=Mode.OFF, arm=memory.arm or Arm.TREATED), memory
        opening = opening_of(history)
        thread = memory.thread(opening)
        trajectory, seen = observe(history, thread.trajectory, self.empty)
        if thread.calls and not trajectory.tool_call_count:
            # A request beside the conversation, such as one for its title.
            return GuidanceDecision(mode=self.policy.mode, arm=memory.arm or Arm.TREATED), memory
        return (yield from self._decide(trajectory, seen, memory, opening=opening, session=session))

    def quiet(self, memory: GuidanceMemory, session: str) -> GuidanceDecision | None:
        """Decide for a history without tool calls; None when one has been seen in the session.

        What was said so far is read when the first call comes: until then there is nothing to remember.
        """
        if memory.threads:
            return None
        policy = self.policy
        off = policy.mode is _OFF
        arm = memory.arm or (
            Arm.TREATED if off else arm_of(session, seed=policy.seed, control=policy.control)
        )
        return self._quiet[arm]

    def again(
        self,
        steps: Iterable[Step],
        memory: GuidanceMemory,
        *,
        session: str = "",
        thread: int = 0,
        person_spoke: bool = False,
    ) -> Generator[ModelQuery, ModelReply, tuple[GuidanceDecision, GuidanceMemory]]:
        """Decide for a recorded turn.

        Args:
            steps: What the agent did since the turn before.
            memory: What this session remembers.
            session: Its id.
            thread: Number of the conversation within the session.
            person_spoke: Whether a person has spoken since the last of the steps.
        """
        opening = f"#{thread}"
        before = memory.thread(opening).trajectory.state
        trajectory = TrajectoryAnalysis(before, self.empty.lens).with_events(_events(steps, person_spoke))
        seen = TrajectoryMemory(trajectory.state)
        return (yield from self._decide(trajectory, seen, memory, opening=opening, session=session))

    def decide(
        self, trajectory: TrajectoryAnalysis, memory: GuidanceMemory, *, session: str = ""
    ) -> Generator[ModelQuery, ModelReply, tuple[GuidanceDecision, GuidanceMemory]]:
        """Decide for a moment of a run: ``turn``, for people who build the trajectory themselves."""
        seen = TrajectoryMemory(trajectory.state)
        return (yield from self._decide(trajectory, seen, memory, opening="", session=session))

    def _decide(
        self,
        trajectory: TrajectoryAnalysis,
        seen: TrajectoryMemory,
        memory: GuidanceMemory,
        *,
        opening: str,
        session: str,
    ) -> Generator[ModelQuery, ModelReply, tuple[GuidanceDecision, GuidanceMemory]]:
        policy = self.policy
        arm = memory.arm or arm_of(session, seed=policy.seed, control=policy.control)
        acts = policy.mode is Mode.ON and arm is Arm.TREATED
        thread = still_valid(memory.thread(opening), trajectory)
        thread = msgspec.structs.replace(thread, trajectory=seen)
        if trajectory.tool_call_count == thread.calls:  # nothing has happened since the last decision
            decision = GuidanceDecision(
                mode=policy.mode, arm=arm, raise_tier=acts and thread.raised, thread=thread.number
            )
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
            thread=thread.number,
        )
        return decision, memory.having(opening, thread, arm)

    def _judged(self, trajectory: TrajectoryAnalysis) -> Generator[ModelQuery, ModelReply, Judgement]:
        """Ask all classifiers; again with each answer that one of them was missing."""
        answers: dict[ModelQuery, ModelReply] = {}
        while True:
            judgement = judge_all(self.providers, GuidanceContext(None, trajectory, answers=answers))
            open_queries = [need for need in judgement.needs if need not in answers]
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
    try:
        next(decision)
        while True:
            decision.send(ModelReply(error="no-model"))
    except StopIteration as done:
        result: tuple[GuidanceDecision, GuidanceMemory] = done.value
        return result

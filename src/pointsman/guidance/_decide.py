"""Whether to speak at this moment, and how loudly."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from pointsman.drivers import drive, no_model
from pointsman.guidance._context import ClassificationResult, DecisionPoint, GuidanceContext, judge
from pointsman.guidance._hints import Hints, Moment, Said, moment_of
from pointsman.guidance._policy import GuidancePolicy, Rung, default_providers
from pointsman.guidance.classifiers._tables import OwnClasses
from pointsman.guidance.ladder import (
    Firing,
    FollowUp,
    Ladder,
    candidates_of,
    follow_up_of,
    still_valid,
    with_answers,
)
from pointsman.guidance.memory import Arm, GuidanceMemory, Thread, arm_of
from pointsman.guidance.providers import GuidanceProviderConfig
from pointsman.trajectory import (
    Conversation,
    Event,
    Step,
    TrajectoryAnalysis,
    TrajectoryBuilder,
    TrajectoryMemory,
    UserSpoke,
    observe,
    opening_of,
    recommended,
)
from pointsman.vocabulary import OFF, ON, Mode, ModelQuery, ModelReply, Reason

_TREATED: Final = Arm.TREATED
_DONE: Final = DecisionPoint.DONE
_NO_CLASSES: Final[OwnClasses] = {}

#: Sessions whose arm is remembered, about 0.2 kB each: to draw one costs 4 µs.
_KEPT_SESSIONS: Final = 512


class GuidanceDecision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What guidance decided for one turn."""

    mode: Mode
    arm: Arm
    firing: Firing | None = None
    injection: str = ""  # for the end of what the model sees, this time only
    raise_tier: bool = False
    stop: bool = False
    follow_up: FollowUp | None = None
    abstained: tuple[Reason, ...] = ()
    hints: tuple[Firing, ...] = ()  # of configured providers, beside the ladder's
    points: tuple[DecisionPoint, ...] = ()  # at which configured providers were asked

    @property
    def firings(self) -> tuple[Firing, ...]:
        """Everything that was due: the ladder's, and those of configured providers."""
        return (self.firing, *self.hints) if self.firing else self.hints

    @property
    def trouble(self) -> Firing | None:
        """The firing for which a tier may be raised: the ladder's, or that of the gate at "done"."""
        return self.firing or next((hint for hint in self.hints if hint.provider == "done_gate"), None)

    @property
    def stop_message(self) -> str:
        """The text that ends a run; empty if the run continues."""
        if not self.stop or self.firing is None:
            return ""
        return f"Pointsman stopped this run: {self.firing.reason}. {self.firing.text}".strip()

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Reasons of a hint, for the decision's explanation."""
        return tuple(Reason(f"guidance.{firing.classifier}", firing.reason) for firing in self.firings)


class Seen(NamedTuple):
    """An agent's run, brought up to date by one request or from its record."""

    opening: str  # how the conversation began: its name in the session's memory
    thread: Thread  # what the session remembers of it
    trajectory: TrajectoryAnalysis
    memory: TrajectoryMemory  # what to keep of it
    moment: Moment | None = None  # None where no configured provider is to be asked


class Guide:
    """Guidance under one policy. Immutable: what sessions remember comes in and goes out as a value."""

    def __init__(
        self,
        policy: GuidancePolicy,
        providers: Sequence[GuidanceProviderConfig] | None = None,
        *,
        own: OwnClasses = _NO_CLASSES,
    ) -> None:
        """Build the providers.

        Args:
            policy: The policy.
            providers: Replace the default ones on the ladder.
            own: The classes that ``policy.providers`` names by entry point.

        Raises:
            ConfigError: An own class is not among them, or refuses its parameters.
        """
        self.policy: Final = policy
        self._hints: Final = Hints(policy, own) if policy.providers else None
        #: Whether configured providers speak where an agent ends its work, by what its calls did.
        self.reads_ends: Final = policy.trajectory.actions
        #: Whether a request without tool calls is to be read too: configured providers may speak there.
        self.reads_all: Final = self._hints is not None
        self.providers: Final = tuple(default_providers(policy) if providers is None else providers)
        self.empty: Final = TrajectoryBuilder.from_config(policy.trajectory).build()
        self._judges: Final = tuple(config.judge for config in self.providers)
        self._ladder: Final = Ladder(policy, self.providers)
        self._quiet: Final = {arm: GuidanceDecision(mode=policy.mode, arm=arm) for arm in Arm}
        #: The decision where there is nothing to decide on, by the arm remembered and the session, whose arm
        #: is drawn where none is.
        self.idle: Final = lru_cache(_KEPT_SESSIONS)(self._idle)

    def turn(
        self, history: Conversation, memory: GuidanceMemory, *, session: str = ""
    ) -> Generator[ModelQuery, ModelReply, tuple[GuidanceDecision, GuidanceMemory]]:
        """Decide for a request, reading only the new part of its history.

        Yields one ``ModelQuery`` per model classifier, at most two.
        """
        seen = self.read_moment(history, memory)
        return (yield from self.proceed(seen, memory, session=session))

    def read(self, history: Conversation, memory: GuidanceMemory) -> Seen | None:
        """Bring a session's run up to date with a request; None if there is nothing to decide on."""
        if self.policy.mode is OFF:
            return None
        opening = opening_of(history)
        thread = memory.thread(opening)
        trajectory, kept = observe(history, thread.trajectory, self.empty)
        if thread.calls and not trajectory.state.tool_call_count:
            return None  # a request beside the conversation, such as one for its title
        return Seen(opening, thread, trajectory, kept)

    def read_moment(
        self, history: Conversation, memory: GuidanceMemory, *, offers_tools: bool = True, prompt: str = ""
    ) -> Seen | None:
        """Read a request as ``read`` does, and what configured providers are asked about.

        Args:
            history: Of the request.
            memory: Session memory.
            offers_tools: Whether the model may call tools.
            prompt: The user's words.
        """
        seen = self.read(history, memory)
        if seen is None or self._hints is None:
            return seen
        moment = moment_of(
            history, offers_tools=offers_tools, prompt=prompt, with_answer=self._hints.reads_answers
        )
        return seen._replace(moment=moment)

    def recall(
        self,
        steps: Iterable[Step],
        memory: GuidanceMemory,
        *,
        thread: int,
        person_spoke: bool,
        moment: Moment | None = None,
    ) -> Seen | None:
        """Bring a session's run up to date from the record of a request.

        Args:
            steps: Steps of the agent since the previous request.
            memory: Session memory.
            thread: Number of the conversation within the session; 0 if there was nothing to decide on.
            person_spoke: Whether a person has spoken since the last of the steps.
            moment: Of the request, for configured providers.
        """
        if self.policy.mode is OFF or not thread:
            return None
        opening = f"#{thread}"
        found = self._run(memory.thread(opening)).with_events(_events(steps, person_spoke))
        return self._seen(found, memory, moment, opening)

    def follow(
        self,
        event: Event | None,
        memory: GuidanceMemory,
        moment: Moment | None = None,
        *,
        before: Sequence[Event] = (),
    ) -> Seen:
        """Bring a session's run up to date from an agent's reports, for callers that see no requests.

        Args:
            event: What happened; None: nothing that belongs to the run.
            memory: Session memory.
            moment: Which decision points this is, for configured providers.
            before: What happened before it and was not reported.
        """
        trajectory = self._run(memory.thread()).with_events(before)
        if moment and trajectory.state.user_spoke:  # an answer without calls ends no work
            moment = moment._replace(points=tuple(at for at in moment.points if at is not _DONE))
        return self._seen(trajectory if event is None else trajectory.with_event(event), memory, moment)

    def proceed(
        self, seen: Seen | None, memory: GuidanceMemory, *, session: str = ""
    ) -> Generator[ModelQuery, ModelReply, tuple[GuidanceDecision, GuidanceMemory]]:
        """Decide on what ``read`` or ``recall`` gave.

        Yields one ``ModelQuery`` per model classifier, at most two.
        """
        if seen is None:
            return self.idle(memory.arm, session), memory
        policy, (opening, before, trajectory, kept, moment) = self.policy, seen
        arm = memory.arm or arm_of(session, seed=policy.seed, control=policy.control)
        acts = policy.mode is ON and arm is _TREATED
        thread = replace(still_valid(before, trajectory.state), trajectory=kept)
        calls = trajectory.state.tool_call_count
        if moment and _DONE in moment.points:  # the ladder is for an agent at work
            thread = replace(thread, calls=calls)
        if calls == thread.calls:  # nothing has happened since the last decision
            decision = GuidanceDecision(mode=policy.mode, arm=arm, raise_tier=acts and thread.raised)
        else:
            decision, thread = yield from self._by_ladder(trajectory, thread, arm, acts=acts)
        if self._hints and moment:
            said = yield from self._hints.at(moment, trajectory, thread, delivered=acts)
            decision, thread = _with_hints(decision, said, moment, acts=acts), said.thread
        return decision, memory.having(opening, thread, arm)

    def _idle(self, arm: Arm | None, session: str) -> GuidanceDecision:
        policy = self.policy
        if policy.mode is OFF:
            return self._quiet[arm or Arm.TREATED]
        return self._quiet[arm or arm_of(session, seed=policy.seed, control=policy.control)]

    def decide(
        self,
        trajectory: TrajectoryAnalysis,
        memory: GuidanceMemory,
        *,
        session: str = "",
        moment: Moment | None = None,
    ) -> Generator[ModelQuery, ModelReply, tuple[GuidanceDecision, GuidanceMemory]]:
        """Decide for a moment of a run: ``turn``, for people who build the trajectory themselves.

        Without ``moment`` no configured provider is asked.
        """
        return (yield from self.proceed(self._seen(trajectory, memory, moment), memory, session=session))

    def _run(self, thread: Thread) -> TrajectoryAnalysis:
        return TrajectoryAnalysis(thread.trajectory.state, self.empty.lens)

    def _seen(
        self, trajectory: TrajectoryAnalysis, memory: GuidanceMemory, moment: Moment | None, opening: str = ""
    ) -> Seen:
        kept = TrajectoryMemory(trajectory.state)
        return Seen(opening, memory.thread(opening), trajectory, kept, moment if self._hints else None)

    def _judged(self, context: GuidanceContext) -> list[ClassificationResult]:
        return [judge(each, context) for each in self._judges]

    def _by_ladder(
        self, trajectory: TrajectoryAnalysis, thread: Thread, arm: Arm, *, acts: bool
    ) -> Generator[ModelQuery, ModelReply, tuple[GuidanceDecision, Thread]]:
        """Result of the ladder for the new calls."""
        follow_up, thread = follow_up_of(thread, trajectory)
        context = GuidanceContext(None, trajectory)
        results, _ = yield from with_answers(context, self._judged)
        candidates, abstained = candidates_of(self.providers, results)
        step = self._ladder.step(candidates, context, thread, acts=acts)
        firing, thread = step.firing, step.thread
        injection = firing.text if firing and acts else ""
        if injection and step.recommends:
            told = recommended(thread.trajectory, step.recommends)
            thread = replace(thread, trajectory=told)
        decision = GuidanceDecision(
            mode=self.policy.mode,
            arm=arm,
            firing=firing,
            injection=injection,
            raise_tier=acts and thread.raised,
            stop=acts and firing is not None and firing.rung is Rung.STOP,
            follow_up=follow_up,
            abstained=abstained + step.abstained,
        )
        return decision, thread


def recorded_moment(
    then: GuidanceDecision | None, messages: int, *, answered: bool, offered_tools: bool
) -> Moment:
    """Return the moment of a recorded decision.

    A provider's unrecorded input, such as arguments of calls, is taken from the record.

    Args:
        then: The recorded decision; without a configured provider the points follow from the request.
        messages: In the request's history.
        answered: Whether results of tools were new in it.
        offered_tools: Whether it offered tools.
    """
    if then is not None and then.points:
        return Moment(then.points, messages, recorded={firing.version: firing for firing in then.hints})
    came = DecisionPoint.POST_TOOL_RESULT if answered else DecisionPoint.PRE_RENDER
    comes = DecisionPoint.PRE_TOOL_SELECTION if offered_tools else DecisionPoint.PRE_RESPONSE
    return Moment((came, comes), messages, recorded={})


def _with_hints(decision: GuidanceDecision, said: Said, moment: Moment, *, acts: bool) -> GuidanceDecision:
    texts = [firing.text for firing in said.firings] if acts else []
    return replace(
        decision,
        injection="\n".join([*filter(None, [decision.injection]), *texts]),
        abstained=decision.abstained + said.abstained,
        hints=said.firings,
        points=moment.points,
    )


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

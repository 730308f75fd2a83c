"""One hint per stretch of being stuck, and what follows if it lasts.

A user message, or two calls without trouble, end the stretch. In observe mode and in the control group all
is decided and remembered alike, and nothing is delivered: otherwise the two sides could not be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import msgspec

from pointsman.guidance._context import NO, ClassificationResult, GuidanceContext
from pointsman.guidance._policy import GuidancePolicy, Rung
from pointsman.guidance.memory import Episode, Fired, Spoken, Thread
from pointsman.guidance.providers import (
    ConsultationPromptProvider,
    GuidanceInjection,
    GuidanceProvider,
    GuidanceProviderConfig,
)
from pointsman.trajectory import Step, TrajectoryAnalysis, TrajectoryState
from pointsman.vocabulary import ModelQuery, ModelReply, Reason

# Every provider is asked, isolated from each other and within their limits.


#: Questions one decision may ask a model; each may cost the request its timeout.
MAX_QUESTIONS: Final = 2


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A provider that applies at this moment."""

    index: int  # of its configuration
    result: ClassificationResult


def candidates_of(
    configs: Sequence[GuidanceProviderConfig], results: Sequence[ClassificationResult]
) -> tuple[list[Candidate], tuple[Reason, ...]]:
    """Return which providers apply, limits apart, and which cannot tell."""
    candidates, abstained = [], []
    for index, result in enumerate(results):
        if result is NO:
            continue
        config = configs[index]
        if result.relevant and result.confidence >= config.min_confidence:
            candidates.append(Candidate(index, result))
        elif result.abstained:
            abstained.append(Reason("guidance.abstained", result.reason or config.judge.name))
    return candidates, tuple(abstained)


def with_answers(
    context: GuidanceContext, judged: Callable[[GuidanceContext], list[ClassificationResult]]
) -> Generator[ModelQuery, ModelReply, tuple[list[ClassificationResult], GuidanceContext]]:
    """Ask all classifiers; again with each answer that one of them was missing."""
    answers: dict[ModelQuery, ModelReply] = {}
    while True:
        results = judged(context)
        queries = [each.query for each in results if each.query and each.query not in answers]
        if not queries or len(answers) == MAX_QUESTIONS:
            return results, context
        answers[queries[0]] = yield queries[0]
        context = replace(context, answers=answers)


def worded(provider: GuidanceProvider, context: GuidanceContext) -> GuidanceInjection | Reason:
    """Let a provider put its guidance into words; the reason when it cannot."""
    try:
        return provider.provide(context)
    except Exception as error:  # noqa: BLE001 - fail open: anyone's provider, never the request's problem
        return Reason("guidance.abstained", f"{provider.name} failed: {type(error).__name__}")


# Whether an episode continues: whether the call after an intervention fails or brings no progress.

#: Steps before a call among which its result may be a repetition: the window of the error rate.
RECENT: Final = 10


def streak_continues(before: Sequence[Step], step: Step) -> bool:
    """True when a call after an intervention fails again, or brings the result of an earlier call."""
    return step.is_error or any(step.same_result(old) for old in before[-RECENT:])


#: Calls without trouble that end an episode. One is not enough: five errors in ten include successes.
QUIET: Final = 2


class Firing(msgspec.Struct, frozen=True, gc=False):
    """One intervention, given or withheld."""

    number: int  # within the conversation, from 1
    step: int  # index of the latest call, from 0
    rung: Rung
    provider: str
    classifier: str
    confidence: float
    reason: str
    delivered: bool
    text: str = ""  # what was said, or would have been
    version: str = ""  # of a configured provider


class FollowUp(msgspec.Struct, frozen=True, gc=False):
    """Result of the agent's next call after an intervention."""

    number: int  # of the firing
    classifier: str
    continued: bool  # it failed again, or brought nothing new


class LadderStep(NamedTuple):
    """Effect of one decision on the ladder."""

    thread: Thread
    firing: Firing | None = None
    recommends: str = ""  # a tool that the text tells the agent to use
    abstained: tuple[Reason, ...] = ()


def still_valid(thread: Thread, state: TrajectoryState) -> Thread:
    """Drop what ended since the last decision: by a user message, or with another history."""
    calls = state.tool_call_count
    shorter = calls < thread.calls  # rewound, compacted, or another conversation
    spoke = state.attempt <= calls - thread.calls
    if not shorter and not spoke:
        return thread
    return msgspec.structs.replace(
        thread, calls=0 if shorter else thread.calls, episode=None, spoken=None, raised=False
    )


def follow_up_of(thread: Thread, trajectory: TrajectoryAnalysis) -> tuple[FollowUp | None, Thread]:
    """Record the result of the first informative call after an intervention."""
    spoken, steps = thread.spoken, trajectory.state.steps
    if spoken is None:
        return None, thread
    first_new = max(0, len(steps) - (trajectory.state.tool_call_count - spoken.call))
    for index in range(first_new, len(steps)):
        if not steps[index].is_neutral:
            continued = streak_continues(steps[:index], steps[index])
            follow_up = FollowUp(spoken.number, spoken.classifier, continued)
            return follow_up, msgspec.structs.replace(thread, spoken=None)
    return None, thread


class Ladder:
    """The rungs of one policy."""

    def __init__(self, policy: GuidancePolicy, providers: Sequence[GuidanceProviderConfig]) -> None:
        self._rungs: Final = policy.ladder
        self._patience: Final = policy.escalate_after
        self._providers: Final = providers
        self._consultation: Final = ConsultationPromptProvider(consultation_tool=policy.consultation_tool)

    def step(
        self, candidates: Sequence[Candidate], context: GuidanceContext, thread: Thread, *, acts: bool
    ) -> LadderStep:
        """Stay, climb or step down. ``acts``: the decision is also delivered."""
        calls = context.tool_call_count
        if not candidates:
            quiet = _calmer(thread.episode, calls - thread.calls)
            return LadderStep(msgspec.structs.replace(thread, calls=calls, episode=quiet))
        rung = self._next_rung(thread.episode, calls)
        if rung is None:
            troubled = thread.episode and msgspec.structs.replace(thread.episode, quiet=0)
            return LadderStep(msgspec.structs.replace(thread, calls=calls, episode=troubled))
        return self._climb(rung, candidates, context, thread, acts=acts)

    def _next_rung(self, episode: Episode | None, calls: int) -> int | None:
        if episode is None:
            return 0
        if episode.rung + 1 == len(self._rungs) or calls - episode.spoke < self._patience:
            return None
        return episode.rung + 1

    def _climb(
        self,
        number: int,
        candidates: Sequence[Candidate],
        context: GuidanceContext,
        thread: Thread,
        *,
        acts: bool,
    ) -> LadderStep:
        rung, calls, turn = self._rungs[number], context.tool_call_count, context.turn_count
        choices, abstained = self._choices(rung, candidates, context, thread)
        if not choices:  # every provider is at its limit, or failed
            return LadderStep(msgspec.structs.replace(thread, calls=calls), abstained=abstained)
        candidate, injection, provider = min(choices, key=lambda choice: choice[1].priority)
        text_less = rung in {Rung.RAISE_TIER, Rung.STOP}
        firing = Firing(
            number=thread.firings + 1,
            step=calls - 1,
            rung=rung,
            provider=provider,
            classifier=self._providers[candidate.index].judge.name,
            confidence=candidate.result.confidence,
            reason=candidate.result.reason or "",
            delivered=acts,
            text="" if text_less else injection.content,
        )
        fired = thread.fired.get(candidate.index, Fired()).again(turn)
        after = msgspec.structs.replace(
            thread,
            calls=calls,
            firings=firing.number,
            fired={**thread.fired, candidate.index: fired},
            episode=Episode(calls, number),
            spoken=Spoken(firing.number, calls, firing.classifier),
            raised=thread.raised or rung is Rung.RAISE_TIER,
        )
        return LadderStep(after, firing, "" if text_less else injection.recommends, abstained)

    def _choices(
        self, rung: Rung, candidates: Sequence[Candidate], context: GuidanceContext, thread: Thread
    ) -> tuple[list[tuple[Candidate, GuidanceInjection, str]], tuple[Reason, ...]]:
        """Candidates allowed on this rung, with their words and author; and providers that failed."""
        choices, failed = [], []
        said: dict[int, GuidanceInjection | Reason] = {}  # by provider: several classifiers may share one
        for candidate in candidates:
            config = self._providers[candidate.index]
            if not thread.fired.get(candidate.index, Fired()).allows(config, context.turn_count):
                continue
            provider: GuidanceProvider = config.provider if rung is Rung.HINT else self._consultation
            if id(provider) not in said:
                said[id(provider)] = worded(provider, context)
            injection = said[id(provider)]
            if isinstance(injection, Reason):
                failed.append(injection)
            else:
                speaker = provider.name if rung in {Rung.HINT, Rung.CONSULT} else rung.value
                choices.append((candidate, injection, speaker))
        return choices, tuple(failed)


def _calmer(episode: Episode | None, calls: int) -> Episode | None:
    """An episode after calls without trouble; None when there were enough of them."""
    if episode is None or episode.quiet + calls >= QUIET:
        return None
    return msgspec.structs.replace(episode, quiet=episode.quiet + calls)

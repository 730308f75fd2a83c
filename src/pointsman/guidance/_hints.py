"""Hints of configured providers at a moment, in addition to the ladder, each with separate limits.

In observe mode and in the control group all is decided and remembered alike, and nothing is delivered.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from pointsman.guidance._context import ClassificationResult, DecisionPoint, GuidanceContext, judge
from pointsman.guidance._policy import GuidancePolicy, Rung
from pointsman.guidance._provider_spec import Hint, build_hint, classes_of
from pointsman.guidance.classifiers._tables import OwnClasses
from pointsman.guidance.ladder import Firing, with_answers, worded
from pointsman.guidance.memory import Fired, Thread
from pointsman.guidance.providers import GuidanceInjection
from pointsman.text.extract import digest
from pointsman.trajectory import Conversation, ToolInvoked, TrajectoryAnalysis
from pointsman.vocabulary import ModelQuery, ModelReply, Reason, Role, ToolCall

# The moment of a request: which decision points it is at, and the available inputs.

#: Messages looked at from the end of a history for the latest words of the model.
_RECENT: Final = 64


class Moment(NamedTuple):
    """A moment of a conversation, for providers of one's own."""

    points: tuple[DecisionPoint, ...]
    messages: int = -1  # in the history; the same again is the same request again. -1: always a new moment
    pending: tuple[ToolCall | ToolInvoked, ...] = ()
    prompt: str = ""
    last_response: str = ""
    recorded: Mapping[str, Firing] | None = None  # of a recorded one: what spoke, by version

    @property
    def asks(self) -> bool:
        """Whether a model is about to be asked, which makes a turn."""
        return self.messages >= 0 or not _BESIDE.issuperset(self.points)


_BESIDE: Final = frozenset({DecisionPoint.PRE_TOOL_EXECUTION, DecisionPoint.PRE_RESPONSE, DecisionPoint.DONE})


_BESIDE_WORK: Final = frozenset({Role.ASSISTANT, Role.SYSTEM})


def moment_of(
    history: Conversation, *, offers_tools: bool = True, prompt: str = "", with_answer: bool = True
) -> Moment:
    """Return the moment of a request, decoding no more than the latest turn of its history.

    Args:
        history: Of the request.
        offers_tools: Whether the model may call tools; otherwise it is about to give its final answer.
        prompt: The user's words.
        with_answer: Whether to look for the latest words of the model, which may be earlier in the history.
    """
    last = len(history) - 1
    calls, answered = _latest_calls(history)
    open_calls = tuple(call for call in calls if call.id not in answered)
    points = []
    if answered:
        points.append(DecisionPoint.POST_TOOL_RESULT)
    if open_calls:
        points.append(DecisionPoint.PRE_TOOL_EXECUTION)
    if last >= 0 and history[last].role is Role.USER and not history[last].results:
        points.append(DecisionPoint.PRE_RENDER)
        if _follows_an_end(history):
            points.append(DecisionPoint.DONE)
    points.append(DecisionPoint.PRE_TOOL_SELECTION if offers_tools else DecisionPoint.PRE_RESPONSE)
    answer = _latest_answer(history) if with_answer else ""
    return Moment(tuple(points), last + 1, open_calls or calls, prompt, answer)


def _latest_calls(history: Conversation) -> tuple[tuple[ToolCall, ...], frozenset[str]]:
    """The calls at the end of a history, and the ids of those that have a result."""
    at, answered = len(history) - 1, set()
    while at >= 0 and history[at].results and not history[at].calls:
        answered |= {result.call_id for result in history[at].results}
        at -= 1
    calls: list[ToolCall] = []
    while at >= 0 and history[at].calls and not history[at].results:
        calls[:0] = history[at].calls
        at -= 1
    return tuple(calls), frozenset(answered)


def _follows_an_end(history: Conversation) -> bool:
    """Whether the latest message follows an answer that ended work with tools; false in mere dialogue."""
    at, answers = len(history) - 2, 0
    # Claude Code puts reminders of the role "system" between a result and the answer.
    while at >= 0 and history[at].role in _BESIDE_WORK and not history[at].calls:
        answers += history[at].role is Role.ASSISTANT
        at -= 1
    return answers > 0 and at >= 0 and bool(history[at].results)


def _latest_answer(history: Conversation) -> str:
    """The latest words of the model."""
    for at in range(len(history) - 1, max(-1, len(history) - 1 - _RECENT), -1):
        message = history[at]
        if message.role is Role.ASSISTANT and message.texts:
            return "\n".join(message.texts)
    return ""


#: Texts of one moment. Source: docs/sources/guidance-classifiers.md, ``max_per_turn``.
MAX_AT_ONCE: Final = 3
#: Characters of a reason's code, which counts and log lines are named by.
MAX_CODE: Final = 80
#: Reasons given once that are remembered of a provider in a conversation; after them it is silent.
MAX_REASONS: Final = 8


class Said(NamedTuple):
    """Results of the providers at a moment."""

    thread: Thread
    firings: tuple[Firing, ...] = ()
    abstained: tuple[Reason, ...] = ()


class _Ready(NamedTuple):
    hint: Hint
    result: ClassificationResult
    injection: GuidanceInjection
    priority: int


class Hints:
    """The configured providers of one policy."""

    def __init__(self, policy: GuidancePolicy, own: OwnClasses) -> None:
        """Build them.

        Raises:
            ConfigError: An own class is not among those loaded, or refuses its parameters.
        """
        self._hints: Final = tuple(
            build_hint(
                spec,
                own,
                log_tool=policy.log_tool,
                planning_tool=policy.planning_tool,
                consultation_tool=policy.consultation_tool,
            )
            for spec in policy.providers
        )
        #: Whether a class that is not ours may read the latest words of the model.
        self.reads_answers: Final = any(map(classes_of, policy.providers))

    def at(
        self, moment: Moment, trajectory: TrajectoryAnalysis, thread: Thread, *, delivered: bool
    ) -> Generator[ModelQuery, ModelReply, Said]:
        """Ask the providers of a moment; those at their limits are not asked."""
        if moment.messages >= 0 and moment.messages == thread.messages:
            return Said(thread)  # the same request again: what it said stands already
        turn = thread.turns + moment.asks
        due = [
            hint
            for hint in self._hints
            if hint.point in moment.points
            and thread.hints.get(hint.version, Fired()).allows(hint.config, turn)
        ]
        context = GuidanceContext(
            None,
            trajectory,
            prompt=moment.prompt,
            rendered_prompt=moment.prompt,
            pending_tool_calls=moment.pending,
            last_response=moment.last_response,
        )
        results, context = yield from with_answers(
            context, lambda asked: [_result(hint, asked, moment) for hint in due]
        )
        ready, abstained = _ready(due, results, context, thread.hints)
        spoke = ready[:MAX_AT_ONCE]
        firings = tuple(
            _firing(one, thread.firings + place, trajectory, delivered=delivered)
            for place, one in enumerate(spoke, 1)
        )
        fired = {
            key: thread.hints.get(key, Fired()).again(turn)
            for one in spoke
            for key in _keys(one.hint, one.result)
        }
        known = {hint.version for hint in self._hints}
        kept = {key: each for key, each in thread.hints.items() if key.partition(":")[0] in known}
        after = msgspec.structs.replace(
            thread,
            messages=moment.messages,
            turns=turn,
            firings=thread.firings + len(firings),
            hints={**kept, **fired},
        )
        return Said(after, firings, abstained)


def _keys(hint: Hint, result: ClassificationResult) -> tuple[str, ...]:
    """Key for counting a text: its provider, and the reason of a text that is given once."""
    once = result.metadata.get("once")
    return (hint.version, f"{hint.version}:{digest(str(once))}") if once else (hint.version,)


def _was_said(hint: Hint, result: ClassificationResult, fired: Mapping[str, Fired]) -> bool:
    """Whether a reason that is given once was given, or too many others of the provider were."""
    keys = _keys(hint, result)[1:]
    return any(key in fired for key in keys) or (
        bool(keys) and sum(key.startswith(f"{hint.version}:") for key in fired) >= MAX_REASONS
    )


def _result(hint: Hint, context: GuidanceContext, moment: Moment) -> ClassificationResult:
    """Result of a provider's classifier; for a recorded moment the recorded one, if it cannot be computed."""
    if moment.recorded is None or not hint.reads_content:
        return judge(hint.config.judge, context)
    then = moment.recorded.get(hint.version)
    return ClassificationResult.yes(then.confidence, then.reason) if then else ClassificationResult.no()


def _ready(
    due: Sequence[Hint],
    results: Sequence[ClassificationResult],
    context: GuidanceContext,
    fired: Mapping[str, Fired],
) -> tuple[list[_Ready], tuple[Reason, ...]]:
    """Possible hints, the most urgent first, and failures."""
    ready, abstained = [], []
    for hint, result in zip(due, results, strict=True):
        if result.abstained:
            abstained.append(Reason(f"guidance.abstained.{hint.name}"[:MAX_CODE], result.reason or hint.name))
        if not result.relevant or result.confidence < hint.config.min_confidence:
            continue
        if _was_said(hint, result, fired):
            continue
        said = worded(hint.config.provider, context)
        if isinstance(said, Reason):
            abstained.append(said)
        else:
            priority = said.priority if hint.priority is None else hint.priority
            ready.append(_Ready(hint, result, said, priority))
    return sorted(ready, key=lambda one: one.priority), tuple(abstained)


def _firing(one: _Ready, number: int, trajectory: TrajectoryAnalysis, *, delivered: bool) -> Firing:
    config = one.hint.config
    return Firing(
        number=number,
        step=trajectory.state.tool_call_count - 1,
        rung=Rung.HINT,
        provider=config.provider.name,
        classifier=one.hint.name,
        confidence=one.result.confidence,
        reason=one.result.reason or "",
        delivered=delivered,
        text=one.injection.content,
        version=one.hint.version,
    )

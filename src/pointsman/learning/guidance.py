"""Guidance replayed over recorded runs, compared with four simple rules that others use.

Reported per source and outcome, never pooled: over all sources together, precision mostly reflects how often
their runs fail anyway.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import zip_longest
from operator import attrgetter
from statistics import median
from typing import Any, Final, NamedTuple

import msgspec

from pointsman.drivers import drive, no_model
from pointsman.errors import MalformedRequest
from pointsman.guidance import (
    DecisionPoint,
    Firing,
    GuidanceMemory,
    Guide,
    Moment,
    streak_continues,
)
from pointsman.learning.intervals import wilson
from pointsman.trajectory import (
    Event,
    RecordedStep,
    Step,
    ToolInvoked,
    UserSpoke,
    events_of,
    steps_of,
)
from pointsman.vocabulary import ModelQuery, ModelReply, WireFormat
from pointsman.wire.request import JsonHistory

__all__ = ["BASELINES", "POLICY", "GuidanceRow", "Replayed", "Run", "Summary", "events_in", "replay"]

#: Name of the policy under test in a summary.
POLICY: Final = "policy"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded run: steps of hashes, or the messages of its last request. Other fields are ignored."""

    id: Any = None
    steps: list[RecordedStep] | None = None
    messages: list[Any] | None = None
    format: WireFormat = WireFormat.CHAT
    source: str = ""
    success: bool | None = None  # None: unknown


class Replayed(NamedTuple):
    """The calls of a run, and the times at which guidance would have fired."""

    steps: tuple[Step, ...]
    firings: tuple[Firing, ...]


def events_in(run: Run) -> Iterator[Event]:
    """Yield a run's events.

    Raises:
        MalformedRequest: it has neither steps nor messages, or both.
    """
    if (run.steps is None) == (run.messages is None):
        raise MalformedRequest('a run needs either "steps" or "messages"')
    if run.steps is not None:
        return steps_of(run.steps)
    return events_of(JsonHistory.of(run.format, run.messages or ()))


def replay(run: Run, guide: Guide, ask: Callable[[ModelQuery], ModelReply] = no_model) -> Replayed:
    """Decide after every turn of a run, as the gateway does at every request.

    Args:
        run: The recorded run.
        guide: What decides.
        ask: Answers the questions of model classifiers; by default no model is asked, and they abstain.

    Raises:
        MalformedRequest: the run has neither steps nor messages, or both.
    """
    events = list(events_in(run))
    trajectory, memory = guide.empty, GuidanceMemory()
    steps: list[Step] = []
    firings: list[Firing] = []
    calls: list[ToolInvoked] = []
    for event, following in zip_longest(events, events[1:]):
        trajectory = trajectory.with_event(event)
        if not isinstance(event, UserSpoke):
            steps += trajectory.recent_tool_calls(1)
            calls += [event] if isinstance(event, ToolInvoked) else []
        elif not guide.reads_all:
            continue
        if not _same_turn(event, following):
            moment = _moment(event, tuple(calls))
            turn = guide.decide(trajectory, memory, session=str(run.id), moment=moment)
            decision, memory = drive(turn, ask)
            firings += decision.firings
            calls.clear()
    return Replayed(tuple(steps), tuple(firings))


def _moment(event: Event, calls: tuple[ToolInvoked, ...]) -> Moment:
    """The next input of the gateway: a user message, or the results of a turn."""
    spoke = isinstance(event, UserSpoke)
    came = DecisionPoint.PRE_RENDER if spoke else DecisionPoint.POST_TOOL_RESULT
    return Moment((came, DecisionPoint.PRE_TOOL_SELECTION), pending=calls)


def _same_turn(event: Event, following: Event | None) -> bool:
    """True inside a parallel batch: the model is not asked before its last result is there."""
    if not isinstance(event, Step | ToolInvoked) or not isinstance(following, Step | ToolInvoked):
        return False
    return bool(event.turn) and event.turn == following.turn


_call: Final = attrgetter("tool_name", "arguments")
_call_and_result: Final = attrgetter("tool_name", "arguments", "result_digest")
_name: Final = attrgetter("tool_name")


def _cycle(key: Callable[[Step], Hashable], rounds: int, periods: Sequence[int]) -> Callable[..., bool]:
    """A rule: the latest steps are ``rounds`` rounds of a primitive cycle of one of these lengths."""

    def rule(steps: Sequence[Step]) -> bool:
        keys = [key(step) for step in steps[-rounds * max(periods) :]]
        for period in periods:
            cycle = keys[-period:]
            if period > 1 and len(set(cycle)) == 1:
                continue  # AAAA is not AA twice
            if len(keys) >= rounds * period and keys[-rounds * period :] == cycle * rounds:
                return True
        return False

    return rule


#: Baselines: loop rules of other agents, and that of docs/sources/guidance-classifiers.md, "Pattern-based
#: classifiers". None of them resets at a user message.
BASELINES: Final[dict[str, Callable[[Sequence[Step]], bool]]] = {
    "same call three times": _cycle(_call, 3, (1,)),
    "names in a cycle (seed)": _cycle(_name, 3, (2, 3, 4, 5)),
    "calls in a cycle, five rounds": _cycle(_call, 5, (1, 2, 3, 4, 5)),
    "four equal calls and results": _cycle(_call_and_result, 4, (1,)),
}


class GuidanceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One rule over the runs of one source and outcome."""

    source: str
    success: bool | None
    rule: str
    runs: int
    fired: int  # runs in which it fired
    share: float  # of runs, 0 to 1
    low: float  # 95 % score interval of the share
    high: float
    first: float | None  # median index of the call at the first firing, from 0
    followed: int  # first firings after which the agent made another call in the same attempt
    continued: int  # of these, how often that call failed again or brought nothing new
    continued_low: float  # 95 % score interval of the share of these
    continued_high: float


class _Fired(NamedTuple):
    """The first firing of one rule in one run."""

    at: int | None  # index of the call at its first firing
    continued: bool | None  # the next call of the same attempt failed again or brought nothing new


def _fired(steps: Sequence[Step], at: int | None) -> _Fired:
    following = steps[at + 1] if at is not None and at + 1 < len(steps) else None
    if at is None or following is None or following.user_boundary:
        return _Fired(at, None)
    return _Fired(at, streak_continues(steps[: at + 1], following))


class Summary:
    """Counts runs, per source, outcome and rule."""

    def __init__(self) -> None:
        self._fired: defaultdict[tuple[str, bool | None, str], list[_Fired]] = defaultdict(list)

    def add(self, run: Run, replayed: Replayed) -> None:
        """Count one run under the policy and under every baseline."""
        steps = replayed.steps
        fired = {POLICY: replayed.firings[0].step if replayed.firings else None}
        for name, rule in BASELINES.items():
            fired[name] = next((at for at in range(len(steps)) if rule(steps[: at + 1])), None)
        for name, fired_at in fired.items():
            self._fired[run.source, run.success, name].append(_fired(steps, fired_at))

    def rows(self) -> list[GuidanceRow]:
        """All counts: by source, failed runs before successful and unknown ones, the policy first."""
        rules = [POLICY, *BASELINES]
        order = {False: 0, True: 1, None: 2}
        keys = sorted(self._fired, key=lambda key: (key[0], order[key[1]], rules.index(key[2])))
        return [_row(key, self._fired[key]) for key in keys]


def _row(key: tuple[str, bool | None, str], runs: Sequence[_Fired]) -> GuidanceRow:
    source, success, rule = key
    first = [run.at for run in runs if run.at is not None]
    continued = [run.continued for run in runs if run.continued is not None]
    low, high = wilson(len(first), len(runs))
    continued_low, continued_high = wilson(sum(continued), len(continued))
    return GuidanceRow(
        source=source,
        success=success,
        rule=rule,
        runs=len(runs),
        fired=len(first),
        share=len(first) / len(runs),
        low=low,
        high=high,
        first=median(first) if first else None,
        followed=len(continued),
        continued=sum(continued),
        continued_low=continued_low,
        continued_high=continued_high,
    )

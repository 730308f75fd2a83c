"""Outcomes of turns that a log proves: tests passed or failed, programs that ran, commits, corrections.

A *turn* is one message of the person and all that follows it. Nothing is inferred from what the model says of
its own work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from pointsman.audit.session import Request, Session, ToolUse
from pointsman.remembering import grouped
from pointsman.text.extract import takes_back
from pointsman.trajectory import CallOutcome, Event, ToolInvoked, TrajectoryAnalysis, UserSpoke, outcome_of
from pointsman.trajectory.actions import acted, command_of
from pointsman.trajectory.checks import Checks, Failing
from pointsman.vocabulary import ToolResult

__all__ = [
    "STUCK",
    "Sign",
    "TurnOutcome",
    "call_outcome",
    "is_stuck",
    "signs",
    "stuck_after",
    "turn_outcomes",
]


class TurnOutcome(msgspec.Struct, frozen=True, gc=False):
    """What became of one turn."""

    first: int  # index of its first request in the session
    end: int  # index after its last
    solved: bool | None  # None: the log does not prove it
    by: str  # what proves it: "tests", "run", "stuck", "correction"; "" nothing
    edits: int = 0
    edits_after_green: int = 0  # edits after the last test run that passed; 0 where none passed
    tests_failing: bool = False  # the last test run failed
    committed: bool = False


def call_outcome(call: ToolUse) -> CallOutcome:
    """Whether a call failed, and its cause. A call without a result failed nothing."""
    return CallOutcome.OK if call.result is None else outcome_of(call.result, call.is_error)


def turn_outcomes(session: Session, stuck_at: frozenset[int] = frozenset()) -> tuple[TurnOutcome, ...]:
    """Judge every turn of the session's own agent.

    Args:
        session: The session read.
        stuck_at: Indices of the requests after which a detector found the agent stuck.
    """
    turns = list(_turns(session.requests))
    failing = Failing()
    after = {first: takes_back(session.requests[first].prompt or "") for first, _ in turns}
    return tuple(
        _judge(session.requests, first, end, failing, stuck_at, corrected=after.get(end, False))
        for first, end in turns
    )


def _turns(requests: Sequence[Request]) -> Iterator[tuple[int, int]]:
    starts = [n for n, each in enumerate(requests) if each.prompt is not None and not each.agent]
    if not requests:
        return
    if not starts or starts[0] > 0:
        starts = [0, *starts]
    yield from zip(starts, [*starts[1:], len(requests)], strict=True)


def _take(checks: Checks, call: ToolUse) -> None:
    outcome = call_outcome(call)
    if call.result is None or outcome in (CallOutcome.THROTTLED, CallOutcome.DECLINED):
        return
    action, failed = acted(call.name, call.arguments, call.result, call.is_error)
    checks.take(action, outcome is CallOutcome.OK, failed, command_of(call.name, call.arguments))


def _judge(
    requests: Sequence[Request],
    first: int,
    end: int,
    failing: Failing,
    stuck_at: frozenset[int],
    *,
    corrected: bool,
) -> TurnOutcome:
    checks = Checks(failing)
    for request in requests[first:end]:
        for call in request.calls:
            _take(checks, call)
    solved, by = checks.verdict()
    if corrected:
        solved, by = False, "correction"
    elif solved is not True and _ends_stuck(requests, first, end, stuck_at):
        solved, by = False, "stuck"
    return TurnOutcome(
        first,
        end,
        solved,
        by,
        checks.edits,
        checks.edits_after_green,
        tests_failing=checks.last_test is False and solved is not True,
        committed=checks.committed,
    )


def _ends_stuck(requests: Sequence[Request], first: int, end: int, stuck_at: frozenset[int]) -> bool:
    """Whether the last calls of a turn left the agent stuck."""
    for index in range(end - 1, first - 1, -1):
        if requests[index].calls and not requests[index].agent:
            return index in stuck_at
    return False


#: Patterns under which an agent is stuck; the others are signs of trouble that may pass.
STUCK: Final = ("doom_loop", "repeated_error", "progress_stall")


class Sign(NamedTuple):
    """An episode: a pattern was found after one request and after all that follow up to ``end``."""

    detector: str  # pattern type
    first: int  # index of the request whose calls completed the pattern
    end: int  # index after the last request that followed while the pattern held
    lasts: bool  # the pattern held after the last call of a turn


def signs(requests: Sequence[Request]) -> tuple[Sign, ...]:
    """Find episodes. Every sub-agent has a separate trajectory; indices are those of the session."""
    agents = grouped((request.agent, index) for index, request in enumerate(requests))
    found = [sign for indices in agents.values() for sign in _signs(requests, indices)]
    return tuple(sorted(found, key=lambda sign: (sign.first, sign.detector)))


def is_stuck(found: Sequence[Sign], requests: Sequence[Request]) -> bool:
    """Whether the session's own agent ended a turn stuck."""
    return any(sign.lasts and sign.detector in STUCK and not requests[sign.first].agent for sign in found)


def stuck_after(found: Sequence[Sign], requests: Sequence[Request]) -> frozenset[int]:
    """Indices of the session agent's requests that left it stuck, without the one that ended a pattern."""
    return frozenset(
        index
        for sign in found
        if sign.detector in STUCK and not requests[sign.first].agent
        for index in range(sign.first, sign.end if sign.lasts else sign.end - 1)
    )


def _signs(requests: Sequence[Request], indices: Sequence[int]) -> Iterator[Sign]:
    analysis = TrajectoryAnalysis()
    held: dict[str, int] = {}
    for turn, index in enumerate(indices, start=1):
        if held and requests[index].prompt is not None:  # the agent had given up, or was interrupted
            yield from (Sign(name, first, indices[turn - 2] + 1, lasts=True) for name, first in held.items())
            held = {}
        events = list(_events(requests[index], turn))
        if not events:
            continue
        analysis = analysis.with_events(events)
        patterns = analysis.patterns()
        for name in [name for name in held if name not in patterns]:
            yield Sign(name, held.pop(name), index + 1, lasts=False)
        for name in patterns:
            held.setdefault(name, index)
    for name, first in held.items():
        yield Sign(name, first, indices[-1] + 1, lasts=True)


def _events(request: Request, turn: int) -> Iterator[Event]:
    if request.prompt is not None and not request.agent:
        yield UserSpoke(request.at)
    batch = len(request.calls)
    for position, call in enumerate(request.calls):
        if call.result is None:
            continue
        result = ToolResult(call.id, call.result or "", call.is_error)
        yield ToolInvoked(call.name, call.arguments, result, turn, position, batch, call.at)

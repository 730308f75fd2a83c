"""Where a session went wrong: findings of the trajectory detectors, request by request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pointsman.audit.session import Request, ToolUse
from pointsman.trajectory import Event, ToolInvoked, TrajectoryAnalysis, UserSpoke
from pointsman.vocabulary import ToolResult

__all__ = ["STUCK", "Sign", "is_stuck", "signs"]

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
    agents: dict[str, list[int]] = {}
    for index, request in enumerate(requests):
        agents.setdefault(request.agent, []).append(index)
    found = [sign for indices in agents.values() for sign in _signs(requests, indices)]
    return tuple(sorted(found, key=lambda sign: (sign.first, sign.detector)))


def is_stuck(found: Sequence[Sign], requests: Sequence[Request]) -> bool:
    """Whether the session's own agent ended a turn stuck."""
    return any(sign.lasts and sign.detector in STUCK and not requests[sign.first].agent for sign in found)


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
        yield ToolInvoked(call.name, call.arguments, _result(call), turn, position, batch, call.at)


def _result(call: ToolUse) -> ToolResult:
    return ToolResult(call.id, call.result or "", call.is_error)

"""The state machine of an agent's run: the next node, within limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pointsman.capabilities import Command, Switches, parse_commands
from pointsman.orchestrator._facts import (
    DEFAULT_LIMITS,
    ClassifiedError,
    ErrorClassification,
    ErrorSeverity,
    Facts,
    Limits,
    RetryPolicy,
    classify_error,
)
from pointsman.orchestrator._plan import check_plan
from pointsman.orchestrator.state import END, AgentState, current_step, fresh_state
from pointsman.orchestrator.table import (
    CURRENT_STEP,
    GUARDS,
    PHASES,
    SAME_NODE,
    TABLE,
    TRANSITIONS,
    Event,
    Phase,
    Situation,
    apply,
)
from pointsman.vocabulary import Reason

__all__ = [
    "DEFAULT_LIMITS",
    "END",
    "TABLE",
    "TRANSITIONS",
    "AgentState",
    "ClassifiedError",
    "ErrorClassification",
    "ErrorSeverity",
    "Event",
    "Limits",
    "Move",
    "Phase",
    "RetryPolicy",
    "Situation",
    "check_plan",
    "classify_error",
    "decide",
    "event_in",
    "phase_of",
    "start_turn",
]


# The first state of a turn: what the person said, less the commands they gave.


def start_turn(
    said: str, previous: Mapping[str, Any] | None = None, configured: Switches | None = None
) -> AgentState:
    """Begin a turn: commands of this message go over those of the session, and those over the configuration.

    Args:
        said: the user's words, commands included.
        previous: the last state of the same conversation.
        configured: configured values; commands never change it.
    """
    commands, rest = parse_commands(said)
    kept = {command.name: command.on for command in commands if command.session}
    session: dict[str, bool] = {**((previous or {}).get("session_commands") or {}), **kept}
    lasting = Switches.of(tuple(Command(name, on) for name, on in session.items()))
    switches = Switches.of(commands).over(lasting).over(configured or Switches())
    state = fresh_state(rest, previous)
    state["session_commands"] = session
    state.update(switches.update())  # type: ignore[typeddict-item]  # keys of ``AgentState``
    return state


# The router: executes the machine's tables on a state. It never waits and never changes its input.
#
# Why a run ends: every node run is counted against ``max_steps``; when any bound is reached the only targets
# left are the error node and the end; and after a terminal node has finished, or the error node has failed,
# the next move is the end.


@dataclass(frozen=True, slots=True)
class Move:
    """Where to go next. ``update`` and the route are committed together, or counters are lost."""

    next: str  # a node, a capability, or END
    update: AgentState
    reason: Reason
    delay: float = 0.0  # seconds to wait first; waiting is the driver's business
    message: str = ""  # what the reason quotes at its end: words of a failing node, or of who stopped the run


def decide(state: Mapping[str, Any], limits: Limits = DEFAULT_LIMITS) -> Move:
    """Decide the next move of a run.

    Args:
        state: an ``AgentState``; never changed. Absent keys mean "not yet".
        limits: the bounds of the run.
    """
    run = Facts(state, limits)
    phase = phase_of(run)
    situation = TRANSITIONS[phase, event_in(phase, run)]
    rule = TABLE[situation]
    words = run.words()
    detail = rule.why.format(**words)
    update: AgentState = {}
    for effect in rule.effects:
        update.update(apply(effect, state, detail))
    target = _target(rule.target, run)
    if target != END:
        update["control_current_node"] = target
        update["control_steps_taken_count"] = run.count("control_steps_taken_count") + 1
    delay = run.retry_delay if situation is Situation.RETRY else 0.0
    message = str(words[rule.quotes]) if rule.quotes else ""
    return Move(target, update, Reason(f"routing.{situation}", detail), delay, message)


def phase_of(run: Facts) -> Phase:
    """The first phase with a true condition; the last one's always does."""
    return next(phase for phase, condition in PHASES if condition.holds(run))


def event_in(phase: Phase, run: Facts) -> Event:
    """Event of the first failing guard, or ``OPEN``."""
    guards = GUARDS.get(phase, ())
    return next((guard.otherwise for guard in guards if not guard.holds(run)), Event.OPEN)


def _target(target: str, run: Facts) -> str:
    if target == SAME_NODE:
        return run.failed_node
    if target == CURRENT_STEP:
        return str((current_step(run.state) or {})["capability"])
    return target

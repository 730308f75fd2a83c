"""The state machine of an agent's run: the next node, within limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pointsman.capabilities import Command, Switches, parse_commands
from pointsman.orchestrator._facts import ClassifiedError, ErrorClassification, ErrorSeverity, classify_error
from pointsman.orchestrator._phases import GUARDS, PHASES, Event, Phase
from pointsman.orchestrator._plan import check_plan
from pointsman.orchestrator.limits import DEFAULT_LIMITS, Limits, RetryPolicy
from pointsman.orchestrator.router import Move, decide
from pointsman.orchestrator.state import END, INFRASTRUCTURE, AgentState, fresh_state
from pointsman.orchestrator.table import CURRENT_STEP, SAME_NODE, TABLE, TRANSITIONS, Situation

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
    "diagram",
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


# The machine's diagram, printed from its tables; docs/explanation/routing.md holds exactly this.

_BOXES: Final = {
    END: "fin([end])",
    SAME_NODE: "same[[the node that failed]]",
    CURRENT_STEP: "step[[the step]]",
}


def diagram() -> str:
    """The machine as a Mermaid flowchart: an arrow for each target, a line on it for each way there."""
    lines = ["flowchart LR", "    router{router}"]
    for target in dict.fromkeys(rule.target for rule in TABLE.values()):
        labels = "<br>".join(_labels(target))
        lines.append(f'    router -->|"{labels}"| {_BOXES.get(target, f"{target}[{target}]")}')
    lines += [f"    {node} --> router" for node in ("step", "same", *INFRASTRUCTURE)]
    return "\n".join(lines)


def _labels(target: str) -> Iterator[str]:
    for (phase, event), situation in TRANSITIONS.items():
        if TABLE[situation].target == target:
            yield f"{situation}: {_condition(phase, event)}"


def _condition(phase: Phase, event: Event) -> str:
    """What must hold for a transition: the phase's condition, then those of its guards in brackets."""
    found = " or ".join(condition.words for each, condition in PHASES if each is phase)
    guards = GUARDS.get(phase, ())
    if event is Event.OPEN:
        asked = ", ".join(guard.words for guard in guards)
    else:
        asked = " or ".join(guard.failing for guard in guards if guard.otherwise is event)
    return f"{found} [{asked}]" if asked else found

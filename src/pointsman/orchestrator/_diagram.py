"""The machine's diagram, printed from its tables; docs/explanation/routing.md holds exactly this."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pointsman.orchestrator._phases import GUARDS, PHASES, Event, Phase
from pointsman.orchestrator.state import END, INFRASTRUCTURE
from pointsman.orchestrator.table import CURRENT_STEP, SAME_NODE, TABLE, TRANSITIONS

__all__ = ["diagram"]

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

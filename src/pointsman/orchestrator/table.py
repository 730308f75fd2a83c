"""The machine as data: ``(phase, event) -> situation``, and the action of each situation.

The router executes these tables and has no other rule; the diagram in docs/explanation/routing.md is
printed from them (``diagram.py``). Every pair that can occur is here, or the import fails.

Source: docs/sources/classification-and-routing.md, "Central router architecture". Loops that the original
never leaves (docs/notebook/0053) are rows here that end at a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from pointsman.orchestrator._effects import Effect
from pointsman.orchestrator._phases import GUARDS, PHASES, Event, Phase
from pointsman.orchestrator.state import END

__all__ = ["CURRENT_STEP", "SAME_NODE", "TABLE", "TRANSITIONS", "Rule", "Situation", "check_complete"]

#: Targets that depend on the state.
SAME_NODE: Final = "the node that failed"
CURRENT_STEP: Final = "the step's capability"


class Situation(StrEnum):
    """Result of a transition; ``routing.<situation>`` is the code of the move's reason."""

    ERROR_NODE_FAILED = "error_node_failed"
    FATAL = "fatal"
    CRITICAL = "critical"
    UNCLASSIFIED = "unclassified"
    RETRY = "retry"
    RETRIES_SPENT = "retries_spent"
    RECLASSIFY = "reclassify"
    RECLASSIFICATIONS_SPENT = "reclassifications_spent"
    REPLAN = "replan"
    REPLANS_SPENT = "replans_spent"
    FINISHED = "finished"
    KILLED = "killed"
    DEADLINE = "deadline"
    STEPS_SPENT = "steps_spent"
    DIRECT_CHAT = "direct_chat"
    NO_TASK = "no_task"
    NO_SELECTION = "no_selection"
    EMPTY_SELECTION = "empty_selection"
    NO_PLAN = "no_plan"
    PLANS_SPENT = "plans_spent"
    STALLED = "stalled"
    PLAN_USED_UP = "plan_used_up"
    STEP_REFUSED = "step_refused"
    STEP = "step"


@dataclass(frozen=True, slots=True)
class Rule:
    """One situation: where to go, what to change, and why in words (``{…}`` is filled from the state)."""

    target: str
    why: str
    effects: tuple[Effect, ...] = ()

    @property
    def quotes(self) -> str:
        """The field at the end of ``why`` with the words of a user or model; empty without one."""
        return next((field for field in ("message", "kill") if self.why.endswith(f": {{{field}}}")), "")


#: The machine.
TRANSITIONS: Final[Mapping[tuple[Phase, Event], Situation]] = MappingProxyType(
    {
        (Phase.ERROR_NODE, Event.OPEN): Situation.ERROR_NODE_FAILED,
        (Phase.UNREADABLE, Event.OPEN): Situation.UNCLASSIFIED,
        (Phase.FATAL, Event.OPEN): Situation.FATAL,
        (Phase.CRITICAL, Event.OPEN): Situation.CRITICAL,
        (Phase.RETRIABLE, Event.OPEN): Situation.RETRY,
        (Phase.RETRIABLE, Event.SPENT): Situation.RETRIES_SPENT,
        (Phase.REPLANNING, Event.OPEN): Situation.REPLAN,
        (Phase.REPLANNING, Event.SPENT): Situation.REPLANS_SPENT,
        (Phase.RECLASSIFICATION, Event.OPEN): Situation.RECLASSIFY,
        (Phase.RECLASSIFICATION, Event.SPENT): Situation.RECLASSIFICATIONS_SPENT,
        (Phase.FINISHED, Event.OPEN): Situation.FINISHED,
        (Phase.KILLED, Event.OPEN): Situation.KILLED,
        (Phase.OUT_OF_TIME, Event.OPEN): Situation.DEADLINE,
        (Phase.OUT_OF_STEPS, Event.OPEN): Situation.STEPS_SPENT,
        (Phase.CHATTING, Event.OPEN): Situation.DIRECT_CHAT,
        (Phase.WITHOUT_TASK, Event.OPEN): Situation.NO_TASK,
        (Phase.WITHOUT_TASK, Event.STALLED): Situation.STALLED,
        (Phase.WITHOUT_SELECTION, Event.OPEN): Situation.NO_SELECTION,
        (Phase.WITHOUT_SELECTION, Event.STALLED): Situation.STALLED,
        (Phase.NOTHING_SELECTED, Event.OPEN): Situation.EMPTY_SELECTION,
        (Phase.WITHOUT_PLAN, Event.OPEN): Situation.NO_PLAN,
        (Phase.WITHOUT_PLAN, Event.SPENT): Situation.PLANS_SPENT,
        (Phase.WITHOUT_PLAN, Event.STALLED): Situation.STALLED,
        (Phase.PLAN_DONE, Event.OPEN): Situation.PLAN_USED_UP,
        (Phase.UNSELECTED_STEP, Event.OPEN): Situation.STEP_REFUSED,
        (Phase.UNSELECTED_STEP, Event.SPENT): Situation.PLANS_SPENT,
        (Phase.READY, Event.OPEN): Situation.STEP,
    }
)

#: What is done in each situation.
TABLE: Final[Mapping[Situation, Rule]] = MappingProxyType(
    {
        Situation.ERROR_NODE_FAILED: Rule(END, "the error node itself failed: {message}", (Effect.KILL,)),
        Situation.FATAL: Rule(END, "{node} failed fatally: {message}", (Effect.KILL,)),
        Situation.CRITICAL: Rule("error", "{node} failed: {message}"),
        Situation.UNCLASSIFIED: Rule(
            "error", "{node} failed without a classification", (Effect.EXPLAIN_STOP,)
        ),
        Situation.RETRY: Rule(
            SAME_NODE, "{node}, retry {retry} of {retries}: {message}", (Effect.COUNT_RETRY,)
        ),
        Situation.RETRIES_SPENT: Rule("error", "{node} failed and may not be retried again: {message}"),
        Situation.RECLASSIFY: Rule(
            "classifier",
            "Capability {node} requested reclassification: {message}",
            (Effect.FORGET_ERROR, Effect.SELECT_AGAIN),
        ),
        Situation.RECLASSIFICATIONS_SPENT: Rule(
            "error",
            "{node} requested reclassification, and {reclassifications} were already done: {message}",
            (Effect.EXPLAIN_STOP,),
        ),
        Situation.REPLAN: Rule(
            "orchestrator",
            "{node} requested another plan: {message}",
            (Effect.FORGET_ERROR, Effect.KEEP_REASON, Effect.COUNT_PLAN),
        ),
        Situation.REPLANS_SPENT: Rule(
            "error",
            "{node} requested another plan, and {plans} were already made: {message}",
            (Effect.EXPLAIN_STOP,),
        ),
        Situation.FINISHED: Rule(END, "{outcome} has finished the run"),
        Situation.KILLED: Rule("error", "the run was stopped: {kill}", (Effect.EXPLAIN_STOP,)),
        Situation.DEADLINE: Rule("error", "the run exceeded its {seconds:g} seconds", (Effect.EXPLAIN_STOP,)),
        Situation.STEPS_SPENT: Rule("error", "the run exceeded its {steps} steps", (Effect.EXPLAIN_STOP,)),
        Situation.DIRECT_CHAT: Rule(
            "respond", "direct chat: no task, no capabilities", (Effect.RESET_RETRIES,)
        ),
        Situation.NO_TASK: Rule("task_extraction", "no task yet", (Effect.RESET_RETRIES,)),
        Situation.NO_SELECTION: Rule("classifier", "no capabilities selected yet", (Effect.RESET_RETRIES,)),
        Situation.EMPTY_SELECTION: Rule(
            "respond", "no capability applies to the task", (Effect.RESET_RETRIES,)
        ),
        Situation.NO_PLAN: Rule("orchestrator", "no plan yet", (Effect.RESET_RETRIES, Effect.COUNT_PLAN)),
        Situation.PLANS_SPENT: Rule(
            "error", "{plans} plans were made and none can be run", (Effect.EXPLAIN_STOP,)
        ),
        Situation.STALLED: Rule("error", "{last} ran and left nothing to go on with", (Effect.EXPLAIN_STOP,)),
        Situation.PLAN_USED_UP: Rule(
            "respond", "every step is done and none answered", (Effect.RESET_RETRIES,)
        ),
        Situation.STEP_REFUSED: Rule(
            "orchestrator",
            "step {index} calls {step}, which was not selected",
            (Effect.RESET_RETRIES, Effect.KEEP_REASON, Effect.COUNT_PLAN),
        ),
        Situation.STEP: Rule(CURRENT_STEP, "step {index} of {length}", (Effect.RESET_RETRIES,)),
    }
)


def _pairs() -> set[tuple[Phase, Event]]:
    """Every pair of a phase and an event that its guards can raise."""
    raised = {phase: {Event.OPEN, *(guard.otherwise for guard in GUARDS.get(phase, ()))} for phase in Phase}
    return {(phase, event) for phase, events in raised.items() for event in events}


def check_complete(
    transitions: Mapping[tuple[Phase, Event], Situation], rules: Mapping[Situation, Rule]
) -> None:
    """Refuse a machine in which a run could get stuck, or with a row that nothing reaches.

    Raises:
        TypeError: a pair, a phase's condition or a situation's rule is missing or superfluous; it is named.
    """
    for what, found, wanted in (
        ("transitions", set(transitions), _pairs()),
        ("conditions of phases", {phase for phase, _ in PHASES}, set(Phase)),
        ("rules of situations", set(rules), set(Situation)),
        ("situations reached", set(transitions.values()), set(Situation)),
    ):
        if found != wanted:
            raise TypeError(f"{what}: missing {sorted(wanted - found)}, superfluous {sorted(found - wanted)}")


check_complete(TRANSITIONS, TABLE)

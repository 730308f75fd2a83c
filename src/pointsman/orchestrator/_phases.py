"""Input of the router from a run: the phases, how each is recognised, and the guards of its way out.

A *phase* is derived from the state; the first whose condition holds applies. An *event* says whether the way
out of that phase is open: the first guard that does not hold raises its event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from pointsman.orchestrator._facts import ErrorSeverity, Facts
from pointsman.orchestrator._plan import ANSWERING


class Phase(StrEnum):
    """Where a run is."""

    # an error is pending
    ERROR_NODE = "error_node"
    UNREADABLE = "unreadable"
    FATAL = "fatal"
    CRITICAL = "critical"
    RETRIABLE = "retriable"
    REPLANNING = "replanning"
    RECLASSIFICATION = "reclassification"
    # the run must stop
    FINISHED = "finished"
    KILLED = "killed"
    OUT_OF_TIME = "out_of_time"
    OUT_OF_STEPS = "out_of_steps"
    # the run goes on
    CHATTING = "chatting"
    WITHOUT_TASK = "without_task"
    WITHOUT_SELECTION = "without_selection"
    NOTHING_SELECTED = "nothing_selected"
    WITHOUT_PLAN = "without_plan"
    PLAN_DONE = "plan_done"
    UNSELECTED_STEP = "unselected_step"
    READY = "ready"


class Event(StrEnum):
    """Whether the way out of a phase is open."""

    OPEN = "open"
    SPENT = "spent"  # the bound on it is used up, or the run may not go on
    STALLED = "stalled"  # the node that is needed has just run, and would be needed for ever


@dataclass(frozen=True, slots=True)
class Condition:
    """A question about a run, and its wording in the diagram."""

    words: str
    holds: Callable[[Facts], bool]


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition on the way out of a phase, its wording when it holds and when not, and the event then."""

    words: str
    failing: str
    holds: Callable[[Facts], bool]
    otherwise: Event = Event.SPENT


def _error(severity: ErrorSeverity) -> Condition:
    return Condition(
        f"{severity} error", lambda run: run.has("control_has_error") and run.severity is severity
    )


def _bypassed_reclassification(run: Facts) -> bool:
    # Selecting again would give the same set, for ever; another plan over that set may still do.
    return run.severity is ErrorSeverity.RECLASSIFICATION and run.has("control_capability_bypass")


#: Looked at in this order; the first that holds is the phase. A phase may stand twice: an error is looked at
#: before the reasons to stop, a node's own request for another selection after them.
PHASES: Final[tuple[tuple[Phase, Condition], ...]] = (
    (
        Phase.ERROR_NODE,
        Condition(
            "error of the error node",
            lambda run: run.has("control_has_error") and run.failed_node == "error",
        ),
    ),
    (
        Phase.UNREADABLE,
        Condition(
            "error without node or severity",
            lambda run: run.has("control_has_error") and (run.severity is None or not run.failed_node),
        ),
    ),
    (Phase.FATAL, _error(ErrorSeverity.FATAL)),
    (Phase.CRITICAL, _error(ErrorSeverity.CRITICAL)),
    (Phase.RETRIABLE, _error(ErrorSeverity.RETRIABLE)),
    (Phase.REPLANNING, _error(ErrorSeverity.REPLANNING)),
    (
        Phase.REPLANNING,
        Condition(
            "reclassification error with selection bypassed",
            lambda run: run.has("control_has_error") and _bypassed_reclassification(run),
        ),
    ),
    (Phase.RECLASSIFICATION, _error(ErrorSeverity.RECLASSIFICATION)),
    (Phase.FINISHED, Condition("a terminal node has run", lambda run: run.has("control_outcome"))),
    (Phase.KILLED, Condition("killed", lambda run: run.has("control_is_killed"))),
    (Phase.OUT_OF_TIME, Condition("deadline passed", lambda run: not run.time_left())),
    (Phase.OUT_OF_STEPS, Condition("all steps taken", lambda run: not run.steps_left)),
    (Phase.CHATTING, Condition("direct chat", lambda run: run.has("control_direct_chat"))),
    (Phase.WITHOUT_TASK, Condition("no task", lambda run: not run.task)),
    (
        Phase.REPLANNING,
        Condition(
            "reclassification requested with selection bypassed",
            lambda run: run.has("control_needs_reclassification") and run.has("control_capability_bypass"),
        ),
    ),
    (
        Phase.RECLASSIFICATION,
        Condition("reclassification requested", lambda run: run.has("control_needs_reclassification")),
    ),
    (Phase.WITHOUT_SELECTION, Condition("no selection", lambda run: run.active is None)),
    (Phase.NOTHING_SELECTED, Condition("nothing selected", lambda run: not run.active)),
    (Phase.WITHOUT_PLAN, Condition("no plan", lambda run: run.plan is None)),
    (Phase.PLAN_DONE, Condition("plan used up", lambda run: run.step is None)),
    (
        Phase.UNSELECTED_STEP,
        Condition(
            "step not selected",
            lambda run: (run.step or {}).get("capability") not in {*(run.active or ()), *ANSWERING},
        ),
    ),
    (Phase.READY, Condition("step selected", lambda _: True)),
)

_GOES_ON: Final = Guard("run may go on", "run may not go on", Facts.may_go_on)
_PLANS_LEFT: Final = Guard("plans left", "no plans left", lambda run: run.plans_left)


def _not_just_run(node: str) -> Guard:
    return Guard(
        f"{node} has not just run",
        f"{node} has just run",
        lambda run: run.last_node != node,
        otherwise=Event.STALLED,
    )


#: Conditions on the way out, asked in order; a phase that is not named has none.
GUARDS: Final[Mapping[Phase, tuple[Guard, ...]]] = MappingProxyType(
    {
        Phase.RETRIABLE: (
            Guard("retries left", "no retries left", lambda run: run.retries_left),
            Guard(
                "run may go on after the delay",
                "run may not go on after the delay",
                lambda run: run.may_go_on(run.retry_delay),
            ),
        ),
        Phase.REPLANNING: (_PLANS_LEFT, _GOES_ON),
        Phase.RECLASSIFICATION: (
            Guard(
                "reclassifications left",
                "no reclassifications left",
                lambda run: run.reclassifications_left,
            ),
            _GOES_ON,
        ),
        Phase.WITHOUT_TASK: (_not_just_run("task_extraction"),),
        Phase.WITHOUT_SELECTION: (_not_just_run("classifier"),),
        Phase.WITHOUT_PLAN: (_PLANS_LEFT, _not_just_run("orchestrator")),
        Phase.UNSELECTED_STEP: (_PLANS_LEFT,),
    }
)

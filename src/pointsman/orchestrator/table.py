"""The machine as data: ``(phase, event) -> situation``, and the action of each situation.

The router executes these tables and has no other rule; the diagram in docs/explanation/routing.md is
printed from them by the test that compares it. Every pair that can occur is here, or the import fails.

Source: docs/sources/classification-and-routing.md, "Central router architecture". Loops that the original
never leaves (docs/notebook/0053) are rows here that end at a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from pointsman.orchestrator._facts import ErrorClassification, ErrorSeverity, Facts
from pointsman.orchestrator._plan import ANSWERING
from pointsman.orchestrator.state import (
    END,
    AgentState,
    active_capabilities,
    current_step,
    current_task,
    execution_plan,
)

__all__ = ["CURRENT_STEP", "SAME_NODE", "TABLE", "TRANSITIONS", "Rule", "Situation", "check_complete"]


# The phases of a run, how each is recognised, and the guards of its way out.
#
# A *phase* is derived from the state; the first whose condition holds applies. An *event* says whether the
# way out of that phase is open: the first guard that does not hold raises its event.


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
            # Selecting again would give the same set, for ever; another plan over that set may still do.
            lambda run: (
                run.has("control_has_error")
                and run.severity is ErrorSeverity.RECLASSIFICATION
                and run.has("control_capability_bypass")
            ),
        ),
    ),
    (Phase.RECLASSIFICATION, _error(ErrorSeverity.RECLASSIFICATION)),
    (Phase.FINISHED, Condition("a terminal node has run", lambda run: run.has("control_outcome"))),
    (Phase.KILLED, Condition("killed", lambda run: run.has("control_is_killed"))),
    (Phase.OUT_OF_TIME, Condition("deadline passed", lambda run: not run.time_left())),
    (Phase.OUT_OF_STEPS, Condition("all steps taken", lambda run: not run.steps_left)),
    (Phase.CHATTING, Condition("direct chat", lambda run: run.has("control_direct_chat"))),
    (Phase.WITHOUT_TASK, Condition("no task", lambda run: not current_task(run.state))),
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
    (Phase.WITHOUT_SELECTION, Condition("no selection", lambda run: active_capabilities(run.state) is None)),
    (Phase.NOTHING_SELECTED, Condition("nothing selected", lambda run: not active_capabilities(run.state))),
    (Phase.WITHOUT_PLAN, Condition("no plan", lambda run: execution_plan(run.state) is None)),
    (Phase.PLAN_DONE, Condition("plan used up", lambda run: current_step(run.state) is None)),
    (
        Phase.UNSELECTED_STEP,
        Condition(
            "step not selected",
            lambda run: (
                (current_step(run.state) or {}).get("capability")
                not in {*(active_capabilities(run.state) or ()), *ANSWERING}
            ),
        ),
    ),
    (Phase.READY, Condition("step selected", lambda _: True)),
)

_GOES_ON: Final = Guard("run may go on", "run may not go on", Facts.may_go_on)
_PLANS_LEFT: Final = Guard(
    "plans left",
    "no plans left",
    lambda run: run.count("control_plans_created_count") < run.limits.max_planning_attempts,
)


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
            Guard(
                "retries left",
                "no retries left",
                lambda run: run.count("control_retry_count") < run.limits.retries(run.failed_node),
            ),
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
                lambda run: run.count("control_reclassification_count") < run.limits.max_reclassifications,
            ),
            _GOES_ON,
        ),
        Phase.WITHOUT_TASK: (_not_just_run("task_extraction"),),
        Phase.WITHOUT_SELECTION: (_not_just_run("classifier"),),
        Phase.WITHOUT_PLAN: (_PLANS_LEFT, _not_just_run("orchestrator")),
        Phase.UNSELECTED_STEP: (_PLANS_LEFT,),
    }
)


# State updates by name, so that the transition table stays data.


class Effect(StrEnum):
    """Everything a row of the table can change, other than the route."""

    COUNT_RETRY = "count retry"  # one more try; the counter outlives the error until something succeeds
    RESET_RETRIES = "reset retries"  # the last node succeeded
    FORGET_ERROR = "forget error"  # the failure is being dealt with
    SELECT_AGAIN = "select again"  # what was chosen and planned goes; why it must be chosen again stays
    COUNT_PLAN = "count plan"  # counted when asked for, so that a plan which never comes counts too
    KEEP_REASON = "keep reason"  # why the last plan did not do, for the next one's prompt
    EXPLAIN_STOP = "explain stop"  # the error node needs something to tell the person
    KILL = "kill"  # nothing may run after this; the error stays in the state, unswallowed


def apply(effect: Effect, state: Mapping[str, Any], detail: str) -> AgentState:
    """The update one effect is responsible for; ``detail`` is the move's explanation."""
    match effect:
        case Effect.COUNT_RETRY:
            return {**_no_error(), "control_retry_count": _next(state, "control_retry_count")}
        case Effect.RESET_RETRIES:
            return {"control_retry_count": 0}
        case Effect.FORGET_ERROR:
            return {**_no_error(), "control_retry_count": 0}
        case Effect.SELECT_AGAIN:
            return {
                "planning_active_capabilities": None,
                "control_needs_reclassification": False,
                "control_reclassification_reason": detail,
                "control_reclassification_count": _next(state, "control_reclassification_count"),
                **_no_plan(),
            }
        case Effect.COUNT_PLAN:
            return {"control_plans_created_count": _next(state, "control_plans_created_count"), **_no_plan()}
        case Effect.KEEP_REASON:
            return {"control_replanning_reason": detail, "control_needs_reclassification": False}
        case Effect.EXPLAIN_STOP:
            told = ErrorClassification(ErrorSeverity.CRITICAL, detail).to_state()
            return {"control_error_info": {"capability_name": "router", "classification": told}}
        case Effect.KILL:
            return {"control_is_killed": True, "control_kill_reason": detail, "control_outcome": END}


def _no_error() -> AgentState:
    return {"control_has_error": False, "control_error_info": None}


def _no_plan() -> AgentState:
    return {"planning_execution_plan": None, "planning_current_step_index": 0}


def _next(state: Mapping[str, Any], key: str) -> int:
    return int(state.get(key) or 0) + 1


# The machine.

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

"""The transition table: what the router does in every situation it can meet. The diagram is printed from it.

Source: docs/sources/classification-and-routing.md, "Central router architecture". Loops that the original
never leaves (docs/decisions/0053) are rows here that end at a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from pointsman.orchestrator.effects import Effect
from pointsman.orchestrator.state import END, INFRASTRUCTURE

__all__ = ["CURRENT_STEP", "SAME_NODE", "TABLE", "Rule", "Situation", "diagram"]

#: Targets that depend on the state.
SAME_NODE: Final = "the node that failed"
CURRENT_STEP: Final = "the step's capability"


class Situation(StrEnum):
    """What the router finds, in the order in which it looks."""

    # an error is pending
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
    # the run must stop
    FINISHED = "finished"
    KILLED = "killed"
    DEADLINE = "deadline"
    STEPS_SPENT = "steps_spent"
    # the run goes on
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
    """One row: where to go, what to change, and why in words (``{…}`` is filled from the state)."""

    target: str
    why: str
    effects: tuple[Effect, ...] = ()


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

if missing := set(Situation) - set(TABLE):
    raise TypeError(f"situations without a rule: {sorted(missing)}")


def diagram() -> str:
    """The table as a Mermaid flowchart; docs/explanation/routing.md holds exactly this."""
    names = {END: "fin([end])", SAME_NODE: "same[[the node that failed]]", CURRENT_STEP: "step[[the step]]"}
    lines = ["flowchart LR", "    router{router}"]
    for target in dict.fromkeys(rule.target for rule in TABLE.values()):
        box = names.get(target, f"{target}[{target}]")
        labels = "<br>".join(situation for situation, rule in TABLE.items() if rule.target == target)
        lines.append(f'    router -->|"{labels}"| {box}')
    lines += [f"    {node} --> router" for node in ("step", "same", *INFRASTRUCTURE)]
    return "\n".join(lines)

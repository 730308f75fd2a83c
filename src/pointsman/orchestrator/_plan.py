"""Checking a plan before any step runs: selected capabilities, results that will exist, an answer last."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from pointsman.errors import ConfigError
from pointsman.orchestrator._facts import ClassifiedError, ErrorSeverity

#: Steps any plan may contain without their being selected: a plan must be able to answer or to ask.
ANSWERING = ("respond", "clarify")


def check_plan(
    steps: object, *, active: Collection[str], context: Collection[str] = ()
) -> dict[str, list[dict[str, Any]]]:
    """Return a plan that can be run, ending in an answer.

    Args:
        steps: the reply of the orchestrator's model: a list of ``{"capability", "context_key",
            "task_objective", "inputs"}``.
        active: the capabilities selected for the task.
        context: keys of results that exist already.

    Raises:
        ClassifiedError: RECLASSIFICATION when a step calls an unselected capability; REPLANNING when a step
            reads a result that no earlier step makes, when two steps write the same one, when there is no
            step, or when this is no list of steps.
    """
    if not isinstance(steps, list) or not all(isinstance(step, Mapping) for step in steps):
        raise ClassifiedError(ErrorSeverity.REPLANNING, "the plan is not a list of steps")
    if not steps:
        raise ClassifiedError(ErrorSeverity.REPLANNING, "the plan has no steps")
    plan = [_step(position, step) for position, step in enumerate(steps, start=1)]
    _only_selected(plan, active)
    _only_known_results(plan, context)
    if plan[-1]["capability"] not in ANSWERING:
        plan.append(_step(len(plan) + 1, {"capability": "respond", "task_objective": "answer the person"}))
    return {"steps": plan}


def step_inputs(step: Mapping[str, Any]) -> list[str]:
    """Context keys a step reads; an input is ``{type: key}`` or a key."""
    keys: list[str] = []
    for item in step.get("inputs") or []:
        keys.extend(map(str, item.values()) if isinstance(item, Mapping) else [str(item)])
    return keys


def _step(position: int, step: Mapping[str, Any]) -> dict[str, Any]:
    name = str(step.get("capability") or "")
    return {
        "capability": name,
        "context_key": str(step.get("context_key") or f"{position}_{name}"),
        "task_objective": str(step.get("task_objective") or ""),
        "inputs": step_inputs(step),
    }


def _only_selected(plan: Sequence[Mapping[str, Any]], active: Collection[str]) -> None:
    unknown = sorted({step["capability"] for step in plan} - {*active, *ANSWERING})
    if unknown:
        names = ", ".join(f'"{name}"' for name in unknown)
        raise ClassifiedError(
            ErrorSeverity.RECLASSIFICATION, f"the plan calls {names}, which the selection does not hold"
        )


def _only_known_results(plan: Sequence[Mapping[str, Any]], context: Collection[str]) -> None:
    made: set[str] = set()
    for step in plan:
        missing = [key for key in step["inputs"] if key not in made and key not in context]
        if missing:
            known = ", ".join(sorted({*made, *context})) or "none"
            raise ClassifiedError(
                ErrorSeverity.REPLANNING,
                f'step "{step["context_key"]}" reads "{missing[0]}", which no earlier step makes; '
                f"available keys: {known}",
            )
        if step["context_key"] in made:
            raise ClassifiedError(
                ErrorSeverity.REPLANNING, f'two steps write the result "{step["context_key"]}"'
            )
        made.add(step["context_key"])


# Prompt templates of the nodes. Templates are data and can be replaced.

#: The fields each template may use.
_FIELDS: Final = {
    "task_extraction": (),
    "orchestrator": ("capabilities", "results", "failure"),
    "respond": ("task", "results", "note"),
    "clarify": ("task", "objective"),
}


@dataclass(frozen=True, slots=True)
class NodePrompts:
    """Instructions of the nodes that ask a model. The user's words are always sent apart, as data."""

    task_extraction: str = """\
State what the person wants now, as one task that can be understood without the conversation. Resolve "it",
"there" and the like. Add nothing they did not ask for. Answer with the task alone."""

    orchestrator: str = """\
Plan how to carry out the task with these capabilities and no others:
{capabilities}
- respond: answer the person with the results (always available)
- clarify: ask the person for what is missing (always available)

Results at hand: {results}
{failure}
Answer with JSON only:
{{"steps": [{{"capability": "…", "context_key": "a new name for its result", "task_objective": "…", \
"inputs": ["context keys it reads"]}}]}}
A step may read results at hand and results of earlier steps. The last step is respond or clarify."""

    respond: str = """\
Answer the person. The task was: {task}
Results: {results}
{note}
Say only what the results and the conversation support."""

    clarify: str = """\
Ask the person one short question that lets you go on with the task: {task}
What is missing: {objective}"""

    def __post_init__(self) -> None:
        """Try every template once.

        Raises:
            ConfigError: one names a field that does not exist.
        """
        for field in fields(self):
            known = _FIELDS[field.name]
            try:
                getattr(self, field.name).format(**dict.fromkeys(known, ""))
            except (KeyError, IndexError, ValueError) as error:
                names = ", ".join(known) or "none"
                raise ConfigError(
                    f"the prompt {field.name} cannot be filled: {error}",
                    hint=f"its fields: {names}; other braces are doubled",
                ) from None

"""The nodes of a run: each a small class over the chat model port.

Source of the names: docs/sources/classification-and-routing.md, "Classification architecture".
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from pointsman.capabilities import Capability, CapabilityRegistry, Selector
from pointsman.drivers import drive_async
from pointsman.errors import UpstreamTimeout, UpstreamUnavailable
from pointsman.model_calls import MAX_PARALLEL, Ask, ask_models, ask_together
from pointsman.orchestrator._plan import NodePrompts
from pointsman.orchestrator._tiered_model import in_run
from pointsman.orchestrator.machine import (
    ClassifiedError,
    ErrorClassification,
    ErrorSeverity,
    check_plan,
    classify_error,
)
from pointsman.orchestrator.state import (
    active_capabilities,
    current_step,
    current_task,
    results_of,
    user_input,
    with_result,
)
from pointsman.upstreams import ChatModel
from pointsman.vocabulary import ModelQuery, ModelReply, Prompt

State = Mapping[str, Any]

#: Seconds for one question of a node. A plan or an answer of 1,000 tokens takes a usual model 10–20 s.
_TIMEOUT: Final = 60.0
_TASK_TOKENS: Final = 256
#: How failures that are tried again end; see ``classify_error``.
_RETRYING: Final = re.compile(r"[,;:]?\s{0,4}\bretrying\b[\s.…]*$", re.IGNORECASE)
_PLAN_TOKENS: Final = 1_024
_ANSWER_TOKENS: Final = 1_024


class Node(Protocol):
    """One place a run can be in."""

    @property
    def name(self) -> str:
        """The name the router knows it by."""

    async def execute(self, state: State) -> dict[str, Any]:
        """Do the work and return what changes in the state. May raise anything."""

    def classify_error(self, exc: Exception, context: Mapping[str, Any]) -> ErrorClassification:
        """Effect of an exception of ``execute`` on the run."""


class _Base:
    @staticmethod
    def classify_error(exc: Exception, context: Mapping[str, Any]) -> ErrorClassification:
        """The common classification; a node with more to say overrides it."""
        return classify_error(exc, context)


class _AskingNode(_Base):
    """A node that asks a model."""

    name = ""

    def __init__(self, model: ChatModel, prompts: NodePrompts | None = None) -> None:
        self._model = model
        self._prompts = prompts or NodePrompts()

    async def _ask(self, state: State, system: str, text: str, max_tokens: int) -> str:
        """Return the answer of the model for this node of a run."""
        prompt = Prompt(system, text, max_tokens)
        return await in_run(self._model, self.name, state).complete(prompt, timeout=_TIMEOUT)


class TaskExtractionNode(_AskingNode):
    """Turns the conversation into one self-contained task. Bypassed, the person's last words are the task."""

    name = "task_extraction"

    async def execute(self, state: State) -> dict[str, Any]:
        """Set ``task_current_task``."""
        said = user_input(state)
        if state.get("control_task_bypass") or len(state.get("messages") or []) <= 1:
            return {"task_current_task": said}  # a single message has nothing to resolve
        system = self._prompts.task_extraction.format()
        task = await self._ask(state, system, _conversation(state), _TASK_TOKENS)
        return {"task_current_task": task.strip() or said}


class ClassificationNode(_Base):
    """Selects capabilities for the task."""

    name = "classifier"
    description = "Task Classification and Capability Selection"

    def __init__(self, selector: Selector, judge: Ask | ChatModel) -> None:
        """Take what selects, and what answers its questions."""
        self._selector = selector
        self._judge = judge

    async def execute(self, state: State) -> dict[str, Any]:
        """Set ``planning_active_capabilities``, and clear the plan made for others."""
        judge = self._judge
        if hasattr(judge, "complete"):
            judge = ask_models({self._selector.policy.model: in_run(judge, self.name, state)})
        steps = self._selector.select(
            current_task(state) or "",
            failure=str(state.get("control_reclassification_reason") or ""),
            held=held_kinds(state, self._selector.registry),
            bypass=bool(state.get("control_capability_bypass")) or None,
        )
        selection = await answer_batches(steps, partial(_answer_of, judge))
        return {
            "planning_active_capabilities": list(selection.selected),
            "planning_selection_abstained": selection.abstained,
            "planning_selection_grounds": {
                "scores": dict(selection.scores),
                "asked_model": list(selection.asked_model),
                "reasons": [reason.detail for reason in selection.reasons],
            },
            "planning_execution_plan": None,
            "planning_current_step_index": 0,
        }

    @staticmethod
    def classify_error(exc: Exception, context: Mapping[str, Any]) -> ErrorClassification:
        """Classify an exception of this node by severity.

        Source: docs/sources/classification-and-routing.md, "Classification error handling".
        """
        details = f"{type(exc).__name__}: {exc}"
        if isinstance(exc, ConnectionError | TimeoutError | UpstreamTimeout | UpstreamUnavailable):
            return ErrorClassification(
                ErrorSeverity.RETRIABLE,
                "Classification service temporarily unavailable, retrying...",
                details,
            )
        if isinstance(exc, ValueError | TypeError):
            return ErrorClassification(ErrorSeverity.CRITICAL, "Classification configuration error", details)
        return classify_error(exc, context)


async def _answer_of(judge: Ask, query: ModelQuery) -> ModelReply:
    """The answer of a model; one that raises another error is unavailable."""
    try:
        return await judge(query)
    except Exception as error:  # noqa: BLE001 - fail open: anyone's model
        return ModelReply(error=type(error).__name__)


class OrchestratorNode(_AskingNode):
    """Plans steps over the selected capabilities; a plan that could not be run is refused here."""

    name = "orchestrator"

    def __init__(
        self, registry: CapabilityRegistry, model: ChatModel, prompts: NodePrompts | None = None
    ) -> None:
        super().__init__(model, prompts)
        self._registry = registry

    async def execute(self, state: State) -> dict[str, Any]:
        """Set ``planning_execution_plan``."""
        active = active_capabilities(state) or []
        context = results_of(state)
        failure = state.get("control_replanning_reason") or state.get("control_reclassification_reason")
        system = self._prompts.orchestrator.format(
            capabilities=self._describe(active),
            results=", ".join(context) or "none",
            failure=f"An earlier attempt failed: {failure}" if failure else "",
        )
        reply = await self._ask(state, system, current_task(state) or "", _PLAN_TOKENS)
        plan = check_plan(_steps(reply), active=active, context=context)
        return {"planning_execution_plan": plan, "planning_current_step_index": 0}

    def _describe(self, active: Sequence[str]) -> str:
        known = (self._registry.get_capability(name) for name in active if name not in ("respond", "clarify"))
        lines = []
        for each in filter(None, known):
            needs = f" Needs {', '.join(each.requires)}." if each.requires else ""
            gives = f" Gives {', '.join(each.provides)}." if each.provides else ""
            lines.append(f"- {each.name}: {each.guide.instructions.rstrip('.')}.{needs}{gives}")
        return "\n".join(lines)


class CapabilityNode(_Base):
    """Runs one capability's step, if the selection holds it."""

    def __init__(self, capability: Capability) -> None:
        self.capability = capability
        self.name = capability.name

    async def execute(self, state: State) -> dict[str, Any]:
        """Do the step and store its result under the step's context key."""
        self.check_allowed(state)
        step = current_step(state) or {}
        if self.capability.work is None:
            raise ClassifiedError(ErrorSeverity.REPLANNING, f"{self.name} cannot be run, only selected")
        context = results_of(state)
        value = await self.capability.work(step, {key: entry["value"] for key, entry in context.items()})
        json.dumps(value)  # a result that cannot be kept in a checkpoint fails here, by its capability's name
        return with_result(state, step.get("context_key") or self.name, self.name, value)

    def check_allowed(self, state: State) -> None:
        """Refuse to run an unselected capability, even if the plan names it.

        Raises:
            ClassifiedError: REPLANNING.
        """
        if self.name not in (active_capabilities(state) or []):
            raise ClassifiedError(ErrorSeverity.REPLANNING, f"{self.name} was not selected for this task")


class RespondNode(_AskingNode):
    """Answers the person."""

    name = "respond"

    async def execute(self, state: State) -> dict[str, Any]:
        """Set ``response``."""
        results = {key: entry["value"] for key, entry in results_of(state).items()}
        system = self._prompts.respond.format(
            task=current_task(state) or "none: direct chat",
            results=json.dumps(results, ensure_ascii=False) if results else "none",
            note=_selection_note(state),
        )
        return _reply(state, await self._ask(state, system, _conversation(state), _ANSWER_TOKENS))


class ClarifyNode(_AskingNode):
    """Asks the person for missing information."""

    name = "clarify"

    async def execute(self, state: State) -> dict[str, Any]:
        """Set ``response``."""
        step = current_step(state) or {}
        system = self._prompts.clarify.format(
            task=current_task(state) or "", objective=step.get("task_objective", "")
        )
        return _reply(state, await self._ask(state, system, _conversation(state), _TASK_TOKENS))


class ErrorNode(_Base):
    """Informs the user of the failure. Asks no model: when models are down, this must still work."""

    name = "error"

    async def execute(self, state: State) -> dict[str, Any]:
        """Set ``response``."""
        info = state.get("control_error_info") or {}
        classification = ErrorClassification.from_state(info.get("classification"))
        why = _final_words(classification.user_message) if classification else "an unknown error"
        done = ", ".join(results_of(state))
        so_far = f" Done so far: {done}." if done else ""
        return _reply(state, f"I could not finish this: {why or 'no reason was given'}.{so_far}")


def _final_words(message: str) -> str:
    """A failure's words without the announcement of a retry that has not helped, and without a full stop."""
    return _RETRYING.sub("", message).rstrip(" .…")


def held_kinds(state: State, registry: CapabilityRegistry) -> set[str]:
    """The kinds of results in a state: those that the capabilities behind them provide."""
    makers = (registry.get_capability(entry["capability"]) for entry in results_of(state).values())
    return {kind for maker in filter(None, makers) for kind in maker.provides}


def _conversation(state: State) -> str:
    return "\n".join(f"{message['role']}: {message['content']}" for message in state.get("messages") or [])


def _reply(state: State, text: str) -> dict[str, Any]:
    said = [*(state.get("messages") or []), {"role": "assistant", "content": text}]
    return {"response": text, "messages": said}


def _selection_note(state: State) -> str:
    if state.get("planning_selection_abstained"):
        return "Choosing the means for this task failed; say that the answer may be incomplete."
    if state.get("planning_active_capabilities") == []:
        return "None of the available means applies to this task."
    return ""


#: What the next question for a plan says of a reply without one.
NO_JSON: Final = 'the plan is not JSON; answer with {"steps": [...]} and nothing else'


def _steps(reply: str) -> object:
    """The steps in a model's reply; if it is not JSON, the next question names the error."""
    start, end = reply.find("{"), reply.rfind("}")
    try:
        plan = json.loads(reply[start : end + 1])
    except ValueError:
        raise ClassifiedError(ErrorSeverity.REPLANNING, NO_JSON) from None
    return plan.get("steps")


# Running a selection: its batches of questions asked in parallel, under a limit.


Result = TypeVar("Result")


async def answer_batches(
    steps: Generator[Sequence[ModelQuery], Sequence[ModelReply], Result],
    ask: Ask,
    *,
    at_once: int = MAX_PARALLEL,
) -> Result:
    """Run a decision that asks in batches to its end; answers are in the order of their questions."""
    return await drive_async(steps, partial(ask_together, ask, at_once=at_once))

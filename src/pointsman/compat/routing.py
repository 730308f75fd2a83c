"""The names of the founding document on classification and routing, over the orchestrator.

The document's registry and model are the process's: ``use(application)`` sets them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping, MutableMapping, Sequence
from typing import Any, Final, Protocol, TypeVar, overload

from pointsman.capabilities import (
    Capability,
    CapabilityMatch,
    CapabilityRegistry,
    ClassificationPromptBuilder,
    ClassifierExample,
    LocalScorer,
    SelectionPolicy,
    Selector,
    TaskClassifierGuide,
)
from pointsman.errors import ConfigError, UpstreamUnavailable
from pointsman.model_calls import ask_models, ask_nobody
from pointsman.orchestrator import Application, answer_batches
from pointsman.orchestrator import ClassificationNode as _ClassificationNode
from pointsman.orchestrator import state as states
from pointsman.orchestrator.machine import (
    DEFAULT_LIMITS,
    ErrorClassification,
    ErrorSeverity,
    Limits,
    classify_error,
    decide,
)
from pointsman.orchestrator.progress import failed, succeeded
from pointsman.orchestrator.state import AgentState
from pointsman.upstreams import ChatModel
from pointsman.vocabulary import Prompt

__all__ = [
    "AgentState",
    "BaseInfrastructureNode",
    "CapabilityMatch",
    "ClassificationNode",
    "ClassifierExample",
    "ErrorClassification",
    "ErrorSeverity",
    "StateManager",
    "TaskClassifierGuide",
    "classification_builder",
    "get_chat_completion",
    "get_next_step_capability",
    "handle_error_routing",
    "infrastructure_node",
    "registry",
    "router_conditional_edge",
    "select_capabilities",
    "use",
]


#: Seconds for one question, and the room for its answer.
_TIMEOUT: Final = 60.0
_ANSWER_TOKENS: Final = 1_024
_SYSTEM: Final = "Do what the message says."  # the source puts its instructions into the message

Parsed_co = TypeVar("Parsed_co", covariant=True)
Kind = TypeVar("Kind", bound="type[BaseInfrastructureNode]")


class _Current:
    """The application in use: the source has one registry and one model for the process."""

    def __init__(self) -> None:
        self.used: Application | None = None
        self._classifier: _ClassificationNode | None = None

    def use(self, application: Application | None) -> None:
        """Set the application of this process; None leaves it without one."""
        self.used, self._classifier = application, None

    def application(self) -> Application:
        """Return the application in use.

        Raises:
            ConfigError: there is none.
        """
        if self.used is None:
            raise ConfigError(
                "no application is in use",
                hint="call pointsman.compat.routing.use(Application(registry, model))",
            )
        return self.used

    def model(self) -> ChatModel | None:
        """Return the model that judges capabilities, where an application with one is in use."""
        return (self.used.judge_model or self.used.model) if self.used else None

    def classifier(self) -> _ClassificationNode:
        """Return the classification node of the application in use; its selector is built once."""
        if self._classifier is None:
            judge = self.model() or ask_nobody
            self._classifier = _ClassificationNode(self.application().selector(), judge)
        return self._classifier


_current: Final = _Current()
use: Final = _current.use


class CurrentRegistry:
    """The registry of the application in use, under the methods that the source calls."""

    def get_all_capabilities(self) -> list[Capability]:
        """Every capability in registry order."""
        return _current.application().registry.get_all_capabilities()

    def get_always_active_capability_names(self) -> list[str]:
        """Names of the capabilities every task gets, in registry order."""
        return _current.application().registry.get_always_active_capability_names()

    def get_capability(self, name: str) -> Capability | None:
        """The capability called ``name``, or None."""
        return _current.application().registry.get_capability(name)


registry: Final = CurrentRegistry()
classification_builder: Final = ClassificationPromptBuilder()


class StateManager:
    """Readers and builders of ``AgentState``: the functions of ``pointsman.orchestrator.state``."""

    create_fresh_state = staticmethod(states.fresh_state)
    get_user_input = staticmethod(states.user_input)
    get_current_task = staticmethod(states.current_task)
    get_active_capabilities = staticmethod(states.active_capabilities)
    get_execution_plan = staticmethod(states.execution_plan)
    get_current_step_index = staticmethod(states.step_index)
    get_current_step = staticmethod(states.current_step)
    get_context = staticmethod(states.results_of)
    store_context = staticmethod(states.with_result)


class BaseInfrastructureNode:
    """A node as the source writes one: a class that is never instantiated, with a static ``execute``."""

    name: str = ""
    description: str = ""
    #: Set by ``infrastructure_node``: ``execute`` for a graph; it never raises.
    langgraph_node: Callable[[Mapping[str, Any]], Coroutine[Any, Any, dict[str, Any]]]

    @staticmethod
    async def execute(state: Any, **kwargs: Any) -> dict[str, Any]:
        """Do the work and return what changes in the state. May raise anything."""
        raise NotImplementedError

    @staticmethod
    def classify_error(exc: Exception, context: Any) -> ErrorClassification | None:
        """Effect of an exception of ``execute`` on the run; None leaves it to the common classification."""
        return classify_error(exc, context)


def infrastructure_node(kind: Kind) -> Kind:
    """Decorator: check a node, and add ``langgraph_node``, with which a graph runs it.

    That function takes the state and returns the update of ``execute``. A failure becomes the update that
    the router reads: ``control_has_error`` with the node's own classification of the exception.

    Raises:
        ConfigError: the node has no name, or no ``execute`` of its own.
    """
    if not kind.name:
        raise ConfigError(f"the node {kind.__name__} has no name", hint="set `name` in its class")
    if kind.execute is BaseInfrastructureNode.execute:
        raise ConfigError(f"the node {kind.__name__} has no static method `execute`")

    async def langgraph_node(state: Mapping[str, Any]) -> dict[str, Any]:
        began = time.monotonic()
        try:
            update = await kind.execute(state)
        except Exception as error:  # noqa: BLE001 - any failure of a node becomes a move of the router
            context = {"node": kind.name}
            told = kind.classify_error(error, context) or classify_error(error, context)
            return dict(failed(state, kind.name, told, time.monotonic() - began))
        return succeeded(state, kind.name, update, time.monotonic() - began)

    kind.langgraph_node = staticmethod(langgraph_node)
    return kind


@infrastructure_node
class ClassificationNode(BaseInfrastructureNode):
    """Selects capabilities of the application in use for the task of a state."""

    name = "classifier"
    description = "Task Classification and Capability Selection"

    @staticmethod
    async def execute(state: Any, **kwargs: Any) -> dict[str, Any]:  # noqa: ARG004 - the source's signature
        """Return ``planning_active_capabilities``, and clear the plan made for others.

        Raises:
            ConfigError: no application is in use.
        """
        return await _current.classifier().execute(state)

    @staticmethod
    def classify_error(exc: Exception, context: Any) -> ErrorClassification:
        """Effect of an exception of ``execute`` on the run."""
        return _ClassificationNode.classify_error(exc, context)


def router_conditional_edge(state: Mapping[str, Any], limits: Limits = DEFAULT_LIMITS) -> str:
    """The next node alone, for frameworks with edges that only name one.

    A framework that discards the writes of an edge must take counters from ``decide`` instead.
    """
    if state.get("control_has_error"):
        return handle_error_routing(state, limits)
    return decide(state, limits).next


def handle_error_routing(state: Mapping[str, Any], limits: Limits = DEFAULT_LIMITS) -> str:
    """The next node after a failure. A state that can be changed gets the move's counters, as in the source.

    It does not wait before a retry: ``decide`` gives the delay.
    """
    move = decide(state, limits)
    if isinstance(state, MutableMapping):
        state.update(move.update)
    return move.next


def get_next_step_capability(state: Mapping[str, Any]) -> str:
    """The capability of the plan's next step; "respond" when there is none."""
    step = states.current_step(state)
    return str(step["capability"]) if step else "respond"


class _OutputModel(Protocol[Parsed_co]):
    def parse(self, text: str, /) -> Parsed_co:
        """Read a model's answer."""


@overload
async def get_chat_completion(message: str, output_model: None = None) -> str: ...
@overload
async def get_chat_completion(message: str, output_model: _OutputModel[Parsed_co]) -> Parsed_co: ...
async def get_chat_completion(message: str, output_model: _OutputModel[Parsed_co] | None = None) -> object:
    """Ask the model of the application in use.

    Args:
        message: instructions and request in one.
        output_model: reads the answer with ``parse``: ``CapabilityMatch``.

    Raises:
        UpstreamError: the model did not answer; ``UpstreamUnavailable`` when there is none.
        ValueError: ``output_model`` cannot read the answer.
    """
    model = _current.model()
    if model is None:
        raise UpstreamUnavailable("no application with a model is in use")
    text = await model.complete(Prompt(_SYSTEM, message, _ANSWER_TOKENS), timeout=_TIMEOUT)
    return text if output_model is None else output_model.parse(text)


async def select_capabilities(
    task: str,
    available_capabilities: Sequence[Capability],
    state: Mapping[str, Any],
    *,
    model: ChatModel | None = None,
    policy: SelectionPolicy | None = None,
) -> list[str]:
    """Select once. A run that selects often reuses a ``Selector`` instead.

    Args:
        task: the task.
        available_capabilities: in registry order.
        state: an ``AgentState``; the reason for a reclassification and bypass are read from it.
        model: judges unsure capabilities; by default that of the application in use, or none.
        policy: how to select.

    Raises:
        SelectionUnavailable: the policy is to raise and the model could not be asked.
    """
    known = CapabilityRegistry(available_capabilities)
    selector = Selector(known, LocalScorer(known), policy)
    steps = selector.select(
        task,
        failure=str(state.get("control_reclassification_reason") or ""),
        bypass=bool(state.get("control_capability_bypass")) or None,
    )
    judge = model or _current.model()
    selection = await answer_batches(steps, ask_models({selector.policy.model: judge} if judge else {}))
    return list(selection.selected)

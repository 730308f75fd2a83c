"""The module-level names of ``pointsman.compat.routing``: nodes, registry and model of the process."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from pointsman.compat.routing import (
    BaseInfrastructureNode,
    CapabilityMatch,
    ClassificationNode,
    ErrorClassification,
    ErrorSeverity,
    get_chat_completion,
    get_next_step_capability,
    handle_error_routing,
    infrastructure_node,
    registry,
    router_conditional_edge,
    use,
)
from pointsman.errors import ConfigError, UpstreamUnavailable
from pointsman.orchestrator import Application
from pointsman.orchestrator.machine import Limits, decide
from pointsman.testing import ScriptedModel
from support.capabilities import REGISTRY

TASK = {"task_current_task": "What's the weather like?"}


@pytest.fixture(autouse=True)
def nothing_in_use() -> Iterator[None]:
    yield
    use(None)


def failing(severity: str, **state: Any) -> dict[str, Any]:
    told = {"severity": severity, "user_message": "no data"}
    info = {"capability_name": "mail", "classification": told}
    return {"control_has_error": True, "control_error_info": info, **TASK, **state}


def test_without_an_application_the_way_out_is_named() -> None:
    for ask in (registry.get_all_capabilities, registry.get_always_active_capability_names):
        with pytest.raises(ConfigError, match="no application is in use") as refused:
            ask()
        assert "use(Application" in str(refused.value.hint)
    with pytest.raises(ConfigError, match="no application is in use"):
        asyncio.run(ClassificationNode.execute(TASK))
    with pytest.raises(UpstreamUnavailable, match="no application with a model"):
        asyncio.run(get_chat_completion("Hello"))


def test_a_node_without_an_application_fails_as_the_router_can_read_it() -> None:
    update = asyncio.run(ClassificationNode.langgraph_node(TASK))
    assert router_conditional_edge({**TASK, **update}) == "error"


def test_the_registry_is_that_of_the_application_in_use() -> None:
    use(Application(REGISTRY))
    assert registry.get_all_capabilities() == REGISTRY.get_all_capabilities()
    assert registry.get_always_active_capability_names() == ["respond"]
    assert registry.get_capability("clock") is REGISTRY.get_capability("clock")
    assert registry.get_capability("none") is None


def test_a_model_is_asked_in_words_or_for_a_match() -> None:
    model = ScriptedModel("Hi.", '{"is_match": false, "reason": "no"}', "perhaps")
    use(Application(REGISTRY, model))
    assert asyncio.run(get_chat_completion("Hello")) == "Hi."
    assert asyncio.run(get_chat_completion("Mail?", CapabilityMatch)) == CapabilityMatch(False, "no")  # noqa: FBT003
    with pytest.raises(ValueError, match="neither JSON nor yes or no"):
        asyncio.run(get_chat_completion("Mail?", CapabilityMatch))
    assert [prompt.text for prompt in model.asked] == ["Hello", "Mail?", "Mail?"]


@pytest.mark.parametrize(
    ("severity", "state", "target"),
    [
        ("retriable", {}, "mail"),
        ("retriable", {"control_retry_count": 3}, "error"),
        ("replanning", {}, "orchestrator"),
        ("reclassification", {}, "classifier"),
        ("reclassification", {"control_reclassification_count": 1}, "error"),
        ("critical", {}, "error"),
        ("fatal", {}, "__end__"),
    ],
)
def test_an_error_is_routed_as_the_machine_does_and_counted_in_the_state(
    severity: str, state: dict[str, Any], target: str
) -> None:
    broken = failing(severity, **state)
    move = decide(broken)
    assert handle_error_routing(broken) == target == move.next
    assert move.update.items() <= broken.items()


def test_limits_are_the_callers() -> None:
    assert handle_error_routing(failing("retriable"), Limits(max_step_retries=0)) == "error"


def test_a_state_that_cannot_be_changed_is_only_read() -> None:
    from types import MappingProxyType

    frozen: Mapping[str, Any] = MappingProxyType(failing("retriable"))
    assert [handle_error_routing(frozen) for _ in range(5)] == ["mail"] * 5


@pytest.mark.parametrize(("index", "name"), [(0, "mail"), (1, "respond"), (2, "respond")])
def test_the_next_step_of_a_plan(index: int, name: str) -> None:
    plan = {"steps": [{"capability": "mail"}, {"capability": "respond"}]}
    state = {"planning_execution_plan": plan, "planning_current_step_index": index}
    assert get_next_step_capability(state) == name
    assert get_next_step_capability({}) == "respond"


class Counting(BaseInfrastructureNode):
    name = "counting"

    @staticmethod
    async def execute(state: Any, **kwargs: Any) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": str(1 / state["by"])}]}

    @staticmethod
    def classify_error(exc: Exception, context: Any) -> ErrorClassification | None:
        if isinstance(exc, ZeroDivisionError):
            return ErrorClassification(ErrorSeverity.REPLANNING, f"{context['node']} cannot divide")
        return None


def test_a_decorated_node_runs_in_a_graph() -> None:
    node = infrastructure_node(Counting)
    assert node is Counting
    update = asyncio.run(node.langgraph_node({"by": 2}))
    assert update["messages"][0]["content"] == "0.5"
    assert update["control_elapsed_seconds"] >= 0


@pytest.mark.parametrize(
    ("state", "severity", "message"),
    [({"by": 0}, "replanning", "counting cannot divide"), ({}, "critical", "counting is set up wrongly")],
)
def test_a_failure_of_a_decorated_node_becomes_an_update(
    state: dict[str, Any], severity: str, message: str
) -> None:
    update = asyncio.run(infrastructure_node(Counting).langgraph_node(state))
    told = update["control_error_info"]["classification"]
    assert (update["control_has_error"], told["severity"], told["user_message"]) == (True, severity, message)


def test_a_node_without_a_name_or_without_execute_is_refused() -> None:
    with pytest.raises(ConfigError, match="Counted has no name"):
        infrastructure_node(type("Counted", (Counting,), {"name": ""}))
    with pytest.raises(ConfigError, match="no static method `execute`"):
        infrastructure_node(type("Idle", (BaseInfrastructureNode,), {"name": "idle"}))

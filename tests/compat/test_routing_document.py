"""Every code block of the founding document on classification and routing, executed on the orchestrator."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pytest

import pointsman.compat.routing as ours
from pointsman.compat.routing import ErrorClassification, ErrorSeverity
from pointsman.orchestrator import Application
from pointsman.testing import ScriptedModel
from support.capabilities import REGISTRY
from support.founding import block, execute, keys

DOCUMENT: Final = "classification-and-routing.rst"
TASK: Final = "What's the weather like?"

Left = dict[str, Any]


@pytest.fixture(autouse=True)
def application() -> Iterator[None]:
    """The document's registry and model are the process's."""
    ours.use(Application(REGISTRY, ScriptedModel('{"is_match": true}')))
    yield
    ours.use(None)


def names(**more: Any) -> Left:
    return {name: getattr(ours, name) for name in ours.__all__} | {"time": time} | more


def run(block_key: str, **more: Any) -> Left:
    return execute(block(DOCUMENT, block_key), names(**more))


def failure(severity: ErrorSeverity) -> ErrorClassification:
    return ErrorClassification(severity, "no data")


def classification_node() -> None:
    node = run("Classification Architecture")["ClassificationNode"]
    update = asyncio.run(node.langgraph_node({"task_current_task": TASK}))
    assert {"current_weather", "respond"} <= set(update["planning_active_capabilities"])
    assert update["planning_execution_plan"] is None


def always_active() -> None:
    left = run(
        "Step 1: Always-Active Capabilities",
        available_capabilities=REGISTRY.get_all_capabilities(),
        active_capabilities=[],
    )
    assert left["active_capabilities"] == ["respond"]


def judged_by_a_model() -> None:
    left = run(
        "Step 2: LLM-Based Classification",
        remaining_capabilities=[each for each in REGISTRY.get_all_capabilities() if not each.always_active],
        active_capabilities=[],
        examples_string="",
        task=TASK,
    )
    assert left["active_capabilities"] == ["current_weather", "clock", "mail", "geocode"]


def guide() -> None:
    made = run("Few-Shot Classification Examples")["return"]
    assert (len(made.positives), len(made.negatives)) == (1, 1)


def router() -> None:
    edge = run("Central Router Architecture")["router_conditional_edge"]
    plan = {"steps": [{"capability": "current_weather"}, {"capability": "respond"}]}
    state: Left = {}
    for key, value, target in (
        ("messages", [], "task_extraction"),
        ("task_current_task", TASK, "classifier"),
        ("planning_active_capabilities", ["current_weather", "respond"], "orchestrator"),
        ("planning_execution_plan", plan, "current_weather"),
        ("planning_current_step_index", 1, "respond"),
    ):
        state[key] = value
        assert edge(state) == target == ours.router_conditional_edge(state)
    told = failure(ErrorSeverity.RETRIABLE).to_state()
    broken = {"capability_name": "current_weather", "classification": told}
    tried = []
    for _ in range(5):
        state |= {"control_has_error": True, "control_error_info": broken}
        tried.append(edge(state))
    assert tried == ["current_weather"] * 3 + ["error"] * 2  # the counters are in the state


def retry() -> None:
    state: Left = {}
    common = {"max_retries": 3, "delay_seconds": 0.0, "backoff_factor": 1.5, "state": state}
    common |= {"capability_name": "mail", "error_classification": failure(ErrorSeverity.RETRIABLE)}
    assert run("Retry Logic in Router", retry_count=1, **common)["return"] == "mail"
    assert state == {"control_retry_count": 2}
    assert run("Retry Logic in Router", retry_count=3, **common)["return"] == "error"


def classified() -> None:
    classify_error = run("Classification Error Handling")["classify_error"]
    for error in (ConnectionError(), TimeoutError(), ValueError(), TypeError()):
        mine = ours.ClassificationNode.classify_error(error, {})
        theirs = classify_error(error, {})
        assert (theirs.severity, theirs.user_message) == (mine.severity, mine.user_message)


def reclassification() -> None:
    update = run(
        "Reclassification Support",
        capability_name="mail",
        error_classification=failure(ErrorSeverity.RECLASSIFICATION),
    )["return"]
    state = {"task_current_task": TASK, "planning_active_capabilities": ["mail"], **update}
    assert ours.router_conditional_edge(state) == "classifier"
    asyncio.run(ours.ClassificationNode.execute(state))


def basic_flow() -> None:
    assert {"current_weather", "respond"} <= set(run("Basic Classification Flow")["capabilities"])


def router_flow() -> None:
    assert ours.router_conditional_edge(run("Router Decision Flow")["state"]) == "classifier"


CHECKS: Final[Mapping[str, Callable[[], None]]] = {
    "Classification Architecture": classification_node,
    "Step 1: Always-Active Capabilities": always_active,
    "Step 2: LLM-Based Classification": judged_by_a_model,
    "Few-Shot Classification Examples": guide,
    "Central Router Architecture": router,
    "Retry Logic in Router": retry,
    "Classification Error Handling": classified,
    "Reclassification Support": reclassification,
    "Basic Classification Flow": basic_flow,
    "Router Decision Flow": router_flow,
}


@pytest.mark.parametrize("key", CHECKS)
def test_a_block_of_the_document_executes(key: str) -> None:
    CHECKS[key]()


def test_every_block_is_executed() -> None:
    assert keys(DOCUMENT) == [*CHECKS]

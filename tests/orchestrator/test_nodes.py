"""Nodes: what each asks, what each changes, and how the seed's examples read."""

import json
from typing import Any

import pytest

from pointsman.capabilities import (
    Capability,
    CapabilityRegistry,
    SelectionPolicy,
    Selector,
    TaskClassifierGuide,
)
from pointsman.compat.routing import StateManager, select_capabilities
from pointsman.errors import ConfigError, UpstreamTimeout
from pointsman.model_calls import ask_models
from pointsman.orchestrator import (
    CapabilityNode,
    ClarifyNode,
    ClassificationNode,
    ErrorNode,
    NodePrompts,
    OrchestratorNode,
    RespondNode,
    TaskExtractionNode,
)
from pointsman.orchestrator.machine import ClassifiedError, ErrorClassification, ErrorSeverity
from pointsman.testing import ScriptedModel
from support.capabilities import JUDGE, REGISTRY


def run(coroutine: Any) -> Any:
    import asyncio

    return asyncio.run(coroutine)


def classifier(model: ScriptedModel | None = None, **policy: Any) -> ClassificationNode:
    selector = Selector(REGISTRY, JUDGE, SelectionPolicy(**({"strategy": "local"} | policy)))
    return ClassificationNode(selector, ask_models({"": model} if model else {}))


def test_the_seeds_basic_classification_flow() -> None:
    state = {"task_current_task": "What's the weather like?"}
    result = run(classifier().execute(state))
    assert {"current_weather", "respond"} <= set(result["planning_active_capabilities"])
    assert result["planning_execution_plan"] is None
    assert result["planning_current_step_index"] == 0


def test_the_seeds_select_capabilities() -> None:
    active = run(
        select_capabilities(
            task="What's the weather like?",
            available_capabilities=REGISTRY.get_all_capabilities(),
            state={"control_capability_bypass": True},
        )
    )
    assert active == ["current_weather", "clock", "mail", "geocode", "respond"]


def test_reclassification_carries_the_failure_into_the_prompt() -> None:
    model = ScriptedModel(lambda prompt: "no")
    node = classifier(model, strategy="llm")
    reason = "Capability mail requested reclassification: no inbox"
    run(node.execute({"task_current_task": "x", "control_reclassification_reason": reason}))
    assert len(model.asked) == 4
    assert all(reason in prompt.system for prompt in model.asked)


def test_a_kind_made_by_an_earlier_step_is_not_provided_again() -> None:
    state = {"task_current_task": "What's the weather like?"}
    state |= StateManager.store_context({}, "place", "geocode", [1, 2])
    assert run(classifier().execute(state))["planning_active_capabilities"] == ["respond", "current_weather"]


@pytest.mark.parametrize(
    ("error", "severity", "message"),
    [
        (
            ConnectionError(),
            ErrorSeverity.RETRIABLE,
            "Classification service temporarily unavailable, retrying...",
        ),
        (
            TimeoutError(),
            ErrorSeverity.RETRIABLE,
            "Classification service temporarily unavailable, retrying...",
        ),
        (
            UpstreamTimeout("x"),
            ErrorSeverity.RETRIABLE,
            "Classification service temporarily unavailable, retrying...",
        ),
        (ValueError(), ErrorSeverity.CRITICAL, "Classification configuration error"),
        (TypeError(), ErrorSeverity.CRITICAL, "Classification configuration error"),
        (RuntimeError(), ErrorSeverity.CRITICAL, "classifier failed unexpectedly"),
    ],
)
def test_the_seeds_classification_error_handling(
    error: Exception, severity: ErrorSeverity, message: str
) -> None:
    found = ClassificationNode.classify_error(error, {"node": "classifier"})
    assert (found.severity, found.user_message) == (severity, message)


def test_a_first_message_is_its_own_task_and_a_later_one_is_resolved() -> None:
    model = ScriptedModel("What is the weather in Oslo tomorrow?")
    node = TaskExtractionNode(model)
    first = StateManager.create_fresh_state("weather in Oslo?")
    assert run(node.execute(first)) == {"task_current_task": "weather in Oslo?"}
    second = StateManager.create_fresh_state("and tomorrow?", first)
    assert run(node.execute({**second, "control_task_bypass": True})) == {
        "task_current_task": "and tomorrow?"
    }
    assert not model.asked
    assert run(node.execute(second)) == {"task_current_task": "What is the weather in Oslo tomorrow?"}
    assert model.asked[0].text == "user: weather in Oslo?\nuser: and tomorrow?"


PLANNING = {"task_current_task": "weather", "planning_active_capabilities": ["geocode", "current_weather"]}


def test_a_plan_is_made_over_the_selected_capabilities_only() -> None:
    model = ScriptedModel(json.dumps({"steps": [{"capability": "geocode", "context_key": "place"}]}))
    made = run(
        OrchestratorNode(REGISTRY, model).execute(PLANNING | {"control_replanning_reason": "no place"})
    )
    assert [step["capability"] for step in made["planning_execution_plan"]["steps"]] == ["geocode", "respond"]
    system = model.asked[0].system
    assert "- geocode: Find the coordinates of a named place. Gives COORDINATES." in system
    assert "- current_weather" in system
    assert "- mail" not in system
    assert "An earlier attempt failed: no place" in system


def test_instructions_that_end_with_a_full_stop_get_no_second_one() -> None:
    model = ScriptedModel('{"steps": [{"capability": "clock"}]}')
    clock = Capability("clock", TaskClassifierGuide("Tell the time."), provides=["TIME"])
    state = {"task_current_task": "the time?", "planning_active_capabilities": ["clock"]}
    run(OrchestratorNode(CapabilityRegistry([clock]), model).execute(state))
    assert "- clock: Tell the time. Gives TIME." in model.asked[0].system


@pytest.mark.parametrize(
    ("reply", "severity"),
    [
        ("I cannot plan", ErrorSeverity.REPLANNING),
        ('{"plan": []}', ErrorSeverity.REPLANNING),
        ('{"steps": []}', ErrorSeverity.REPLANNING),
        ('{"steps": [{"capability": "mail"}]}', ErrorSeverity.RECLASSIFICATION),
        ('{"steps": [{"capability": "geocode", "inputs": ["x"]}]}', ErrorSeverity.REPLANNING),
    ],
)
def test_a_plan_that_cannot_be_run_is_refused(reply: str, severity: ErrorSeverity) -> None:
    with pytest.raises(ClassifiedError) as caught:
        run(OrchestratorNode(REGISTRY, ScriptedModel(reply)).execute(PLANNING))
    assert caught.value.classification.severity is severity


def step_state(name: str, *active: str) -> dict[str, Any]:
    plan = {"steps": [{"capability": name, "context_key": "out", "inputs": ["in"]}]}
    state = {"planning_active_capabilities": list(active), "planning_execution_plan": plan}
    return state | StateManager.store_context({}, "in", "other", 20)


def test_a_step_reads_results_and_leaves_one() -> None:
    async def double(step: Any, results: Any) -> int:
        return 2 * int(results[step["inputs"][0]])

    node = CapabilityNode(Capability("double", TaskClassifierGuide("x"), work=double))
    after = run(node.execute(step_state("double", "double")))
    assert after["capability_context_data"]["out"] == {"capability": "double", "value": 40}


def test_a_step_that_was_not_selected_does_not_run() -> None:
    ran = []

    async def work(step: Any, results: Any) -> None:
        ran.append(step)

    node = CapabilityNode(Capability("mail", TaskClassifierGuide("x"), work=work))
    with pytest.raises(ClassifiedError, match="was not selected"):
        run(node.execute(step_state("mail", "clock")))
    assert not ran


def test_results_that_are_no_json_and_capabilities_without_work_fail_by_name() -> None:
    async def opaque(step: Any, results: Any) -> object:
        return object()

    node = CapabilityNode(Capability("opaque", TaskClassifierGuide("x"), work=opaque))
    with pytest.raises(TypeError):
        run(node.execute(step_state("opaque", "opaque")))
    idle = CapabilityNode(Capability("idle", TaskClassifierGuide("x")))
    with pytest.raises(ClassifiedError, match="idle cannot be run"):
        run(idle.execute(step_state("idle", "idle")))


def test_an_answer_knows_results_and_says_when_selection_was_unavailable() -> None:
    model = ScriptedModel("It snows.", "It may snow.", "Hello.")
    node = RespondNode(model)
    state = StateManager.create_fresh_state("weather?") | StateManager.store_context(
        {}, "report", "w", "snow"
    )
    after = run(node.execute(state))
    assert after["response"] == "It snows."
    assert after["messages"][-1] == {"role": "assistant", "content": "It snows."}
    assert '{"report": "snow"}' in model.asked[0].system
    run(node.execute({**state, "planning_selection_abstained": "unavailable: timeout"}))
    assert "may be incomplete" in model.asked[1].system
    run(node.execute({**state, "planning_active_capabilities": []}))
    assert "None of the available means applies" in model.asked[2].system


def test_a_question_says_what_is_missing() -> None:
    model = ScriptedModel("Which town?")
    plan = {"steps": [{"capability": "clarify", "task_objective": "the town"}]}
    state = StateManager.create_fresh_state("weather?") | {"planning_execution_plan": plan}
    assert run(ClarifyNode(model).execute(state))["response"] == "Which town?"
    assert "What is missing: the town" in model.asked[0].system


def test_the_error_node_needs_no_model_and_shows_no_details() -> None:
    told = ErrorClassification(ErrorSeverity.CRITICAL, "rates are down", "secret").to_state()
    state = {"control_error_info": {"classification": told}} | StateManager.store_context({}, "place", "g", 1)
    response = run(ErrorNode().execute(state))["response"]
    assert response == "I could not finish this: rates are down. Done so far: place."
    assert "unknown error" in run(ErrorNode().execute({}))["response"]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("The service is unavailable, retrying...", "The service is unavailable."),
        ("The service is unavailable; Retrying…", "The service is unavailable."),
        ("The disk is full.", "The disk is full."),
        ("Retrying did not help", "Retrying did not help."),
        ("", "no reason was given."),
    ],
)
def test_the_last_words_to_a_person_announce_no_retry(message: str, said: str) -> None:
    told = ErrorClassification(ErrorSeverity.RETRIABLE, message).to_state()
    state = {"control_error_info": {"capability_name": "mail", "classification": told}}
    assert run(ErrorNode().execute(state))["response"] == f"I could not finish this: {said}"


def test_prompts_can_be_replaced_and_are_tried_at_once() -> None:
    assert NodePrompts(clarify="Ask about {task}").clarify == "Ask about {task}"
    with pytest.raises(ConfigError, match="the prompt respond cannot be filled"):
        NodePrompts(respond="{weather}")

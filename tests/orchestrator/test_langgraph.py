"""The graph: approval over two processes, retries that block nobody, parallel judging, bounds."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from pointsman.capabilities import CapabilityRegistry, SelectionPolicy, capability
from pointsman.errors import MissingExtra, UpstreamUnavailable
from pointsman.orchestrator import Application, load_application
from pointsman.orchestrator import langgraph as adapter
from pointsman.orchestrator.langgraph import build_graph, new_turn
from pointsman.orchestrator.machine import ClassifiedError, ErrorSeverity, Limits
from pointsman.testing import ScriptedModel
from pointsman.vocabulary import Prompt

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = EXAMPLES / "assistant.py"


async def follow(graph: Any, given: Any, config: Any = None) -> tuple[list[str], dict[str, Any]]:
    """The nodes visited and the final state."""
    visited, state = [], {}
    async for mode, event in graph.astream(given, config, stream_mode=["custom", "values"]):
        if mode == "custom":
            visited.append(event["next"])
        else:
            state = event
    return visited, state


def run(app: Application, said: str, **options: Any) -> tuple[list[str], dict[str, Any]]:
    return asyncio.run(follow(build_graph(app, **options), new_turn(said)))


async def no_wait(seconds: float) -> None:
    return


def acting(work: Any, **options: Any) -> tuple[Application, ScriptedModel]:
    """Two capabilities, ``act`` and ``idle``, and a model that wants and plans ``act``."""

    async def idle(step: Any, results: Any) -> None: ...

    registry = CapabilityRegistry([capability("act", "act")(work), capability("idle", "idle")(idle)])

    def answer(prompt: Prompt) -> str:
        if "Plan how" in prompt.system:
            return json.dumps({"steps": [{"capability": "act", "context_key": "done"}]})
        if "one capability" in prompt.system:
            return json.dumps({"is_match": "needed:\nact" in prompt.system})
        return "fine"

    model = ScriptedModel(answer)
    policy = options.pop("policy", SelectionPolicy(strategy="llm"))  # type: ignore[arg-type]
    return Application(registry, model, policy=policy, **options), model


async def done(step: Any, results: Any) -> str:
    return "done"


def test_the_example_runs_as_it_does_without_langgraph() -> None:
    visited, state = run(load_application(EXAMPLE), "What is the weather like in Oslo?")
    assert visited == [
        "task_extraction",
        "classifier",
        "orchestrator",
        "find_place",
        "weather",
        "respond",
        "__end__",
    ]
    assert "snow" in state["response"]
    assert json.loads(json.dumps(state)) == state


def test_capabilities_are_judged_and_only_the_selection_is_kept() -> None:
    app, model = acting(done)
    visited, state = run(app, "act")
    judged = [prompt for prompt in model.asked if "one capability" in prompt.system]
    assert len(judged) == 2
    assert state["planning_active_capabilities"] == ["act"]
    assert not [key for key in state if "judgement" in key]
    assert visited[-2:] == ["respond", "__end__"]


def test_counters_survive_the_route_so_a_failing_step_is_retried_three_times() -> None:
    async def broken(step: Any, results: Any) -> None:
        raise ConnectionError

    app, _ = acting(broken)
    visited, state = run(app, "act", sleep=no_wait)
    assert visited.count("act") == 4
    assert visited[-2:] == ["error", "__end__"]
    assert state["control_retry_count"] == 3


def test_a_failing_infrastructure_node_ends_in_an_error_not_in_the_recursion_limit() -> None:
    app, _ = acting(done)
    down = ScriptedModel(UpstreamUnavailable("refused"))
    visited, state = run(Application(app.registry, down, policy=app.policy), "act", sleep=no_wait)
    assert visited.count("orchestrator") == 5
    assert state["control_outcome"] == "error"
    assert state["planning_selection_abstained"] == "unavailable: refused"


def test_our_step_bound_comes_before_langgraphs() -> None:
    async def again(step: Any, results: Any) -> None:
        raise ClassifiedError(ErrorSeverity.REPLANNING, "again")

    app, _ = acting(again, limits=Limits(max_planning_attempts=50, max_steps=60))
    visited, state = run(app, "act")
    assert state["control_outcome"] == "error"
    assert len(visited) >= 60


def test_reclassification_carries_the_failure_into_the_prompt() -> None:
    calls = []

    async def picky(step: Any, results: Any) -> str:
        calls.append(step)
        if len(calls) == 1:
            raise ClassifiedError(ErrorSeverity.RECLASSIFICATION, "not mine")
        return "done"

    app, model = acting(picky)
    visited, _ = run(app, "act")
    assert visited.count("classifier") == 2
    judged = [prompt.system for prompt in model.asked if "one capability" in prompt.system]
    assert [("not mine" in system) for system in judged] == [False, False, True, True]


def test_waiting_for_a_retry_blocks_no_other_task() -> None:
    calls = []

    async def flaky(step: Any, results: Any) -> str:
        calls.append(step)
        if len(calls) == 1:
            raise TimeoutError
        return "done"

    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    async def both() -> None:
        ticking = asyncio.create_task(tick())
        await follow(build_graph(acting(flaky)[0]), new_turn("act"))
        ticking.cancel()

    asyncio.run(both())
    assert ticks > 10


def test_a_model_that_raises_what_it_may_not_is_unavailable() -> None:
    app, _ = acting(done)

    class Rude(ScriptedModel):
        async def complete(self, prompt: Prompt, *, timeout: float) -> str:
            raise RuntimeError("boom")

    rude = Application(app.registry, app.model, judge_model=Rude(), policy=app.policy)
    _, state = run(rude, "act")
    assert state["planning_selection_abstained"] == "unavailable: RuntimeError"


def test_a_selection_that_raises_is_retried_and_told() -> None:
    app, model = acting(done)
    policy = SelectionPolicy(strategy="llm", on_failure="raise")  # type: ignore[arg-type]
    down = ScriptedModel(UpstreamUnavailable("refused"))
    visited, state = run(
        Application(app.registry, model, judge_model=down, policy=policy), "act", sleep=no_wait
    )
    assert visited.count("classifier") == 5
    assert "Classification service temporarily unavailable" in state["response"]


def test_what_is_selected_but_cannot_run_is_planned_around() -> None:
    hollow = CapabilityRegistry([capability("act", "act")(None)])  # type: ignore[arg-type]
    _, model = acting(done)
    policy = SelectionPolicy(bypass=True)
    visited, state = run(Application(hollow, model, policy=policy), "act")
    assert visited.count("orchestrator") == 2
    assert 'no capability "act"' in state["response"]


def test_approval_is_asked_once_and_a_refusal_is_planned_around() -> None:
    async def talk() -> tuple[dict[str, Any], list[str]]:
        graph = build_graph(load_application(EXAMPLE), checkpointer=InMemorySaver())
        config: RunnableConfig = {"configurable": {"thread_id": "1"}}
        stopped = await graph.ainvoke(new_turn("Email Ida that I am late"), config)
        assert stopped["__interrupt__"][0].value["capability"] == "send_mail"
        visited, state = await follow(graph, Command(resume=False), config)
        assert state["__interrupt__"]  # planned again, asked again
        more, state = await follow(graph, Command(resume=False), config)
        return state, visited + more

    state, visited = asyncio.run(talk())
    assert visited.count("orchestrator") == 1  # the second plan; the first was made before the question
    assert "did not allow send_mail" in state["response"]
    assert not state["capability_context_data"]


def test_a_second_turn_of_a_conversation_starts_afresh() -> None:
    async def talk() -> dict[str, Any]:
        graph = build_graph(load_application(EXAMPLE), checkpointer=InMemorySaver(), sleep=no_wait)
        config: RunnableConfig = {"configurable": {"thread_id": "1"}}
        failed = await graph.ainvoke(new_turn("What is 100 EUR in USD?"), config)
        assert failed["control_outcome"] == "error"
        return dict(await graph.ainvoke(new_turn("What is the weather like in Lima?", failed), config))

    state = asyncio.run(talk())
    assert state["control_outcome"] == "respond"
    assert len(state["messages"]) == 4


def test_without_langgraph_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(adapter, "import_module", gone)
    with pytest.raises(MissingExtra) as caught:
        build_graph(load_application(EXAMPLE))
    assert caught.value.hint == "pip install 'pointsman[langgraph]'"


def test_the_adapter_is_imported_without_importing_langgraph() -> None:
    code = "import sys, pointsman.orchestrator.langgraph; assert 'langgraph' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.integration
def test_a_killed_process_is_resumed_in_a_new_one_from_sqlite(tmp_path: Path) -> None:
    database = str(tmp_path / "state.sqlite")
    example = [sys.executable, "-u", str(EXAMPLES / "langgraph_app.py")]
    started = subprocess.Popen(
        [*example, "start", database, "Email Ida that I am late"], stdout=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    # Killed without warning as soon as the question is on the screen, so nothing can be tidied up.
    for line in started.stdout:
        if line.startswith("waiting for approval"):
            os.kill(started.pid, signal.SIGKILL)
            break
    assert started.wait(60) == -signal.SIGKILL
    started.stdout.close()
    resumed = subprocess.run(
        [*example, "resume", database, "yes"], capture_output=True, text=True, check=True, timeout=60
    )
    assert resumed.stdout.splitlines() == [
        "respond: step 2 of 2",
        "__end__: respond has finished the run",
        'Here is what I found: {"send_mail": "sent"}',
    ]
    unnamed = subprocess.run(example, capture_output=True, text=True, timeout=60)
    assert unnamed.returncode == 1
    assert "langgraph_app.py start state.sqlite" in unnamed.stderr
    assert "Traceback" not in unnamed.stderr

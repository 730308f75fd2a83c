"""Whole runs under asyncio: the example, approval, outages, deadlines, and waiting that blocks nobody."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from pointsman.capabilities import (
    CapabilityRegistry,
    ClassifierExample,
    SelectionPolicy,
    Strategy,
    Switches,
    capability,
)
from pointsman.errors import ConfigError, UpstreamUnavailable
from pointsman.orchestrator import Agent, Application, Progress, load_application
from pointsman.orchestrator.machine import ClassifiedError, ErrorSeverity, Limits
from pointsman.testing import ScriptedModel
from pointsman.vocabulary import Prompt

EXAMPLE = Path(__file__).parents[2] / "examples" / "assistant.py"


async def follow(agent: Agent, said: str, previous: Any = None) -> list[Progress]:
    return [progress async for progress in agent.stream(said, previous)]


def nodes(run: list[Progress]) -> list[str]:
    return [progress.move.next for progress in run]


class Sleeper:
    def __init__(self) -> None:
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)


def test_the_example_pulls_in_what_weather_needs() -> None:
    run = asyncio.run(follow(Agent(load_application(EXAMPLE)), "What is the weather like in Oslo?"))
    assert nodes(run) == [
        "task_extraction",
        "classifier",
        "orchestrator",
        "find_place",
        "weather",
        "respond",
        "__end__",
    ]
    assert (
        run[-1].state["response"] == 'Here is what I found: {"find_place": [59.9, 10.8], "weather": "snow"}'
    )
    assert json.loads(json.dumps(run[-1].state)) == run[-1].state


def test_the_examples_failing_capability_is_retried_and_told() -> None:
    sleeper = Sleeper()
    agent = Agent(load_application(EXAMPLE), sleep=sleeper)
    run = asyncio.run(follow(agent, "What is 100 EUR in USD?"))
    assert nodes(run).count("exchange_rate") == 4
    assert sleeper.slept == pytest.approx([0.5, 0.75, 1.125])
    assert nodes(run)[-2:] == ["error", "__end__"]
    assert "exchange_rate is temporarily unavailable" in run[-1].state["response"]
    assert run[-1].state["control_elapsed_seconds"] >= 2.375  # waiting counts against the deadline


def test_a_person_is_asked_before_mail_is_sent() -> None:
    asked: list[str] = []

    async def agree(name: str, step: Any) -> bool:
        asked.append(name)
        return True

    agent = Agent(load_application(EXAMPLE), approve=agree)
    state = asyncio.run(agent.run("Email Ida that I am late"))
    assert asked == ["send_mail"]
    assert state["capability_context_data"]["send_mail"]["value"] == "sent"


def test_a_refused_step_is_planned_around_and_then_given_up() -> None:
    async def refuse(name: str, step: Any) -> bool:
        return False

    run = asyncio.run(follow(Agent(load_application(EXAMPLE), approve=refuse), "Email Ida that I am late"))
    assert nodes(run).count("orchestrator") == 2
    assert "the person did not allow send_mail" in run[-1].state["response"]
    assert not run[-1].state["capability_context_data"]


def test_without_anybody_to_ask_a_step_that_needs_approval_does_not_run() -> None:
    state = asyncio.run(Agent(load_application(EXAMPLE)).run("Email Ida that I am late"))
    assert state["control_outcome"] == "error"
    assert "nobody can be asked" in state["response"]


def test_an_approval_that_breaks_is_a_failure_of_the_step() -> None:
    async def broken(name: str, step: Any) -> bool:
        raise RuntimeError("no terminal")

    state = asyncio.run(Agent(load_application(EXAMPLE), approve=broken).run("Email Ida that I am late"))
    assert state["control_outcome"] == "error"


def test_direct_chat_and_session_commands() -> None:
    agent = Agent(load_application(EXAMPLE))
    chat = asyncio.run(follow(agent, "/chat good morning"))
    assert nodes(chat) == ["respond", "__end__"]
    first = asyncio.run(agent.run("/chat:on:session hello"))
    second = asyncio.run(follow(agent, "and again", first))
    assert nodes(second) == ["respond", "__end__"]
    assert [message["content"] for message in second[-1].state["messages"]][::2] == ["hello", "and again"]
    third = asyncio.run(follow(agent, "/chat:off What is the weather like in Rome?", first))
    assert "weather" in nodes(third)


def application(work: Any, *, plan: str = "act", **options: Any) -> Application:
    """One capability ``act`` and a model that always plans it."""
    act = capability("act", "Activate for every action")(work)

    def answer(prompt: Prompt) -> str:
        if "Plan how" in prompt.system:
            return json.dumps({"steps": [{"capability": plan, "context_key": "done"}]})
        return '{"is_match": true}' if "one capability" in prompt.system else "fine"

    policy = options.pop("policy", SelectionPolicy(strategy="llm"))  # type: ignore[arg-type]
    model = ScriptedModel(answer)
    return Application(CapabilityRegistry([act]), model, policy=policy, **options)


def test_waiting_for_a_retry_blocks_no_other_task() -> None:
    calls = 0

    async def flaky(step: Any, results: Any) -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ConnectionError
        return "done"

    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    async def both() -> dict[str, Any]:
        ticking = asyncio.create_task(tick())
        try:
            return await Agent(application(flaky)).run("act")
        finally:
            ticking.cancel()

    state = asyncio.run(both())
    assert state["control_outcome"] == "respond"
    assert ticks > 10  # 0.5 s of waiting; a blocked loop would tick once or twice


def test_a_step_that_hangs_is_cut_off_when_the_runs_time_is_up() -> None:
    async def hang(step: Any, results: Any) -> None:
        await asyncio.Event().wait()

    limits = Limits(max_execution_time_seconds=0.2)
    state = asyncio.run(Agent(application(hang, limits=limits)).run("act"))
    assert state["control_outcome"] == "error"


def test_reclassification_carries_the_failure_into_the_next_selection() -> None:
    calls = 0

    async def picky(step: Any, results: Any) -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ClassifiedError(ErrorSeverity.RECLASSIFICATION, "this is not my kind of action")
        return "done"

    app = application(picky)
    run = asyncio.run(follow(Agent(app), "act"))
    assert nodes(run).count("classifier") == 2
    model = app.model
    assert isinstance(model, ScriptedModel)
    judged = [prompt.system for prompt in model.asked if "one capability" in prompt.system]
    assert "this is not my kind of action" not in judged[0]
    assert "Capability act requested reclassification: this is not my kind of action" in judged[1]


def test_a_plan_that_calls_what_does_not_exist_is_reclassified_once_and_then_told() -> None:
    async def work(step: Any, results: Any) -> str:
        return "never"

    run = asyncio.run(follow(Agent(application(work, plan="ghost")), "act"))
    assert nodes(run).count("orchestrator") == 2
    assert run[-1].state["control_outcome"] == "error"
    assert 'calls "ghost"' in run[-1].state["response"]


@pytest.mark.parametrize("prose", ["Sure! First I look at the weather.", '{"plan": "act"}'])
def test_a_planner_that_answers_prose_is_told_so_at_once(prose: str) -> None:
    """Waiting helps where a provider is down; here the next question has to say what was wrong."""

    async def work(step: Any, results: Any) -> str:
        return "done"

    asked: list[str] = []

    def answer(prompt: Prompt) -> str:
        if "Plan how" not in prompt.system:
            return '{"is_match": true}' if "one capability" in prompt.system else "fine"
        asked.append(prompt.system)
        plan = json.dumps({"steps": [{"capability": "act", "context_key": "done"}]})
        return prose if len(asked) == 1 else plan

    act = capability("act", "Activate for every action")(work)
    policy = SelectionPolicy(strategy="llm")  # type: ignore[arg-type]
    sleeper = Sleeper()
    app = Application(CapabilityRegistry([act]), ScriptedModel(answer), policy=policy)
    state = asyncio.run(Agent(app, sleep=sleeper).run("act"))
    assert state["control_outcome"] == "respond"
    assert len(asked) == 2
    assert "An earlier attempt failed: " in asked[1]
    assert "the plan is not " in asked[1]
    assert sleeper.slept == []


def test_a_selected_capability_without_a_node_is_planned_around() -> None:
    async def work(step: Any, results: Any) -> str:
        return "done"

    app = application(work, plan="hollow", switches=Switches(capability_bypass=True))
    hollow = CapabilityRegistry([*app.registry.get_all_capabilities(), capability("hollow", "x")(None)])  # type: ignore[arg-type]
    run = asyncio.run(follow(Agent(Application(hollow, app.model, switches=app.switches)), "act"))
    assert run[-1].state["control_outcome"] == "error"


def test_a_model_outage_ends_in_an_error_that_says_so() -> None:
    down = ScriptedModel(lambda prompt: UpstreamUnavailable("connection refused"))
    app = load_application(EXAMPLE)
    agent = Agent(Application(app.registry, down), sleep=Sleeper())
    state = asyncio.run(agent.run("What is the weather like in Oslo?"))
    assert state["control_outcome"] == "error"
    assert "orchestrator is temporarily unavailable" in state["response"]


def test_a_selection_outage_is_labelled_and_the_policys_answer_is_used() -> None:
    async def work(step: Any, results: Any) -> str:
        return "done"

    app = application(work, policy=SelectionPolicy(strategy="llm", on_failure="all"))  # type: ignore[arg-type]
    down = ScriptedModel(lambda prompt: UpstreamUnavailable("connection refused"))
    labelled = Application(app.registry, app.model, judge_model=down, policy=app.policy)
    state = asyncio.run(Agent(labelled).run("act"))
    assert state["planning_active_capabilities"] == ["act"]
    assert state["planning_selection_abstained"] == "unavailable: connection refused"
    assert state["control_outcome"] == "respond"


def test_a_run_can_be_stopped_between_two_moves_and_says_so() -> None:
    done = []

    async def work(step: Any, results: Any) -> str:
        done.append(step)
        return "done"

    app = application(work)
    run = asyncio.run(follow(Agent(app, stop=lambda: "the user pressed stop" if done else ""), "act"))
    assert nodes(run)[-3:] == ["act", "error", "__end__"]
    assert "the run was stopped: the user pressed stop" in run[-1].state["response"]


def test_judging_runs_in_parallel_under_its_limit() -> None:
    from pointsman.orchestrator import answer_batches
    from pointsman.vocabulary import ModelQuery, ModelReply

    running = most = 0

    async def ask(need: ModelQuery) -> ModelReply:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return ModelReply(need.text)

    def questions() -> Any:
        answers = yield tuple(ModelQuery("judge", "", str(at)) for at in range(20))
        return [answer.text for answer in answers]

    assert asyncio.run(answer_batches(questions(), ask)) == [str(at) for at in range(20)]
    assert most == 5


def test_a_capability_may_not_be_called_like_a_node() -> None:
    async def work(step: Any, results: Any) -> None: ...

    clash = CapabilityRegistry([capability("error", "x")(work)])
    with pytest.raises(ConfigError, match='"error" has the same name as a router node'):
        Application(clash, ScriptedModel())


def test_a_mistake_in_a_capability_is_logged_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    example = ClassifierExample("What time is it?", result=True)

    @capability("clock", "Activate when user asks for the time", examples=[example])
    async def clock(step: Any, results: Any) -> str:
        return str(results["token"])

    plan = json.dumps({"steps": [{"capability": "clock", "context_key": "now"}]})
    application = Application(
        CapabilityRegistry([clock]),
        ScriptedModel(lambda _: plan),
        policy=SelectionPolicy(strategy=Strategy.LOCAL),
    )
    state = asyncio.run(Agent(application).run("What time is it?"))
    assert "clock is set up wrongly" in state["response"]
    [told] = [each for each in caplog.records if each.name == "pointsman.runs"]
    assert told.getMessage() == "clock failed: KeyError('token')"
    assert told.exc_info is not None
    assert isinstance(told.exc_info[1], KeyError)

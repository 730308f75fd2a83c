"""Questions of a run: decided by the engine, asked of the model of their tier, and recorded."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pointsman import Pointsman
from pointsman.capabilities import CapabilityRegistry, SelectionPolicy, Strategy, capability
from pointsman.config.shapes import RunSpec
from pointsman.decision.decision import Decision, run_of
from pointsman.errors import ConfigError, UpstreamError
from pointsman.orchestrator import Agent, Application
from pointsman.orchestrator._tiered_model import TieredModel
from pointsman.orchestrator.langgraph import build_graph, new_turn
from pointsman.orchestrator.machine import Limits
from pointsman.reports.savings import SavingsCalculator
from pointsman.stores.ledger.runs import RunUsage, run_record, usage_by_run
from pointsman.testing import ScriptedModel
from pointsman.vocabulary import AgentRole, ModelSpec, Prompt, Tier
from support.servers import Asked, ScriptedUpstream, reply

#: A task of tier REASONING for any profile.
HARD = "Prove step by step that the algorithm terminates, and derive its complexity. act"


#: Of every answer, as OpenAI reports it.
USAGE = {"prompt_tokens": 120, "completion_tokens": 30, "prompt_tokens_details": {"cached_tokens": 20}}


class Provider:
    """Answers the questions of a run as any model would; some models are down."""

    def __init__(self, *down: str) -> None:
        self.down = set(down)
        self.asked: list[tuple[str, str]] = []  # model, the question's first words
        self.texts: list[str] = []

    async def __call__(self, asked: Asked, send: Any) -> None:
        body = json.loads(asked.body)
        system = next(each["content"] for each in body["messages"] if each["role"] == "system")
        self.asked.append((body["model"], system.split()[0]))
        self.texts += [each["content"] for each in body["messages"] if each["role"] == "user"]
        if body["model"] in self.down:
            await reply(send, 503, b"{}")
            return
        await reply(
            send,
            200,
            json.dumps(
                {
                    "choices": [{"message": {"role": "assistant", "content": said(system)}}],
                    "usage": USAGE,
                }
            ).encode(),
        )


def said(system: str) -> str:
    if "Plan how" in system:
        return json.dumps({"steps": [{"capability": "act", "context_key": "done"}]})
    return '{"is_match": true}' if "one capability" in system else "fine"


def written(folder: Path, url: str, more: str = "") -> Path:
    file = folder / "pointsman.toml"
    file.write_text(
        f'[upstreams.main]\nbase_url = "{url}/v1"\nformats = ["chat"]\n'
        '[models]\nsmall = { upstream = "main", id = "small-1" }\n'
        'large = { upstream = "main", id = "large-1" }\n'
        '[tiers]\nsimple = "small"\nreasoning = ["large", "small"]\n'
        f'[ledger]\npath = "ledger.sqlite"\n[sessions]\nstore = "sqlite"\npath = "sessions.sqlite"\n{more}'
    )
    return file


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., tuple[Pointsman, Provider]]]:
    running: list[Any] = []

    def begin(*down: str, more: str = "") -> tuple[Pointsman, Provider]:
        provider = Provider(*down)
        upstream = ScriptedUpstream(provider).running()
        pointsman = Pointsman.from_config(written(tmp_path, upstream.__enter__(), more))
        running.extend((upstream, pointsman))
        return pointsman, provider

    yield begin
    for each in reversed(running):
        each.__exit__(None, None, None)


async def no_wait(seconds: float) -> None:
    return


async def work(step: Any, results: Any) -> str:
    return "done"


def application(**options: Any) -> Application:
    registry = CapabilityRegistry([capability("act", "Activate for every action")(work)])
    return Application(registry, policy=SelectionPolicy(strategy=Strategy.LLM), **options)


def decisions(pointsman: Pointsman, session: str = "s") -> list[Decision]:
    return list(pointsman.runtime.ledger.decisions(session=session, newest_first=False))


Start = Callable[..., tuple[Pointsman, Provider]]


@pytest.mark.parametrize("langgraph", [False, True])
def test_each_question_is_a_decision_and_its_model_that_of_its_tier(start: Start, langgraph: bool) -> None:
    pointsman, provider = start()
    app = pointsman.application(application())
    if langgraph:
        state = asyncio.run(build_graph(app).ainvoke(new_turn(HARD, session="s")))
    else:
        state = asyncio.run(Agent(app).run(HARD, session="s"))
    assert state["response"] == "fine"
    found = decisions(pointsman)
    assert len(found) == len(provider.asked) == 3  # judged, planned, answered
    assert [(decision.input.role, decision.input.session) for decision in found] == [
        (AgentRole.HELPER, "s"),
        (AgentRole.SUBAGENT, "s:orchestrator"),
        (AgentRole.MAIN, "s"),
    ]
    for decision, (model, _) in zip(found, provider.asked, strict=True):
        assert decision.tier is not None
        assert decision.chain[0] == ("large" if decision.tier.tier is Tier.REASONING else "small")
        [attempt] = pointsman.runtime.ledger.attempts(decision.id)
        assert (attempt.model + "-1", attempt.status, attempt.upstream) == (model, 200, "main")
        assert (attempt.input_tokens, attempt.cached_tokens, attempt.output_tokens) == (120, 20, 30)
    assert Tier.REASONING in {decision.tier.tier for decision in found if decision.tier}


def test_an_answer_gets_the_text_of_its_domains_as_the_gateway_would_add_it(start: Start) -> None:
    pointsman, provider = start(more='[domains]\nmode = "on"\n')
    task = "now fix this bug in the login function of the API"
    asyncio.run(Agent(pointsman.application(application())).run(f"/chat {task}", session="s"))
    [decision] = decisions(pointsman)
    [injection] = decision.injections
    assert provider.texts == [f"user: {task}\n\n{injection.text}"]


def test_a_run_is_read_with_its_questions_and_what_they_took(start: Start) -> None:
    pointsman, _ = start("large-1")
    ledger = pointsman.runtime.ledger
    agent = Agent(pointsman.application(application()))
    asyncio.run(agent.run("/chat hello", session="s"))
    state = asyncio.run(agent.run(HARD, session="s"))
    pointsman.decide("beside it", session="s")
    found = run_record(ledger, state["control_run_id"])
    assert found is not None
    assert [run_of(record.decision)[1] for record in found.questions] == [
        "classifier",
        "orchestrator",
        "respond",
    ]
    failed = sum(attempt.status != 200 for record in found.questions for attempt in record.attempts)
    assert found.usage == RunUsage(3, 3 + failed, 360, 60, 90, 0)
    assert set(usage_by_run(ledger.records(session="s"))) == {run[0].run for run in ledger.runs()}
    assert run_record(ledger, "r-none") is None


def test_the_questions_of_a_run_count_in_the_savings(start: Start) -> None:
    pointsman, _ = start()
    asyncio.run(Agent(pointsman.application(application())).run(HARD, session="s"))
    models = {
        name: ModelSpec(name, "main", name, input_per_million=price, output_per_million=price)
        for name, price in (("small", 1.0), ("large", 10.0))
    }
    found = SavingsCalculator(models, "large").total(pointsman.runtime.ledger.totals())
    assert (found.turns, found.counted, found.no_usage) == (3, 3, 0)
    assert found.at_baseline == pytest.approx(3 * 150 * 10 / 1e6)


def test_a_simple_task_asks_the_small_model_alone(start: Start) -> None:
    pointsman, provider = start()
    asyncio.run(Agent(pointsman.application(application())).run("/chat hello", session="s"))
    assert [model for model, _ in provider.asked] == ["small-1"]


def test_the_fallback_chain_is_followed_and_each_try_recorded(start: Start) -> None:
    pointsman, provider = start("large-1")
    state = asyncio.run(Agent(pointsman.application(application())).run(HARD, session="s"))
    assert state["control_outcome"] == "respond"
    hard = [decision for decision in decisions(pointsman) if decision.chain == ("large", "small")]
    assert hard
    for decision in hard:
        tried = pointsman.runtime.ledger.attempts(decision.id)
        assert [(attempt.number, attempt.model, attempt.status, attempt.error) for attempt in tried] == [
            (1, "large", 503, "status"),  # as the gateway records it
            (2, "small", 200, ""),
        ]
    assert [model for model, _ in provider.asked].count("large-1") == len(hard)


def test_when_every_model_is_down_the_run_retries_and_then_says_so(start: Start) -> None:
    pointsman, _ = start("large-1", "small-1")
    agent = Agent(pointsman.application(application()), sleep=no_wait)
    state = asyncio.run(agent.run("/chat hello", session="s"))
    assert state["control_outcome"] == "error"
    [run] = pointsman.runtime.ledger.runs(session="s")
    assert [entry.kind for entry in run].count("retry") == 3
    assert len(decisions(pointsman)) == 4


def test_the_persons_message_counts_once_in_the_memory_of_the_session(start: Start) -> None:
    pointsman, _ = start()
    agent = Agent(pointsman.application(application()))
    first = asyncio.run(agent.run("act", session="s"))
    memory = pointsman.runtime.memories.load("s")
    assert memory.turns == 1
    asyncio.run(agent.run("act again", first))
    assert pointsman.runtime.memories.load("s").turns == 2


def test_limits_and_selection_come_from_the_file_where_the_application_has_the_defaults(start: Start) -> None:
    pointsman, _ = start(
        more='[run]\nmax_steps = 2\n[capabilities]\nthreshold = 0.7\nmodel = "large"\n'
        'always_active = ["act", "elsewhere"]\n'
    )
    plain = pointsman.application(Application(application().registry))
    assert plain.limits == Limits(max_steps=2)
    assert (plain.policy.threshold, plain.policy.model) == (0.7, "large")
    assert plain.judge_model is not None
    assert plain.registry.get_always_active_capability_names() == ["act"]
    own = pointsman.application(application(limits=Limits(max_steps=7)))
    assert own.limits.max_steps == 7
    assert own.policy.threshold == SelectionPolicy().threshold
    state = asyncio.run(Agent(plain).run("act", session="s"))
    [run] = pointsman.runtime.ledger.runs(session="s")
    assert "routing.steps_spent" in [entry.code for entry in run]
    assert state["control_outcome"] == "error"


def test_the_limits_of_the_file_are_those_of_the_machine_by_default() -> None:
    given = {name: getattr(Limits(), name) for name in RunSpec.__struct_fields__}
    assert RunSpec(**given) == RunSpec()


def test_a_model_of_the_applications_own_is_asked_directly(start: Start) -> None:
    pointsman, provider = start()
    own = ScriptedModel("fine")
    asyncio.run(Agent(pointsman.application(application(model=own))).run("/chat hello", session="s"))
    assert (len(own.asked), provider.asked, decisions(pointsman)) == (1, [], [])
    [run] = pointsman.runtime.ledger.runs()
    assert run[-1].code == "routing.finished"


def test_without_any_model_the_error_says_where_one_comes_from() -> None:
    with pytest.raises(ConfigError, match="has no model"):
        Agent(Pointsman().application(application()))


def test_a_tier_without_a_model_that_can_be_asked_is_an_error_that_says_so(start: Start) -> None:
    pointsman, _ = start()
    model = TieredModel(pointsman.runtime, {})
    with pytest.raises(UpstreamError, match="no model can be asked: small"):
        asyncio.run(model.complete(Prompt("Which?", "hello"), timeout=5))

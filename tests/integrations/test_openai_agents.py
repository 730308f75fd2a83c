"""Models of the OpenAI Agents SDK, chosen for each call: with its test models, and against the demo."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents")

from agents import Agent, Model, RunConfig, Runner, function_tool
from agents.models.openai_chatcompletions import OpenAIChatCompletionsModel
from agents.models.openai_responses import OpenAIResponsesModel
from agents.testing import ScriptedModel, assistant_message, function_call
from openai import AsyncOpenAI

from pointsman import Pointsman
from pointsman.config.shapes import demo_config
from pointsman.factory import default_policy
from pointsman.gateway.build import Builder
from pointsman.guidance import GuidancePolicy, Mode
from pointsman.integrations.openai_agents import RoutingProvider, hint_filter
from support.hosts import HARD, PATIENCE, FailingPoints, SlowPoints, not_there, two_models
from support.servers import gateway


def model(name: str, times: int = 1) -> ScriptedModel:
    return ScriptedModel([[assistant_message(name)]] * times)


@function_tool
def edit(path: str) -> str:
    """Edit a file."""
    return "Error: no such file or directory"


def stuck(calls: int = 8) -> ScriptedModel:
    """A model whose tool fails again and again."""
    steps: list[Any] = [
        [function_call("edit", {"path": f"f{number}"}, call_id=f"c{number}")] for number in range(calls)
    ]
    return ScriptedModel([*steps, [assistant_message("done")]])


def hints(asked: ScriptedModel) -> list[int]:
    """How many hints each call held."""
    return [str(call.input).count("<pointsman") for call in asked.calls]


def run(provider: RoutingProvider, text: str, **more: Any) -> Any:
    agent = Agent("helper", instructions="Help.", tools=[edit])
    config = RunConfig(model_provider=provider, tracing_disabled=True, **more)
    return asyncio.run(Runner.run(agent, text, run_config=config, max_turns=50))


def test_each_call_is_asked_of_the_model_of_its_tier(tmp_path: Path) -> None:
    with two_models(tmp_path) as points:
        models = {"small": model("small"), "large": model("large")}
        provider = RoutingProvider(models, points, default=model("own"), timeout=PATIENCE)
        assert [run(provider, text).final_output for text in ("Hello!", HARD)] == ["small", "large"]
        points.runtime.ledger.flush()
        given = [each.input for each in points.runtime.ledger.decisions(limit=None)]
    assert [(each.format, each.tools) for each in given] == [("responses", 1)] * 2


def test_an_agent_with_a_model_of_its_own_keeps_it(tmp_path: Path) -> None:
    named = {"gpt-own": model("own")}

    class Base(RoutingProvider):
        def get_model(self, model_name: str | None) -> Model:
            return named[str(model_name)]

    with two_models(tmp_path) as points:
        provider = RoutingProvider({"large": model("large")}, points, base=Base({}), timeout=PATIENCE)
        assert run(provider, HARD, model="gpt-own").final_output == "own"


def test_a_streamed_run_is_routed_too(tmp_path: Path) -> None:
    async def streamed(provider: RoutingProvider) -> Any:
        config = RunConfig(model_provider=provider, tracing_disabled=True)
        result = Runner.run_streamed(Agent("helper", model="auto"), HARD, run_config=config)
        async for _ in result.stream_events():
            pass
        return result.final_output

    with two_models(tmp_path) as points:
        models = {"large": model("large")}
        provider = RoutingProvider(models, points, default=model("own"), timeout=PATIENCE)
        assert asyncio.run(streamed(provider)) == "large"


def test_a_stuck_agent_gets_a_hint_that_its_history_does_not_keep(tmp_path: Path) -> None:
    asked = stuck()
    with two_models(tmp_path) as points:
        result = run(RoutingProvider({}, points, default=asked, timeout=PATIENCE), "Fix the bug")
        points.runtime.ledger.flush()
        decided = list(points.runtime.ledger.decisions(limit=None))
    assert result.final_output == "done"
    assert hints(asked)[:3] == [0, 0, 0]
    assert hints(asked)[-1] >= 1
    assert hints(asked) == sorted(hints(asked))  # what was added stays at its message
    assert "<pointsman" not in str(result.to_input_list())
    assert len({each.input.session for each in decided}) == 1


def test_a_filter_adds_hints_alone(tmp_path: Path) -> None:
    asked = stuck()
    with two_models(tmp_path) as points:
        agent = Agent("helper", model=asked, tools=[edit])
        config = RunConfig(
            call_model_input_filter=hint_filter(points, timeout=PATIENCE), tracing_disabled=True
        )
        result = asyncio.run(Runner.run(agent, "Fix the bug", run_config=config, max_turns=50))
    assert result.final_output == "done"
    assert hints(asked)[0] == 0
    assert hints(asked)[-1] >= 1


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
def test_a_configured_stop_ends_the_run(streams: bool) -> None:
    stopping = GuidancePolicy(mode=Mode.ON, escalate=("stop",), control=0.0)
    points = Pointsman(replace(default_policy(), guidance=stopping))
    asked = stuck(40)
    provider = RoutingProvider({}, points, default=asked, timeout=PATIENCE)

    async def streamed() -> Any:
        config = RunConfig(model_provider=provider, tracing_disabled=True)
        result = Runner.run_streamed(Agent("a", tools=[edit]), "Fix it", run_config=config, max_turns=50)
        async for _ in result.stream_events():
            pass
        return result

    result = asyncio.run(streamed()) if streams else run(provider, "Fix it")
    assert result.final_output.startswith("Pointsman stopped this run: ")
    assert len(asked.calls) < 20


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The demo behind a gateway, on a port of loopback."""
    from msgspec.structs import replace as changed

    config = demo_config()
    ledger = changed(config.ledger, path=tmp_path_factory.mktemp("demo") / "ledger.sqlite")
    build = Builder(lambda: changed(config, ledger=ledger, server=changed(config.server, port=0)))
    with closing(build), closing(build()) as state, gateway(state) as running:
        yield running.url + "/v1"


@pytest.mark.integration
@pytest.mark.parametrize("kind", [OpenAIChatCompletionsModel, OpenAIResponsesModel])
def test_a_run_against_the_demo(tmp_path: Path, demo: str, kind: Any) -> None:
    async def asked(points: Pointsman) -> list[str]:
        async with AsyncOpenAI(base_url=demo, api_key="none", timeout=PATIENCE) as client:
            models = {name: kind(f"demo-{name}", client) for name in ("small", "large")}
            provider = RoutingProvider(models, points, default=models["small"], timeout=PATIENCE)
            config = RunConfig(model_provider=provider, tracing_disabled=True)
            agent = Agent("helper", instructions="Help.")
            return [
                (await Runner.run(agent, text, run_config=config)).final_output for text in ("Hello!", HARD)
            ]

    with two_models(tmp_path) as points:
        small, large = asyncio.run(asked(points))
    assert "demo-small would have answered" in small
    assert "demo-large would have answered" in large


@pytest.mark.parametrize("points", [FailingPoints, SlowPoints, not_there], ids=["raises", "slow", "absent"])
def test_the_agent_goes_on_with_its_own_model(points: Any, caplog: pytest.LogCaptureFixture) -> None:
    timeout = 0.01 if points is SlowPoints else PATIENCE
    provider = RoutingProvider({"complex": model("strong")}, points, default=model("own", 2), timeout=timeout)
    with closing(provider.host), caplog.at_level(logging.WARNING, "pointsman.integrations"):
        assert [run(provider, HARD).final_output for _ in range(2)] == ["own", "own"]
    assert sum("goes on with its own choice" in each.getMessage() for each in caplog.records) == 1

"""Time that each adapter adds to a request of its host, beside the host alone in the same run.

    .venv/bin/python benchmarks/adapters.py [--rounds 200] [--only NAME]
    .venv-litellm/bin/python benchmarks/adapters.py --only litellm

Each host serves the same short request with a model that answers at once, by turns without and with the
adapter; the order changes with each round. The figures are medians of the CPU time of this process, all
threads together: other work on the machine lengthens the time on the clock. ``decision`` is the library
alone, in a loop that keeps caches warm. Hosts that are not installed are left out, and named.
"""

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
logging.disable(logging.WARNING)

from pointsman import Pointsman  # noqa: E402 - LiteLLM reads the environment when it is imported

TEXT = "Prove step by step that the square root of two is irrational."
CONFIG = """
[upstreams.demo]
base_url = "demo:"
[models]
small = { upstream = "demo", id = "small" }
large = { upstream = "demo", id = "large" }
[tiers]
simple = "small"
reasoning = "large"
[guidance]
mode = "on"
[ledger]
path = "ledger.sqlite"
[sessions]
store = "memory"
"""

Call = Callable[[], Awaitable[object]]


class Pair(NamedTuple):
    """A request to a host without and with the adapter."""

    alone: Call
    decided: Call


async def nothing() -> None:
    return None


def decision(points: Pointsman) -> Pair:
    return Pair(nothing, lambda: points.decide_async(TEXT))


def litellm(points: Pointsman) -> Pair:
    from litellm import Router

    from pointsman.integrations.litellm import Classifier

    def router(**config: object) -> Any:
        def model(name: str) -> dict[str, Any]:
            params = {"model": f"openai/{name}", "api_key": "none", "mock_response": name}
            return {"model_name": name, "litellm_params": params}

        tiers = {"SIMPLE": "small", "MEDIUM": "small", "COMPLEX": "large", "REASONING": "large"}
        params = {"model": "auto_router/complexity_router", "complexity_router_default_model": "small",
                  "complexity_router_config": {"tiers": tiers, **config}}  # fmt: skip
        auto = {"model_name": "auto", "litellm_params": params}
        return Router(model_list=[model("small"), model("large"), auto])

    def call(asked: Any) -> Call:
        return lambda: asked.acompletion(model="auto", messages=[{"role": "user", "content": TEXT}])

    ours = router(classifier_type="custom", classifier_plugin=Classifier(points))
    return Pair(call(router()), call(ours))


def pydantic_ai(points: Pointsman) -> Pair:
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel

    from pointsman.integrations.pydantic_ai import Routing

    small, large = TestModel(custom_output_text="small"), TestModel(custom_output_text="large")
    routing = Routing({"small": small, "large": large}, points)
    alone, decided = Agent(small), Agent(small, capabilities=[routing])
    return Pair(lambda: alone.run(TEXT), lambda: decided.run(TEXT))


def openai_agents(points: Pointsman) -> Pair:
    from agents import Agent, Model, RunConfig, Runner
    from agents.testing import ScriptedModel, assistant_message

    from pointsman.integrations.openai_agents import RoutingProvider

    def call(model: Model | None, **more: Any) -> Call:
        config = RunConfig(tracing_disabled=True, **more)
        return lambda: Runner.run(Agent("helper", model=model), TEXT, run_config=config)

    def scripted() -> Any:
        return ScriptedModel([[assistant_message("done")]] * 100_000)

    provider = RoutingProvider({"large": scripted()}, points, default=scripted())
    return Pair(call(scripted()), call(None, model_provider=provider))


def langchain(points: Pointsman) -> Pair:
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import FakeListChatModel
    from langchain_core.messages import HumanMessage

    from pointsman.integrations.langchain import routing_middleware

    small, large = FakeListChatModel(responses=["small"]), FakeListChatModel(responses=["large"])
    routing = routing_middleware({"small": small, "large": large}, points)
    alone, decided = create_agent(small, []), create_agent(small, [], middleware=[routing])
    asked: Any = {"messages": [HumanMessage(TEXT)]}
    return Pair(lambda: alone.ainvoke(asked), lambda: decided.ainvoke(asked))


def langchain_sync(points: Pointsman) -> Pair:
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import FakeListChatModel
    from langchain_core.messages import HumanMessage

    from pointsman.integrations.langchain import routing_middleware

    small, large = FakeListChatModel(responses=["small"]), FakeListChatModel(responses=["large"])
    routing = routing_middleware({"small": small, "large": large}, points)
    agents = create_agent(small, []), create_agent(small, [], middleware=[routing])
    asked: Any = {"messages": [HumanMessage(TEXT)]}

    def call(agent: Any) -> Call:
        async def invoked() -> None:
            agent.invoke(asked)

        return invoked

    return Pair(call(agents[0]), call(agents[1]))


def open_webui(points: Pointsman) -> Pair:
    from pointsman.integrations.open_webui import ChatFilter

    chat = ChatFilter({"small": "a", "large": "b"}, points)
    body = {"model": "chosen", "messages": [{"role": "user", "content": TEXT}]}
    return Pair(nothing, lambda: chat.inlet(body, {"id": "u1"}, {"chat_id": "c1", "message_id": "m1"}))


HOSTS = {
    "decision": decision,
    "litellm": litellm,
    "pydantic-ai": pydantic_ai,
    "openai-agents": openai_agents,
    "langchain": langchain,
    "langchain, invoke": langchain_sync,
    "open-webui": open_webui,
}


async def measured(pair: Pair, rounds: int) -> tuple[float, float]:
    """Medians of the CPU seconds of a request alone and with the adapter."""
    found: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(10):
        await pair.alone()
        await pair.decided()
    for number in range(rounds):
        gc.collect(0)
        for is_decided in (number % 2 == 0, number % 2 == 1):
            call = pair.decided if is_decided else pair.alone
            began = time.process_time()
            await call()
            found[is_decided].append(time.process_time() - began)
    return statistics.median(found[False]), statistics.median(found[True])


@contextlib.contextmanager
def configured() -> Iterator[Pointsman]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pointsman.toml"
        file.write_text(CONFIG, encoding="utf-8")
        with Pointsman.from_config(file) as points:
            yield points


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--only", choices=HOSTS)
    given = parser.parse_args()
    print(
        f"{'host':<20} {'alone':>10} {'with':>10} {'added':>10} {'ratio':>7}   (CPU, {given.rounds} rounds)"
    )
    missing = []
    for name in [given.only] if given.only else HOSTS:
        with configured() as points:
            try:
                pair = HOSTS[name](points)
            except ImportError:
                missing.append(name)
                continue
            alone, decided = asyncio.run(measured(pair, given.rounds))
        ratio = f"{decided / alone:.2f}" if alone > 1e-5 else "-"
        print(f"{name:<20} {alone * 1e3:>7.3f} ms {decided * 1e3:>7.3f} ms "
              f"{(decided - alone) * 1e6:>7.0f} us {ratio:>7}", flush=True)  # fmt: skip
    if missing:
        print(f"not installed: {', '.join(missing)}")


if __name__ == "__main__":
    main()

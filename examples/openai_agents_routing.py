"""An agent of the OpenAI Agents SDK whose model is chosen for each call; the SDK's test models answer.

pip install "pointsman[openai-agents]"
python examples/openai_agents_routing.py
"""

import asyncio

from agents import Agent, RunConfig, Runner
from agents.testing import ScriptedModel, assistant_message

from pointsman import Pointsman
from pointsman.integrations.openai_agents import RoutingProvider


def model(name: str) -> ScriptedModel:
    """A model that answers with its name; the name of a real one goes here."""
    return ScriptedModel([[assistant_message(f"This is {name}.")]])


async def main() -> None:
    """Ask twice, and print who answered."""
    models = {"simple": model("small"), "reasoning": model("large")}
    provider = RoutingProvider(models, Pointsman, default=model("medium"), timeout=60)
    config = RunConfig(model_provider=provider, tracing_disabled=True)
    for text in ("Hello!", "Prove step by step that the square root of two is irrational."):
        result = await Runner.run(Agent("helper"), text, run_config=config)
        print(f"{text}\n  {result.final_output}")


asyncio.run(main())

"""An agent of Pydantic AI whose model is chosen for each step; the library's test models answer.

pip install "pointsman[pydantic-ai]"
python examples/pydantic_ai_routing.py
"""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from pointsman import Pointsman
from pointsman.integrations.pydantic_ai import Routing


def model(name: str) -> TestModel:
    """A model that answers with its name; a real one goes here."""
    return TestModel(model_name=name, custom_output_text=f"This is {name}.")


async def main() -> None:
    """Ask twice, and print who answered."""
    routing = Routing({"simple": model("small"), "reasoning": model("large")}, Pointsman, timeout=60)
    agent = Agent(model("medium"), capabilities=[routing])
    for text in ("Hello!", "Prove step by step that the square root of two is irrational."):
        print(f"{text}\n  {(await agent.run(text)).output}")


asyncio.run(main())

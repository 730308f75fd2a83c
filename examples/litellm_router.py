"""LiteLLM's Router, whose tiers Pointsman decides; no model is called.

pip install "pointsman[litellm]"
LITELLM_LOCAL_MODEL_COST_MAP=True python examples/litellm_router.py
"""

import asyncio

from litellm import Router

from pointsman import Pointsman
from pointsman.integrations.litellm import Classifier


def model(name: str) -> dict[str, object]:
    """A model that answers with its name."""
    params = {"model": f"openai/{name}", "api_key": "none", "mock_response": f"This is {name}."}
    return {"model_name": name, "litellm_params": params}


TIERS = {"SIMPLE": "small", "MEDIUM": "small", "COMPLEX": "large", "REASONING": "large"}
CONFIG = {
    "classifier_type": "custom",
    "classifier_plugin": Classifier(Pointsman(), timeout=60),
    "tiers": TIERS,
    "classifier_plugin_timeout_ms": 60_000,
}
AUTO = {
    "model_name": "auto",
    "litellm_params": {
        "model": "auto_router/complexity_router",
        "complexity_router_config": CONFIG,
        "complexity_router_default_model": "small",
    },
}


async def main() -> None:
    """Ask twice, and print who answered and why."""
    router = Router(model_list=[model("small"), model("large"), AUTO])
    for text in ("Hello!", "Prove step by step that the square root of two is irrational."):
        metadata: dict[str, dict[str, object]] = {"pointsman": {}}  # room for the reasons
        answer = await router.acompletion(
            model="auto", messages=[{"role": "user", "content": text}], metadata=metadata
        )
        told = metadata["pointsman"]
        print(f"{text}\n  {told['tier']}, {told['reasons']}: {answer.choices[0].message.content}")


asyncio.run(main())

"""An application that a configuration names by entry point."""

from collections.abc import Mapping
from typing import Any

from pointsman.capabilities import CapabilityRegistry, capability
from pointsman.orchestrator import Application

__all__ = ["REGISTRY", "application"]


@capability("weather", "Activate when user requests weather information")
async def weather(step: Mapping[str, Any], results: Mapping[str, Any]) -> str:
    return "snow"


REGISTRY = CapabilityRegistry([weather])
application = Application(REGISTRY)

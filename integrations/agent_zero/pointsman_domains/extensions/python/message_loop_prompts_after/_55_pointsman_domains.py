"""Adds the guidance of the current task domains to the prompt that is being built."""

import logging
from typing import Any

try:
    from helpers.extension import Extension  # Agent Zero 1.x
except ImportError:
    from python.helpers.extension import Extension  # Agent Zero 0.9

try:
    from pointsman.integrations.agent_zero import enrich
except ImportError as missing:
    logging.getLogger(__name__).warning("pointsman_domains does nothing: %s; pip install pointsman", missing)
    enrich = None


class PointsmanDomains(Extension):
    async def execute(self, loop_data: Any = None, **kwargs: Any) -> None:
        if enrich and self.agent and loop_data:
            enrich(self.agent, loop_data)

"""What an adapter's Pointsman does in tests: decides, fails, takes too long, or is not there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from pointsman import Pointsman
from pointsman.errors import ConfigError, StoreUnavailable
from support.keywords import keywords_profile

__all__ = ["HARD", "PATIENCE", "FailingPoints", "SlowPoints", "not_there", "two_models"]

#: A prompt of the highest tier.
HARD = "Prove step by step that the square root of two is irrational."
#: Seconds that a decision may take in a test in which it is to come: a busy machine takes longer.
PATIENCE = 60.0

CONFIG = """
[upstreams.demo]
base_url = "demo:"

[models]
small = { upstream = "demo", id = "demo-small" }
large = { upstream = "demo", id = "demo-large" }

[tiers]
profile = "keywords.toml"
simple = "small"
medium = "small"
complex = "large"
reasoning = "large"

[guidance]
mode = "on"
control = 0.0

[ledger]
path = "ledger.sqlite"

[sessions]
store = "memory"
"""


def two_models(folder: Path) -> Pointsman:
    """A gateway's configuration with two models and guidance on, decided in this process."""
    file = folder / "pointsman.toml"
    file.write_text(CONFIG, encoding="utf-8")
    keywords_profile(folder)
    return Pointsman.from_config(file)


class FailingPoints(Pointsman):
    """Raises at every decision and outcome."""

    async def decide_async(self, *arguments: Any, **named: Any) -> Any:
        raise StoreUnavailable("the store is gone")

    async def record_outcome_async(self, *arguments: Any, **named: Any) -> None:
        raise StoreUnavailable("the store is gone")


class SlowPoints(Pointsman):
    """Never ends."""

    async def decide_async(self, *arguments: Any, **named: Any) -> Any:
        await asyncio.Event().wait()


def not_there() -> Pointsman:
    """Make none, as where there is no configuration."""
    raise ConfigError("there is no pointsman.toml", hint="pointsman config init writes one")

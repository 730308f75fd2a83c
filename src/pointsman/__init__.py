"""Pointsman: the decision layer for LLM agents."""

from __future__ import annotations

from pointsman.errors import PointsmanError
from pointsman.types import Tier

__all__ = ["PointsmanError", "Tier", "__version__"]

__version__ = "0.1.0"

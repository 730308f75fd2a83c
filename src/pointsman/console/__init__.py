"""Floor 7: the console, the gateway's pages for people."""

from __future__ import annotations

from pointsman.console._login import console_role
from pointsman.console._view import GatewayView
from pointsman.console.app import Console

__all__ = ["Console", "GatewayView", "console_role"]

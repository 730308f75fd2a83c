"""Cline."""

from __future__ import annotations

from typing import Final

from pointsman.vocabulary import Purpose
from pointsman.wire.clients._client import Client, Mark

__all__ = ["CLINE"]

CLINE: Final = Client(
    name="Cline",
    read="version 3.0.65 of November 2026: requests of its command line recorded behind a base URL",
    folders=("Working Directory: ",),
    marks=(
        Mark(
            Purpose.PLAN,
            "Cline is in plan mode",
            system=("You are Cline,",),
            inside="# Plan Mode\n\nYou are in Plan mode.",
            is_main=True,
        ),
        Mark(Purpose.MESSAGE, "Cline's conversation", system=("You are Cline,",), is_main=True),
    ),
)

"""Where files of ours lie by default."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["state_file"]


def state_file(name: str) -> Path:
    """Return where a file of ours lives by default: the user's state directory (XDG base directories)."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "pointsman" / name

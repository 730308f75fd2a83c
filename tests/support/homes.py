"""A home directory as after a login: no configuration, no key, and nothing of this checkout."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

__all__ = ["PATIENCE", "environment"]

#: How long an installation, or a start, may take before it counts as stuck, in seconds.
PATIENCE: Final = 120


def environment(home: Path) -> dict[str, str]:
    """Return the variables of a fresh login. The caches of the installers are shared, to download less."""
    hidden = ("XDG_", "PYTHON", "POINTSMAN_", "VIRTUAL_ENV", "COV_", "MAKE", "MFLAGS")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(hidden) and not name.endswith("_API_KEY")
    }
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for name, folder in (("UV_CACHE_DIR", "uv"), ("PIP_CACHE_DIR", "pip")):
        kept.setdefault(name, str(cache / folder))
    return kept | {"HOME": str(home), "UV_PYTHON": sys.executable, "PIPX_DEFAULT_PYTHON": sys.executable}

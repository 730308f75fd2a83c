"""How an extra is installed: a checkout and a released package need different commands."""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["install_command"]


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation.

    An editable checkout is installed from its directory: the package index may hold another version, or none.
    """
    checkout = _checkout()
    if checkout is None:
        return f"{_pip()} install 'pointsman[{extra}]'"
    place = "." if checkout == Path.cwd() else str(checkout)
    return f"{_pip()} install -e '{place}[{extra}]'"


def _checkout() -> Path | None:
    """The directory of an editable installation, which PEP 610 records; None for any other."""
    from importlib.metadata import PackageNotFoundError, distribution  # 20 ms, for what rarely happens

    try:
        origin = json.loads(distribution("pointsman").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return None
    if not origin.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlsplit(origin.get("url", "")).path))


def _pip() -> str:
    """Name the pip of this Python: in a virtual environment that is not activated, ``pip`` is another one."""
    active = os.environ.get("VIRTUAL_ENV")
    is_apart = sys.prefix != sys.base_prefix and (not active or Path(active) != Path(sys.prefix))
    if find_spec("pip") is None:  # made by uv
        return f"uv pip --python {sys.executable}" if is_apart else "uv pip"
    return f"{sys.executable} -m pip" if is_apart else "pip"

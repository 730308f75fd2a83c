"""Where files of ours lie by default."""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path
from typing import Final

__all__ = ["PROJECT", "of_project", "state_file"]

#: Stands in a configured path for the project of the working directory.
PROJECT: Final = "{project}"


def state_file(name: str) -> Path:
    """Return where a file of ours lives by default: the user's state directory (XDG base directories)."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "pointsman" / name


def of_project(path: Path, directory: Path) -> Path:
    """Return a path with ``{project}`` filled in: the name of the project's folder, and a hash of its path.

    The folder is the nearest one upwards that holds ``.git``, else the directory itself.
    """
    if PROJECT not in str(path):
        return path
    at = directory.resolve()
    folder = next((each for each in (at, *at.parents) if (each / ".git").exists()), at)
    digits = blake2b(str(folder).encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()
    return Path(str(path).replace(PROJECT, f"{folder.name or 'root'}-{digits}"))

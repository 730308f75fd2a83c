"""Reading a file that the configuration or an option names."""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path
from typing import Final

from pointsman.errors import ConfigError

__all__ = ["PROJECT", "of_project", "read", "state_file"]

#: Bytes: a learned router of a hundred thousand weights has 5 MB. A device has no end.
_MOST: Final = 64 << 20


def read(file: Path, *, hint: str = "") -> str:
    """Return the text of a file.

    Raises:
        ConfigError: it cannot be read; ``hint`` is the way out.
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(_MOST + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}", hint=hint) from None
    if len(data) > _MOST:
        raise ConfigError(f"larger than {_MOST >> 20} MiB", place=str(file))
    try:
        text = data.decode("utf-8-sig")  # Windows editors begin a file with a mark
    except UnicodeDecodeError:
        raise ConfigError("not UTF-8", place=str(file)) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


# Where files of ours lie by default.

#: Stands in a configured path for the project of the working directory.
PROJECT: Final = "{project}"


def state_file(name: str) -> Path:
    """Return the default path of a file: the user's state directory (XDG base directories)."""
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

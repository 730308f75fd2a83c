"""Reading a file that the configuration or an option names."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pointsman.errors import ConfigError

__all__ = ["read"]

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

"""Reading a file that the configuration or an option names."""

from __future__ import annotations

from pathlib import Path

from pointsman.errors import ConfigError

__all__ = ["read"]


def read(file: Path, *, hint: str = "") -> str:
    """Return the text of a file.

    Raises:
        ConfigError: it cannot be read; ``hint`` is the way out.
    """
    try:
        return file.read_text(encoding="utf-8-sig")  # Windows editors begin a file with a mark
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}", hint=hint) from None
    except UnicodeDecodeError:
        raise ConfigError("not UTF-8", place=str(file)) from None

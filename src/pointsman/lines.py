"""Numbered lines of a file of JSON lines, plain or gzipped."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from pointsman.errors import PointsmanError

__all__ = ["numbered", "numbered_lines"]


def numbered_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yield number, from 1, and bytes of every line that is not blank; ``.gz`` is unpacked.

    Raises:
        PointsmanError: the file cannot be read, or what is packed in it is damaged or not all there.
    """
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
            yield from numbered(lines)
    except (OSError, EOFError, zlib.error) as error:
        raise PointsmanError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from error


def numbered(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield number, from 1, and bytes of every line that is not blank."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield number, line

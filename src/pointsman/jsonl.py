"""Reading JSON lines, plain or gzipped: numbered lines, and rows with the place of each in errors."""

from __future__ import annotations

import gzip
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from pointsman.decoding import UNREADABLE, why_unreadable
from pointsman.errors import ConfigError, PointsmanError

__all__ = ["decoded", "numbered", "numbered_lines"]

Line = TypeVar("Line")


def numbered_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yield number, from 1, and bytes of every line that is not blank; ``.gz`` is unpacked.

    Raises:
        PointsmanError: the file cannot be read, or its compressed content is damaged or truncated.
    """
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
            yield from numbered(lines)
    except (OSError, EOFError, zlib.error) as error:
        raise PointsmanError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from error


def numbered(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield number, from 1, and bytes of every line that is not blank.

    A byte order mark before the first is left out: editors and shells of Windows write one.
    """
    for number, line in enumerate(lines, start=1):
        text = line.removeprefix(BOM_UTF8) if number == 1 else line
        if text.strip():
            yield number, text


def decoded(
    lines: Iterable[tuple[int, bytes]], decode: Callable[[bytes], Line], file: Path | str
) -> Iterator[tuple[str, Line]]:
    """Yield place (``file:line``) and decoded row of every numbered line.

    Raises:
        ConfigError: a line is not JSON, or of another shape; names file and line.
    """
    for number, line in lines:
        place = f"{file}:{number}"
        try:
            row = decode(line)
        except UNREADABLE as error:
            raise ConfigError(why_unreadable(error), place=place) from error
        yield place, row

"""What every command shares: errors, JSON, and reading lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import typer

from pointsman.errors import ConfigError, MissingExtra, PointsmanError
from pointsman.lines import numbered, numbered_lines

__all__ = [
    "FAILED",
    "USAGE",
    "config_file",
    "json_line",
    "needs_extra",
    "print_json",
    "printable",
    "read_lines",
    "report_error",
    "save",
    "writable",
]

FAILED: Final = 1  # done, but some lines or checks failed
USAGE: Final = 2  # wrong usage or configuration

_encoder: Final = msgspec.json.Encoder()


def report_error(error: PointsmanError) -> int:
    """Print one line, and the way out where one is known. Returns the exit code."""
    typer.echo(f"pointsman: {error}", err=True)
    if error.hint:
        typer.echo(f"  hint: {error.hint}", err=True)
    return USAGE


def json_line(value: object) -> str:
    """One line of JSON."""
    return _encoder.encode(value).decode()


def print_json(value: object) -> None:
    """Indented JSON on standard output."""
    typer.echo(msgspec.json.format(_encoder.encode(value), indent=2).decode())


def config_file(named: Path | None) -> Path:
    """Return the configuration to read: the one named, else the one that is found.

    Raises:
        ConfigError: none is named and none is found.
    """
    from pointsman.config import find

    file = named or find()
    if file is None:
        raise ConfigError(
            "there is no pointsman.toml",
            hint="pointsman config init writes one; pointsman serve --demo needs none",
        )
    return file


def printable(text: str) -> str:
    """Take out what steers a terminal: session ids, models and texts are the caller's."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


@contextmanager
def needs_extra(extra: str, needed_for: str) -> Iterator[None]:
    """Turn a failed import of an optional dependency into the name of the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("pointsman"):
            raise
        raise MissingExtra(extra, needed_for=needed_for) from error


def read_lines(file: Path | None) -> Iterator[tuple[int, bytes]]:
    """Yield the numbered, non-blank lines of a file, or of standard input when ``file`` is None or ``-``.

    A file whose name ends in ``.gz`` is unpacked on the way.

    Raises:
        PointsmanError: the file cannot be read.
    """
    if file is None or str(file) == "-":
        yield from numbered(sys.stdin.buffer)
    else:
        yield from numbered_lines(file)


def writable(file: Path) -> Path:
    """Return a file to be written later: what takes minutes to make is refused a wrong place beforehand.

    Raises:
        PointsmanError: it is a folder, or there is none to put it in.
    """
    if file.is_dir() or not file.parent.is_dir():
        why = "it is a folder" if file.is_dir() else f"there is no folder {file.parent}"
        raise PointsmanError(f"cannot write {file}: {why}")
    return file


def save(file: Path, data: bytes) -> None:
    """Write a file.

    Raises:
        PointsmanError: it cannot be written.
    """
    try:
        file.write_bytes(data)
    except OSError as error:
        raise PointsmanError(f"cannot write {file}: {error.strerror or error}") from error

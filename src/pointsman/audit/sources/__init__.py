"""Sources of logs: one file per origin."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Final

from pointsman.audit.sources.aider import Aider
from pointsman.audit.sources.base import Home, Lines, Log, Source, rows, seconds
from pointsman.audit.sources.claude_code import ClaudeCode
from pointsman.audit.sources.codex import Codex
from pointsman.audit.sources.exports import kind_of
from pointsman.audit.sources.google_style import GeminiCli, QwenCode
from pointsman.audit.sources.opencode import OpenCode
from pointsman.errors import ConfigError, PointsmanError
from pointsman.plugins import load_all

__all__ = ["Home", "Lines", "Log", "Source", "seconds", "session_file", "source_of", "sources"]

#: How an SQLite database begins.
_SQLITE: Final = b"SQLite format 3\0"
_PARQUET: Final = b"PAR1"  # how such a file begins
_PACKED: Final = (b"\x1f\x8b", _PARQUET)  # or one of gzip
#: Lines of a file that are looked at to recognise a client's session.
_LINES: Final = 20


def sources() -> tuple[Source, ...]:
    """The built-in sources, then those of installed packages: classes without arguments, or instances.

    Raises:
        ConfigError: an entry point cannot be loaded, or is no source.
    """
    found: list[Source] = [ClaudeCode(), Codex(), OpenCode(), QwenCode(), GeminiCli(), Aider()]
    for entry, offered in load_all("source"):
        try:
            made = offered() if isinstance(offered, type) else offered
        except Exception as error:  # a package's own code
            raise ConfigError(
                f'the entry point "{entry.name}" ({entry.value}) cannot be loaded: {error}'
            ) from error
        if not isinstance(made, Source):
            raise ConfigError(f'the entry point "{entry.name}" ({entry.value}) is no source of logs')
        found.append(made)
    return tuple(found)


def source_of(file: Path) -> Source:
    """What reads a file that is named on the command line.

    Raises:
        PointsmanError: it cannot be read, or is neither a ledger nor an export that is known.
    """
    try:
        if file.name == Aider.FILE:
            return Aider()
        if (client := session_file(file)) is not None:
            return client
        with file.open("rb") as opened:
            begins = opened.read(len(_SQLITE))
        if begins == _SQLITE:
            from pointsman.audit.sources.own_ledger import OwnLedger  # the stores, which few audits need

            return OwnLedger()
        if begins.startswith(_PACKED):
            is_parquet = begins.startswith(_PARQUET)
            copied = f"of a copy of a ledger pointsman ledger copy {file} FILE.sqlite makes one that is read"
            raise PointsmanError(
                f"{file} is {'Parquet' if is_parquet else 'compressed'}",
                hint=copied if is_parquet else f"gunzip it; {copied}",
            )
        return kind_of(file)
    except OSError as error:
        raise PointsmanError(f"cannot read {file}: {error.strerror or error}") from error


def session_file(file: Path) -> Source | None:
    """The client of this session file, by the members of its first lines; None: it is an export."""
    if file.suffix != ".jsonl":
        return None
    for row in islice(rows(file, Lines()), _LINES):
        if {"type", "sessionId", "uuid"} <= row.keys():
            return ClaudeCode()
        if {"type", "payload"} <= row.keys():
            return Codex()
    return None

"""Rows of an export, read by the names of fields: CSV, a JSON document, or JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from pointsman.audit.sources.base import Lines
from pointsman.errors import PointsmanError

__all__ = ["Row", "count", "fields", "nested", "number", "rows", "text"]

Row: TypeAlias = Mapping[str, Any]

#: Under these names services put their rows into one JSON document.
_LISTS: Final = ("data", "observations", "results", "requests", "logs")
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
#: Bytes of a JSON document that is read at once; JSON lines and CSV are read line by line.
_LARGEST: Final = 1_000_000_000


def rows(file: Path, lines: Lines) -> Iterator[Row]:
    """Yield the rows of an export.

    Raises:
        PointsmanError: the file cannot be read, or is too large to be read at once.
    """
    try:
        with file.open("rb") as opened:
            begin = opened.read(4_096).lstrip(b"\xef\xbb\xbf \r\n\t")
        if begin.startswith(b"[") or (begin.startswith(b"{") and not _is_lines(file)):
            yield from _document(file)
        elif begin.startswith(b"{"):
            yield from lines.read(file, _decode)
        else:
            with file.open(encoding="utf-8-sig", errors="replace", newline="") as opened_text:
                yield from csv.DictReader(opened_text)
    except (OSError, csv.Error) as error:
        raise PointsmanError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from error


def _is_lines(file: Path) -> bool:
    """Whether the first line is a document of its own."""
    with file.open("rb") as opened:
        first = opened.readline(_LARGEST)
    try:
        msgspec.json.decode(first)
    except msgspec.DecodeError:
        return False
    return b'"resourceSpans"' in first or not any(f'"{name}":['.encode() in first for name in _LISTS)


def _document(file: Path) -> Iterator[Row]:
    if file.stat().st_size > _LARGEST:
        raise PointsmanError(
            f"{file} is one JSON document of {file.stat().st_size:,} bytes", hint="export JSON lines or CSV"
        )
    try:
        value = msgspec.json.decode(file.read_bytes())
    except msgspec.DecodeError as error:
        raise PointsmanError(f"{file}: not JSON: {error}") from error
    if isinstance(value, dict):
        value = next((value[name] for name in _LISTS if isinstance(value.get(name), list)), [value])
    yield from (each for each in value if isinstance(each, dict))


def fields(row: Row) -> frozenset[str]:
    """Names of the fields of a row, without capitals, spaces and underscores."""
    return frozenset(map(_plain, row))


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace(" ", "").replace(".", "")


def _get(row: Row, name: str) -> Any:
    """A field by its name, however it is written; ``a/b`` is field b of field a, which may be JSON text."""
    head, _, rest = name.partition("/")
    wanted = _plain(head)
    value = next((each for key, each in row.items() if key and _plain(key) == wanted), None)
    if not rest:
        return value
    inner = nested(value)
    return _get(inner, rest) if inner else None


def nested(value: object) -> Row:
    """An object, also where it is written as text."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}


def text(row: Row, *names: str) -> str:
    """The first of these fields that is not empty."""
    for name in names:
        value = _get(row, name)
        if value not in (None, "", "null"):
            return value if isinstance(value, str) else str(value)
    return ""


def number(row: Row, *names: str) -> float | None:
    """The first of these fields that is a number; None where none is."""
    for name in names:
        value = _get(row, name)
        if isinstance(value, bool) or value in (None, ""):
            continue
        try:
            return float(value)
        except (TypeError, ValueError):
            continue
    return None


def count(row: Row, *names: str) -> int:
    """The first of these fields that is a number, as a count of tokens; 0 where none is."""
    return max(int(number(row, *names) or 0), 0)

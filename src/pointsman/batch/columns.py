"""Columns of a Parquet file or a record batch: which are read, and of which types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import pyarrow as pa

from pointsman.errors import ConfigError

__all__ = ["BINARY", "KINDS", "NUMBER", "TEXT", "Expected", "InputColumn", "find", "find_input", "named"]

#: Names that a message lists at most.
_SHOWN: Final = 20


class Expected(NamedTuple):
    """Types that a column may have."""

    said: str  # for a message
    accepts: Callable[[pa.DataType], bool]


def _is_text(found: pa.DataType) -> bool:
    if pa.types.is_dictionary(found):
        return _is_text(found.value_type)
    return bool(
        pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_string_view(found)
    )


def _is_json(found: pa.DataType) -> bool:
    return _is_text(found) or pa.types.is_binary(found) or pa.types.is_large_binary(found)


def _is_messages(found: pa.DataType) -> bool:
    is_list = pa.types.is_list(found) or pa.types.is_large_list(found)
    return _is_json(found) or (is_list and pa.types.is_struct(found.value_type))


def _is_number(found: pa.DataType) -> bool:
    return bool(pa.types.is_floating(found) or pa.types.is_integer(found) or pa.types.is_boolean(found))


TEXT: Final = Expected("string", _is_text)
BINARY: Final = Expected("string or binary (JSON)", _is_json)
NUMBER: Final = Expected("a number or boolean, 0 to 1", _is_number)
#: What a row may be read from, the first that is there: a text, the messages of a request, or a whole body.
KINDS: Final[Mapping[str, Expected]] = {
    "text": TEXT,
    "messages": Expected("string or binary (JSON), or list of struct", _is_messages),
    "request": BINARY,
}


class InputColumn(NamedTuple):
    """The column that rows are read from."""

    kind: str  # of ``KINDS``
    name: str


def named(option: str) -> InputColumn:
    """Read ``KIND=NAME``: the kind of ``KINDS``, and the column that holds it.

    Raises:
        ConfigError: it is not of that shape, or there is no such kind.
    """
    kind, equals, name = option.partition("=")
    if not equals or not name or kind not in KINDS:
        known = ", ".join(f"{each}=NAME" for each in KINDS)
        raise ConfigError(f'"{option}" names no column to read', hint=f"one of {known}")
    return InputColumn(kind, name)


def find(schema: pa.Schema, name: str, expected: Expected, file: str) -> str:
    """Return the name of a column that is there and of an expected type.

    Raises:
        ConfigError: it is missing, duplicate or of another type; names file, column and the expected type.
    """
    places = schema.get_all_field_indices(name)
    if not places:
        raise ConfigError(
            f'there is no column "{name}"; expected is {expected.said}', place=file, hint=_columns_of(schema)
        )
    if len(places) > 1:
        raise ConfigError(f'there are {len(places)} columns "{name}"', place=file)
    found = schema.field(places[0]).type
    if not expected.accepts(found):
        raise ConfigError(f'column "{name}" is of type {found}; expected is {expected.said}', place=file)
    return name


def find_input(schema: pa.Schema, asked: InputColumn | None, file: str) -> InputColumn:
    """Return the column that rows are read from: the one asked for, else the first of ``KINDS`` by name.

    Raises:
        ConfigError: there is none, or it is of another type; names file, column and expected.
    """
    if asked is None:
        kind = next((kind for kind in KINDS if kind in schema.names), None)
        if kind is None:
            expected = "; ".join(f'"{kind}" ({each.said})' for kind, each in KINDS.items())
            raise ConfigError(
                f"there is no column to read; expected is one of {expected}",
                place=file,
                hint=f"name another with --column KIND=NAME; {_columns_of(schema)}",
            )
        asked = InputColumn(kind, kind)
    find(schema, asked.name, KINDS[asked.kind], file)
    return asked


def _columns_of(schema: pa.Schema) -> str:
    names = ", ".join(schema.names[:_SHOWN]) or "none"
    more = len(schema.names) - _SHOWN
    return f"columns: {names}" + (f" and {more} more" if more > 0 else "")

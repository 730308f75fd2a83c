"""The requests in a record batch: what one row holds, as the gateway would read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec
import pyarrow as pa

from pointsman.batch.columns import TEXT, InputColumn, find, without_nulls
from pointsman.decoding import UNREADABLE, why_unreadable, without_halves
from pointsman.errors import MalformedRequest
from pointsman.vocabulary import AgentRequest, WireFormat
from pointsman.wire import WIRES
from pointsman.wire.request import read_request, request_from_text

__all__ = ["FORMAT", "requests"]

#: The column that names the wire format of each row; without it, and where it is null, it is ``chat``.
FORMAT: Final = "format"
_CHAT: Final = WireFormat.CHAT

_messages: Final = msgspec.json.Decoder(list[Any]).decode


def requests(batch: pa.RecordBatch, column: InputColumn) -> Iterator[Callable[[], AgentRequest]]:
    """Yield for each row the function that reads it, which raises ``CallerError`` where it cannot be read."""
    read = _READERS[column.kind]
    for value, wire in zip(batch.column(column.name).to_pylist(), _formats(batch, column), strict=True):
        yield partial(read, value, wire)


def _formats(batch: pa.RecordBatch, column: InputColumn) -> list[str | None]:
    if column.kind == "text" or FORMAT not in batch.schema.names:
        return [None] * batch.num_rows
    formats: list[str | None] = batch.column(find(batch.schema, FORMAT, TEXT, "")).to_pylist()
    return formats


def _text(value: str | None, _: str | None) -> AgentRequest:
    if value is None:
        raise MalformedRequest("the text is null")
    return request_from_text(value)


def _conversation(value: Any, wire: str | None) -> AgentRequest:
    format = _format(wire)  # noqa: A001 - as elsewhere
    messages = _messages_in(value) if isinstance(value, str | bytes) else without_nulls(value)
    if messages is None:
        raise MalformedRequest("the messages are null")
    return read_request(format, WIRES[format].body(messages, ""))


def _messages_in(value: str | bytes) -> list[Any]:
    try:
        return _messages(_whole(value))
    except UNREADABLE as error:
        raise MalformedRequest(f"the messages are no JSON array: {why_unreadable(error)}") from None


def _body(value: str | bytes | None, wire: str | None) -> AgentRequest:
    """A whole request. The model it asks for is left out: what is asked is which one it should be."""
    if value is None:
        raise MalformedRequest("the request is null")
    request = read_request(_format(wire), _whole(value))
    return msgspec.structs.replace(request, model="")


def _whole(value: str | bytes) -> bytes:
    """JSON in which half a character, as JavaScript may write one, is replaced."""
    data = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return without_halves(data) if rb"\ud" in data.lower() else data


def _format(wire: str | None) -> WireFormat:
    try:
        return _CHAT if wire is None else WireFormat(wire)
    except ValueError:
        known = ", ".join(WireFormat)
        raise MalformedRequest(f'no wire format "{wire}"', hint=f"known: {known}") from None


_READERS: Final[Mapping[str, Callable[[Any, str | None], AgentRequest]]] = {
    "text": _text,
    "messages": _conversation,
    "request": _body,
}

"""Translation from and to the Messages format (``wire.translate``)."""

from __future__ import annotations

from typing import Final

from pointsman.wire.codec import Codec
from pointsman.wire.messages._translation_answer import read_answer, write_answer
from pointsman.wire.messages._translation_request import read_request
from pointsman.wire.messages._translation_stream_reader import MessagesReader
from pointsman.wire.messages._translation_stream_writer import MessagesWriter
from pointsman.wire.messages._translation_writing import write_request

__all__ = ["CODEC"]

CODEC: Final = Codec(
    read_request=read_request,
    write_request=write_request,
    read_answer=read_answer,
    write_answer=write_answer,
    stream_reader=MessagesReader,
    stream_writer=MessagesWriter,
)

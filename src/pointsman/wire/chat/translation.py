"""Chat completions, read into the form that every format shares and written from it."""

from __future__ import annotations

from functools import partial
from typing import Final

from pointsman.wire.chat._translation_answer import read_answer, write_answer
from pointsman.wire.chat._translation_read_request import read_request
from pointsman.wire.chat._translation_read_stream import ChatStreamReader
from pointsman.wire.chat._translation_write_request import write_request
from pointsman.wire.chat._translation_write_stream import ChatStreamWriter
from pointsman.wire.codec import Codec
from pointsman.wire.conversation import Conversation

__all__ = ["CODEC"]


def _answering(request: Conversation) -> Codec:
    """The chunk of the usage has no choices: clients that did not ask for it fail on it."""
    return CODEC._replace(stream_writer=partial(ChatStreamWriter, reports_usage=request.stream_usage))


CODEC: Final = Codec(
    read_request=read_request,
    write_request=write_request,
    read_answer=read_answer,
    write_answer=write_answer,
    stream_reader=ChatStreamReader,
    stream_writer=ChatStreamWriter,
    for_request=_answering,
)

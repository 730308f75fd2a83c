"""The codec of Responses: see ``pointsman.wire.translate``."""

from __future__ import annotations

from functools import partial
from typing import Final

from pointsman.wire.codec import Codec
from pointsman.wire.conversation import Conversation
from pointsman.wire.responses._asked import Asked
from pointsman.wire.responses._translation_answer import read_answer, write_answer
from pointsman.wire.responses._translation_request import read_request
from pointsman.wire.responses._translation_stream import StreamReader
from pointsman.wire.responses._translation_stream_writer import StreamWriter
from pointsman.wire.responses._translation_write import write_request

__all__ = ["CODEC"]


def _for_request(request: Conversation) -> Codec:
    asked = Asked.of(request)
    if request.compacts:
        from pointsman.wire.responses._compaction_writer import CompactionWriter, write_compaction

        return CODEC._replace(
            write_answer=partial(write_compaction, asked=asked),
            stream_writer=partial(CompactionWriter, asked=asked),
        )
    return CODEC._replace(
        write_answer=partial(write_answer, asked=asked), stream_writer=partial(StreamWriter, asked=asked)
    )


CODEC: Final = Codec(
    read_request=read_request,
    write_request=write_request,
    read_answer=read_answer,
    write_answer=write_answer,
    stream_reader=StreamReader,
    stream_writer=StreamWriter,
    for_request=_for_request,
)

"""Messages: ``POST /v1/messages``."""

from __future__ import annotations

from functools import partial
from typing import Final

from pointsman.vocabulary import WireFormat
from pointsman.wire._items import role_of
from pointsman.wire.base import Wire
from pointsman.wire.insertion import place_in_messages
from pointsman.wire.messages import _answer as answer
from pointsman.wire.messages import _errors as errors
from pointsman.wire.messages import _request as request
from pointsman.wire.messages import _stream as stream
from pointsman.wire.messages._model_call import MODEL_CALL

__all__ = ["MESSAGES"]

MESSAGES: Final = Wire(
    format=WireFormat.MESSAGES,
    path=b"/messages",
    token_path=b"/messages/count_tokens",
    auth="x-api-key",
    header=b"anthropic-version",
    items="messages",
    members=request.MEMBERS,
    required=("max_tokens",),
    shapes=("output_config", "output_format"),
    system=request.system,
    body=request.write_body,
    read_item=request.read_item,
    read_role=role_of,
    place=partial(place_in_messages, as_blocks=True),
    usage=answer.usage,
    completion=answer.read_completion,
    answer=answer.write_answer,
    is_error=errors.is_error,
    error=errors.write_error,
    end=stream.end,
    refusal=errors.status_of,
    answer_events=stream.answer_events,
    keep_alive=b'event: ping\ndata: {"type": "ping"}\n\n',
    error_event=errors.error_event,
    model_call=MODEL_CALL,
)

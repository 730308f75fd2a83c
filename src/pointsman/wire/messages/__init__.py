"""Messages: ``POST /v1/messages``."""

from __future__ import annotations

from functools import partial
from typing import Final

from pointsman.vocabulary import WireFormat
from pointsman.wire._items import role_of
from pointsman.wire.format import Format
from pointsman.wire.insertion import place_in_messages
from pointsman.wire.messages import _answer as answer
from pointsman.wire.messages import _request as request

__all__ = ["MESSAGES"]

MESSAGES: Final = Format(
    format=WireFormat.MESSAGES,
    folder=__name__,
    path=b"/messages",
    token_path=b"/messages/count_tokens",
    auth="x-api-key",
    header=b"anthropic-version",
    items="messages",
    members=request.MEMBERS,
    required=("max_tokens",),
    output_limits=("max_tokens",),
    shapes=("output_config", "output_format"),
    system=request.system,
    body=request.write_body,
    read_item=request.read_item,
    read_role=role_of,
    place=partial(place_in_messages, as_blocks=True),
    usage=answer.usage,
    completion=answer.read_completion,
    answer=answer.write_answer,
    is_error=answer.is_error,
    error=answer.write_error,
    end=answer.end,
    refusal=answer.status_of,
    answer_events=answer.answer_events,
    keep_alive=b'event: ping\ndata: {"type": "ping"}\n\n',
    error_event=answer.error_event,
    model_call=answer.MODEL_CALL,
    has_own_reasoning=True,
)

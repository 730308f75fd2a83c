"""Chat completions: ``POST /v1/chat/completions``."""

from __future__ import annotations

from typing import Final

from pointsman.vocabulary import WireFormat
from pointsman.wire import _openai_errors as openai_errors
from pointsman.wire._items import leading_system, role_of
from pointsman.wire.chat import _answer as answer
from pointsman.wire.chat import _request as request
from pointsman.wire.format import Format
from pointsman.wire.insertion import place_in_messages

__all__ = ["CHAT"]

CHAT: Final = Format(
    format=WireFormat.CHAT,
    folder=__name__,
    path=b"/chat/completions",
    items="messages",
    members=request.MEMBERS,
    old_tools="functions",
    output_limits=("max_tokens", "max_completion_tokens"),
    shapes=("response_format",),
    system=leading_system,
    body=request.write_body,
    read_item=request.read_item,
    read_role=role_of,
    place=place_in_messages,
    usage=answer.usage,
    completion=answer.read_completion,
    answer=answer.write_answer,
    is_error=openai_errors.is_error,
    error=openai_errors.write_error,
    end=answer.end,
    refusal=openai_errors.status_of,
    answer_events=answer.answer_events,
    error_event=answer.error_event,
    model_call=answer.MODEL_CALL,
)

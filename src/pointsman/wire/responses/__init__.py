"""Responses: ``POST /v1/responses``."""

from __future__ import annotations

from typing import Final

from pointsman.vocabulary import WireFormat
from pointsman.wire import _openai_errors as openai_errors
from pointsman.wire.format import Format
from pointsman.wire.responses import _answer as answer
from pointsman.wire.responses import _request as request

__all__ = ["RESPONSES"]

RESPONSES: Final = Format(
    format=WireFormat.RESPONSES,
    folder=__name__,
    path=b"/responses",
    is_stateful=True,
    items="input",
    members=request.MEMBERS,
    output_limits=("max_output_tokens",),
    shapes=("text",),
    system=request.system,
    body=request.write_body,
    read_item=request.read_item,
    read_role=request.role_of,
    place=request.place,
    usage=answer.usage,
    completion=answer.read_completion,
    answer=answer.write_answer,
    is_error=openai_errors.is_error,
    error=openai_errors.write_error,
    end=answer.end,
    refusal=openai_errors.status_of,
    answer_events=answer.answer_events,
    error_event=answer.error_event,
    has_own_reasoning=True,
)

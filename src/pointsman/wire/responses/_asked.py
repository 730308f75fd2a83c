"""What an answer in the Responses format repeats of its request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pointsman.wire.conversation import Conversation

__all__ = ["NOTHING_ASKED", "Asked"]


class Asked(msgspec.Struct, frozen=True):
    """What an answer repeats of its request."""

    repeated: Mapping[str, Any] = {}

    @classmethod
    def of(cls, request: Conversation) -> Asked:
        """Read what matters of a request."""
        return cls(_repeated(request))


NOTHING_ASKED: Final = Asked()


def _repeated(request: Conversation) -> dict[str, Any]:
    """What a response repeats of its request, as far as the form holds it."""
    own = {
        "max_output_tokens": request.max_tokens,
        "parallel_tool_calls": request.parallel,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "reasoning": {"effort": request.effort, "summary": None} if request.effort else None,
    }
    return {**request.options, **{name: value for name, value in own.items() if value is not None}}

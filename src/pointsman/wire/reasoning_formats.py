"""The formats that have signed reasoning, each imported when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pointsman.vocabulary import WireFormat
from pointsman.wire.own_reasoning import OwnReasoning

__all__ = ["own_reasoning"]


def _messages() -> OwnReasoning:
    from pointsman.wire.messages.own_reasoning import OWN_REASONING

    return OWN_REASONING


def _responses() -> OwnReasoning:
    from pointsman.wire.responses.own_reasoning import OWN_REASONING

    return OWN_REASONING


#: The formats that have signed reasoning.
_FORMATS: Final[Mapping[WireFormat, Callable[[], OwnReasoning]]] = {
    WireFormat.MESSAGES: _messages,
    WireFormat.RESPONSES: _responses,
}


def own_reasoning(wire: WireFormat) -> OwnReasoning | None:
    """Return how a format holds reasoning; None for one that has none."""
    load = _FORMATS.get(wire)
    return load() if load else None

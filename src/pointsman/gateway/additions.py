"""What a decision adds to a request: marked text at the very end of what the model sees."""

from __future__ import annotations

import logging

from pointsman.decision import Decision
from pointsman.gateway.wire import Body, Wire
from pointsman.gateway.wire.body import Edit
from pointsman.text.append import insertion, mark

__all__ = ["additions"]

log = logging.getLogger(__name__)


def additions(wire: Wire, body: Body, decision: Decision) -> list[Edit]:
    """Return the edit that puts a decision's texts into a body; none where the body has no place for them.

    Everything before the place keeps its bytes, so the provider's prompt cache stays warm.
    """
    text = "\n\n".join(mark(addition.source, addition.text) for addition in decision.additions)
    span = body.span(wire.items)
    place = insertion(wire.format, body.raw[slice(*span)], text) if span else None
    if span is None or place is None:
        log.warning("decision %s adds a text, and the request has no place for it", decision.id)
        return []
    at = span[0] + place.at
    return [((at, at), place.data)]

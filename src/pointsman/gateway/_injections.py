"""Changes of a request by a decision: marked text at the end, and removed tools."""

from __future__ import annotations

import logging

from pointsman.decision.decision import Decision, ToolDecision
from pointsman.wire import Body, Wire
from pointsman.wire.body import Edit
from pointsman.wire.insertion import insertion, mark
from pointsman.wire.tools import only_tools

__all__ = ["injections", "kept_tools"]

log = logging.getLogger(__name__)


def injections(wire: Wire, body: Body, decision: Decision) -> list[Edit]:
    """Return the edit that puts a decision's texts into a body; none where the body has no place for them.

    Everything before the place keeps its bytes, so the provider's prompt cache stays warm.
    """
    text = "\n\n".join(mark(injection.source, injection.text) for injection in decision.injections)
    span = body.span(wire.items)
    place = insertion(wire, body.readable[slice(*span)], text, body.last_item) if span else None
    if span is None or place is None:
        log.warning("decision %s adds a text, but the request has no insertion point", decision.id)
        return []
    at = span[0] + place.at
    return [((at, at), place.data)]


def kept_tools(body: Body, decision: ToolDecision) -> list[Edit]:
    """Return the edit that leaves in a body the tools a decision keeps, each byte for byte."""
    span = body.span("tools")
    if span is None or len(decision.kept) == decision.offered:
        return []
    return [(span, only_tools(body.raw[slice(*span)], decision.kept))]

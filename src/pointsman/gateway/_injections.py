"""Changes of a request by a decision: marked text at the end, and removed tools."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

import msgspec

from pointsman.capabilities import ToolDecision
from pointsman.decision.decision import Decision, Injection
from pointsman.wire import Body, Format
from pointsman.wire.body import Edit
from pointsman.wire.format import Insertion
from pointsman.wire.items import insertion, mark, with_texts
from pointsman.wire.tools import only_tools

__all__ = ["injections", "kept_tools"]

log = logging.getLogger(__name__)

_NOWHERE: Final = "decision %s adds a text, but the request has no insertion point"


def injections(wire: Format, body: Body, decision: Decision) -> list[Edit]:
    """Return the edits that put a decision's texts into a body; empty if the body has no place for them.

    Everything before a place is unchanged in meaning, so the provider's prompt cache stays warm.
    """
    text = _marked(decision.injections)
    if decision.standing:
        if items := body.items():
            return _all_injections(wire, body, items, decision)
        text = _said_before(decision, text)  # the conversation is one text, as Responses allows
        if not text:
            return []
    span = body.span(wire.items)
    readable = body.readable[slice(*span)] if span else b""
    place = insertion(wire, readable, text, body.last_item) if span else None
    if span is None or place is None:
        log.warning(_NOWHERE, decision.id)
        return []
    return _edits(span[0], place)


def _said_before(decision: Decision, text: str) -> str:
    """Return a text that follows earlier additions to the same message, the last one."""
    last = decision.input.messages - 1
    again = [_marked(each.added) for each in decision.standing if each.index == last]
    return "\n\n".join(filter(None, [*again, text]))


def _all_injections(wire: Format, body: Body, items: Sequence[msgspec.Raw], decision: Decision) -> list[Edit]:
    """Insert the texts of this request, and again those of earlier ones into messages that it resends."""
    # A provider that keeps the conversation has the earlier messages, with what was added to them.
    kept = decision.input.messages - len(items)
    texts: dict[int, list[str]] = {}
    for each in decision.standing:
        if each.index >= kept:
            texts.setdefault(each.index - kept, []).append(_marked(each.added))
    if decision.injections:
        texts.setdefault(len(items) - 1, []).append(_marked(decision.injections))
    spans = body.item_spans(items, list(texts))
    if texts and not spans:
        log.warning(_NOWHERE, decision.id)
    return [
        (span, with_texts(wire, items[index], texts[index]))
        for span, index in zip(spans, texts, strict=False)
    ]


def _marked(added: Sequence[Injection]) -> str:
    return "\n\n".join(mark(injection.source, injection.text) for injection in added)


def _edits(start: int, place: Insertion) -> list[Edit]:
    """The edits of one insertion with offsets from ``start``."""
    at = start + place.at
    edits: list[Edit] = [((at, at), place.data)]
    if place.opening:
        opened_at = start + place.opened_at
        edits.append(((opened_at, opened_at), place.opening))
    return edits


def kept_tools(body: Body, decision: ToolDecision) -> list[Edit]:
    """Return the edit that reduces a body's tools to those a decision allows, each byte for byte."""
    span = body.span("tools")
    if span is None or len(decision.kept) == decision.offered:
        return []
    return [(span, only_tools(body.raw[slice(*span)], decision.kept))]

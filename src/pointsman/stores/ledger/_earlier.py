"""Decisions written by earlier versions of this program: read into the shape of today.

A row names its shape (column ``shape``); an earlier one is converted when it is read, and never
rewritten (docs/notebook/0105). The shape of attempts, outcomes, texts and shadows is unchanged.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pointsman.capabilities import CapabilityDecision, Strategy, ToolDecision
from pointsman.decision.decision import Decision
from pointsman.decision.input import RequestInput

__all__ = ["SHAPE", "decision_in"]

#: The shape that is written. 1, until November 2025: what was read of a request stood in the decision itself,
#: and names were those of before 0.1.0. 2: it is ``input``.
#: 3: the tools passed on are part of ``capabilities``.
SHAPE: Final = 3

_decode: Final = msgspec.json.Decoder(Decision).decode

#: By shape 1's name, where it had another; the values are those of today.
_INPUT: Final = {"features": "abilities"} | {
    name: name
    for name in RequestInput.__struct_fields__
    if name not in {"features", "messages", "thread", "tools"}
}
_CODES: Final = {
    "routing.skipped.ability": "routing.skipped.feature",
    "routing.skipped.window": "routing.skipped.context_window",
    "tiers.head.head": "tiers.learned.ngrams",
}


def decision_in(body: bytes, shape: int = SHAPE) -> Decision:
    """Return the decision in a row.

    Raises:
        msgspec.DecodeError: it is none.
    """
    if shape >= SHAPE:
        return _decode(body)
    if shape == 2:
        return _from_shape_2(body)
    row = msgspec.json.decode(body)
    try:
        tools = row.get("tools")
        decision = msgspec.convert(_from_shape_1(row), Decision)
        if not tools:
            return decision
        part = _with_tools(msgspec.convert(tools, ToolDecision))
        return msgspec.structs.replace(decision, capabilities=part)
    except (AttributeError, KeyError, TypeError) as error:
        raise msgspec.ValidationError(f"no decision of an earlier version: {error!r}") from error


class _Shape2(msgspec.Struct):
    tools: ToolDecision | None = None


_decode_shape_2: Final = msgspec.json.Decoder(_Shape2).decode


def _from_shape_2(body: bytes) -> Decision:
    decision, tools = _decode(body), _decode_shape_2(body).tools
    return msgspec.structs.replace(decision, capabilities=_with_tools(tools)) if tools else decision


def _with_tools(tools: ToolDecision) -> CapabilityDecision:
    """The selection of which only the tools passed on were recorded; it was always by the local score."""
    return CapabilityDecision(strategy=Strategy.LOCAL, selected=tools.kept, tools=tools)


def _from_shape_1(row: dict[str, Any]) -> dict[str, Any]:
    guidance, tier = row.get("guidance"), row.get("tier")
    read = {name: row.pop(old) for name, old in _INPUT.items() if old in row}
    read["script"] = read.get("script") or "none"
    read["thread"] = guidance.pop("thread", 0) if guidance else 0
    read["tools"] = row["tools"]["offered"] if row.get("tools") else 0
    row["input"] = read
    row["injections"] = row.pop("additions", ())
    if guidance:
        guidance["injection"] = guidance.pop("addition", "")
    if tier:
        tier["stage"] = "learned" if tier["stage"] == "head" else tier["stage"]
        tier["learned_router_version"] = tier.pop("head_version", "")
        tier["learned_router"] = _score(tier.pop("head", None))
    for reasons in (row.get("reasons", ()), row.get("abstained", ()), tier["reasons"] if tier else ()):
        for reason in reasons:
            reason["code"] = _code(reason["code"])
    return row


def _score(head: dict[str, Any] | None) -> dict[str, Any] | None:
    if head is None:
        return None
    source = "n-grams" if head["spoke"] == "head" else head["spoke"]
    return {**head, "similarity": head["familiarity"], "source": source}


def _code(code: str) -> str:
    return _CODES.get(code) or code.replace("tiers.head", "tiers.learned")

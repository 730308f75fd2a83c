"""Reasoning in requests and answers of the Messages format: its author, and its removal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from pointsman.decoding import decode_typed
from pointsman.wire.body import Body, Edit
from pointsman.wire.conversation import THOUGHTS
from pointsman.wire.reasoning import Cleaned, Origin, OwnReasoning, Thought, head, removals, spans

__all__ = ["OWN_REASONING"]

#: What our translation writes: nobody has signed it.
_UNSIGNED: Final = re.compile(rb'"signature"\s*+:\s*+""')
_SIGNATURE: Final = re.compile(rb'"signature"\s*+:\s*+"([^"]++)"')
_REDACTED: Final = re.compile(rb'"redacted_thinking"[^}]*?"data"\s*+:\s*+"([^"]++)"')
_CALL: Final = re.compile(rb'"tool_use"\s*+,\s*+"id"\s*+:\s*+"([^"]++)"')
_OFF: Final = b'{"type":"disabled"}'


class _Message(msgspec.Struct, gc=False):
    role: str = ""
    content: str | list[msgspec.Raw] | None = None


class _Block(msgspec.Struct, gc=False):
    type: str = ""
    thinking: str | None = None
    signature: str | None = None
    data: object = None
    id: str | None = None


_decode_message: Final = msgspec.json.Decoder(_Message).decode
_decode_block: Final = msgspec.json.Decoder(_Block).decode


class _Turn:
    """A message of the assistant with blocks, as in the request."""

    def __init__(self, at: int, raws: list[msgspec.Raw]) -> None:
        self.at = at  # position among the messages
        self.raws = raws
        self.blocks = [_decode_block(raw) for raw in raws]
        self.removed: list[int] = []  # positions of blocks

    def begins_with_reasoning(self) -> bool:
        """Whether the first block that is not removed is reasoning."""
        left = (block for at, block in enumerate(self.blocks) if at not in self.removed)
        first = next(left, None)
        return first is not None and first.type in THOUGHTS


def _clean(body: Body, origin: Origin) -> Cleaned:
    items = body.conversation()[0]
    span = body.span("messages")
    if not isinstance(items, list) or span is None:
        return Cleaned([], ())
    turns = [turn for at, item in enumerate(items) if (turn := _turn(at, item))]
    thoughts = [thought for turn in turns for block in turn.blocks if (thought := _thought(block))]
    among_signed = any(thought.is_signed for thought in thoughts)
    for turn in turns:
        turn.removed = [
            at
            for at, block in enumerate(turn.blocks)
            if (thought := _thought(block)) and origin.is_foreign(thought, among_signed=among_signed)
        ]
    changed = [turn for turn in turns if turn.removed]
    edits = _edits(body.readable, spans(body.readable, items, span[0]), changed) if changed else []
    names = ("thinking_history",) if changed else ()
    if off := _switched_off(body, items, turns, origin):
        return Cleaned(edits + off, (*names, "thinking_off"))
    return Cleaned(edits, names)


def _turn(at: int, item: msgspec.Raw) -> _Turn | None:
    message = _decode_message(item)
    if message.role != "assistant" or not isinstance(message.content, list):
        return None
    return _Turn(at, message.content)


def _thought(block: _Block) -> Thought | None:
    if block.type == "thinking":
        return Thought(block.signature or head(block.thinking or ""), bool(block.signature))
    if block.type == "redacted_thinking":
        return Thought(block.data if isinstance(block.data, str) else "", is_signed=True)
    return None


def _edits(data: bytes, places: list[tuple[int, int]], turns: list[_Turn]) -> list[Edit]:
    """Take blocks out of messages, and a message that holds nothing else out of the list."""
    empty = [turn.at for turn in turns if len(turn.removed) == len(turn.blocks)]
    edits = list(removals(places, empty))
    for turn in turns:
        if turn.at not in empty:
            edits += removals(spans(data, turn.raws, places[turn.at][0]), turn.removed)
    return edits


def _switched_off(body: Body, items: list[msgspec.Raw], turns: list[_Turn], origin: Origin) -> list[Edit]:
    """Edits that switch thinking off in a turn that continues after another provider's calls.

    The API refuses to think then: "a final `assistant` message must start with a thinking block".
    """
    asked = body.member("thinking")
    if asked is None or decode_typed(asked).type != "enabled" or not turns or turns[-1].at != len(items) - 2:
        return []
    last = turns[-1]
    calls = [block.id or "" for block in last.blocks if block.type == "tool_use"]
    if not calls or last.begins_with_reasoning():
        return []
    if not last.removed and not origin.is_foreign_call(calls[0]):
        return []
    span = body.span("thinking")
    edits = [(span, _OFF)] if span else []
    context = body.span("context_management")
    if context is not None and b"clear_thinking" in body.readable[slice(*context)]:
        edits.append((context, b"null"))  # it is refused without thinking
    return edits


def _marks(block: bytes) -> Sequence[str]:
    found: list[bytes] = []
    if b"signature" in block:
        found += _SIGNATURE.findall(block)
    if b"tool_use" in block:
        found += _CALL.findall(block)
    if b"redacted_thinking" in block:
        found += _REDACTED.findall(block)
    # Letters and digits; some encoders escape the slashes among them.
    return [mark.replace(b"\\/", b"/").decode("utf-8", "replace") for mark in found] if found else ()


OWN_REASONING: Final = OwnReasoning(
    translated=lambda body: _UNSIGNED.search(body) is not None, clean=_clean, marks=_marks, asked="thinking"
)

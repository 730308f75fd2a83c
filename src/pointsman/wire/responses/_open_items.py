"""Items of a streamed Responses answer while they are being written."""

from __future__ import annotations

from typing import Any

from pointsman.wire.conversation import Call
from pointsman.wire.responses._translation_answer import call_item

__all__ = ["OpenCall", "OpenItem"]


class OpenItem:
    """An item that is being written."""

    def __init__(self, index: int, item: dict[str, Any]) -> None:
        self.index = index
        self.item = item
        self.kind = ""  # of the open part of a message: "text" or "refusal"; "summary" of reasoning
        self.pieces: list[str] = []  # of the open part, or of a call's arguments
        self.content: list[dict[str, Any]] = []  # the parts that are whole
        self.place = {"item_id": item["id"], "output_index": index}


class OpenCall(OpenItem):
    """A call that is being written."""

    def __init__(self, index: int, suffix: str, call: Call) -> None:
        super().__init__(index, call_item(suffix, call, "in_progress"))
        self.suffix = suffix
        self.call = call

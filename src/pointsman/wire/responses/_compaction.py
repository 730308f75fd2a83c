"""Compaction of a conversation by a model of another provider, for Codex.

With OpenAI's own base URL Codex sends ``compaction_trigger`` as the last item and expects one item of type
``compaction`` in return, whose content only its provider can read. A model of another provider is asked for a
summary instead. The item holds it, marked as the gateway's, and is read as a user's message when it comes
back (docs/notebook/0128).
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import msgspec

__all__ = ["ASK", "compaction_item", "said", "user_message"]

_MARK: Final = "pointsman-summary:"
#: What the model is asked in place of the trigger.
ASK: Final = (
    "Write a summary of this conversation for a model that continues the task without seeing it. State what "
    "the user wants, what has been done and decided, what was found out (files, commands, values), and what "
    "is left to do. Answer with the summary alone and call no tools."
)
_BEFORE: Final = "Summary of the conversation before this point, written by the model that had it:\n\n"


def compaction_item(suffix: str, summary: str) -> dict[str, Any]:
    """Return the item that stands for a conversation."""
    content = base64.b64encode(summary.encode("utf-8", "surrogatepass")).decode()
    return {"type": "compaction", "id": f"cmp_{suffix}", "encrypted_content": _MARK + content}


def user_message(text: str) -> bytes:
    """Return a user's message as an item."""
    return msgspec.json.encode({"type": "message", "role": "user", "content": text})


def said(encrypted: str) -> bytes | None:
    """Return the message that an item's content stands for; None when the gateway did not write it."""
    summary = _summary(encrypted)
    return None if summary is None else user_message(summary)


def _summary(encrypted: str) -> str | None:
    if not encrypted.startswith(_MARK):
        return None
    try:
        return _BEFORE + base64.b64decode(encrypted.removeprefix(_MARK), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None

"""Fingerprints of messages, to recognise resent messages.

Not by its bytes: clients move cache markers from message to message, which changes the bytes of messages
whose meaning is the same (docs/decisions/0030).
"""

from __future__ import annotations

from hashlib import sha256

from pointsman.text.wrappers import unwrap
from pointsman.vocabulary import Message

__all__ = ["digest", "fingerprint", "latest_words"]


def digest(text: str) -> str:
    """Sixteen hexadecimal digits that stand for a text: two texts in 2**32 share them by chance."""
    return sha256(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()[:16]


def fingerprint(message: Message) -> str:
    """What stays the same about a message when a client resends it; reminders beside it come and go."""
    ids = [call.id for call in message.calls] + [result.call_id for result in message.results]
    return digest("\0".join(ids or [message.role, latest_words(message)]))


def latest_words(message: Message) -> str:
    """A person's own words in the last block that has any; agents put theirs before and around them."""
    for text in reversed(message.texts):
        if words := unwrap(text).text.strip():
            return words
    return ""

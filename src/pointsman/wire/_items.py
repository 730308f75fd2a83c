"""What the formats share in reading one item of a conversation as a ``Message``.

Nothing here raises: what an agent sent goes upstream whatever it is, so an item of the wrong shape is read as
far as it can be and the rest is left out. Thinking and reasoning are left out on purpose: they are never
evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

import msgspec

from pointsman.vocabulary import History, Message, Role
from pointsman.wire.format import Format, Item, Member

__all__ = [
    "ROLES",
    "Head",
    "as_json",
    "leading_system",
    "mapping",
    "mappings",
    "message_role",
    "read_content",
    "read_item",
    "read_role",
    "read_texts",
    "role_of",
    "string",
]

#: By plain name: Python 3.11 finds a member of an enum through a descriptor, 0.15 µs each time.
_TOOL: Final = Role.TOOL
_USER: Final = Role.USER
_SYSTEM: Final = Role.SYSTEM
_BRACKET: Final = ord("[")
#: Messages among which those of the system are looked for; agents send one to three.
_LEADING: Final = 100

ROLES: Final = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
    "function": Role.TOOL,  # chat, before tools
}

#: Where the text of a block stands, by the block's type.
_TEXT_FIELDS: Final = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "summary_text": "text",
    "refusal": "refusal",
}
_IMAGES: Final = frozenset({"image", "image_url", "input_image", "computer_screenshot"})


class _Type(msgspec.Struct, gc=False):
    type: str = ""


class Head(msgspec.Struct, gc=False):
    """The fields that tell what an item is; their values stay bytes until they are needed."""

    role: str = ""
    type: str = "message"
    content: msgspec.Raw = msgspec.Raw()


_decode_types: Final = msgspec.json.Decoder(list[_Type]).decode
_decode_head: Final = msgspec.json.Decoder(Head).decode


def read_role(role: object) -> Role:
    """The role a message names. An unknown one is TOOL: neither the user's words nor the model's."""
    return ROLES.get(role, _TOOL) if isinstance(role, str) else _TOOL


def message_role(head: Head) -> Role:
    """The role of a message, from its head; a person's that is all results of tools is a tool's."""
    role = read_role(head.role)
    content = memoryview(head.content)
    if role is not _USER or not content or content[0] != _BRACKET:
        return role
    blocks = _decode_types(content)
    for block in blocks:
        if not block.type.endswith("tool_result"):
            return role
    return _TOOL if blocks else role


def role_of(item: Item) -> Role:
    """The role of a message that is not decoded. Raises ``UNREADABLE``."""
    head = _decode_head(item)
    role = ROLES.get(head.role, _TOOL)
    return message_role(head) if role is _USER else role


def read_item(wire: Format, item: object) -> Message:
    """Read one item of ``messages`` or ``input``, already decoded from JSON."""
    return wire.read_item(item) if isinstance(item, dict) else Message(_TOOL)


def leading_system(member: Member, history: History) -> str:  # noqa: ARG001 - no member of chat holds one
    """The system and developer messages before the first other one.

    Later ones are notes to the model along the way; finding them would mean to look at every message.
    """
    found: list[str] = []
    for message in islice(history, _LEADING):
        if message.role is not _SYSTEM:
            break
        found.extend(message.texts)
    return "\n\n".join(found)


def read_texts(content: object) -> tuple[str, ...]:
    """The text blocks of a content field: a string, a list of blocks, or anything else (no text)."""
    return read_content(content)[0]


def read_content(content: object) -> tuple[tuple[str, ...], int]:
    """Text blocks in order, and the number of images."""
    if isinstance(content, str):
        return (content,) if content else (), 0
    texts: list[str] = []
    images = 0
    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, str):
            texts.append(block)
        elif isinstance(block, dict):
            kind = block.get("type")
            text = block.get(_TEXT_FIELDS.get(kind, "text") if isinstance(kind, str) else "text")
            if isinstance(text, str):
                texts.append(text)
            images += kind in _IMAGES if isinstance(kind, str) else 0
    return tuple(texts), images


def string(value: object) -> str:
    """A string as it is; anything else is an empty one."""
    return value if isinstance(value, str) else ""


def as_json(value: object) -> str:
    """Arguments or output as text: a string as it is, anything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()


def mappings(value: object) -> list[Mapping[str, Any]]:
    """The objects in a list; none of anything else."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def mapping(value: object) -> Mapping[str, Any]:
    """An object as it is; anything else is an empty one."""
    return value if isinstance(value, dict) else {}

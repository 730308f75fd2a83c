"""Reads single items of a conversation, and inserts text into them; the formats share both.

Reading never raises: an agent's request goes upstream whatever its shape, so an item of another shape is read
as far as possible. Thinking and reasoning are left out: they are never evidence.

Everything before an insertion has the same meaning as before, so the provider's prompt cache stays warm. The
agent resends its history without the text, which is then inserted again at the same place
(docs/decisions/0133). The text goes inside the last message if that accepts a text, because strict providers
refuse a second user message in a row, or one after a tool's ("Unexpected role 'user' after role 'tool'";
docs/notebook/0031).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final, Literal

import msgspec

from pointsman.decoding import Typed, decode_items, decode_members, decode_text, decoded_or
from pointsman.vocabulary import SYSTEM, TOOL, USER, History, Message, Role
from pointsman.wire.format import Format, Insertion, Item, Member

__all__ = [
    "ROLES",
    "Head",
    "as_json",
    "before_quote",
    "insertion",
    "leading_system",
    "mapping",
    "mappings",
    "mark",
    "message_role",
    "new_item",
    "place_in_messages",
    "present",
    "read_content",
    "read_item",
    "read_plain",
    "read_role",
    "read_texts",
    "role_of",
    "split_data_url",
    "string",
    "with_texts",
    "words",
]


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


class Head(msgspec.Struct, gc=False):
    """The fields that identify an item; their values stay bytes until they are needed."""

    role: str = ""
    type: str = "message"
    content: msgspec.Raw = msgspec.Raw()


_decode_types: Final = msgspec.json.Decoder(list[Typed]).decode
decode_head: Final = msgspec.json.Decoder(Head).decode


def read_role(role: object) -> Role:
    """The role a message names. An unknown one is TOOL: neither the user's words nor the model's."""
    return ROLES.get(role, TOOL) if isinstance(role, str) else TOOL


def message_role(head: Head) -> Role:
    """The role of a message, from its head; a person's that is all results of tools is a tool's."""
    role = read_role(head.role)
    content = memoryview(head.content)
    if role is not USER or not content or content[0] != _BRACKET:
        return role
    blocks = _decode_types(content)
    for block in blocks:
        if not block.type.endswith("tool_result"):
            return role
    return TOOL if blocks else role


def role_of(item: Item) -> Role:
    """The role of a message that is not decoded. Raises ``UNREADABLE``."""
    head = decode_head(item)
    role = ROLES.get(head.role, TOOL)
    return message_role(head) if role is USER else role


def read_item(wire: Format, item: object) -> Message:
    """Read one item of ``messages`` or ``input``, already decoded from JSON."""
    return wire.read_item(item) if isinstance(item, dict) else Message(TOOL)


class _Plain(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A message that is a role and a text, and nothing else."""

    role: str
    content: str
    type: Literal["message"] = "message"


_decode_plain: Final = msgspec.json.Decoder(_Plain).decode


def read_plain(item: Item) -> Message | None:
    """Read an item that is a role and a text, as most are, at a third of the price; None for any other.

    Raises:
        msgspec.MsgspecError, UnicodeError, RecursionError: it cannot be decoded as one.
    """
    plain = _decode_plain(item)
    role = ROLES.get(plain.role, TOOL)
    text = plain.content
    return None if role is TOOL else Message(role, (text,) if text else ())


def leading_system(member: Member, history: History) -> str:  # noqa: ARG001 - no member of chat holds one
    """The system and developer messages before the first other one.

    Later ones are notes to the model along the way; finding them would mean to look at every message.
    """
    found: list[str] = []
    for message in islice(history, _LEADING):
        if message.role is not SYSTEM:
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


def words(content: object) -> str:
    """The words of an answer's content: a text, or the texts of its parts."""
    return (
        content
        if isinstance(content, str)
        else "".join(string(part.get("text")) for part in mappings(content))
    )


def as_json(value: object) -> str:
    """Arguments or output as text: a string as it is, anything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()


def split_data_url(url: str) -> tuple[str, str]:
    """Media type and base64 data of a data URL (RFC 2397); nothing of any other URL."""
    if not url.startswith("data:"):
        return "", ""
    head, mark, data = url.partition(";base64,")
    return (head[len("data:") :].partition(";")[0], data) if mark else ("", "")


def mappings(value: object) -> list[Mapping[str, Any]]:
    """The objects in a list; empty for any other value."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def mapping(value: object) -> Mapping[str, Any]:
    """An object as it is; anything else is an empty one."""
    return value if isinstance(value, dict) else {}


def present(**members: Any) -> dict[str, Any]:
    """An object of the members that have a value; one that is None is absent."""
    if None in members.values():  # most have them all, and this look costs a tenth of the loop
        return {name: value for name, value in members.items() if value is not None}
    return members


_encode: Final = msgspec.json.Encoder().encode
#: A member's name up to its value. A name with an escape is left to the fallback.
_NAME: Final = re.compile(rb'[\s,{]*+"([^"\\]*+)"\s*+:\s*+')


def mark(source: str, text: str) -> str:
    """Wrap text so that a model, and the reader of a log, can see its source.

    The mark is for readers only. Nothing here trusts one that it finds: users and tools can write it too.
    """
    return f'<pointsman source="{source}">\n{text}\n</pointsman>'


def insertion(wire: Format, items: bytes, text: str, last: Item | None = None) -> Insertion | None:
    """Find where a text goes at the end of ``messages`` or ``input``, given as JSON.

    None when the conversation ends with the assistant's words, which the model continues, or when the JSON
    cannot be read.

    Args:
        wire: The format.
        items: The conversation, a list or, in Responses, a string.
        text: What to add.
        last: The last item of the list, if known: the list is then not split again.
    """
    return decoded_or(None, wire.place, items, last, text)


def with_texts(wire: Format, item: Item, texts: Iterable[str]) -> bytes:
    """Return one item of a conversation with texts inside it, or in separate items behind it.

    The bytes equal those of ``insertion`` if the item is the last. A text without a place is left out.
    """
    inside, behind = bytes(item), b""
    for text in texts:
        found = insertion(wire, b"[%b]" % inside, text, inside)
        if found is None:
            continue
        if found.at > len(inside):
            behind += found.data
        else:
            inside = found.applied(b"[%b]" % inside)[1:-1]
    return inside + behind


def place_in_messages(
    items: bytes, last: Item | None, text: str, *, as_blocks: bool = False
) -> Insertion | None:
    """Find the place in ``messages``, which chat completions and Messages share. Raises ``UNREADABLE``.

    Args:
        items: The messages, as JSON.
        last: The last of them, if known.
        text: What to add.
        as_blocks: A string becomes a list with a second block. Clients of Messages send the same words as a
            string or, with a cache marker, as a block: a model reads both alike, and so it must the addition.
    """
    if last is None:
        messages = decode_items(items)
        last = messages[-1] if messages else None
    if last is not None:
        end = len(items.rstrip()[:-1].rstrip())  # of the last message
        message = bytes(last)
        members = decode_members(message)
        role = decode_text(members["role"]) if "role" in members else ""
        if role == "assistant":
            return None
        place = _in_content(message, members, text, as_blocks) if role in {"user", "tool"} else None
        if place:
            start = end - len(message)
            return Insertion(start + place.at, place.data, start + place.opened_at, place.opening)
    return new_item(items, {"role": "user", "content": text})


def _in_content(
    message: bytes, members: dict[str, msgspec.Raw], text: str, as_blocks: bool
) -> Insertion | None:
    """Inside the message's own content: at the end of a string, or as one more block of a list."""
    span = _span(message, members, "content")
    if span is None:
        return None
    start, end = span
    if message[start : start + 1] == b'"':
        # An empty block of text is refused.
        if as_blocks and end - start > len('""'):
            return Insertion(end, b"},%b]" % _block(text), start, b'[{"type":"text","text":')
        return before_quote(end, text)
    if message[start : start + 1] == b"[":
        inside = message[start + 1 : end - 1].strip()
        block = _block(text)
        return Insertion(end - 1, b"," + block if inside else block)
    return None


def _block(text: str) -> bytes:
    return _encode({"type": "text", "text": text})


def _span(message: bytes, members: dict[str, msgspec.Raw], name: str) -> tuple[int, int] | None:
    """Span of a member's value; None when a name occurs twice or is written with escapes."""
    at, found = 0, None
    for member, value in members.items():
        match = _NAME.match(message, at)
        raw = bytes(value)
        if match is None or match[1] != member.encode() or not message.startswith(raw, match.end()):
            return None
        at = match.end() + len(raw)
        if member == name:
            found = match.end(), at
    return found if message[at:].strip() == b"}" else None


def before_quote(end: int, text: str) -> Insertion:
    """Insert before the quote that ends a string, which ends at ``end``."""
    return Insertion(end - 1, _encode("\n\n" + text)[1:-1])


def new_item(items: bytes, item: object) -> Insertion:
    """Insert one more item at the end of a list."""
    end = len(items.rstrip()) - 1
    is_empty = not items[:end].strip()[1:].strip()
    return Insertion(end, (b"" if is_empty else b",") + _encode(item))

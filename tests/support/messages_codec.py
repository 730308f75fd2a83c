"""Messages requests through the codec: read into a conversation, and written from one."""

import json
from typing import Any

import msgspec

from pointsman.vocabulary import Role, WireFormat
from pointsman.wire.constructs import Report
from pointsman.wire.conversation import Conversation, Message, Part, Text
from pointsman.wire.messages.translation import CODEC

CHAT, RESPONSES, MESSAGES = WireFormat.CHAT, WireFormat.RESPONSES, WireFormat.MESSAGES
HI = (Message(Role.USER, (Text("hi"),)),)
OBJECT = msgspec.Raw(b'{"type":"object"}')


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def read(**members: Any) -> Conversation:
    return CODEC.read_request(msgspec.json.encode({"model": "m", "messages": [], **members}))


def written(
    source: WireFormat = CHAT, messages: tuple[Message, ...] = HI, **members: Any
) -> tuple[dict[str, Any], list[str]]:
    """The body, and what was changed."""
    report = Report(source, MESSAGES)
    body = CODEC.write_request(Conversation(model="m", messages=messages, **members), report)
    return json.loads(body), report.changed


def content(*parts: Part, role: Role = Role.USER, source: WireFormat = CHAT) -> list[dict[str, Any]]:
    body, _ = written(source, (*HI, Message(Role.ASSISTANT, (Text("."),)), Message(role, parts)))
    blocks: list[dict[str, Any]] = body["messages"][-1]["content"]
    return blocks

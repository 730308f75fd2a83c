"""A conversation, written as a Messages request."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pointsman.vocabulary import Role
from pointsman.wire.constructs import Report
from pointsman.wire.conversation import Conversation, Message, Text
from pointsman.wire.messages import _translation_settings as settings
from pointsman.wire.messages._translation_blocks import Written, write_blocks, write_texts
from pointsman.wire.messages._unique_ids import with_unique_ids

__all__ = ["write_request"]

_encode: Final = msgspec.json.encode
_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})


def write_request(asked: Conversation, report: Report) -> bytes:
    """Write a request. What is changed is added to the report.

    Raises:
        Untranslatable: the format cannot express something of it, or it holds no message.
    """
    extra = settings.options(asked, report)
    messages = _messages(with_unique_ids(asked.messages), report)
    if not messages:
        report.meet("no_messages")
    body: dict[str, Any] = {"model": asked.model}
    body |= settings.limits(asked, report, resumes=_resumes(messages, is_own=asked.is_own_turn))
    if system := write_texts(asked.system):
        body["system"] = system
    body["messages"] = messages
    body |= settings.tools(asked, report)
    body |= settings.tool_choice(asked)
    thinks = body.get("thinking", {}).get("type") in {"enabled", "adaptive"}
    body |= settings.sampling(asked, report, thinks=thinks)
    body |= settings.output_config(asked, report)
    if asked.stop:
        body |= _stop(asked.stop, report)
    body |= settings.user(asked, report)
    if asked.stream:
        body["stream"] = True
    return _encode(body | extra)


def _messages(messages: tuple[Message, ...], report: Report) -> list[dict[str, Any]]:
    """Messages of one role in a row are one, in which the results stand first."""
    written: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        if message.role is Role.SYSTEM:
            blocks = _system(message, report)
        else:
            blocks = write_blocks(message.parts, report, of_assistant=role == "assistant")
        if not blocks:
            continue
        if written and written[-1]["role"] == role:
            written[-1]["content"] += blocks
        else:
            written.append({"role": role, "content": blocks})
    for message_ in written:
        if message_["role"] == "user":
            message_["content"].sort(key=lambda block: _type(block) != "tool_result")
    if written and written[-1]["role"] == "assistant":
        _trim(written[-1]["content"])
    return written


def _system(message: Message, report: Report) -> list[Written]:
    """A later instruction, in its place: moving it up would change what was said before it."""
    report.meet("late_system")
    texts = (part for part in message.parts if isinstance(part, Text) and part.text.strip())
    return write_texts(Text(f"<system>\n{part.text}\n</system>", part.cached) for part in texts)


def _type(block: Written) -> str:
    return block["type"] if isinstance(block, dict) else ""


def _trim(content: list[Written]) -> None:
    """The API refuses a beginning of the answer that ends with white space."""
    last = content[-1]
    if isinstance(last, dict) and last["type"] == "text":
        content[-1] = {**last, "text": last["text"].rstrip()}


def _resumes(messages: list[dict[str, Any]], *, is_own: bool) -> bool:
    """Whether a turn goes on after its calls without its first thinking: the API refuses to think then.

    A model need not think before each call: a message that is the upstream's own may lack it where the turn
    began with some.
    """
    if len(messages) < 2 or _type(messages[-1]["content"][0]) != "tool_result":
        return False
    if _type(messages[-2]["content"][0]) in _THOUGHTS:
        return False
    return not (is_own and _has_thought(messages))


def _has_thought(messages: list[dict[str, Any]]) -> bool:
    """Whether an answer since the person spoke begins with thinking."""
    for message in reversed(messages):
        first = _type(message["content"][0])
        if message["role"] == "user" and first != "tool_result":
            return False
        if first in _THOUGHTS:
            return True
    return False


def _stop(stop: tuple[str, ...], report: Report) -> dict[str, list[str]]:
    """The sequences that the API takes; one of white space alone is left to the gateway."""
    taken = [sequence for sequence in stop if sequence.strip()]
    if len(taken) < len(stop):
        report.keep_stops(tuple(sequence for sequence in stop if not sequence.strip()))
    return {"stop_sequences": taken} if taken else {}

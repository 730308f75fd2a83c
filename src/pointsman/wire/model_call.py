"""Writes a model query in each wire format, and reads the reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from pointsman.vocabulary import Prompt, WireFormat

__all__ = ["DIALECTS", "Dialect"]

Body = Mapping[str, object]


class Dialect(NamedTuple):
    """One request format. ``read`` raises ``msgspec.MsgspecError`` for what is not a reply."""

    path: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    write: Callable[[str, Prompt], Body]
    write_plain: Callable[[str, Prompt], Body]  # without what some reasoning models refuse
    read: Callable[[bytes], str]


class _Said(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Said


class _Completion(msgspec.Struct):
    choices: list[_Choice]


class _Block(msgspec.Struct):
    type: str
    text: str = ""


class _Reply(msgspec.Struct):
    content: list[_Block]


_completion: Final = msgspec.json.Decoder(_Completion).decode
_reply: Final = msgspec.json.Decoder(_Reply).decode


def _chat(model: str, prompt: Prompt) -> Body:
    return {**_chat_messages(model, prompt), "max_tokens": prompt.max_tokens, "temperature": 0}


def _chat_plain(model: str, prompt: Prompt) -> Body:
    # OpenAI's reasoning models take neither a temperature nor the older name of the limit.
    return {**_chat_messages(model, prompt), "max_completion_tokens": prompt.max_tokens}


def _chat_messages(model: str, prompt: Prompt) -> Body:
    messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.text}]
    return {"model": model, "messages": messages}


def _read_chat(body: bytes) -> str:
    choices = _completion(body).choices
    return (choices[0].message.content or "") if choices else ""


def _messages(model: str, prompt: Prompt) -> Body:
    return {**_messages_plain(model, prompt), "temperature": 0}


def _messages_plain(model: str, prompt: Prompt) -> Body:
    return {
        "model": model,
        "system": prompt.system,
        "messages": [{"role": "user", "content": prompt.text}],
        "max_tokens": prompt.max_tokens,
    }


def _read_messages(body: bytes) -> str:
    return "".join(block.text for block in _reply(body).content if block.type == "text")


#: In order of preference, for an upstream that speaks several.
DIALECTS: Final = {
    WireFormat.CHAT: Dialect(b"/chat/completions", (), _chat, _chat_plain, _read_chat),
    WireFormat.MESSAGES: Dialect(
        b"/messages", ((b"anthropic-version", b"2023-06-01"),), _messages, _messages_plain, _read_messages
    ),
}

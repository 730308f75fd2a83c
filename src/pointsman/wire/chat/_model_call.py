"""A question of our own as a chat completions request, and its reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from pointsman.vocabulary import Prompt
from pointsman.wire.base import ModelCall

__all__ = ["MODEL_CALL"]


class _Said(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Said


class _Completion(msgspec.Struct):
    choices: list[_Choice]


_decode: Final = msgspec.json.Decoder(_Completion).decode


def _write(model: str, prompt: Prompt) -> Mapping[str, object]:
    return {**_messages(model, prompt), "max_tokens": prompt.max_tokens, "temperature": 0}


def _write_plain(model: str, prompt: Prompt) -> Mapping[str, object]:
    # OpenAI's reasoning models take neither a temperature nor the older name of the limit.
    return {**_messages(model, prompt), "max_completion_tokens": prompt.max_tokens}


def _messages(model: str, prompt: Prompt) -> Mapping[str, object]:
    messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.text}]
    return {"model": model, "messages": messages}


def _read(body: bytes) -> str:
    choices = _decode(body).choices
    return (choices[0].message.content or "") if choices else ""


MODEL_CALL: Final = ModelCall((), _write, _write_plain, _read)

"""A question of our own as a Messages request, and its reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from pointsman.vocabulary import Prompt
from pointsman.wire.base import ModelCall

__all__ = ["MODEL_CALL"]


class _Block(msgspec.Struct):
    type: str
    text: str = ""


class _Reply(msgspec.Struct):
    content: list[_Block]


_decode: Final = msgspec.json.Decoder(_Reply).decode


def _write(model: str, prompt: Prompt) -> Mapping[str, object]:
    return {**_write_plain(model, prompt), "temperature": 0}


def _write_plain(model: str, prompt: Prompt) -> Mapping[str, object]:
    return {
        "model": model,
        "system": prompt.system,
        "messages": [{"role": "user", "content": prompt.text}],
        "max_tokens": prompt.max_tokens,
    }


def _read(body: bytes) -> str:
    return "".join(block.text for block in _decode(body).content if block.type == "text")


MODEL_CALL: Final = ModelCall(((b"anthropic-version", b"2023-06-01"),), _write, _write_plain, _read)

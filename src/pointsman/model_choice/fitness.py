"""Whether a model can serve a request. It is judged here and nowhere else (``lacks``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from pointsman.vocabulary import AgentRequest, Message, ModelSpec, Reason, WireFormat

__all__ = [
    "BYTES_PER_TOKEN",
    "IMAGE_TOKENS",
    "TOO_LONG",
    "UNABLE",
    "Barred",
    "Requirements",
    "is_too_long",
    "lacks",
    "tokens_with_images",
]

#: A byte of JSON is a quarter of a token, as everywhere (docs/explanation/evidence.md).
BYTES_PER_TOKEN: Final = 4

#: Tokens of an image, at most: Anthropic scales larger ones down to this, OpenAI to less.
IMAGE_TOKENS: Final = 1_600

#: Characters of text in a token, at most: prose has four to five, and no kind of text in use more than this.
_CHARACTERS_PER_TOKEN: Final = 6

#: How reasons against a model begin.
UNABLE: Final = "routing.skipped."
#: The one reason that rests on an estimate: the window may hold the request all the same.
TOO_LONG: Final = f"{UNABLE}context_window"


class Barred:
    """Models that a caller may not use, with the reason of each. Compared by identity."""

    __slots__ = ("reasons",)

    def __init__(self, reasons: Mapping[str, Reason]) -> None:
        self.reasons = reasons  # by configured name


class Requirements(msgspec.Struct, frozen=True, gc=False):
    """Requirements of a request."""

    tokens: int = 0  # estimate of everything sent, plus the room asked for the answer
    features: frozenset[str] = frozenset()  # of "tools", "vision", "structured"
    format: WireFormat | None = None  # None: any
    barred: Barred | None = None  # None: the caller may use all models

    @classmethod
    def of(cls, size: int, features: Iterable[str], wire: WireFormat) -> Requirements:
        """Return the requirements of a request of ``size`` bytes."""
        return cls(size // BYTES_PER_TOKEN, frozenset(features), wire)


def lacks(model: ModelSpec, needed: Requirements) -> Iterator[Reason]:
    """Why a model cannot serve. Unknown properties of a model do not exclude it."""
    if needed.barred is not None and (why := needed.barred.reasons.get(model.name)):
        yield why
    if model.context_window is not None and needed.tokens > model.context_window:
        fits = f"{needed.tokens} tokens do not fit its context window of {model.context_window}"
        yield Reason(TOO_LONG, f'"{model.name}": {fits}')
    if model.features is not None and (missing := needed.features - model.features):
        yield Reason(f"{UNABLE}feature", f'"{model.name}" has no {", ".join(sorted(missing))}')
    if needed.format is not None and not model.takes(needed.format):
        yield Reason(f"{UNABLE}format", f'"{model.name}" does not speak {needed.format}')


def is_too_long(request: AgentRequest, models: Iterable[ModelSpec]) -> bool:
    """Whether the texts of a request alone are longer than the context window of every model.

    Images and files do not count: only the length of their encoding is known. Reads the whole conversation,
    so it is for requests that exceed the window by the usual estimate.
    """
    windows = [model.context_window for model in models]
    largest = max((window for window in windows if window is not None), default=0)
    if not largest or None in windows:
        return False
    characters = len(request.system) + sum(map(_characters, request.history))
    return characters // _CHARACTERS_PER_TOKEN > largest


def tokens_with_images(request: AgentRequest) -> int:
    """Estimate the tokens of a request with images: their bytes do not indicate the number of tokens.

    Reads the whole conversation, so it is for requests that exceed the window by the usual estimate.
    """
    texts = [request.system]
    images = 0
    for message in request.history:
        texts += _texts(message)
        images += message.images
    size = sum(map(_bytes, texts)) + memoryview(request.tool_list).nbytes
    return size // BYTES_PER_TOKEN + images * IMAGE_TOKENS


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _characters(message: Message) -> int:
    return sum(map(len, _texts(message)))


def _texts(message: Message) -> Iterator[str]:
    yield from message.texts
    yield from (call.arguments for call in message.calls)
    yield from (result.text for result in message.results)

"""A chat model over an upstream's wire format: chat completions or Messages."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec

from pointsman.decoding import decoded_or
from pointsman.errors import ConfigError, MissingKey, UpstreamError, UpstreamTimeout, UpstreamUnavailable
from pointsman.upstreams import ChatModel, ModelAnswer
from pointsman.upstreams.port import (
    ASKABLE_UPSTREAM,
    KEY_REFUSED,
    Call,
    UpstreamClient,
    UpstreamSpec,
    read_at_most,
    send,
)
from pointsman.upstreams.relayed_headers import credentials
from pointsman.vocabulary import LARGE, ModelSpec, Prompt
from pointsman.wire import ASKABLE, FORMATS, Format
from pointsman.wire.conversation import Usage
from pointsman.wire.format import ModelCall

__all__ = ["HttpModel", "chat_models", "constrained", "label_of", "unasked"]

#: A reply to a question of ours is a few words, perhaps after some reasoning; an upstream that sends more
#: is not answering it.
MAX_REPLY: Final = LARGE  # bytes
#: Bytes above which a reply is read in a thread: one of nothing but braces takes .5 µs a byte.
_SMALL_REPLY: Final = 8 << 10
_TOO_LONG: Final = "the upstream sent more than a reply"

_BUSY: Final = frozenset({429, 503, 529})


class HttpModel:
    """Asks one model, in the first known format that its upstream speaks.

    Raises:
        ConfigError: its upstream speaks neither chat nor messages.
    """

    def __init__(self, spec: ModelSpec, upstream: UpstreamSpec, client: UpstreamClient) -> None:
        self._spec: Final = spec
        self._client: Final = client
        wire, call = _format(spec, upstream)
        self._wire: Final = wire
        self._format: Final[ModelCall] = call
        keys = credentials(upstream, wire.format)
        self._has_key: Final = bool(keys or upstream.headers or upstream.query)  # each may carry one
        self._headers: Final = [(b"content-type", b"application/json"), *call.headers, *keys]
        self._plain = False  # this model refused our first way of asking

    async def complete(self, prompt: Prompt, *, timeout: float) -> str:
        """Return the model's text; one of ``prompt.labels`` where the text names one."""
        return (await self.ask(prompt, timeout=timeout)).text

    async def ask(self, prompt: Prompt, *, timeout: float) -> ModelAnswer:
        """Return what ``complete`` does, and the usage as the upstream reported it."""
        asked = constrained(prompt)
        try:
            async with asyncio.timeout(timeout):
                body = await self._ask(asked)
                read = partial(self._read, body)
                text, used = await asyncio.to_thread(read) if len(body) > _SMALL_REPLY else read()
        except TimeoutError:
            raise UpstreamTimeout(f'model "{self._spec.name}" did not answer in time') from None
        return ModelAnswer(label_of(text, prompt.labels), used)

    async def _ask(self, prompt: Prompt) -> bytes:
        status, body = await self._send(prompt, plain=self._plain)
        if status == 400 and not self._plain:
            status, body = await self._send(prompt, plain=True)
            self._plain = status < 400
        self._check(status)
        return body

    async def _send(self, prompt: Prompt, *, plain: bool) -> tuple[int, bytes]:
        write = self._format.write_plain if plain else self._format.write
        body = msgspec.json.encode(write(self._spec.id, prompt))
        exchange = await send(self._client, Call(self._wire.path, self._headers, body))
        try:
            return exchange.status, await read_at_most(exchange, MAX_REPLY, _TOO_LONG)
        finally:
            exchange.close()

    def _check(self, status: int) -> None:
        name = f'model "{self._spec.name}"'
        if status in KEY_REFUSED and not self._has_key:
            raise MissingKey(
                f"the upstream of {name} wants a key and has none (status {status})", answered=status
            )
        if status in KEY_REFUSED:
            raise UpstreamError(f"the upstream of {name} refused the key (status {status})", answered=status)
        if status in _BUSY:
            raise UpstreamUnavailable(f"the upstream of {name} is busy (status {status})", answered=status)
        if status != 200:
            raise UpstreamError(f"{name} answered with status {status}", answered=status)

    def _read(self, body: bytes) -> tuple[str, Usage]:
        """Return the text of a reply, and its usage."""
        text = self._wire.completion(body)[1].strip()
        if not text:
            raise UpstreamError(f'model "{self._spec.name}" gave no text')
        # Usage of an unknown shape is no reason to throw an answer away.
        return text, decoded_or(Usage(), self._wire.usage, body)


def chat_models(
    models: Mapping[str, ModelSpec],
    upstreams: Mapping[str, UpstreamSpec],
    connect: Callable[[UpstreamSpec], UpstreamClient],
) -> dict[str, ChatModel]:
    """Return every model that can be asked, by its configured name; the others are left out.

    Args:
        models: By configured name.
        upstreams: By name.
        connect: Returns the client of an upstream; called once for each that serves such a model.
    """
    clients: dict[str, UpstreamClient] = {}
    asked: dict[str, ChatModel] = {}
    for name, model in models.items():
        upstream = upstreams[model.upstream]
        if upstream.forward_auth or not upstream.formats & ASKABLE.keys():
            continue  # a question of our own has no caller whose credential could be sent
        if upstream.name not in clients:
            clients[upstream.name] = connect(upstream)
        asked[name] = HttpModel(model, upstream, clients[upstream.name])
    return asked


def unasked(models: Mapping[str, ModelSpec], upstreams: Mapping[str, UpstreamSpec]) -> str:
    """Describe why ``chat_models`` returns none of these; empty without any."""
    return "; ".join(
        _unasked(upstreams[name]) for name in sorted({each.upstream for each in models.values()})
    )


def _unasked(upstream: UpstreamSpec) -> str:
    if upstream.forward_auth:
        return f"[upstreams.{upstream.name}] takes the caller's own credential, and a question has no caller"
    formats, asked = (", ".join(sorted(each)) for each in (upstream.formats, ASKABLE))
    return (
        f"[upstreams.{upstream.name}] has formats {formats}, and a question takes {asked}: {ASKABLE_UPSTREAM}"
    )


def _format(spec: ModelSpec, upstream: UpstreamSpec) -> tuple[Format, ModelCall]:
    for format_, call in ASKABLE.items():
        if format_ in upstream.formats:
            return FORMATS[format_], call
    raise ConfigError(f'model "{spec.name}" cannot be asked: its upstream speaks neither chat nor messages')


def constrained(prompt: Prompt) -> Prompt:
    """Return the prompt with instructions that name the only answers allowed, if there are any."""
    if not prompt.labels:
        return prompt
    only = f"Answer with exactly one of these and nothing else: {', '.join(prompt.labels)}."
    return msgspec.structs.replace(prompt, system=f"{prompt.system}\n\n{only}".strip())


def label_of(text: str, labels: tuple[str, ...]) -> str:
    """Return the one label a reply names, as a whole word in any case; else the reply as it is."""
    named = [label for label in labels if re.search(rf"(?<!\w){re.escape(label)}(?!\w)", text, re.IGNORECASE)]
    return named[0] if len(named) == 1 else text

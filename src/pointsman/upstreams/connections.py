"""The clients of all upstreams of a configuration, and the built-in demo, which answers by itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.errors import ConfigError, MissingExtra
from pointsman.plugins import load
from pointsman.text.extract import persons_words
from pointsman.upstreams.port import DEMO_URL, Call, Exchange, Headers, UpstreamClient, UpstreamSpec
from pointsman.upstreams.relayed_headers import with_own_fields
from pointsman.vocabulary import AgentRequest, Role
from pointsman.wire import FORMATS, Body, Fault, Format, Reply, guess_wire
from pointsman.wire.request import read_request
from pointsman.wire.tools import decode_choice, demanded, forced_tool

__all__ = ["LABEL", "Connections", "DemoClient", "ReadExchange"]

#: Begins every text, so that nobody takes it for a model's words.
LABEL: Final = "[Pointsman demo upstream: no model was called]"

_BY_PATH: Final = {wire.path: wire for wire in FORMATS.values()}
_TOKEN_PATHS: Final = frozenset(wire.token_path for wire in FORMATS.values() if wire.token_path)
_ECHO: Final = 200  # characters of the user's words that are repeated
_JSON: Final = ((b"content-type", b"application/json"),)
_EVENTS: Final = ((b"content-type", b"text/event-stream"),)


_EMPTY: Final = msgspec.Raw(b"[]")
_NULL: Final = msgspec.Raw(b"null")
_NOT_FOUND: Final = Fault(404, "the demo upstream has no such path", "not_found")


class DemoClient:
    """An ``UpstreamClient`` that answers by itself."""

    async def send(self, call: Call) -> Exchange:
        """Answer at once."""
        path = call.path.partition(b"?")[0]
        if path in _TOKEN_PATHS:
            return ReadExchange(200, _JSON, (msgspec.json.encode({"input_tokens": len(call.body) // 4}),))
        wire = _BY_PATH.get(path)
        if wire is None:
            return ReadExchange(404, _JSON, (guess_wire(()).error(_NOT_FOUND),))
        body = Body(wire, call.body)
        if fault := _complaint(wire, body):
            return ReadExchange(fault.status, _JSON, (wire.error(fault),))
        reply = answer(wire, body)
        if body.is_true("stream"):
            return ReadExchange(200, _EVENTS, wire.answer_events(reply))
        return ReadExchange(200, _JSON, (wire.answer(reply),))

    def close(self) -> None:
        """There is nothing to close."""


class ReadExchange:
    """An answer that is already there (``Exchange``)."""

    def __init__(self, status: int, headers: Headers, parts: Iterable[bytes]) -> None:
        self.status: Final = status
        self.headers: Final = headers
        self._parts: Iterator[bytes] = iter(parts)

    async def read(self) -> bytes:
        """Return the rest."""
        return b"".join(self._parts)

    async def next(self) -> bytes:
        """Return the next part; empty at the end."""
        return next(self._parts, b"")

    def close(self) -> None:
        """Drop the rest."""
        self._parts = iter(())


def _complaint(wire: Format, body: Body) -> Fault | None:
    """Report common client mistakes that providers would refuse too."""
    for name in wire.required:
        if name not in body:
            return Fault(400, f"{name}: Field required", param=name)
    if body.member(wire.items) == _EMPTY:
        return Fault(400, f"{wire.items}: at least one item is required", param=wire.items)
    try:
        decode_choice(body.member("tool_choice") or _NULL)
    except UNREADABLE as error:
        return Fault(400, f"tool_choice: {error}", param="tool_choice")
    return None


def answer(wire: Format, body: Body) -> Reply:
    """Return the demo's answer to a request: the same for the same bytes."""
    agent_request = read_request(wire.format, body)
    tool = _wanted_tool(agent_request)
    text = "" if tool else _text(agent_request)
    return Reply(
        id=hashlib.sha256(body.raw, usedforsecurity=False).hexdigest()[:24],
        model=agent_request.model,
        text=text,
        tool=tool,
        arguments={},
        input_tokens=len(body.raw) // 4,
        output_tokens=max(len(text) // 4, 1),
        wants_usage=b'"include_usage"' in body.raw,
        asked=body.members,
    )


def _text(agent_request: AgentRequest) -> str:
    last = agent_request.history[-1] if len(agent_request.history) else None
    if last and last.role is Role.TOOL and last.results:
        return f"{LABEL} The tool answered: {last.results[-1].text[:_ECHO]}"
    words = persons_words(agent_request)
    return f"{LABEL} Model {agent_request.model} would have answered: {words[:_ECHO]}"


def _wanted_tool(agent_request: AgentRequest) -> str:
    """Return the tool that ``tool_choice`` demands; empty when the model would be free to choose."""
    if not agent_request.tools:
        return ""
    if named := forced_tool(agent_request.tool_choice):
        return named
    asked = demanded(agent_request.tool_choice)
    must_call = (asked if isinstance(asked, str) else asked.type) in {"any", "required"}
    return agent_request.tools[0] if must_call else ""


class Connections:
    """One client for each upstream, shared by callers' requests and Pointsman's questions."""

    def __init__(self, clients: Mapping[UpstreamSpec, UpstreamClient] | None = None) -> None:
        self._clients = dict(clients or {})

    def __call__(self, spec: UpstreamSpec) -> UpstreamClient:
        """Return the client of an upstream.

        Raises:
            MissingExtra: httptools, of the extra ``gateway``, is not installed: deciding alone needs none.
            ConfigError: no installed package offers a client for the scheme of its address.
        """
        client = self._clients.get(spec)
        if client is None:
            plain = DemoClient() if spec.base_url == DEMO_URL else _client(spec)
            client = self._clients[spec] = with_own_fields(spec, plain)
        return client

    def carried_over(self, specs: Iterable[UpstreamSpec]) -> Connections:
        """Return the connections of another configuration: clients of unchanged upstreams are reused."""
        return Connections({spec: self._clients[spec] for spec in specs if spec in self._clients})

    def close(self, *, but: Connections | None = None) -> None:
        """Close the clients, but those that ``but`` has taken over."""
        kept = set(but._clients.values()) if but else set()
        for spec in [spec for spec, client in self._clients.items() if client not in kept]:
            self._clients.pop(spec).close()


def _client(spec: UpstreamSpec) -> UpstreamClient:
    if spec.base_url.startswith(("http:", "https:")):
        return _http_client(spec)
    scheme = spec.base_url.partition(":")[0]
    make = load("upstream", scheme)
    if make is None:
        raise ConfigError(f'no installed package offers an upstream "{scheme}"')
    made: UpstreamClient = make(spec)
    return made


def _http_client(spec: UpstreamSpec) -> UpstreamClient:
    try:
        from pointsman.upstreams.http import HttpClient
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("pointsman"):
            raise
        raise MissingExtra("gateway", needed_for="a request to an upstream") from error
    return HttpClient(spec)

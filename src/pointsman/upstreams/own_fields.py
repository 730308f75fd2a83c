"""Headers, query parameters and body members of the operator's, set on every request to one upstream.

They are added where a request leaves, so that requests of callers, of the shadow model and of our own carry
them alike. An upstream without any has its plain client, and nothing here is on its way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote_plus, unquote_plus

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.upstreams.port import HOP_BY_HOP, Call, Exchange, UpstreamClient, UpstreamSpec
from pointsman.wire import WIRES

__all__ = ["RESERVED_MEMBERS", "OwnFieldsClient", "header_problems", "with_own_fields"]

#: Members of a body that the gateway itself decides on, or that hold what the caller says.
RESERVED_MEMBERS: Final = frozenset({"model", "stream", *(wire.items for wire in WIRES.values())})

#: Names of headers that the client or the gateway sets.
_RESERVED_HEADERS: Final = HOP_BY_HOP | {b"host", b"content-length", b"content-type", b"accept-encoding"}
#: A header's name and value (RFC 9110, sections 5.1 and 5.5), without the obsolete bytes above ASCII.
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\t -~]*")
#: Where a request asks a model, and takes the members of a body.
_PATHS: Final = frozenset(wire.path for wire in WIRES.values())

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class OwnFieldsClient:
    """An ``UpstreamClient`` that sets the fields of its upstream before another one sends the request.

    A field of the operator's replaces the caller's of the same name.
    """

    def __init__(self, spec: UpstreamSpec, client: UpstreamClient) -> None:
        self._client: Final = client
        self._headers: Final = [
            (name.lower().encode(), value.reveal().encode()) for name, value in spec.headers.items()
        ]
        self._names: Final = frozenset(name for name, _ in self._headers)
        self._parameters: Final = frozenset(spec.query)
        pairs = (f"{quote_plus(name)}={quote_plus(value.reveal())}" for name, value in spec.query.items())
        self._query: Final = "&".join(pairs).encode()
        self._body: Final = {name: msgspec.Raw(value.reveal().encode()) for name, value in spec.body.items()}

    async def send(self, call: Call) -> Exchange:
        """Send the request with the upstream's own fields. Raises as ``UpstreamClient`` says."""
        path, _, query = call.path.partition(b"?")
        headers = [pair for pair in call.headers if pair[0] not in self._names] + self._headers
        body = self._with_members(call.body) if self._body and path in _PATHS else call.body
        path = self._with_query(path, query) if self._query else call.path
        return await self._client.send(call._replace(path=path, headers=headers, body=body))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _with_query(self, path: bytes, query: bytes) -> bytes:
        kept = [pair for pair in query.split(b"&") if pair and _parameter(pair) not in self._parameters]
        return path + b"?" + b"&".join((*kept, self._query))

    def _with_members(self, body: bytes) -> bytes:
        """Set members of a JSON object; the others keep their bytes and their order."""
        try:
            return msgspec.json.encode(_members(body) | self._body)
        except UNREADABLE:
            return body  # no object: the upstream says what is wrong with it


def with_own_fields(spec: UpstreamSpec, client: UpstreamClient) -> UpstreamClient:
    """Return a client that sets the fields of an upstream; the client itself where there are none."""
    return OwnFieldsClient(spec, client) if spec.headers or spec.query or spec.body else client


def header_problems(headers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the name of each header that cannot be set, and why. Values are never named."""
    seen: set[str] = set()
    for name, value in headers.items():
        lower = name.lower()
        if not _NAME.fullmatch(name):
            yield name, f'"{name}" is not a header name'
        elif lower.encode() in _RESERVED_HEADERS or lower.startswith("x-pointsman-"):
            yield name, f'the header "{name}" is set by the gateway'
        elif lower in seen:
            yield name, f'the header "{name}" is set twice'
        elif not _VALUE.fullmatch(value):
            yield name, f'the value of "{name}" must be printable ASCII in one line'
        seen.add(lower)


def _parameter(pair: bytes) -> str:
    return unquote_plus(pair.partition(b"=")[0].decode("latin-1"))

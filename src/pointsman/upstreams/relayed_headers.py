"""Which headers are relayed between a caller and an upstream: by name or prefix, and no others.

An allow-list, because a deny-list cannot be complete: credentials for other providers, headers that a
server in front obeys or that change what a browser does at the gateway's address. Each upstream can be
configured to take, or to return, further ones (docs/notebook/0145).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote_plus, unquote_plus

import msgspec

from pointsman.decoding import UNREADABLE, decode_members
from pointsman.remembering import remembered
from pointsman.upstreams.port import HOP_BY_HOP, Call, Exchange, UpstreamClient, UpstreamSpec
from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS

__all__ = [
    "OWN_PREFIX",
    "REQUEST",
    "REQUEST_PREFIXES",
    "RESERVED_MEMBERS",
    "RESPONSE",
    "RESPONSE_PREFIXES",
    "HeaderNames",
    "OwnFieldsClient",
    "credentials",
    "goes_up",
    "header_problems",
    "is_well_formed",
    "name_down",
    "name_problems",
    "with_own_fields",
]

#: Ours alone: nobody else can set one, in either direction.
OWN_PREFIX: Final = b"x-pointsman-"

#: Headers of a caller that go to every upstream.
REQUEST: Final = frozenset({
    # what is asked for, and in which language (RFC 9110); conditions and ranges of files
    b"accept", b"accept-language", b"if-match", b"if-modified-since", b"if-none-match", b"if-range",
    b"if-unmodified-since", b"prefer", b"range", b"user-agent",
    # of an uploaded body
    b"content-disposition", b"content-encoding", b"content-language", b"content-md5", b"digest",
    # one request among others, and its trace
    b"b3", b"idempotency-key", b"traceparent", b"tracestate", b"x-client-request-id",
    b"x-cloud-trace-context", b"x-correlation-id", b"x-request-id",
    # sessions and clients as agents name them: Codex, Claude Code, opencode, Cline, Copilot, OpenRouter's
    b"conversation-id", b"conversation_id", b"copilot-integration-id", b"editor-plugin-version",
    b"editor-version", b"http-referer", b"originator", b"session-id", b"session_id", b"thread-id",
    b"thread_id", b"version", b"x-app", b"x-initiator", b"x-interaction-id", b"x-parent-session-id",
    b"x-session-affinity", b"x-session-id", b"x-title",
    # of the providers' SDKs
    b"x-goog-api-client", b"x-ms-client-request-id", b"x-ms-useragent",
})  # fmt: skip
REQUEST_PREFIXES: Final = (
    b"anthropic-", b"openai-", b"x-b3-", b"x-claude-", b"x-codex-", b"x-grok-", b"x-kilocode-",
    b"x-openai-", b"x-opencode-", b"x-openrouter-", b"x-stainless-",
)  # fmt: skip

#: Names of these prefixes that say on whose account the caller is: the gateway's key is on another.
_ACCOUNT: Final = frozenset({b"openai-organization", b"openai-project"})
#: Where the caller's own credential goes (``forward_auth``), what belongs to it goes too.
_OF_CREDENTIAL: Final = (*sorted(_ACCOUNT), b"chatgpt-*")
_CREDENTIAL: Final = re.compile(rb"(?:key|token|secret|password|authorization|cookie)$")

#: Headers of an upstream that go to the caller.
RESPONSE: Final = frozenset({
    # of the body (RFC 9110), and of a file in a cache
    b"accept-ranges", b"cache-control", b"content-disposition", b"content-encoding", b"content-language",
    b"content-range", b"content-type", b"etag", b"expires", b"last-modified",
    # limits, and what will end
    b"deprecation", b"ratelimit", b"ratelimit-policy", b"retry-after", b"retry-after-ms", b"sunset",
    b"warning",
    # one request among others, as providers and their hosts name it
    b"apim-request-id", b"cf-ray", b"request-id", b"server-timing", b"traceresponse", b"x-amzn-requestid",
    b"x-client-request-id", b"x-correlation-id", b"x-generation-id", b"x-ms-client-request-id",
    b"x-ms-deployment-name", b"x-ms-region", b"x-ms-request-id", b"x-request-id", b"x-trace-id",
    # what it took
    b"x-compute-time", b"x-compute-type", b"x-envoy-upstream-service-time", b"x-inference-time",
})  # fmt: skip
RESPONSE_PREFIXES: Final = (
    b"anthropic-", b"fireworks-", b"openai-", b"ratelimit-", b"x-amzn-bedrock-", b"x-codex-", b"x-groq-",
    b"x-litellm-", b"x-models-", b"x-oai-", b"x-openai-", b"x-openrouter-", b"x-ratelimit-", b"x-reasoning-",
)  # fmt: skip

#: The caller's own or the decision's id goes by this name; the upstream's keeps one beside it.
_RENAMED: Final = {b"x-request-id": b"x-pointsman-upstream-request-id"}

#: Framing, connections and credentials: not even where an upstream is configured to take or return them.
_NEVER: Final = frozenset({
    "accept-encoding", "authorization", "connection", "content-length", "content-type", "expect", "host",
    "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade", "x-api-key",
})  # fmt: skip
_PATTERN: Final = re.compile(r"[!#$%&'+.^_`|~0-9A-Za-z-]+\*?")
#: Names whose way is remembered; a client sends the same dozen with every request.
_KEPT: Final = 512
_LONGEST: Final = 64  # bytes of such a name
#: Lines of headers, names in lower case. One search tells what uvicorn asks of each name and value by itself.
_LINES: Final = re.compile(rb"(?:[a-z0-9!#$%&'*+.^_`|~-]++: [^\x00-\x08\x0a-\x1f\x7f]*+\r\n)*+")


class HeaderNames:
    """Names, and beginnings of names that end with ``*``."""

    __slots__ = ("_exact", "_prefixes")

    def __init__(self, names: Iterable[bytes] = ()) -> None:
        lower = [name.lower() for name in names]
        self._exact = frozenset(name for name in lower if not name.endswith(b"*"))
        self._prefixes = tuple(name[:-1] for name in lower if name.endswith(b"*"))

    def __bool__(self) -> bool:
        return bool(self._exact or self._prefixes)

    def __contains__(self, name: bytes) -> bool:
        return name in self._exact or name.startswith(self._prefixes)

    @classmethod
    def taken(cls, configured: Iterable[str], *, forward_auth: bool) -> HeaderNames:
        """Return the caller's headers for an upstream, in addition to those for every one."""
        names = [name.encode() for name in configured]
        return cls((*names, *_OF_CREDENTIAL) if forward_auth else names)


def _goes_up(name: bytes) -> bool:
    if name in REQUEST:
        return True
    return name.startswith(REQUEST_PREFIXES) and name not in _ACCOUNT and not _CREDENTIAL.search(name)


def _name_down(name: bytes) -> bytes:
    if name not in RESPONSE and not name.startswith(RESPONSE_PREFIXES):
        return b""
    return _RENAMED.get(name, name)


#: Whether a caller's header goes to every upstream.
goes_up: Final = remembered(_goes_up, _KEPT, _LONGEST)
#: The name under which an upstream's header goes to the caller; empty when it does not.
name_down: Final = remembered(_name_down, _KEPT, _LONGEST)


def is_well_formed(lines: bytes, count: int) -> bool:
    """Whether these are so many lines of headers and nothing else."""
    return lines.count(b"\n") == count and _LINES.fullmatch(lines) is not None


def name_problems(names: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the place of each configured name that cannot be relayed, and why."""
    for place, name in enumerate(names):
        lower = name.lower()
        if not _PATTERN.fullmatch(name):
            yield (
                place,
                f'"{name}" is neither the name of a header nor the beginning of one with "*" behind it',
            )
        elif lower in _NEVER or lower.startswith(OWN_PREFIX.decode()) or _covers_one(lower):
            yield place, f'the header "{name}" is not for a setting to relay'


def _covers_one(pattern: str) -> bool:
    prefix = pattern.removesuffix("*")
    return pattern != prefix and any(name.startswith(prefix) for name in (*_NEVER, OWN_PREFIX.decode()))


# Headers, query parameters and body members of the operator's, set on every request to one upstream.

#: Members of a body that the gateway itself decides on, or that hold what the caller says.
RESERVED_MEMBERS: Final = frozenset({"model", "stream", *(wire.items for wire in FORMATS.values())})

#: Names of headers that the client or the gateway sets.
_RESERVED_HEADERS: Final = HOP_BY_HOP | {b"host", b"content-length", b"content-type", b"accept-encoding"}
#: A header's name and value (RFC 9110, sections 5.1 and 5.5), without the obsolete bytes above ASCII.
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\t -~]*")
#: Where a request asks a model, and takes the members of a body.
_PATHS: Final = frozenset(wire.path for wire in FORMATS.values())


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
        """Send the request with the upstream's fields. Raises like ``UpstreamClient``."""
        path, _, query = call.path.partition(b"?")
        headers = [pair for pair in call.headers if pair[0] not in self._names] + self._headers
        body = self._with_members(call.body) if self._body and path in _PATHS else call.body
        path = self._with_query(path, query) if self._query else call.path
        return await self._client.send(msgspec.structs.replace(call, path=path, headers=headers, body=body))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _with_query(self, path: bytes, query: bytes) -> bytes:
        kept = [pair for pair in query.split(b"&") if pair and _parameter(pair) not in self._parameters]
        return path + b"?" + b"&".join((*kept, self._query))

    def _with_members(self, body: bytes) -> bytes:
        """Set members of a JSON object; bytes and order of the others are unchanged."""
        try:
            return msgspec.json.encode(decode_members(body) | self._body)
        except UNREADABLE:
            return body  # no object: the upstream says what is wrong with it


def with_own_fields(spec: UpstreamSpec, client: UpstreamClient) -> UpstreamClient:
    """Return a client that sets the fields of an upstream; the client itself without any."""
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


def credentials(spec: UpstreamSpec, wire: WireFormat) -> list[tuple[bytes, bytes]]:
    """Return the headers that authenticate at an upstream."""
    if spec.api_key is None:
        return []
    secret = spec.api_key.reveal().encode()
    scheme = spec.auth or (FORMATS[wire].auth)
    if scheme == "bearer":
        return [(b"authorization", b"Bearer " + secret)]
    return [(scheme.encode(), secret)]

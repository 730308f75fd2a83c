"""Where requests go and how the server listens, and the interface of an upstream client."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, NoReturn, Protocol, TypeAlias

import msgspec
from msgspec import Meta, field

from pointsman.errors import StaleConnection, UpstreamError
from pointsman.vocabulary import WireFormat
from pointsman.wire import sse

#: Names in lower case. Bytes from end to end: the gateway passes them on and reads few.
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

#: Names of headers about one connection, never passed on (RFC 9110, section 7.6.1).
HOP_BY_HOP: Final = frozenset({
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
    b"trailer", b"transfer-encoding", b"upgrade",
})  # fmt: skip

#: Characters from which a referenced text counts as a secret; shorter ones are words such as a region.
_SHORTEST: Final = 8

_Seconds: TypeAlias = Annotated[float, Meta(gt=0)]
#: Hexadecimals of a key's digest that name its caller: two keys of ten thousand share them once in millions.
_NAMED: Final = 12

#: The ``base_url`` of the built-in demo upstream, which answers inside the process.
DEMO_URL: Final = "demo:"
#: The way out where an upstream speaks no format in which Pointsman asks questions of its own.
ASKABLE_UPSTREAM: Final = 'a second [upstreams.NAME] with formats = ["chat"], and a model of it, can be asked'
#: Statuses with which an upstream refuses a key.
KEY_REFUSED: Final = frozenset({401, 403})


class Secret:
    """A text that never shows itself: not in a ``repr``, an f-string, a traceback, a dump or a pickle.

    What it shows instead is its reference, as written in the configuration: ``${MAIN_API_KEY}``.
    """

    __slots__ = ("_value", "reference")

    def __init__(self, value: str, *, reference: str = "***") -> None:
        self._value = value
        self.reference = reference

    def reveal(self) -> str:
        """Return the text. Call it only to send it."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({self.reference})"

    def __str__(self) -> str:
        return self.reference

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret cannot be pickled")


class ProxyUrl(Secret):
    """The address of a proxy, which may hold a password."""

    __slots__ = ()


class Template(Secret):
    """A text that may hold references to the environment; it shows itself as it was written."""

    __slots__ = ("hidden",)

    def __init__(self, value: str, *, reference: str = "", hidden: Iterable[str] = ()) -> None:
        """Take the text, as it was written, and the values of its references."""
        super().__init__(value, reference=reference or value)
        self.hidden = tuple(hidden)


class JsonTemplate(Template):
    """A JSON value, as JSON; its strings may hold references."""

    __slots__ = ()


def hash_key(key: str) -> bytes:
    """Return the digest under which a caller's key is stored.

    Plain SHA-256: a key is random and long, so a slow password hash would only slow every request.
    """
    return hashlib.sha256(key.encode()).digest()


def caller_name(digest: bytes) -> str:
    """Return the name of the caller of the key with this digest and no name."""
    return f"key-{digest.hex()[:_NAMED]}"


class Timeouts(msgspec.Struct, frozen=True):
    """Timeouts of an upstream, in seconds."""

    # a TCP and TLS handshake across an ocean takes under one second
    connect: Annotated[float, Meta(gt=0, description="Timeout of the connection.")] = 5.0
    # A provider answers a streamed request at once; a whole response begins when the model has finished.
    first_byte: Annotated[
        _Seconds | None,
        Meta(
            description="Timeout of the first byte of a response, and of each silence in it. Default: 60 for "
            "the first byte of a streamed response, else 300.",
        ),
    ] = None
    # the default of the OpenAI and Anthropic SDKs
    total: Annotated[float, Meta(gt=0, description="Timeout of one attempt.")] = 600.0


class UpstreamSpec(msgspec.Struct, frozen=True):
    """A provider: base URL, API key, wire formats."""

    name: str
    # with the version prefix, as the OpenAI SDK wants it
    base_url: Annotated[str, Meta(description="Base URL, up to and including `/v1`.")]
    api_key: Annotated[
        Secret | None, Meta(description='API key by reference: `"${MAIN_API_KEY}"`. Local servers need none.')
    ] = None
    forward_auth: Annotated[
        bool,
        Meta(
            description="Whether the caller's own credential is sent instead of a key; "
            "the gateway's key then comes in `x-pointsman-key`."
        ),
    ] = False
    formats: Annotated[frozenset[WireFormat], Meta(description="Wire formats that it supports natively.")] = (
        frozenset(WireFormat)
    )
    translate: Annotated[
        bool, Meta(description="Whether requests of other wire formats are translated for it.")
    ] = True
    # agents are released weekly: one new field would stop every user of a model of another format
    unknown: Annotated[
        Literal["drop", "refuse"],
        Meta(
            description="What becomes of an unknown field while translating: `drop` leaves it out and names "
            "it in `x-pointsman-translated` and the ledger, `refuse` answers 400."
        ),
    ] = "drop"
    timeouts: Annotated[Timeouts, Meta(description="Timeouts.")] = Timeouts()
    # the default of the OpenAI and Anthropic SDKs
    retries: Annotated[int, Meta(ge=0, description="Retries of the same model.")] = 2
    auth: Annotated[
        Literal["", "bearer", "x-api-key", "api-key"],
        Meta(
            description="Header of the key; default: `x-api-key` for messages, `bearer` for the others. "
            "Azure OpenAI takes `api-key`."
        ),
    ] = ""
    headers: Annotated[
        dict[str, Template],
        Meta(description='Headers set on every request: `{ "HTTP-Referer" = "https://example.com" }`.'),
    ] = {}
    query: Annotated[
        dict[str, Template],
        Meta(
            description='Query parameters set on every request: `{ "api-version" = "2025-04-01-preview" }`.'
        ),
    ] = {}
    body: Annotated[
        dict[str, JsonTemplate],
        Meta(description="Members set in the JSON body of every request to a model."),
    ] = {}
    proxy: Annotated[
        ProxyUrl | None,
        Meta(description='HTTP proxy; `""` for none. Default: the variables `HTTPS_PROXY` and `NO_PROXY`.'),
    ] = None
    ca_file: Annotated[
        Path | None,
        Meta(description="PEM file of trusted certificate authorities; default: the system's."),
    ] = None
    # at one second a turn, 500 requests a second; a process may have 1,024 files open on many systems
    connections: Annotated[
        int, Meta(ge=1, description="Maximum number of connections; further requests wait.")
    ] = 512
    pass_headers: Annotated[
        tuple[str, ...],
        Meta(
            description="Further headers of callers that it takes; `x-acme-*` is every name that begins so."
        ),
    ] = ()
    return_headers: Annotated[
        tuple[str, ...], Meta(description="Further headers of its responses that callers get.")
    ] = ()
    # as a request may have; the largest there are hold images in base64
    answer_bytes: Annotated[
        int, Meta(ge=1, description="Maximum bytes of a whole response, and of one event of a stream.")
    ] = sse.EVENT_BYTES
    # 128,000 tokens with the log probabilities of twenty others each
    stream_bytes: Annotated[int, Meta(ge=1, description="Maximum bytes of a stream.")] = sse.STREAM_BYTES
    provider: Annotated[
        str | None,
        Meta(
            description="Provider whose entries of the model catalogue hold here; default: by the host of "
            '`base_url`. `""`: none.'
        ),
    ] = None

    def __hash__(self) -> int:
        """Hash by name and address: equal specs have both, and the tables cannot be hashed."""
        return hash((self.name, self.base_url))

    @property
    def secrets(self) -> tuple[bytes, ...]:
        """What must not come back from the upstream: the key, and the values that templates refer to."""
        templates = (*self.headers.values(), *self.query.values(), *self.body.values())
        hidden = [text for template in templates for text in template.hidden]
        keys = [self.api_key.reveal()] if self.api_key else []
        # A short one is a word ("x", "none", "ollama"): taking it out would spoil what an error says.
        return tuple(dict.fromkeys(text.encode() for text in (*keys, *hidden) if len(text) >= _SHORTEST))


class Limits(msgspec.Struct, frozen=True):
    """Limits of a request and its caller.

    Nesting needs no number: the decoder refuses about 1,000 levels.
    """

    # Anthropic's documented limit on a Messages request
    body_bytes: Annotated[int, Meta(ge=1, description="Maximum bytes of a body.")] = 32 << 20
    # three of the largest bodies, or 2,800 of the 35 kB of a usual agent's turn
    total_body_bytes: Annotated[
        int,
        Meta(
            ge=1,
            description="Maximum bytes of all bodies in progress; those above 256 KiB get three quarters.",
        ),
    ] = 96 << 20
    # nginx allows 32 KiB, Codex sends about 2
    header_bytes: Annotated[int, Meta(ge=1, description="Maximum bytes of all headers together.")] = 64 << 10
    # twice nginx's worker_connections
    connections: Annotated[
        int,
        Meta(
            ge=1,
            description="Maximum number of callers' connections. Idle ones make room for new ones; "
            "if none is idle, new ones get 503.",
        ),
    ] = 1024
    # as many as one upstream serves by default
    requests: Annotated[
        int, Meta(ge=1, description="Maximum number of requests in progress; further ones get 503.")
    ] = 512
    # as nginx's send_timeout
    unread_seconds: Annotated[
        float,
        Meta(
            gt=0,
            description="Seconds after which a caller that has read less than 16 KiB of a waiting response "
            "is disconnected.",
        ),
    ] = 60.0

    @property
    def total(self) -> int:
        """Bytes of all bodies together: ``total_body_bytes``, or two of the largest if that is more."""
        return max(self.total_body_bytes, 2 * self.body_bytes)


class ServerSpec(msgspec.Struct, frozen=True):
    """The listening address of the gateway, its keys, and its limits."""

    host: Annotated[str, Meta(description="Address to bind. Other than loopback needs `keys`.")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535, description="Port to bind; 0 selects a free port.")] = 4747
    written_keys: Annotated[
        tuple[Secret, ...],
        Meta(
            description='Keys callers may present: `"${NAME}"`, or `"sha256:…"`. None, and none in `[keys]`: '
            "no key is required."
        ),
    ] = field(name="keys", default=())  # empty once the configuration is loaded: ``keys`` holds their digests
    workers: Annotated[
        int,
        Meta(
            ge=1,
            le=64,
            description="Processes that serve the address together; see "
            "[Several processes](../how-to/deploy.md). The limits below hold for each.",
        ),
    ] = 1
    limits: Annotated[Limits, Meta(description="Limits of a request.")] = Limits()
    # a proxy asks every few seconds
    drain_notice: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds after SIGTERM for which new connections are still accepted while "
            "`/health/ready` answers 503; skipped if nobody asked it within the last minute.",
        ),
    ] = 5.0
    # of Kubernetes' 30, ten are for the stores
    drain: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds that open responses get to finish after that (graceful shutdown).",
        ),
    ] = 15.0
    # as the HTML standard advises for server-sent events (section 9.2.7)
    keep_alive: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds of silence after which a stream gets a comment, or in the Messages format a "
            "`ping`, so that no proxy closes it while the model thinks; 0: never.",
        ),
    ] = 15.0
    passthrough: Annotated[
        str | None,
        Meta(description="Upstream that serves other paths below `/v1`; default: none does."),
    ] = None
    report_usage: Annotated[
        bool, Meta(description="Ask all chat streams for usage, without which their cost is unknown.")
    ] = False
    router_command: Annotated[
        bool,
        Meta(
            description="In-band commands: answer a message that begins with `/router` in the gateway, "
            "without calling a model, and take `/caps:off` off the beginning of a message. Only an admin of "
            "the console may change the model by `/router classifier`."
        ),
    ] = False
    #: ``hash_key`` of every key a caller may present; empty: no key is required.
    keys: Annotated[tuple[bytes, ...], Meta(extra={"derived": True})] = field(name="digests", default=())
    #: Names of those keys, in their order; empty: a name is made of the digest.
    names: Annotated[tuple[str, ...], Meta(extra={"derived": True})] = ()

    @property
    def has_several_callers(self) -> bool:
        """Whether keys of more than one name may be presented."""
        return len({self.caller(number) for number in range(len(self.keys))}) > 1

    def caller(self, number: int) -> str:
        """Return the name of a key's caller, by the key's place; it reveals nothing of the key."""
        return self.names[number] if self.names else caller_name(self.keys[number])


class Upload(Protocol):
    """A request body that is sent while it arrives."""

    @property
    def size(self) -> int | None:
        """Its bytes; None when that is not known before its end."""

    async def next(self) -> bytes:
        """Return newly arrived bytes; empty at the end. Any exception ends the request."""


class Call(msgspec.Struct, frozen=True):
    """One request to an upstream."""

    path: bytes  # below its base_url, with the query
    headers: Headers
    body: bytes
    method: bytes = b"POST"
    upload: Upload | None = None  # instead of ``body``
    streams: bool = False  # the response is asked for as a stream


class Exchange(Protocol):
    """An upstream's answer, from its head on. Whoever holds one closes it."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Headers:
        """The headers."""

    async def read(self) -> bytes:
        """Return the whole body. Raises ``UpstreamError`` when it does not come to its end."""

    async def next(self) -> bytes:
        """Return newly arrived bytes; empty at the end. Raises ``UpstreamError`` when it breaks off."""

    def close(self) -> None:
        """Let go of the connection; an unfinished answer is cut off, so that the upstream stops working."""


class DirectExchange:
    """An ``Exchange`` that can give away bytes when they arrive, without waking who waits for them."""

    #: Takes newly arrived bytes while ``next`` is awaited and none were kept; False: ``next`` returns them.
    take: Callable[[bytes], bool] | None = None


class UpstreamClient(Protocol):
    """Sends requests to one upstream: over the network, inside the process, or in a test's own double."""

    async def send(self, call: Call) -> Exchange:
        """Send a request and wait for the head of the answer.

        Raises:
            StaleConnection: a pooled connection was closed; the same request is sent on a new one.
            UpstreamBusy: all connections it may have are in use.
            UpstreamUnavailable: no connection.
            UpstreamTimeout: nothing came in time.
            UpstreamError: the connection broke.
        """

    def close(self) -> None:
        """Close idle pooled connections; one in use closes after its answer."""


async def send(client: UpstreamClient, call: Call) -> Exchange:
    """Send a request that is not counted, once more if a pooled connection was closed.

    Raises:
        UpstreamError: as ``UpstreamClient.send``.
    """
    try:
        return await client.send(call)
    except StaleConnection:
        return await client.send(call)


async def read_at_most(exchange: Exchange, limit: int, refusal: str = "") -> bytes:
    """Return a whole body of at most ``limit`` bytes; of a longer one nothing, if there is no ``refusal``.

    Raises:
        UpstreamError: it is longer, in the words of ``refusal``, or does not come to its end.
    """
    parts: list[bytes] = []
    size = 0
    while part := await exchange.next():
        size += len(part)
        if size > limit:
            if not refusal:
                return b""
            raise UpstreamError(refusal)
        parts.append(part)
    return b"".join(parts)

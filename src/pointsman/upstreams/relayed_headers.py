"""Which headers are relayed between a caller and an upstream: by name or prefix, and no others.

A list of what goes, because nobody can list what must not: credentials for other providers, headers that a
server in front obeys or that change what a browser does at the gateway's address. Each upstream can be
configured to take, or to return, further ones (docs/decisions/0145).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from pointsman.remembering import remembered

__all__ = ["OWN_PREFIX", "REQUEST", "REQUEST_PREFIXES", "RESPONSE", "RESPONSE_PREFIXES", "HeaderNames",
           "goes_up", "name_down", "name_problems"]  # fmt: skip

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
        """Return what an upstream takes of a caller besides the headers that go to every one."""
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

"""Which headers go on, in which direction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

__all__ = ["OWN_PREFIX", "downstream", "printable", "upstream"]

#: Ours alone: nobody else can set one, in either direction.
OWN_PREFIX: Final = "x-pointsman-"

#: About one connection, never passed on (RFC 9110, section 7.6.1).
_HOP: Final = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te",
    "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip

#: Not for an upstream: the caller's key and cookies, where it came from, and what we set ourselves.
#: Compression is not asked for, because the gateway reads what passes.
_NOT_UP: Final = _HOP | {
    "host", "content-length", "content-type", "expect", "accept-encoding",
    "authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie",
    "forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip",
}  # fmt: skip

#: Not for a caller: framing, which our server does anew, and what would speak for another host.
_NOT_DOWN: Final = _HOP | {
    "content-length", "date", "server", "set-cookie", "alt-svc", "strict-transport-security",
    "x-should-retry",  # the gateway is who retries
}  # fmt: skip


def upstream(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """Return what of a caller's headers goes to the upstream. Names arrive in lower case."""
    kept: list[tuple[str, str]] = []
    for raw_name, raw_value in headers:
        name = raw_name.decode("latin-1")
        if name in _NOT_UP or name.startswith(OWN_PREFIX):
            continue
        if raw_value.isascii():  # a value outside ASCII has no agreed meaning, and clients refuse to send it
            kept.append((name, raw_value.decode("ascii")))
    return kept


def downstream(headers: Sequence[tuple[str, str]], secret: str) -> list[tuple[bytes, bytes]]:
    """Return what of an upstream's headers goes to the caller, without any that repeats our key."""
    return [
        (name.encode("latin-1"), value.encode("latin-1", "replace"))
        for name, value in headers
        if name not in _NOT_DOWN and not name.startswith(OWN_PREFIX) and not (secret and secret in value)
    ]


def printable(text: str, limit: int = 200) -> bytes:
    """Return text as a header value: printable ASCII, other characters replaced, cut at ``limit``."""
    return "".join(c if " " <= c <= "~" else "?" for c in text[:limit]).encode("ascii")

"""Which headers go on, in which direction. Names arrive in lower case from both sides."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from pointsman.upstreams.port import Headers

__all__ = ["OWN_PREFIX", "downstream", "printable", "upstream"]

#: Ours alone: nobody else can set one, in either direction.
OWN_PREFIX: Final = b"x-pointsman-"

#: About one connection, never passed on (RFC 9110, section 7.6.1).
_HOP: Final = frozenset({
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
    b"trailer", b"transfer-encoding", b"upgrade",
})  # fmt: skip

#: Not for an upstream: the caller's key and cookies, where it came from, and what we set ourselves.
#: Compression is not asked for, because the gateway reads what passes.
_NOT_UP: Final = _HOP | {
    b"host", b"content-length", b"content-type", b"expect", b"accept-encoding",
    b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key", b"cookie",
    b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip",
}  # fmt: skip

#: Not for a caller: framing, which our server does anew, and what would speak for another host.
_NOT_DOWN: Final = _HOP | {
    b"content-length", b"date", b"server", b"set-cookie", b"alt-svc", b"strict-transport-security",
    b"x-should-retry",  # the gateway is who retries
}  # fmt: skip

#: Names of headers whose way is remembered; a client sends the same dozen with every request.
_KEPT_NAMES: Final = 512


def upstream(sent: Headers) -> list[tuple[bytes, bytes]]:
    """Return what of a caller's headers goes to the upstream."""
    return [pair for pair in sent if _goes_up(pair[0])]


#: The caller's own or the decision's id goes by this name; the upstream's keeps one beside it.
_RENAMED: Final = {b"x-request-id": b"x-pointsman-upstream-request-id"}


def downstream(sent: Headers, secret: bytes) -> list[tuple[bytes, bytes]]:
    """Return what of an upstream's headers goes to the caller, without any that repeats our key."""
    passed = [(new, value) for name, value in sent if (new := _name_down(name))]
    return [pair for pair in passed if secret not in pair[1]] if secret else passed


@lru_cache(_KEPT_NAMES)
def _goes_up(name: bytes) -> bool:
    return name not in _NOT_UP and not name.startswith(OWN_PREFIX)


@lru_cache(_KEPT_NAMES)
def _name_down(name: bytes) -> bytes:
    """The name under which a header goes to the caller; empty when it does not."""
    if name in _NOT_DOWN or name.startswith(OWN_PREFIX):
        return b""
    return _RENAMED.get(name, name)


def printable(text: str, limit: int = 200) -> bytes:
    """Return text as a header value: printable ASCII, other characters replaced, cut at ``limit``."""
    if text.isascii() and text.isprintable():
        return text[:limit].encode("ascii")
    return "".join(c if " " <= c <= "~" else "?" for c in text[:limit]).encode("ascii")

"""Credentials that callers present for an upstream, as they were sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pointsman.errors import Unauthorized
from pointsman.upstreams.port import Headers, hash_key

__all__ = ["caller_credentials"]

#: Where a caller's credential for a provider stands.
_CREDENTIALS: Final = frozenset({b"authorization", b"x-api-key"})


def caller_credentials(sent: Headers, digests: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """Return the caller's own credential for an upstream with ``forward_auth``, as it was sent.

    Args:
        sent: The caller's headers.
        digests: Of the gateway's own keys, which go nowhere.

    Raises:
        Unauthorized: there is none.
    """
    found = [pair for pair in sent if pair[0] in _CREDENTIALS and not _holds_own_key(pair[1], digests)]
    if not found:
        raise Unauthorized(
            "this upstream takes the caller's own credential, and the request has none",
            hint="send it as 'authorization' or 'x-api-key', and a key of the gateway as 'x-pointsman-key'",
        )
    return found


def _holds_own_key(value: bytes, digests: Sequence[bytes]) -> bool:
    """Whether a header's value is, or names behind a scheme, a key of the gateway."""
    return any(
        hash_key(word.decode("utf-8", "replace")) in digests for word in (value.strip(), *value.split())
    )

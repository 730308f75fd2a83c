"""Who may call: keys are kept as digests and compared in constant time."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from pointsman.config import is_loopback
from pointsman.errors import ConfigError, Unauthorized
from pointsman.upstreams.port import ServerSpec, hash_key

__all__ = ["authorise", "check_bind"]


def authorise(headers: Mapping[bytes, bytes], digests: Sequence[bytes]) -> None:
    """Let a request pass that presents one of the keys, if any is asked for.

    Both ways in which the clients of the three formats present a key are accepted. Where no key is asked for,
    web pages are kept out: a browser lets a page reach this machine once the page's own name resolves to it,
    and says in ``Origin`` whose page it is (docs/decisions/0072).

    Raises:
        Unauthorized: no key, or not one of ours; a web page's request where there are none.
    """
    if not digests:
        if b"origin" in headers and not _is_local(headers[b"origin"]):
            raise Unauthorized(
                "a gateway without keys rejects requests of other web origins",
                hint='set keys = ["${POINTSMAN_KEY}"] under [server]',
            )
        return
    bearer = headers.get(b"authorization", b"")
    presented = (bearer[7:].strip() if bearer[:7].lower() == b"bearer " else b"") or headers.get(
        b"x-api-key", b""
    )
    if not presented:
        raise Unauthorized(
            "a key is needed", hint="send it as 'Authorization: Bearer KEY' or in the header 'x-api-key'"
        )
    digest = hash_key(presented.strip().decode("utf-8", "replace"))
    matches = [hmac.compare_digest(digest, known) for known in digests]  # every one, to tell nothing by time
    if not any(matches):
        raise Unauthorized("the key is not one of this gateway's", hint="its keys are listed under [server]")


def _is_local(origin: bytes) -> bool:
    """Whether a page comes from this machine."""
    try:
        host = urlsplit(origin.decode("ascii")).hostname
    except ValueError:
        return False
    return host is not None and is_loopback(host)


def check_bind(server: ServerSpec) -> None:
    """Refuse to bind to a public address without a key.

    Raises:
        ConfigError: the address is public and no key is configured.
    """
    if not server.keys and not is_loopback(server.host):
        raise ConfigError(
            f"refusing to listen on {server.host} without a key: anyone could spend yours",
            hint='set keys = ["${POINTSMAN_KEY}"] under [server], or host = "127.0.0.1"',
        )

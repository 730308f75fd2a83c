"""Who may call: keys are kept as digests and compared in constant time."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping, Sequence

from pointsman.errors import ConfigError, Unauthorized
from pointsman.upstreams import ServerSpec, hash_key

__all__ = ["authorise", "check_bind", "is_loopback"]


def authorise(headers: Mapping[bytes, bytes], digests: Sequence[bytes]) -> None:
    """Let a request pass that presents one of the keys, if any is asked for.

    Both ways in which the clients of the three formats present a key are accepted.

    Raises:
        Unauthorized: no key, or not one of ours.
    """
    if not digests:
        return
    bearer = headers.get(b"authorization", b"")
    presented = bearer[7:] if bearer[:7].lower() == b"bearer " else headers.get(b"x-api-key", b"")
    if not presented:
        raise Unauthorized(
            "a key is needed", hint="send it as 'Authorization: Bearer …' or in the header 'x-api-key'"
        )
    digest = hash_key(presented.strip().decode("latin-1"))
    matches = [hmac.compare_digest(digest, known) for known in digests]  # every one, to tell nothing by time
    if not any(matches):
        raise Unauthorized("the key is not one of this gateway's", hint="its keys are listed under [server]")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_bind(server: ServerSpec) -> None:
    """Refuse to be reachable from elsewhere without a key.

    Raises:
        ConfigError: the address is public and no key is configured.
    """
    if not server.keys and not is_loopback(server.host):
        raise ConfigError(
            f"refusing to listen on {server.host} without a key: anyone could spend yours",
            hint='set keys = ["${POINTSMAN_KEY}"] under [server], or host = "127.0.0.1"',
        )

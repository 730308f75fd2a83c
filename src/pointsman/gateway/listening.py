"""Binds the address that a process serves, and writes it."""

from __future__ import annotations

import socket
import sys
from typing import Final

from pointsman.errors import ConfigError

__all__ = ["address", "bound", "bound_for_all"]

_OTHER_PORT: Final = "--port 0 takes a free one; [server] host and port in pointsman.toml set another address"


def address(host: str, port: int) -> str:
    """Return both as URLs and gRPC write them: an IPv6 address in brackets, with which it may be given."""
    host = host.strip("[]")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def bound(
    host: str, port: int, *, is_spread: bool = False, listens: bool = True, hint: str = _OTHER_PORT
) -> socket.socket:
    """Bind the address now, so that a port in use is one clear error and port 0 has a number to print.

    ``is_spread``: others may bind the same, and the kernel spreads connections over all of them that listen.

    Raises:
        ConfigError: the address cannot be used; ``hint`` names another way.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if is_spread:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listening.bind((host.strip("[]"), port))
        if listens:
            listening.listen()  # what is copied at once waits for the server instead of being refused
    except OSError as error:
        listening.close()
        raise ConfigError(f"cannot listen on {address(host, port)}: {error.strerror}", hint=hint) from None
    return listening


def bound_for_all(host: str, port: int, count: int) -> list[socket.socket]:
    """Bind an address for several processes: a socket for each where the kernel spreads connections.

    With one socket for all, the process that happens to be awake takes what arrives together: of 64
    connections one of two took all in one run of two (docs/decisions/0176).
    """
    if sys.platform != "linux":
        return [bound(host, port)] * count
    bound(host, port).close()  # one that is in use is refused here: another gateway may spread as well
    first = bound(host, port, is_spread=True)
    port = first.getsockname()[1]
    return [first, *(bound(host, port, is_spread=True) for _ in range(count - 1))]

"""Address of ``pointsman serve``, and its output."""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pointsman.cli.log_format import LogFormat
from pointsman.cli.output import echo
from pointsman.config import Config, examine
from pointsman.config.serving import HASHED
from pointsman.errors import StoreUnavailable

if TYPE_CHECKING:
    from pointsman.diagnostics.clients import CallerKey

log = logging.getLogger("pointsman.gateway.serve")

#: An address of TEST-NET-1 (RFC 5737): the route to it tells which address this machine has in its network.
_SOME_NETWORK = ("192.0.2.1", 9)
#: Decisions looked at for another client. The scripted agents send one between two looks.
_NEWEST = 20


@contextmanager
def demo_traffic(listening: socket.socket, log_format: LogFormat) -> Iterator[None]:
    """Let the scripted agents play while the gateway serves."""
    from pointsman.cli.demo_traffic import DemoTraffic

    began = time.time()

    host, port = listening.getsockname()[:2]
    if log_format is LogFormat.TEXT:
        echo("Scripted agents play sessions demo-… until your first request; --no-traffic leaves them out.\n")
    name = time.strftime("%m%d-%H%M%S")
    playing = DemoTraffic(host, port, name, is_in_use=lambda: has_other_clients(began))
    playing.start()
    try:
        yield
    finally:
        playing.stop()


def has_other_clients(since: float) -> bool:
    """Whether the demo's ledger holds a request of another client than the scripted agents.

    Several workers may serve the demo: what each has seen is in the ledger.

    Args:
        since: Seconds since the epoch; earlier requests do not count.
    """
    from pointsman.cli.demo_traffic import CLIENT
    from pointsman.cli.ledgers import opened

    try:
        with opened(None, None, demo=True) as ledger:
            asked = [decision.input for decision in ledger.decisions(limit=_NEWEST)]
    except StoreUnavailable:
        return False
    return any(each.client != CLIENT and each.arrived_at >= since for each in asked)


def listening_on(config: Config, host: str | None, port: int | None) -> Config:
    """Return a configuration with another address."""
    server = config.server
    host, port = server.host if host is None else host, server.port if port is None else port
    return msgspec.structs.replace(config, server=msgspec.structs.replace(server, host=host, port=port))


def _reachable(host: str) -> str:
    """Return an address under which this machine is reached; ``0.0.0.0`` and ``::`` are none."""
    if host not in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
        return host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_SOME_NETWORK)  # a datagram socket: nothing is sent
        except OSError:
            return "127.0.0.1"  # no network: only this machine can call
        address: str = probe.getsockname()[0]
        return address


def announce(listening: socket.socket, config: Config, *, demo: bool, log_format: LogFormat) -> None:
    """Tell where the gateway listens: in the log, or on standard output with what to set in agents."""
    if log_format is LogFormat.JSON:
        log.info("listening on %s", url_of(listening))
        return
    file = Path(config.source) if config.server.keys and config.source else None
    introduce(listening, config, demo=demo, key=caller_key(file))


def introduce(listening: socket.socket, config: Config, *, demo: bool, key: CallerKey) -> None:
    """Print where the gateway listens, and what to set in agents."""
    from pointsman.cli._banner import banner  # help of commands loads nothing of the diagnostics

    if demo:
        echo("Pointsman demo: responses come from a built-in upstream; no model is called.\n")
    echo(banner(config, url_of(listening), key))


def url_of(listening: socket.socket) -> str:
    """Return the base URL of a gateway, under an address that is reached."""
    from pointsman.gateway.listening import address  # help of commands loads nothing of the gateway

    host, port = listening.getsockname()[:2]
    return f"http://{address(_reachable(host), port)}"


def caller_key(file: Path | None) -> CallerKey:
    """Return how the lines write the first key: by the variable that holds it, if there is one."""
    from pointsman.diagnostics.clients import CallerKey

    tables = examine(file).file if file else None
    if tables is None or not (tables.server.keys or tables.keys):
        return CallerKey()
    if not tables.server.keys:
        return CallerKey(is_asked=True)
    key = tables.server.keys[0]
    named = re.fullmatch(r"\$\{(\w+)\}", key.reference)
    is_hash = key.reveal().startswith(HASHED)
    return CallerKey(is_asked=True, variable=named[1] if named and not is_hash else "")

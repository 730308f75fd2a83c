"""Address of ``pointsman serve``, and its output."""

from __future__ import annotations

import json
import logging
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from pointsman.cli.output import echo
from pointsman.config import Config, examine
from pointsman.config.serving import HASHED
from pointsman.errors import ConfigError, StoreUnavailable
from pointsman.printable import printable
from pointsman.upstreams.port import DEMO_URL
from pointsman.vocabulary import Tier

if TYPE_CHECKING:
    from pointsman.diagnostics.clients import CallerKey, Verdict

#: The logger of one line per request.
REQUESTS: Final = "pointsman.requests"

#: The time of a line of text, with its distance from UTC.
_TIME: Final = "%Y-%m-%dT%H:%M:%S%z"
#: Characters of a message and of a traceback in a line of JSON: collectors cut longer lines in two.
_LONGEST: Final = 8_000


class LogFormat(StrEnum):
    """How a line of the log is written."""

    TEXT = "text"
    JSON = "json"


class OneLine(logging.Formatter):
    """Writes a message as one line: quoted text can neither forge another line nor steer a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name in logging
        """Write the line without a traceback."""
        record.message = printable(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name in logging
        """Write a traceback, which may quote as well."""
        return printable(super().formatException(ei), keep="\n\t")


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON in ASCII: time, level, logger, message; of a request its fields.

    A record has a request's fields as ``request`` (``_served.log_requests``); its time is that of the
    request's end.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Write the line."""
        line: dict[str, Any] = {
            "time": _utc(getattr(record, "at", record.created)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:_LONGEST],
            **getattr(record, "request", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)[-_LONGEST:]
        return json.dumps(line)


def _utc(at: float) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at))}.{int(at * 1e3) % 1000:03d}Z"


def log_to_stderr(
    level: str, written: LogFormat = LogFormat.TEXT, *, handler: logging.Handler | None = None
) -> None:
    """Write the log to standard error.

    Args:
        level: Of decisions.
        written: How.
        handler: Takes it instead of standard error.

    Raises:
        ConfigError: there is no such level.
    """
    from pointsman.gateway.log_sampling import LogSampler

    known = logging.getLevelNamesMapping()
    if level.upper() not in known:
        raise ConfigError(f'unknown log level "{level}"', hint="debug, info, warning, error")
    before = list(logging.getLogger().handlers)
    logging.basicConfig(handlers=[handler] if handler else None)
    is_json = written is LogFormat.JSON
    for handler in logging.getLogger().handlers:
        handler.addFilter(with_public_name)
        if handler not in before:  # one of an application's own is its own business
            handler.addFilter(LogSampler(handler))
            text = OneLine("%(asctime)s %(levelname)s %(name)s: %(message)s", _TIME)
            handler.setFormatter(JsonLines() if is_json else text)
    logging.captureWarnings(is_json)  # what Python warns of is a line like any other
    logging.getLogger("pointsman").setLevel(known[level.upper()])
    for name in ("pointsman.gateway", REQUESTS):
        logging.getLogger(name).setLevel(logging.INFO)


def with_public_name(record: logging.LogRecord) -> bool:
    """Name the package that logs: which of its modules does is no concern of an operator."""
    record.name = record.name.partition("._")[0]
    return True


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
    from pointsman.cli.ledger import opened

    try:
        with opened(None, None, demo=True) as ledger:
            asked = [decision.input for decision in ledger.decisions(limit=_NEWEST)]
    except StoreUnavailable:
        return False
    return any(each.client != CLIENT and each.arrived_at >= since for each in asked)


def listening_on(
    config: Config, host: str | None, port: int | None, table: Literal["server", "ext_proc"] = "server"
) -> Config:
    """Return a configuration with another address."""
    spec = getattr(config, table)
    host, port = spec.host if host is None else host, spec.port if port is None else port
    return msgspec.structs.replace(config, **{table: msgspec.structs.replace(spec, host=host, port=port)})


def ignore_early_reload() -> None:
    """Ignore SIGHUP, which ends a process that takes none yet, until a reloader takes it.

    Nothing is missed: the configuration is still to be read, or its file is watched.
    """
    if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


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
    if tables is None or not (tables.server.written_keys or tables.keys):
        return CallerKey()
    if not tables.server.written_keys:
        return CallerKey(is_asked=True)
    key = tables.server.written_keys[0]
    named = re.fullmatch(r"\$\{(\w+)\}", key.reference)
    is_hash = key.reveal().startswith(HASHED)
    return CallerKey(is_asked=True, variable=named[1] if named and not is_hash else "")


#: Columns of a client's name.
_NAME: Final = 18
_UNTRIED: Final = "No upstream was asked yet; pointsman router doctor --live tries each model."


def banner(config: Config, url: str, key: CallerKey) -> str:
    """Return the lines for the clients that a configuration can serve, and why not for others.

    Args:
        config: The configuration.
        url: Of the gateway, without a path.
        key: What callers present.
    """
    # help of commands loads nothing of the diagnostics
    from pointsman.diagnostics.clients import PLACEHOLDER, judge_clients, lines_to_copy

    verdicts = judge_clients(config)
    working = [verdict for verdict in verdicts if verdict.fits]
    lines = [f"Pointsman listens on {url}. {'Copy what you need:' if working else ''}".rstrip()]
    if config.console.enabled:
        lines.append(f"Console, in a browser: {url}/console")
    if key.is_asked and not key.variable:
        lines.append(f"Put one of the gateway's keys in the place of {PLACEHOLDER}.")
    to_copy = lines_to_copy(config, working, url, key)
    lines += ["", *(f"  {name:<{_NAME}}{line}" for name, line in to_copy.items())]
    if any(upstream.base_url != DEMO_URL for upstream in config.upstreams.values()):
        lines.append(f"\n{_UNTRIED}")
    for verdict in working:
        if verdict.warning:
            lines.append(f"Warning, {verdict.client.name}: {verdict.warning}.")
    lines += _forwarding(config, key)
    lines += _not_working(verdicts)
    models = ", ".join(["auto", *(tier.lower() for tier in Tier if tier in config.tiers.models)])
    lines.append(f"\nModels: {models}, and every configured one. Decisions: {url}/v1/decisions/ID")
    lines.append(f"Ledger: {config.ledger.place}")
    return "\n".join(lines) + "\n"


def _forwarding(config: Config, key: CallerKey) -> Iterator[str]:
    names = [f'"{name}"' for name, upstream in config.upstreams.items() if upstream.forward_auth]
    if names:
        beside = ", and a key of the gateway in the header x-pointsman-key" if key.is_asked else ""
        yield f"\nUpstream {', '.join(names)} takes the caller's own credential (forward_auth):"
        yield f"log in with the agent; other clients send theirs in the place of the API key{beside}."


def _not_working(verdicts: list[Verdict]) -> Iterator[str]:
    without = [verdict for verdict in verdicts if not verdict.fits]
    if without:
        yield "\nNot with this configuration:"
    for verdict in without:
        hint = f" (hint: {verdict.hint})" if verdict.hint else ""
        yield f"  {verdict.client.name:<{_NAME}}{verdict.detail}{hint}"

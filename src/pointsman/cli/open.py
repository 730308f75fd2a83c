"""``pointsman open``: open the console of a running gateway in a browser."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote, urlsplit

import typer

from pointsman.cli.options import ConfigOption
from pointsman.cli.output import echo
from pointsman.errors import PointsmanError

__all__ = ["register"]

#: Seconds in which a gateway on this machine accepts a connection.
_PATIENCE: Final = 2.0
_ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("open")(open_page)


def open_page(
    decision_id: Annotated[
        str,
        typer.Argument(metavar="[ID]", help="Decision id; without one, the page of what happens now."),
    ] = "",
    *,
    url: Annotated[str, typer.Option(help="Address of the gateway; default: the configured one.")] = "",
    config: ConfigOption = None,
) -> None:
    """Open the console of the gateway that runs, or the page of one decision, in a browser.

    The address is printed too, for a browser elsewhere.
    """
    base = (url or _configured(config)).rstrip("/")
    _check(base)
    page = f"{base}/console" + (f"/decisions/{quote(decision_id, safe='')}" if decision_id else "")
    echo(page)
    import webbrowser

    if not webbrowser.open(page):
        echo("there is no browser here; open the address in one", err=True)


def _configured(config: Path | None) -> str:
    """Return where the configured gateway listens; without a file, where the demo does."""
    from pointsman.config import AnyKey, find, load
    from pointsman.upstreams.port import ServerSpec

    file = config or find()
    server = load(file, AnyKey()).server if file else ServerSpec()
    host = _ANY.get(server.host, server.host)
    if not server.port:
        raise PointsmanError(
            "the configured port is 0, a free one",
            hint="--url names the address that pointsman serve printed",
        )
    return f"http://[{host}]:{server.port}" if ":" in host else f"http://{host}:{server.port}"


def _check(url: str) -> None:
    """Refuse an address at which no server listens.

    Raises:
        PointsmanError: it is no address, or no server listens there.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        parts, port = urlsplit(""), 0
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise PointsmanError(f'"{url}" is no address of a gateway', hint="--url http://127.0.0.1:4747")
    try:
        socket.create_connection((parts.hostname, port), timeout=_PATIENCE).close()
    except OSError as error:
        raise PointsmanError(
            f"no gateway listens at {url}: {error.strerror or error}",
            hint="pointsman serve starts one; --url names another address",
        ) from None

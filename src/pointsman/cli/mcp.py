"""``pointsman mcp``: decisions as tools of a Model Context Protocol server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pointsman.errors import ConfigError

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("mcp")(serve_tools)


def serve_tools(
    *,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", help="Configuration; default: POINTSMAN_CONFIG, then the user's; never the one here."
        ),
    ] = None,
) -> None:
    """Serve decide, explain, decisions and label to an MCP client over standard input and output.

    Only label writes: an outcome, into the ledger. A client starts it in the folder of a project, so a
    pointsman.toml there counts only if --config names it. Needs the extra mcp.
    """
    from pointsman.api import Pointsman
    from pointsman.config import find_named
    from pointsman.integrations.mcp import build_server

    file = config or find_named()
    if file is None:
        raise ConfigError(
            "no configuration is named",
            hint="--config FILE names one; pointsman mcp does not look in the working directory",
        )
    with Pointsman.from_config(file) as points:
        build_server(points).run("stdio")

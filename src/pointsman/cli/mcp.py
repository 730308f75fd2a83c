"""``pointsman mcp``: decisions as tools of a Model Context Protocol server."""

from __future__ import annotations

import typer

from pointsman.cli.options import ConfigOption

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("mcp")(serve_tools)


def serve_tools(*, config: ConfigOption = None) -> None:
    """Serve decide, explain, decisions and label to an MCP client over standard input and output.

    Only label writes: an outcome, into the ledger. Needs the extra mcp.
    """
    from pointsman.api import Pointsman
    from pointsman.integrations.mcp import build_server

    with Pointsman.from_config(config) as points:
        build_server(points).run("stdio")

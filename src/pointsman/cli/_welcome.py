"""Output of ``pointsman`` alone without a configuration: findings, and a command for each."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Final, NamedTuple

from pointsman.config import find
from pointsman.config.draft import find_local, find_providers
from pointsman.config.files import state_file

#: Columns of what was looked for, and of what was found.
_KIND: Final = 15
_FOUND: Final = 44


class _Found(NamedTuple):
    kind: str
    names: list[str]
    command: str


def is_first_time() -> bool:
    """Whether there is neither a configuration nor a ledger."""
    return find() is None and not state_file("ledger.sqlite").exists()


def welcome() -> Iterator[str]:
    """Yield the lines. They look at this machine alone: programs, variables, local servers and logs."""
    yield "Pointsman decides for each request of an agent which model serves it, and sees when it is stuck."
    yield ""
    for found in _all():
        names = ", ".join(found.names) or "none"
        yield f"  {found.kind:<{_KIND}}{names:<{_FOUND}}{found.command if found.names else ''}".rstrip()
    yield ""
    yield "Without any of them: pointsman serve --demo. All commands: pointsman --help"
    yield "Only this machine was looked at. Nothing was sent or written, and nothing is downloaded later."


def _all() -> Iterator[_Found]:
    from pointsman.audit import Collection, Home, sources
    from pointsman.cli.launch import AGENTS

    logs = Collection(Home.at(None), sources()).found()
    yield _Found("Logs", [f"{name} ({count:,})" for name, count in logs.items()], "pointsman audit")
    agents = [name for name in AGENTS if shutil.which(name)]
    keys = [found.variable for found in find_providers(os.environ)]
    servers = [found.name for found in find_local()]
    launched = f"pointsman {agents[0]}" if agents and (keys or servers) else "needs a key or a model server"
    yield _Found("Agents", agents, launched)
    yield _Found("Keys", keys, "pointsman config init && pointsman serve")
    yield _Found("Model servers", servers, "pointsman config init --local && pointsman serve")

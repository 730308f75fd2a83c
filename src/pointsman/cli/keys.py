"""``pointsman keys``: make, list and revoke the keys of callers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pointsman.cli.options import ConfigOption, JsonLinesOption, JsonOption
from pointsman.cli.output import Group, config_file, echo, json_line, print_json, print_table
from pointsman.config import AnyKey, Config, load, read
from pointsman.config.edit import set_value
from pointsman.config.new_key import new_key, write_checked, write_key
from pointsman.errors import ConfigError, StoreUnavailable
from pointsman.printable import Column

if TYPE_CHECKING:
    from pointsman.access import KeyRow, Limit

__all__ = ["register"]

#: Seconds that Valkey may take: nobody's request waits here.
_PATIENCE: Final = 10.0
_COLUMNS: Final = (
    Column("name", whole=True),
    Column("team"),
    Column("role"),
    Column("state"),
    Column("expires"),
    Column("models"),
    Column("limits"),
)
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the caller.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    keys = typer.Typer(cls=Group, no_args_is_help=True, help="Make, list or revoke the keys of callers.")
    keys.command()(new)
    keys.command("list")(list_keys)
    keys.command()(revoke)
    app.add_typer(keys, name="keys")


def new(
    name: NameArgument,
    *,
    team: Annotated[str, typer.Option("--team", help="Team of the key, from [teams].")] = "",
    write: Annotated[bool, typer.Option("--write", help="Add the hash to the configuration file.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a key and print it once, with the table for the configuration, which holds its hash alone.

    A name that is configured already gets a further key: both are valid until one hash is removed.
    """
    made = new_key(name, team)
    file = config_file(config) if write else None
    if file is not None:
        write_key(file, made)
    if as_json:
        written = str(file) if file else None
        print_json({"name": name, "key": made.key, "sha256": made.sha256, "written": written})
        return
    echo(made.key)
    echo("This key is shown once: give it to the caller. The configuration holds its hash.", err=True)
    if file is not None:
        echo(f"wrote {file}: a running gateway reloads it", err=True)
    else:
        echo("Add to the configuration, or use --write:\n", err=True)
        echo(made.table, nl=False)


def list_keys(*, config: ConfigOption = None, as_json: JsonLinesOption = False) -> None:
    """List keys and teams, and the rest of their budgets.

    The configured store counts the spending. If it is the memory of the gateway, spending is summed from the
    ledger; the console's page Keys shows the gateway's count.
    """
    from pointsman.access import overview

    loaded, now = load(config_file(config), AnyKey()), time.time()

    def uses(limits: Sequence[Limit]) -> Mapping[Limit, int]:
        return _uses(loaded, limits, config, now)

    rows = overview(loaded, uses, now)
    if as_json:
        for row in rows:
            echo(json_line(row))
        return
    print_table(_COLUMNS, [_cells(row) for row in rows])
    if not rows:
        echo("there are no keys: pointsman keys new NAME makes one", err=True)


def revoke(name: NameArgument, *, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Refuse a key from the next reload on: revoked = true in its table. All keys of the name are meant."""
    file = config_file(config)
    known = load(file, AnyKey()).keys
    if name not in known:
        raise ConfigError(f'unknown key "{name}"', hint=f"there are: {', '.join(known) or 'none'}")
    write_checked(file, set_value(read(file), ("keys", name, "revoked"), "true"))
    if as_json:
        print_json({"name": name, "revoked": True, "file": str(file)})
    else:
        echo(f"revoked {name} in {file}: a running gateway reloads it")


def _uses(loaded: Config, limits: Sequence[Limit], config: Path | None, now: float) -> Mapping[Limit, int]:
    from pointsman.access import open_budgets, recorded_spending, store_kind

    kind = store_kind(loaded)
    if kind == "valkey" or (kind == "sqlite" and loaded.access.path.is_file()):
        # Only the password of Valkey is a reference to the environment that is needed here.
        budgets = open_budgets(load(config_file(config)) if kind == "valkey" else loaded, timeout=_PATIENCE)
        with closing(budgets):
            totals = budgets.store.totals([limit.counter(now) for limit in limits])
        return dict(zip(limits, totals, strict=True))
    from pointsman.cli.ledgers import opened

    try:
        with opened(None, config) as ledger:
            return recorded_spending(ledger, limits, loaded.models, now)
    except StoreUnavailable as error:
        echo(f"what is left is not known: {error.message}", err=True)
        return {}


def _cells(row: KeyRow) -> tuple[str, ...]:
    name = f"[{row.name}]" if row.what == "team" else row.name
    models = ", ".join(row.models) or "all"
    shown = f"{models}; up to {row.tiers}" if row.tiers else models
    limits = "; ".join(each.text for each in row.limits) or "none"
    return name, row.team, row.role or "", row.state, row.expires, shown, limits

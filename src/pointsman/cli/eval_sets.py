"""``pointsman eval datasets`` and ``export``: fetch public data sets, write predictions for RouterArena."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pointsman.cli.options import ConfigOption, JsonOption
from pointsman.cli.output import config_file, echo, json_line, print_json
from pointsman.config import AnyKey, load
from pointsman.config.edit import write_file
from pointsman.errors import PointsmanError
from pointsman.factory import build_policy
from pointsman.learning.public_sets import SETS, rows_of
from pointsman.learning.routerarena import export as export_predictions
from pointsman.learning.routerarena import read_prompts

__all__ = ["datasets", "export"]


class Format(StrEnum):
    """Format of the predictions."""

    ROUTERARENA = "routerarena"


def datasets(
    *,
    get: Annotated[str, typer.Option(help="Fetch this data set and write it as JSON lines.")] = "",
    out: Annotated[Path | None, typer.Option(help="Output file; default: NAME.jsonl.")] = None,
    source: Annotated[
        str, typer.Option("--from", help="Folder or URL of its files; default: its origin.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """List public data sets with origin and licence. --get fetches one; nothing else uses the network."""
    if not get:
        _list(as_json=as_json)
        return
    if get not in SETS:
        raise PointsmanError(f'no public set "{get}"', hint=f"known are {', '.join(SETS)}")
    file = out or Path(f"{get}.jsonl")
    lines = [json_line(row) for row in rows_of(SETS[get], source)]
    write_file(file, "".join(f"{line}\n" for line in lines))
    echo(f"wrote {len(lines):,} lines to {file} ({SETS[get].licence}); read it with {SETS[get].command}")


def _list(*, as_json: bool) -> None:
    fields = ("name", "about", "command", "licence", "repository")
    rows = [{field: getattr(each, field) for field in fields} for each in SETS.values()]
    if as_json:
        print_json({"rows": rows})
        return
    for row in rows:
        echo(f"{row['name']:16}{row['command']:20}{row['licence']:12}{row['repository']}")
        echo(f"{'':16}{row['about']}")


def export(
    data: Annotated[Path, typer.Argument(help="Data set: router_data.json of RouterArena.")],
    *,
    router: Annotated[str, typer.Option(help="Name of the router in the output files.")],
    out: Annotated[Path, typer.Option(help="Output folder; gets config/ and predictions/.")],
    style: Annotated[Format, typer.Option("--format", help="Output format.")] = Format.ROUTERARENA,
    robustness: Annotated[
        bool, typer.Option("--robustness", help="The data set is router_robustness.json.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Write the model that the configured policy chooses for each prompt of a public data set.

    Predictions are model ids, so the configuration must use the ids of the data set.
    """
    policy = build_policy(load(config_file(config), AnyKey()))
    prompts = read_prompts(data)
    files = export_predictions(prompts, policy, router, out, robustness=robustness)
    echo(f"{len(prompts):,} predictions for {style}: {files[0]}, {files[1]}")

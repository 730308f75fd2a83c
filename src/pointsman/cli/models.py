"""``pointsman models``: what is known of the configured models, and the catalogue that it comes from."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pointsman.cli.options import ConfigOption, JsonOption
from pointsman.cli.output import Group, config_file, print_json
from pointsman.config import examine
from pointsman.errors import PointsmanError

if TYPE_CHECKING:
    from pointsman.catalogue import Fact
    from pointsman.config.shapes import File
    from pointsman.vocabulary import ModelSpec

__all__ = ["register"]

_UNKNOWN: Final = "unknown"
#: What ``models show`` prints, in this order: field, and its unit.
_FIELDS: Final = {
    "context_window": "tokens",
    "max_output_tokens": "tokens",
    "features": "",
    "input_per_million": "per million tokens",
    "output_per_million": "per million tokens",
    "cached_input_per_million": "per million tokens",
    "cache_write_per_million": "per million tokens",
    "prices_as_of": "",
    "cache_seconds": "seconds",
}
#: Prices that are that of input where they are not known.
_DEFAULT_TO_INPUT: Final = frozenset({"cached_input_per_million", "cache_write_per_million"})


def register(app: typer.Typer) -> None:
    """Add the commands."""
    models = typer.Typer(
        cls=Group, no_args_is_help=True, help="Models: list and show what is known, update the catalogue."
    )
    models.command("list")(listed)
    models.command()(show)
    models.command()(update)
    app.add_typer(models, name="models")


def listed(*, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the configured models: context window, output limit, prices per million tokens."""
    models, _ = _configured(config)
    if as_json:
        print_json({"models": [_plain(model) for model in models.models.values()]})
        return
    head = ("name", "id", "upstream", "window", "output", "price in", "out", "cached", "as of")
    rows = [head, *map(_row, models.models.values())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if place < 3 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        typer.echo("  ".join(cells).rstrip())


def show(
    name: Annotated[str, typer.Argument(help="Configured name of the model.")],
    *,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what is known of a model, and where each value comes from."""
    from pointsman.catalogue import facts, installed
    from pointsman.config.load import provider

    _, written = _configured(config)
    model = written.models.get(name)
    if model is None:
        known = ", ".join(written.models) or "none"
        raise PointsmanError(f'no model "{name}"', hint=f"models here: {known}")
    served_by = provider(written.upstreams.get(model.upstream))
    found = facts(model, served_by, installed())
    if as_json:
        values = {field: _fact(found.get(field)) for field in _FIELDS}
        print_json({"name": name, "id": model.id, "upstream": model.upstream, "provider": served_by} | values)
        return
    provider_ = served_by or "not one of the catalogue's"
    typer.echo(f"{name}: {model.id} at upstream {model.upstream}; provider: {provider_}")
    for field, unit in _FIELDS.items():
        fact = found.get(field)
        if fact is None and field in _DEFAULT_TO_INPUT and "input_per_million" in found:
            typer.echo(f"  {field:<25}that of input")
        else:
            typer.echo(f"  {field:<25}{_shown(fact, unit)}")


def update(
    *,
    source: Annotated[
        Path, typer.Option("--from", help="A catalogue, or LiteLLM's price map; a file, as JSON.")
    ],
    as_of: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d"], help="Date of a price map; default: modification date of the file."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Replace your model catalogue, which goes before the one shipped. Nothing is downloaded."""
    from pointsman.catalogue import read_source, user_file, write_user_file

    day = as_of.date() if as_of else None
    if day is None and source.exists():
        day = datetime.fromtimestamp(source.stat().st_mtime, UTC).date()
    read = read_source(source, day or datetime.now(UTC).date())
    write_user_file(read)
    priced = sum(entry.is_priced for entry in read.entries)
    counts: dict[str, Any] = {"models": len(read.entries), "priced": priced, "as_of": read.as_of}
    if as_json:
        print_json({"file": str(user_file())} | counts)
        return
    typer.echo(
        f"wrote {user_file()}: {len(read.entries):,} models as of {read.as_of}, {priced:,} with prices"
    )


def _configured(config: Path | None) -> tuple[File, File]:
    """Return the configuration with what is known of its models, and as it is written."""
    loaded = examine(config_file(config))
    if loaded.file is None or loaded.written is None:
        raise loaded.errors[0]
    return loaded.file, loaded.written


def _plain(model: ModelSpec) -> dict[str, object]:
    values = {field: getattr(model, field) for field in _FIELDS}
    return {"name": model.name, "id": model.id, "upstream": model.upstream} | _sorted(values)


def _sorted(values: dict[str, object]) -> dict[str, object]:
    return {name: sorted(each) if isinstance(each, frozenset) else each for name, each in values.items()}


def _row(model: ModelSpec) -> tuple[str, ...]:
    prices = (model.input_per_million, model.output_per_million, model.cached_input_per_million)
    return (
        model.name,
        model.id,
        model.upstream,
        _count(model.context_window),
        _count(model.max_output_tokens),
        *(_UNKNOWN if price is None else f"{price:g}" for price in prices),
        str(model.prices_as_of or "-"),
    )


def _count(tokens: int | None) -> str:
    return _UNKNOWN if tokens is None else f"{tokens:,}"


def _fact(fact: Fact | None) -> dict[str, object] | None:
    return None if fact is None else _sorted({"value": fact.value, "origin": fact.origin})


def _shown(fact: Fact | None, unit: str) -> str:
    if fact is None:
        return _UNKNOWN
    value = fact.value
    if isinstance(value, frozenset):
        text = ", ".join(sorted(value)) or "none"
    else:
        text = (
            f"{value:,}"
            if isinstance(value, int)
            else f"{value:g}"
            if isinstance(value, float)
            else str(value)
        )
    return f"{text} {unit}".strip().ljust(36) + f"({fact.origin})"

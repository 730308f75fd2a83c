"""``pointsman models``: properties of models, configured or not, and the catalogue that lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pointsman.catalogue import ANY, Catalogue, filled, installed
from pointsman.cli.output import ConfigOption, Group, JsonOption, config_file, echo, print_either, print_json
from pointsman.config import examine, find
from pointsman.diagnostics.explained import provider_hint
from pointsman.errors import ConfigError, PointsmanError
from pointsman.printable import Column, TextTable
from pointsman.vocabulary import ModelSpec

if TYPE_CHECKING:
    from pointsman.catalogue import Fact
    from pointsman.config import Config


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
_TEXTS: Final = 3  # columns of text; numbers follow
_COLUMNS: Final = ("window", "output", "price in", "out", "cached", "as of")
_NO_FILE: Final = "there is no pointsman.toml"
_INIT: Final = "pointsman config init writes a configuration"
#: Prices that are that of input where they are not known.
_DEFAULT_TO_INPUT: Final = frozenset({"cached_input_per_million", "cache_write_per_million"})


models: Final = typer.Typer(
    cls=Group, invoke_without_command=True, help="Models: list and show what is known, update the catalogue."
)


@models.callback()
def _list_by_default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        listed()


@models.command("list")
def listed(
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="List the catalogue; no configuration is then read.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the configured models: context window, output limit, prices per million tokens."""
    if everything:
        _list_catalogue(as_json=as_json)
        return
    if config is None and find() is None:
        raise ConfigError(_NO_FILE, hint=f"pointsman models list --all; {_INIT}")
    models, _ = _configured(config)
    found = models.models.values()
    table = _table(("name", "id", "upstream", *_COLUMNS), list(map(_row, found)))
    print_either({"models": list(map(_plain, found))}, table, as_json=as_json)


def _list_catalogue(*, as_json: bool) -> None:
    found = catalogue_models()
    rows = [(model.upstream or "any", model.id, "", *_row(model)[3:]) for model in found]
    plain = [{"provider": model.upstream, "id": model.id, **_values(model)} for model in found]
    print_either({"models": plain}, _table(("provider", "id", "", *_COLUMNS), rows), as_json=as_json)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> TextTable:
    columns = (Column(name, right=place >= _TEXTS, whole=place == 1) for place, name in enumerate(headings))
    return TextTable(tuple(columns), rows)


@models.command()
def show(
    name: Annotated[
        str, typer.Argument(help="Configured name of a model, or an id, which is looked up in the catalogue.")
    ],
    *,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the properties of a model, and the source of each value."""
    from pointsman.catalogue import facts, installed
    from pointsman.config.load import provider

    written = _configured(config)[1] if config or find() else None
    model = written.models.get(name) if written else None
    if written is None or model is None:
        _show_of_catalogue(name, written, as_json=as_json)
        return
    served_by = provider(written.upstreams.get(model.upstream))
    found = facts(model, served_by, installed())
    if as_json:
        values = {field: _fact(found.get(field)) for field in _FIELDS}
        print_json({"name": name, "id": model.id, "upstream": model.upstream, "provider": served_by} | values)
        return
    provider_ = served_by or "not one of the catalogue's"
    echo(f"{name}: {model.id} at upstream {model.upstream}; provider: {provider_}")
    _print_facts(found)
    if hint := provider_hint([model] if "input_per_million" not in found else [], written.upstreams):
        echo(f"hint: {hint}")


def _show_of_catalogue(id_: str, written: Config | None, *, as_json: bool) -> None:
    """Show each entry of the catalogue that describes an id."""
    from pointsman.catalogue import facts, installed
    from pointsman.vocabulary import ModelSpec

    catalogues = installed()
    found = {maker: facts(ModelSpec(id_, maker, id_), maker, catalogues) for maker in makers(id_)}
    if not found:
        here = f"models here: {', '.join(written.models) or 'none'}" if written else _NO_FILE
        raise PointsmanError(
            f'no model "{id_}"', hint=f"{here}; pointsman models list --all lists the catalogue"
        )
    if as_json:
        known = [
            {"id": id_, "provider": maker, **{field: _fact(each.get(field)) for field in _FIELDS}}
            for maker, each in found.items()
        ]
        print_json({"models": known})
        return
    for maker, each in found.items():
        echo(f"{id_}: of the catalogue; provider: {maker or 'any'}")
        _print_facts(each)


def _print_facts(found: Mapping[str, Fact]) -> None:
    """Print the values; the origins once, under them, by letter."""
    letters = {
        origin: chr(ord("a") + place)
        for place, origin in enumerate(
            dict.fromkeys(each.origin for name, each in found.items() if name in _FIELDS)
        )
    }
    for field, unit in _FIELDS.items():
        fact = found.get(field)
        if fact is None and field in _DEFAULT_TO_INPUT and "input_per_million" in found:
            echo(f"  {field:<25}that of input")
        else:
            echo(f"  {field:<25}{_shown(fact, unit, letters)}")
    for origin, letter in letters.items():
        echo(f"  ({letter}) {origin}")


@models.command()
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
    wrote = f"{len(read.entries):,} models as of {read.as_of}, {priced:,} with prices"
    print_either({"file": str(user_file())} | counts, f"wrote {user_file()}: {wrote}", as_json=as_json)


def _configured(config: Path | None) -> tuple[Config, Config]:
    """Return the configuration completed by the catalogue, and as it is written."""
    loaded = examine(config_file(config))
    if loaded.file is None or loaded.written is None:
        raise loaded.errors[0]
    return loaded.file, loaded.written


def _plain(model: ModelSpec) -> dict[str, object]:
    return {"name": model.name, "id": model.id, "upstream": model.upstream} | _values(model)


def _values(model: ModelSpec) -> dict[str, object]:
    return _sorted({field: getattr(model, field) for field in _FIELDS})


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


def _shown(fact: Fact | None, unit: str, letters: Mapping[str, str]) -> str:
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
    return f"{text} {unit}".strip().ljust(36) + f"({letters[fact.origin]})"


# What ``pointsman models`` shows of the catalogue itself.


def catalogue_models() -> list[ModelSpec]:
    """Return the entries in force, by provider and id. The upstream of each is its provider; empty: any."""
    catalogues = installed()
    keys = sorted({(entry.provider, entry.id) for each in catalogues for entry in each.entries})
    return [filled(ModelSpec(id_, provider, id_), provider, catalogues) for provider, id_ in keys]


def makers(id_: str) -> list[str]:
    """Return the providers under which the catalogue has an entry for an id; ``ANY`` where only that has."""
    catalogues = installed()
    providers = sorted({entry.provider for each in catalogues for entry in each.entries} - {ANY})
    found = [provider for provider in providers if any(_has(each, provider, id_) for each in catalogues)]
    return found or [ANY] * any(each.find(ANY, id_) is not None for each in catalogues)


def _has(catalogue: Catalogue, provider: str, id_: str) -> bool:
    match = catalogue.find(provider, id_)
    return match is not None and match.entry.provider == provider

"""``pointsman models`` and ``router``: properties of models and the catalogue; which model serves what."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pointsman.catalogue import ANY, Catalogue, filled, installed
from pointsman.cli.output import (
    FAILED,
    ConfigOption,
    Group,
    JsonOption,
    config_file,
    echo,
    needs_extra,
    print_blocks,
    print_either,
    print_json,
    print_table,
)
from pointsman.cli.terminal import progress
from pointsman.config import Config, examine, find, load
from pointsman.diagnostics import (
    choose_classifier,
    describe_check,
    describe_routing,
    diagnose,
    list_aliases,
    taken_ids,
)
from pointsman.diagnostics.explained import provider_hint
from pointsman.errors import ConfigError, PointsmanError
from pointsman.printable import Column, TextTable, printable
from pointsman.vocabulary import ModelSpec, Tier

if TYPE_CHECKING:
    from pointsman.catalogue import Fact
    from pointsman.gateway.live import Feature, LiveResult


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


router: Final = typer.Typer(
    cls=Group, no_args_is_help=True, help="Show the routing, choose the classifier model, run the doctor."
)


@router.command("show")
def show_routing(*, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show which model serves which tier, how the tier is decided, and what each alias means."""
    loaded = load(config_file(config))
    tiers = loaded.tiers
    print_either(
        {
            "profile": tiers.profile,
            "tiers": {tier: loaded.models.get(tiers.models.get(tier, "")) for tier in Tier},
            "pools": tiers.pools,
            "verify": tiers.verify,
            "guidance": loaded.guidance.mode,
            "domains": loaded.domains.mode,
            "capabilities": loaded.capabilities.effective_mode,
            "aliases": [row._asdict() for row in list_aliases(loaded)],
            "taken_ids": [each._asdict() for each in taken_ids(loaded)],
        },
        describe_routing(loaded),
        as_json=as_json,
    )


@router.command()
def classifier(
    model: Annotated[str, typer.Argument(help="Name or id of a configured model.")],
    *,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Choose the model that verifies uncertain tiers. A running gateway reloads the change."""
    file = config_file(config)
    name = choose_classifier(file, model)
    done = {"file": str(file), "classifier": name}
    print_either(done, f'classifier is now "{name}", in {file}', as_json=as_json)


@router.command()
def doctor(
    *,
    config: ConfigOption = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not contact the upstreams.")] = False,
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Also send one small request per model, wire format and feature (stream, tools)."
        ),
    ] = False,
    model: Annotated[str, typer.Option(help="With --live: name of the only model to ask.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Check configuration, engine, stores and upstreams, and report problems.

    --live prints how many requests it sends; a provider may charge for them. The exit code is 1 if one fails.
    """
    if (offline or not live) and (live or model):
        raise ConfigError("--model needs --live, which excludes --offline")
    checks = []
    for check in diagnose(config, ask_upstreams=not offline):
        checks.append(check)
        if not as_json:
            echo(describe_check(check))
    readable = any(check.name == "configuration" and check.ok for check in checks)
    results = _send_live(config, model, as_json=as_json) if live and readable else []
    if as_json:
        plain = [check._asdict() for check in checks]
        print_json({"checks": plain, "requests": results} if live else plain)
    if not all(check.ok or check.is_advice for check in checks) or not all(each.ok for each in results):
        raise typer.Exit(FAILED)


def _send_live(config: Path | None, model: str, *, as_json: bool) -> list[LiveResult]:
    results = live_results(load(config_file(config)), model)
    if not as_json:
        print_results(results)
    return results


def live_results(config: Config, model: str) -> list[LiveResult]:
    """Say on standard error how many requests are sent, and send them.

    Raises:
        ConfigError: ``model`` is not configured, or none can be asked.
    """
    import asyncio

    with needs_extra("gateway", "pointsman router doctor --live"):
        from pointsman.gateway.live import OUTPUT_TOKENS, TOTAL_SECONDS, plan, send_all
    requests = plan(config, model)
    left_out = [
        name
        for name, each in config.models.items()
        if model in {"", name} and config.upstreams[each.upstream].forward_auth
    ]
    if left_out:
        names = ", ".join(left_out)
        echo(f"Not asked: {names}: the upstream takes the caller's own credential.", err=True)
    if not requests:
        raise ConfigError("there is no model to ask", hint="ask through an agent that is logged in")
    upstreams = ", ".join(dict.fromkeys(each.upstream for each in requests))
    bounds = f"at most {OUTPUT_TOKENS} output tokens each, and {TOTAL_SECONDS / 60:g} minutes together"
    echo(f"Sending {len(requests)} requests to {upstreams or 'nobody'}: {bounds}.", err=True)
    log = logging.getLogger("pointsman")
    level = log.level
    log.setLevel(logging.CRITICAL)  # each failure is in the table
    with progress("router doctor --live", len(requests)) as shown:

        def done(_: LiveResult) -> None:
            if shown is not None:
                shown.advance()

        try:
            return asyncio.run(send_all(config, requests, done))
        finally:
            log.setLevel(level)


def print_results(results: Sequence[LiveResult]) -> None:
    """Print a row for each model and format, and under the table each different failure."""
    from pointsman.gateway.live import Feature

    rows: dict[tuple[str, str, str], dict[Feature, str]] = defaultdict(dict)
    for each in results:
        way = str(each.format) if each.native else f"{each.format} (translated)"
        rows[each.model, each.upstream, way][each.feature] = f"ok {each.seconds:.2f} s" if each.ok else "FAIL"
    print_table(
        [Column(str(name), whole=True) for name in ("model", "upstream", "format", *Feature)],
        [(*names, *(cells.get(each, "-") for each in Feature)) for names, cells in rows.items()],
    )
    print_blocks(_failures(results))


def _failures(results: Sequence[LiveResult]) -> Iterator[str]:
    """One line for each different failure of a model, with the requests that had it."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in results:
        if not each.ok:
            found[each.model, each.detail].append(f"{each.format} {each.feature}")
    for (model, detail), requests in found.items():
        yield printable(f"FAIL {model}: {detail} ({', '.join(requests)})")

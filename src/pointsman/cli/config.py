"""``pointsman config``, ``trust`` and ``keys``: check, write and trust the configuration; keys of callers."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pointsman.cli.output import (
    FAILED,
    ConfigOption,
    Group,
    JsonLinesOption,
    JsonOption,
    config_file,
    echo,
    print_blocks,
    print_either,
    print_json,
    print_rows,
)
from pointsman.config import AnyKey, Config, examine, load, read
from pointsman.config.draft import (
    PROVIDERS,
    Found,
    address_notes,
    at_address,
    draft,
    find_local,
    find_providers,
    unused_keys,
)
from pointsman.config.edit import as_toml, new_key, plain, revoke_key, write_file, write_key
from pointsman.config.files import effects, state_file, trust, trusted_files
from pointsman.config.files import revoke as revoke_trust
from pointsman.config.load import FILE_NAME
from pointsman.errors import ConfigError, PointsmanError, StoreUnavailable
from pointsman.printable import Column, TextTable

if TYPE_CHECKING:
    from pointsman.access import KeyRow, Limit
    from pointsman.audit.money import LeftOut
    from pointsman.diagnostics import Client, Verdict

#: What to do with the key of a provider for which ``init`` writes nothing.
_OTHER_PROVIDER: Final = (
    "add [upstreams.NAME] with base_url, formats and api_key, and its models under [models]"
)

config: Final = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="Check, show or write the configuration file, or print its JSON Schema.",
)
keys: Final = typer.Typer(cls=Group, no_args_is_help=True, help="Make, list or revoke the keys of callers.")


@config.command()
def check(*, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Report every error in the configuration, by line, which clients it can serve, and what aliases mean."""
    from pointsman.diagnostics import (
        describe_aliases,
        describe_taken_ids,
        judge_clients,
        list_aliases,
        taken_ids,
    )

    file = config_file(config)
    loaded = examine(file)
    errors = loaded.errors
    verdicts = judge_clients(loaded.config) if loaded.config else []
    aliases = list_aliases(loaded.config) if loaded.config else []
    taken = taken_ids(loaded.config) if loaded.config else []
    warnings = _warnings(loaded.config) if loaded.config else []
    if as_json:
        found = [{"place": error.place, "message": error.message, "hint": error.hint} for error in errors]
        clients = [_plain(verdict) for verdict in verdicts]
        checked = {"file": str(file), "ok": not errors, "errors": found, "warnings": warnings}
        named = {
            "aliases": [row._asdict() for row in aliases],
            "taken_ids": [each._asdict() for each in taken],
        }
        print_json(checked | {"clients": clients, **named})
    for error in errors if not as_json else ():
        echo(error.message, err=True)
        if error.hint:
            echo(f"  hint: {error.hint}", err=True)
    if errors:
        raise typer.Exit(FAILED)
    if not as_json:
        echo(f"{file}: no errors\n")
        for warning in warnings:
            echo(f"warning: {warning}", err=True)
        for verdict in verdicts:
            _show(verdict)
        echo("")
        print_blocks([*describe_aliases(aliases), *describe_taken_ids(taken)])


def _warnings(config: Config) -> list[str]:
    from pointsman.diagnostics.explained import half_priced, refused_by_price
    from pointsman.model_choice.chains import shortfalls

    return [
        *shortfalls(config.tiers.pools, config.models),
        *half_priced(config.models.values()),
        *refused_by_price(config),
    ]


def _plain(verdict: Verdict) -> dict[str, object]:
    said = verdict._asdict()
    client: Client = said.pop("client")
    return {"client": client.name, "format": client.format, **said}


def _show(verdict: Verdict) -> None:
    from pointsman.diagnostics import describe_verdict

    echo(f"{verdict.client.name:<18}{describe_verdict(verdict)}")
    if verdict.hint:
        echo(f"{'':<18}hint: {verdict.hint}")


@config.command()
def show(*, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Print the effective configuration with its defaults. API keys are shown as references."""
    loaded = examine(config_file(config))
    if loaded.file is None:
        raise loaded.errors[0]
    tables = plain(loaded.file)
    if as_json:
        print_json(tables)
    else:
        echo(as_toml(tables), nl=False)


@config.command()
def init(
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Output file; - for standard output.")
    ] = Path(FILE_NAME),
    local: Annotated[
        bool,
        typer.Option(
            "--local",
            help="Detect model servers on the loopback interface; without an API key this is the default.",
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    from_audit: Annotated[
        bool,
        typer.Option(
            "--from-audit",
            help="Take models, tiers and prices from the logs that pointsman audit reads; tiers are "
            "ordered by price.",
        ),
    ] = False,
    home: Annotated[
        Path | None,
        typer.Option(help="With --from-audit: directory to look in; default: the user's home directory."),
    ] = None,
    logs: Annotated[
        list[Path] | None,
        typer.Option(help="With --from-audit: export to read, or a ledger; may be repeated."),
    ] = None,
    shadow: Annotated[
        str, typer.Option(help="Model to ask in the background, for 5 % of the sessions ([shadow]).")
    ] = "",
) -> None:
    """Write a commented configuration for the API keys in the environment, or for a local model server.

    With --from-audit, for the models that the logs on this machine name. An upstream without an API key in
    the environment is left out, but the one that cost most gets the caller's own credential.
    """
    if (home or logs) and not from_audit:
        raise PointsmanError("--home and --logs are for --from-audit")
    tiers: tuple[str, ...] = ()
    left_out: Mapping[str, LeftOut] = {}
    if from_audit:
        found, tiers, left_out = _logged(home, logs or ())
    else:
        found = find_providers(os.environ)
        if local or not found:
            found += find_local()
    if shadow:
        _check_shadow(shadow, found, tiers, left_out)
    text = draft(found, tiers=tiers, shadow=shadow)
    if str(output) == "-":
        echo(text, nl=False)
        return
    if output.exists() and not force:
        raise ConfigError(f"{output} exists", hint="--force replaces it; -o names another")
    write_file(output, text)
    try:
        trust(output, text)
    except ConfigError as error:  # the file is there; reading it will say what to do
        echo(f"pointsman: {error}", err=True)
    print_blocks(_written(output, found, unused_keys(os.environ), shadow))
    for model, each in left_out.items():
        echo(f"left out: {model}, {each.why}")


@config.command()
def schema(
    *,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="File to write; - for standard output.")
    ] = Path("-"),
) -> None:
    """Print the JSON Schema of the configuration, for the completion and the checks of an editor.

    Editors with Taplo (Even Better TOML) read it when the file begins with: #:schema ./pointsman.schema.json
    """
    from pointsman import __version__
    from pointsman.config.json_schema import schema as json_schema

    text = json.dumps(json_schema(__version__), indent=1, ensure_ascii=False) + "\n"
    if str(output) == "-":
        echo(text, nl=False)
    else:
        write_file(output, text)


def _logged(
    home: Path | None, files: Sequence[Path]
) -> tuple[list[Found], tuple[str, ...], Mapping[str, LeftOut]]:
    """Return upstreams and tiers for the models in logs, and why others are left out."""
    from pointsman.audit.money import Pricing, logged_models
    from pointsman.cli.audit import read_logs

    collection = read_logs(files, home)
    models = logged_models(list(collection.figures()), Pricing(), os.environ)
    return [at_address(each, os.environ) for each in models.found], models.tiers, models.left_out


def _check_shadow(
    name: str, found: Sequence[Found], tiers: Sequence[str], left_out: Mapping[str, LeftOut]
) -> None:
    """Refuse a model that cannot be asked in the background.

    Raises:
        ConfigError: there is no such model, only a caller has the credential for it, or no other one serves.
    """
    where = {model.name: each for each in found for model in each.models}
    if name in left_out:
        why, variable = left_out[name]
        hint = f"set {variable}" if variable else f"models: {', '.join(where) or 'none'}"
        raise ConfigError(f'"{name}" cannot be asked in the background: {why}', hint=hint)
    if name not in where:
        known = ", ".join(where) or "none"
        raise ConfigError(f'--shadow names an unknown model "{name}"', hint=f"models: {known}")
    if where[name].forward_auth:
        variable = next(each.variable for each in PROVIDERS if each.name == where[name].name)
        raise ConfigError(
            f'"{name}" cannot be asked in the background with the credential of a caller',
            hint=f"set {variable}",
        )
    if {*(tiers or where)} == {name}:
        variables = ", ".join(dict.fromkeys(each.variable for each in left_out.values() if each.variable))
        raise ConfigError(
            f'"{name}" is the only model of the tiers: a shadow model answers what another model serves',
            hint=f"to have another model, set {variables or 'the API key of its provider'}",
        )


def _written(file: Path, found: list[Found], unused: list[str], shadow: str) -> Iterator[str]:
    """Describe a draft: active parts, written files, and unused keys."""
    nothing = f"the built-in demo; no {'usable ' if unused else ''}API key and no model server was found"
    yield f"wrote {file}: {', '.join(upstream.name for upstream in found) or nothing}"
    yield from address_notes(found)
    if unused:
        yield f"not used: {', '.join(unused)}; {_OTHER_PROVIDER}"
    if "GOOGLE_API_KEY" in unused:
        yield 'for Gemini: export GEMINI_API_KEY="$GOOGLE_API_KEY", and config init again'
    yield "observing: [guidance], [domains] and [capabilities] record and change no request"
    again = ", then pointsman trust" if file == Path(FILE_NAME) else ""
    yield f'to switch one on: mode = "on" in {file}{again}'
    yield f"ledger: {state_file('ledger.sqlite')}, for all projects; [ledger] path names another"
    if shadow:
        yield 'stored for labels: prompts and both answers; [ledger] text and [shadow] text are "redacted"'
    named = "" if file == Path(FILE_NAME) else f" --config {file}"
    yield f"next: pointsman config check{named} && pointsman serve{named}"


_TRUSTED: Final = (Column("file", whole=True), Column("state"))


def trust_file(
    file: Annotated[Path, typer.Argument(help="Configuration to trust.")] = Path(FILE_NAME),
    *,
    listed: Annotated[bool, typer.Option("--list", help="List the files that are trusted.")] = False,
    revoked: Annotated[bool, typer.Option("--revoke", help="Trust the file no longer.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask on a terminal.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Trust the configuration of a folder: the code that it runs, and the secrets that it uses.

    A pointsman.toml that is found in the working directory names neither code nor ${…} before its path and
    digest are recorded here. Each change asks anew, except those of pointsman's own commands. A file that
    --config or POINTSMAN_CONFIG names needs no trust, nor one that pointsman config init wrote.
    """
    if listed:
        _list(as_json=as_json)
        return
    if revoked:
        if not revoke_trust(file):
            raise ConfigError(f"{file} is not trusted", hint="pointsman trust --list")
        done: dict[str, object] = {"file": str(file.resolve()), "trusted": False}
        lines = [f"{file} is no longer trusted"]
    else:
        text = read(file, hint="pointsman config init writes one")
        found = effects(file, text)
        if not (yes or as_json):
            _confirm(file, found)
        trust(file, text)
        done = {"file": str(file.resolve()), "trusted": True, "effects": found}
        lines = [f"{file} is trusted until it changes", *(f"  it may {each}" for each in found)]
    print_either(done, *lines, as_json=as_json)


def _confirm(file: Path, found: Sequence[str]) -> None:
    """Ask whether the effects of a file are allowed, if a person can answer."""
    if found and sys.stdin.isatty():
        echo(f"{file} may, once it is trusted:")
        for each in found:
            echo(f"  {each}")
        typer.confirm("Trust it until it changes?", abort=True)


def _list(*, as_json: bool) -> None:
    files = trusted_files()
    plain = [{"file": each.path, "sha256": each.digest, "current": each.is_current} for each in files]
    rows = [(each.path, "trusted" if each.is_current else "changed or gone") for each in files]
    print_either(plain, TextTable(_TRUSTED, rows), as_json=as_json)
    if not (files or as_json):
        echo("no file is trusted: pointsman trust trusts the one here", err=True)


#: Seconds that Valkey may take: nobody's request waits here.
_PATIENCE: Final = 10.0
_COLUMNS: Final = (
    Column("name", whole=True),
    *map(Column, ("team", "role", "state", "expires", "models", "limits")),
)
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the caller.")]


@keys.command()
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
    is_first = file is not None and write_key(file, made)
    if as_json:
        written = str(file) if file else None
        print_json({"name": name, "key": made.key, "sha256": made.sha256, "written": written})
        return
    echo(made.key)
    echo("This key is shown once: give it to the caller. The configuration holds its hash.", err=True)
    if file is not None:
        echo(f"wrote {file}: a running gateway reloads it", err=True)
        if is_first:
            echo("It is the first key: from now on agents and the console must send a key.", err=True)
    else:
        echo("Add to the configuration, or use --write:\n", err=True)
        echo(made.table, nl=False)


@keys.command("list")
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
    print_rows(rows, TextTable(_COLUMNS, [_cells(row) for row in rows]), as_json=as_json)
    if not rows and not as_json:
        echo("there are no keys: pointsman keys new NAME makes one", err=True)


@keys.command()
def revoke(name: NameArgument, *, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Refuse a key from the next reload on: revoked = true in its table. All keys of the name are meant."""
    revoke_key(file := config_file(config), name)
    done = {"name": name, "revoked": True, "file": str(file)}
    print_either(done, f"revoked {name} in {file}: a running gateway reloads it", as_json=as_json)


def _uses(loaded: Config, limits: Sequence[Limit], config: Path | None, now: float) -> Mapping[Limit, int]:
    from pointsman.access import open_budgets, recorded_spending, store_kind

    kind = store_kind(loaded)
    if kind == "valkey" or (kind == "sqlite" and loaded.access.path.is_file()):
        # Only the password of Valkey is a reference to the environment that is needed here.
        budgets = open_budgets(load(config_file(config)) if kind == "valkey" else loaded, timeout=_PATIENCE)
        with closing(budgets):
            totals = budgets.store.totals([limit.counter(now) for limit in limits])
        return dict(zip(limits, totals, strict=True))
    from pointsman.cli.ledger import opened

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

"""``pointsman config``: check, show and write the configuration file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pointsman.cli.options import ConfigOption, JsonOption
from pointsman.cli.output import FAILED, Group, config_file, echo, print_json
from pointsman.config import Config, examine
from pointsman.config.draft import PROVIDERS, Found, draft, find_local, find_providers, unused_keys
from pointsman.config.edit import as_toml, plain, write_file
from pointsman.config.files import state_file
from pointsman.config.load import FILE_NAME
from pointsman.config.trust import trust
from pointsman.errors import ConfigError, PointsmanError

if TYPE_CHECKING:
    from pointsman.diagnostics import Client, Verdict

__all__ = ["register"]

#: What to do with the key of a provider for which ``init`` writes nothing.
_OTHER_PROVIDER: Final = (
    "add [upstreams.NAME] with base_url, formats and api_key, and its models under [models]"
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    config = typer.Typer(
        cls=Group,
        no_args_is_help=True,
        help="Check, show or write the configuration file, or print its JSON Schema.",
    )
    config.command()(check)
    config.command()(show)
    config.command()(init)
    config.command()(schema)
    app.add_typer(config, name="config")


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
        for line in [*describe_aliases(aliases), *describe_taken_ids(taken)]:
            echo(line)


def _warnings(config: Config) -> list[str]:
    from pointsman.diagnostics.prices import half_priced, refused_by_price
    from pointsman.model_choice.shortfalls import shortfalls

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
        str, typer.Option(help="Model to ask in the background, for 5 % of the requests ([shadow]).")
    ] = "",
) -> None:
    """Write a commented configuration for the API keys in the environment, or for a local model server.

    With --from-audit, for the models that the logs on this machine name. An upstream without an API key in
    the environment is left out; without any, the caller's own credential is passed on, as of a subscription.
    """
    if (home or logs) and not from_audit:
        raise PointsmanError("--home and --logs are for --from-audit")
    tiers: tuple[str, ...] = ()
    left_out: Mapping[str, str] = {}
    if from_audit:
        found, tiers, left_out = _logged(home, logs or ())
    else:
        found = find_providers(os.environ)
        if local or not found:
            found += find_local()
    if shadow:
        _check_shadow(shadow, found, left_out)
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
    for line in _written(output, found, unused_keys(os.environ)):
        echo(line)
    for model, why in left_out.items():
        echo(f"left out: {model}, {why}")


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
) -> tuple[list[Found], tuple[str, ...], Mapping[str, str]]:
    """Return upstreams and tiers for the models in logs, and why others are left out."""
    from pointsman.audit.logged_models import logged_models
    from pointsman.audit.money import Pricing
    from pointsman.cli.audit import read_logs

    collection = read_logs(files, home)
    models = logged_models(list(collection.figures()), Pricing(), os.environ)
    return list(models.found), models.tiers, models.left_out


def _check_shadow(name: str, found: Sequence[Found], left_out: Mapping[str, str]) -> None:
    """Refuse a model that cannot be asked in the background.

    Raises:
        ConfigError: there is no such model, or only a caller has the credential for it.
    """
    where = {model.name: each for each in found for model in each.models}
    if name in left_out:
        raise ConfigError(f'"{name}" cannot be asked in the background: {left_out[name]}')
    if name not in where:
        known = ", ".join(where) or "none"
        raise ConfigError(f'--shadow names an unknown model "{name}"', hint=f"models: {known}")
    if where[name].forward_auth:
        variable = next(each.variable for each in PROVIDERS if each.name == where[name].name)
        raise ConfigError(
            f'"{name}" cannot be asked in the background with the credential of a caller',
            hint=f"set {variable}",
        )


def _written(file: Path, found: list[Found], unused: list[str]) -> Iterator[str]:
    """Describe a draft: active parts, written files, and unused keys."""
    nothing = f"the built-in demo; no {'usable ' if unused else ''}API key and no model server was found"
    yield f"wrote {file}: {', '.join(upstream.name for upstream in found) or nothing}"
    if unused:
        yield f"not used: {', '.join(unused)}; {_OTHER_PROVIDER}"
    if "GOOGLE_API_KEY" in unused:
        yield 'for Gemini: export GEMINI_API_KEY="$GOOGLE_API_KEY", and config init again'
    yield "observing: [guidance], [domains] and [capabilities] record and change no request"
    again = ", then pointsman trust" if file == Path(FILE_NAME) else ""
    yield f'to switch one on: mode = "on" in {file}{again}'
    yield f"ledger: {state_file('ledger.sqlite')}, for all projects; [ledger] path names another"
    named = "" if file == Path(FILE_NAME) else f" --config {file}"
    yield f"next: pointsman config check{named} && pointsman serve{named}"

"""``pointsman router``: show the routing, change the classifier model, run the doctor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pointsman.cli.options import ConfigOption, JsonOption
from pointsman.cli.output import FAILED, Group, config_file, echo, print_json
from pointsman.config import load
from pointsman.diagnostics import (
    Check,
    choose_classifier,
    describe_check,
    describe_routing,
    diagnose,
    list_aliases,
    taken_ids,
)
from pointsman.errors import ConfigError
from pointsman.vocabulary import Tier

if TYPE_CHECKING:
    from pointsman.gateway.live import LiveResult

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    router = typer.Typer(
        cls=Group, no_args_is_help=True, help="Show the routing, choose the classifier model, run the doctor."
    )
    router.command()(show)
    router.command()(classifier)
    router.command()(doctor)
    app.add_typer(router, name="router")


def show(*, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show which model serves which tier, how the tier is decided, and what each alias means."""
    loaded = load(config_file(config))
    if not as_json:
        echo(describe_routing(loaded))
        return
    tiers = loaded.tiers
    print_json(
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
        }
    )


def classifier(
    model: Annotated[str, typer.Argument(help="Name or id of a configured model.")],
    *,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Choose the model that verifies uncertain tiers. A running gateway reloads the change."""
    file = config_file(config)
    name = choose_classifier(file, model)
    if as_json:
        print_json({"file": str(file), "classifier": name})
    else:
        echo(f'classifier is now "{name}", in {file}')


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
    results = _send_live(config, model, as_json=as_json) if live and _is_readable(checks) else []
    if as_json:
        plain = [check._asdict() for check in checks]
        print_json({"checks": plain, "requests": results} if live else plain)
    if not all(check.ok or check.is_advice for check in checks) or not all(each.ok for each in results):
        raise typer.Exit(FAILED)


def _is_readable(checks: list[Check]) -> bool:
    return any(check.name == "configuration" and check.ok for check in checks)


def _send_live(config: Path | None, model: str, *, as_json: bool) -> list[LiveResult]:
    from pointsman.cli._live import live_results, print_table

    results = live_results(load(config_file(config)), model)
    if not as_json:
        print_table(results)
    return results

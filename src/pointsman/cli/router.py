"""``pointsman router``: show the routing, change the classifier model, run the doctor."""

from __future__ import annotations

from typing import Annotated

import typer

from pointsman.cli.options import ConfigOption, JsonOption
from pointsman.cli.output import FAILED, Group, config_file, print_json
from pointsman.config import load
from pointsman.diagnostics import (
    choose_classifier,
    describe_check,
    describe_routing,
    diagnose,
    list_aliases,
)
from pointsman.vocabulary import Tier

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
        typer.echo(describe_routing(loaded))
        return
    tiers = loaded.tiers
    print_json(
        {
            "profile": tiers.profile,
            "tiers": {tier: loaded.models.get(tiers.models.get(tier, "")) for tier in Tier},
            "verify": tiers.verify,
            "guidance": loaded.guidance.mode,
            "domains": loaded.domains.mode,
            "aliases": [row._asdict() for row in list_aliases(loaded)],
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
        typer.echo(f'classifier is now "{name}", in {file}')


def doctor(
    *,
    config: ConfigOption = None,
    offline: Annotated[bool, typer.Option("--offline", help="Do not contact the upstreams.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Check configuration, engine, stores and upstreams, and report problems."""
    checks = []
    for check in diagnose(config, ask_upstreams=not offline):
        checks.append(check)
        if not as_json:
            typer.echo(describe_check(check))
    if as_json:
        print_json([check._asdict() for check in checks])
    if not all(check.ok or check.is_advice for check in checks):
        raise typer.Exit(FAILED)

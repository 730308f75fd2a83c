"""``pointsman router``: show the routing, change the classifier model, run the doctor."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pointsman.cli.output import (
    FAILED,
    ConfigOption,
    Group,
    JsonOption,
    config_file,
    echo,
    needs_extra,
    print_either,
    print_json,
    print_table,
)
from pointsman.cli.terminal import progress
from pointsman.config import Config, load
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
from pointsman.printable import Column, printable
from pointsman.vocabulary import Tier

if TYPE_CHECKING:
    from pointsman.gateway.live import Feature, LiveResult


router: Final = typer.Typer(
    cls=Group, no_args_is_help=True, help="Show the routing, choose the classifier model, run the doctor."
)


@router.command()
def show(*, config: ConfigOption = None, as_json: JsonOption = False) -> None:
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
    results = _send_live(config, model, as_json=as_json) if live and _is_readable(checks) else []
    if as_json:
        plain = [check._asdict() for check in checks]
        print_json({"checks": plain, "requests": results} if live else plain)
    if not all(check.ok or check.is_advice for check in checks) or not all(each.ok for each in results):
        raise typer.Exit(FAILED)


def _is_readable(checks: list[Check]) -> bool:
    return any(check.name == "configuration" and check.ok for check in checks)


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
        rows[each.model, each.upstream, way][each.feature] = _cell(each)
    print_table(
        [Column(str(name), whole=True) for name in ("model", "upstream", "format", *Feature)],
        [(*names, *(cells.get(each, "-") for each in Feature)) for names, cells in rows.items()],
    )
    for line in _failures(results):
        echo(line)


def _cell(result: LiveResult) -> str:
    return f"ok {result.seconds:.2f} s" if result.ok else f"FAIL {result.status or ''}".rstrip()


def _failures(results: Sequence[LiveResult]) -> Iterator[str]:
    """One line for each different failure of a model, with the requests that had it."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in results:
        if not each.ok:
            found[each.model, each.detail].append(f"{each.format} {each.feature}")
    for (model, detail), requests in found.items():
        yield printable(f"FAIL {model}: {detail} ({', '.join(requests)})")

"""``pointsman report change``: why one period cost more than another."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Annotated, Final

import typer

from pointsman.cli.decisions import opened
from pointsman.cli.options import ConfigOption, DemoOption, JsonOption, LedgerOption
from pointsman.cli.output import config_file, print_report
from pointsman.config import AnyKey, load
from pointsman.errors import PointsmanError
from pointsman.factory import build_policy
from pointsman.reports.change import change_between

__all__ = ["report_change"]

_HOUR: Final = 3_600
_FORMATS: Final = ["%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H", "%Y-%m-%d"]


def report_change(
    *,
    to: Annotated[
        datetime | None,
        typer.Option(
            formats=_FORMATS, help="First hour of the later period; default: the last that is over."
        ),
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(
            "--from", formats=_FORMATS, help="That of the earlier one; default: just before the later."
        ),
    ] = None,
    hours: Annotated[int, typer.Option(min=1, max=24 * 366, help="Length of both periods in hours.")] = 1,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    demo: DemoOption = False,
    as_json: JsonOption = False,
) -> None:
    """Report why a period cost more than another: requests, model mix, tokens, cache share, prices.

    The contributions add up to the difference. Times are those of this machine's zone; a period begins with a
    whole hour. Each period is counted at the prices of the policy then in force if the ledger has it, else
    at the configured prices.
    """
    from pointsman.gateway.build import demo_config  # loads the gateway

    file = None if demo else config_file(config)
    policy = build_policy(load(file, AnyKey()) if file else demo_config())
    length = hours * _HOUR
    after = _hour(to.timestamp() if to else time.time() - length)
    before = _hour(since.timestamp()) if since else after - length
    if before == after:
        raise PointsmanError("both periods begin with the same hour", hint="--from and --to are two hours")
    with opened(ledger, config, demo=demo) as store:
        found = change_between(store, policy, before, after, length)
    print_report(found, as_json=as_json)


def _hour(seconds: float) -> float:
    return seconds // _HOUR * _HOUR

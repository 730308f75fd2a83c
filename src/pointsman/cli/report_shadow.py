"""``pointsman report shadow``: what the policy and the model on trial did beside those that serve."""

from __future__ import annotations

import typer

from pointsman.cli.decisions import opened
from pointsman.cli.options import ConfigOption, JsonOption, LedgerOption
from pointsman.cli.output import config_file, print_json
from pointsman.config import AnyKey, load
from pointsman.reports.shadow import shadow_report

__all__ = ["shadow"]


def shadow(
    *,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say how the shadow policy differs, which way, and at what cost; and how the shadow model does.

    Costs are at the prices of the configuration.
    """
    models = load(config_file(config), AnyKey()).models
    with opened(ledger, config) as store:
        found = shadow_report(store.records(), models)
    if as_json:
        print_json(found.to_json())
        return
    for line in found.lines():
        typer.echo(line)

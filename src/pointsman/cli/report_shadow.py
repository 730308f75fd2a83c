"""``pointsman report shadow``: compare shadow policy and shadow model with those that serve."""

from __future__ import annotations

from pointsman.cli.decisions import opened
from pointsman.cli.options import ConfigOption, JsonOption, LedgerOption
from pointsman.cli.output import config_file, print_report
from pointsman.config import AnyKey, load
from pointsman.reports.shadow import shadow_report

__all__ = ["shadow"]


def shadow(
    *,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Report how the shadow policy and the shadow model differ from those that serve, with costs.

    Costs are at the prices of the configuration.
    """
    models = load(config_file(config), AnyKey()).models
    with opened(ledger, config) as store:
        found = shadow_report(store.records(), models)
    print_report(found, as_json=as_json)

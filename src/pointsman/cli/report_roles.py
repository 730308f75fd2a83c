"""``pointsman report roles``: what each role of an agent's requests costs."""

from __future__ import annotations

from pointsman.cli.decisions import opened
from pointsman.cli.options import ConfigOption, JsonOption, LedgerOption
from pointsman.cli.output import config_file, print_report
from pointsman.config import AnyKey, load
from pointsman.reports.roles import roles as add_up

__all__ = ["roles"]


def roles(*, ledger: LedgerOption = None, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Report requests, tokens and costs by role, and what the tiers of [tiers.roles] alone save.

    Costs are at the prices of the configuration.
    """
    models = load(config_file(config), AnyKey()).models
    with opened(ledger, config) as store:
        found = add_up(store.records(), models)
    print_report(found, as_json=as_json)

"""``pointsman report agreement``: what asking two cheap models saved, and what it would save."""

from __future__ import annotations

from pointsman.cli.decisions import opened
from pointsman.cli.options import ConfigOption, JsonOption, LedgerOption
from pointsman.cli.output import config_file, print_report
from pointsman.config import AnyKey, load
from pointsman.reports.agreement import agreement_report

__all__ = ["agreement"]


def agreement(
    *, ledger: LedgerOption = None, config: ConfigOption = None, as_json: JsonOption = False
) -> None:
    """Report how often two cheap models agreed, and what that saved against the strong model alone.

    Each recorded request is also decided again by today's [agreement.NAME] tables. Costs are at the prices of
    the configuration; a request that a cheap model served is taken to use as many tokens of the strong one.
    """
    settings = load(config_file(config), AnyKey())
    with opened(ledger, config) as store:
        found = agreement_report(store.records(), settings.models, settings.agreement)
    print_report(found, as_json=as_json)

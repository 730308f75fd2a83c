"""``pointsman report judge``: what is known of the judges whose labels the ledger holds."""

from __future__ import annotations

from pointsman.cli.decisions import opened
from pointsman.cli.options import ConfigOption, JsonOption, LedgerOption
from pointsman.cli.output import echo, print_json
from pointsman.reports.judge import judged_in

__all__ = ["judge"]


def judge(*, ledger: LedgerOption = None, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Report each judge's ties, position bias, cost, and agreement with outcomes of people."""
    with opened(ledger, config) as store:
        found = judged_in(store.records())
    if as_json:
        print_json(
            {
                name: {
                    "pairs": each.pairs,
                    "ties": each.ties,
                    "by_position": each.by_position,
                    "compared": each.compared,
                    "agreement": round(each.agreement, 6),
                    "interval": each.interval,
                    "counts": each.counts,
                    "constant": round(each.constant, 6),
                    "tries": each.tries,
                    "refused": each.refused,
                    "cost": each.cost,
                }
                for name, each in found.items()
            }
        )
        return
    if not found:
        echo("no model has judged; pointsman outcomes judge lets one")
    for name, each in found.items():
        echo(f"judge {name}")
        for line in each.lines():
            echo(f"  {line}")

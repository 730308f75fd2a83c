"""``pointsman report kinds``: the kinds of prompts that recorded decisions were near."""

from __future__ import annotations

from pointsman.cli.decisions import opened
from pointsman.cli.options import ConfigOption, JsonOption, LedgerOption
from pointsman.cli.output import echo, print_json
from pointsman.reports.kinds import kinds_of

__all__ = ["kinds"]


def kinds(*, ledger: LedgerOption = None, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Report the kinds of prompts near the recorded ones, what they added to the score, and the tiers.

    Empty where kinds is "off" under [tiers], or the extra static is not installed.
    """
    with opened(ledger, config) as store:
        rows, none = kinds_of(store.records())
    if as_json:
        print_json({"kinds": rows, "near_none": none})
        return
    for row in rows:
        tiers = ", ".join(f"{tier} {count}" for tier, count in row.tiers.items())
        echo(f"{row.messages:>6,}  {row.shift:+.2f}  likeness {row.likeness:.2f}  {row.sentence}: {tiers}")
    echo(f"{none:,} user messages near no kind")

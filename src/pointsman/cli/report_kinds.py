"""``pointsman report kinds``: the kinds of prompts that recorded decisions were near."""

from __future__ import annotations

from typing import Final

from pointsman.cli.decisions import opened
from pointsman.cli.options import ConfigOption, JsonOption, LedgerOption
from pointsman.cli.output import echo, print_json, print_table
from pointsman.printable import Column
from pointsman.reports.kinds import KindRow, kinds_of

__all__ = ["kinds"]


_COLUMNS: Final = (
    Column("messages", right=True),
    Column("shift", right=True),
    Column("likeness", right=True),
    Column("kind"),
    Column("tiers"),
)


def kinds(*, ledger: LedgerOption = None, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Report the kinds of prompts near the recorded ones, what they added to the score, and the tiers.

    Empty where kinds is "off" under [tiers], or the extra static is not installed.
    """
    with opened(ledger, config) as store:
        rows, none = kinds_of(store.records())
    if as_json:
        print_json({"kinds": rows, "near_none": none})
        return
    print_table(_COLUMNS, list(map(_cells, rows)))
    echo(f"{none:,} user messages near no kind")


def _cells(row: KindRow) -> tuple[str, ...]:
    tiers = ", ".join(f"{tier} {count}" for tier, count in row.tiers.items())
    return f"{row.messages:,}", f"{row.shift:+.2f}", f"{row.likeness:.2f}", row.sentence, tiers

"""``pointsman report projects``: what own outcomes say of each project."""

from __future__ import annotations

from pointsman.cli.decisions import opened
from pointsman.cli.fit_projects import KeepOption, TargetOption, tiers_of
from pointsman.cli.options import ConfigOption, JsonOption, LedgerOption
from pointsman.cli.output import config_file, needs_extra, print_blocks, print_json
from pointsman.config import AnyKey, load

__all__ = ["projects"]


def projects(
    *,
    target: TargetOption = 0.95,
    keep: KeepOption = False,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Report the outcomes of each project by model, what is expected, and the tier that is good enough."""
    with needs_extra("fit", "pointsman report projects"):
        from pointsman.learning.projects import fit_projects
        from pointsman.reports.projects import clients_of, outcomes_of, project_blocks, uses
    tiers = tiers_of(load(config_file(config), AnyKey()))
    with opened(ledger, config) as store:
        records = list(store.records())
    found = fit_projects(list(outcomes_of(records)), tiers, target=target, keep=keep)
    counts = uses(records)
    if as_json:
        print_json({"projects": found, "requests": counts})
        return
    print_blocks(project_blocks(found, clients_of(records), counts))

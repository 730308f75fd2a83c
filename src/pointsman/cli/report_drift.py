"""``pointsman report drift``: compare live prompts with the learned router's training data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pointsman.cli.decisions import opened
from pointsman.cli.options import ConfigOption, JsonOption, LedgerOption
from pointsman.cli.output import config_file, print_report
from pointsman.config import AnyKey, load
from pointsman.encoders.learned_routers import load_learned_router
from pointsman.errors import ConfigError
from pointsman.reports.drift import drift

__all__ = ["report_drift"]


def report_drift(
    *,
    learned_router: Annotated[
        Path | None, typer.Option(help="The learned router file; default: the configured one.")
    ] = None,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Report drift: whether live prompts still resemble the learned router's training data.

    Uses the length and the similarity recorded with every decision; no stored words are needed.
    """
    found = load_learned_router(learned_router or _configured(config))
    with opened(ledger, config) as store:
        shown = drift(store.records(), found)
    print_report(shown, as_json=as_json)


def _configured(config: Path | None) -> Path:
    spec = load(config_file(config), AnyKey()).tiers.learned_router
    if spec is None:
        raise ConfigError(
            "no learned router is configured", hint="name one with --learned-router, or in the configuration"
        )
    return spec.file

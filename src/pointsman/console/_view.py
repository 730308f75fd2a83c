"""The console's view of the gateway, and the values that its pages are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pointsman.access import Access
from pointsman.config import Config
from pointsman.console._login import Session
from pointsman.decision.engine import Engine
from pointsman.errors import PointsmanError, shown
from pointsman.printable import TextTable
from pointsman.stores.ledger.port import Ledger


@dataclass(frozen=True, slots=True)
class GatewayView:
    """The gateway as it is now: its configuration, its stores and its load."""

    config: Config
    engine: Engine
    ledger: Ledger
    faults: Mapping[str, str] = field(default_factory=dict)  # current error per failing store
    open_circuits: Sequence[str] = ()  # names of upstreams
    active: int = 0  # requests in progress
    overhead: tuple[float | None, float | None] = (None, None)  # p50 and p99 since the start, in milliseconds
    access: Access | None = None  # what keys may do, and what counts it; None: every key may do everything


class Page(NamedTuple):
    """One page, and the same as plain values for ``.json`` and ``.csv``."""

    template: str
    context: Mapping[str, object]
    data: object = None
    table: TextTable | None = None  # for CSV
    status: int = 200


class Redirect(NamedTuple):
    """Go to another page, after a change."""

    to: str


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of a browser, read to its end and admitted."""

    view: GatewayView
    session: Session
    address: str  # of the gateway as the browser names it: "http://127.0.0.1:8484"
    path: str
    parts: Mapping[str, str] = field(default_factory=dict)  # of the path, by name
    query: Sequence[tuple[str, str]] = ()
    form: Mapping[str, str] = field(default_factory=dict)  # empty unless posted

    @property
    def here(self) -> dict[str, str]:
        """The query parameters that are set."""
        return {key: value for key, value in self.query if value}

    def config_file(self, what: str) -> Path:
        """Return the file of the configuration, to write something to.

        Raises:
            Unusable: there is none, as in the demo.
        """
        if not self.view.config.source:
            raise Unusable(
                f"this gateway has no configuration file to write a {what} to",
                hint="start it with --config; pointsman config init writes one",
            )
        return Path(self.view.config.source)

    def asked(self, name: str) -> str:
        """Return the first value of a query parameter, stripped; empty without one."""
        return next((value.strip() for key, value in self.query if key == name), "")

    def check_query(self, known: Sequence[str]) -> None:
        """Refuse a query that the page does not understand: it would look answered.

        Raises:
            Unusable: it has another parameter than the ``known`` ones.
        """
        for name, _ in self.query:
            if name not in known:
                told = f"it has {', '.join(sorted(known))}" if known else "it has none"
                raise Unusable(f'unknown query parameter "{shown(name)}" of {self.path}', hint=told)


class Unusable(PointsmanError):
    """The input cannot be used; the page names the place and the reason."""

    status = 400


class Missing(PointsmanError):
    """The address names nothing that exists."""

    status = 404

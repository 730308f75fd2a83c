"""``pointsman audit --ledger`` and ``--open``: logs as a ledger of decisions, and the console on it."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from pointsman.audit import Collection
from pointsman.audit.decisions import LoggedDecisions
from pointsman.audit.logged_models import logged_models
from pointsman.audit.report import AuditReport
from pointsman.cli.output import echo, needs_extra
from pointsman.cli.terminal import progress
from pointsman.config import AnyKey, Config, LedgerSpec, examine
from pointsman.config.draft import draft
from pointsman.errors import PointsmanError
from pointsman.factory import build_engine, build_policy, policy_toml
from pointsman.stores.ledger import PolicyText, Retention, SqliteLedger
from pointsman.upstreams.port import ServerSpec

#: Nothing is removed, however old the logs are.
_ALL: Final = Retention(None, None)
_LOOPBACK: Final = "127.0.0.1"


def write_ledger(file: Path, collection: Collection, report: AuditReport, *, with_text: bool) -> Config:
    """Write what logs hold as decisions into a new ledger.

    Args:
        file: The ledger.
        collection: The logs, which have not been read by it yet.
        report: The earlier report.
        with_text: Whether the prompts are stored, redacted.

    Returns:
        The configuration by which was decided: the models of the logs.
    """
    config, names = _configuration(report)
    engine = build_engine(build_policy(config), read_only=True)
    figures = {(of.client, of.id): of for of in report.sessions}
    text = "redacted" if with_text else "off"
    with (
        closing(SqliteLedger(file, text="redacted" if with_text else "off", retention=_ALL)) as ledger,
        progress("pointsman audit", len(collection.logs)) as shown,
    ):
        collection.on_log = shown.advance if shown else None
        written = LoggedDecisions(ledger, engine, names)
        for session, _ in collection.sessions():
            if (of := figures.get((session.client, session.id))) is not None:
                written.write(session, of)
        ledger.append(PolicyText(version=engine.version, text=policy_toml(config)))
        ledger.flush()
        if ledger.lost:
            raise PointsmanError(f"{ledger.lost:,} entries could not be written to {file}: {ledger.fault}")
    echo(f"wrote {written.count:,} decisions to {file}, prompts: {text}", err=True)
    return config


def _configuration(report: AuditReport) -> tuple[Config, dict[tuple[str, str], str]]:
    """What ``config init --from-audit`` writes; without models that it can have, the defaults."""
    try:
        models = logged_models(report.sessions, report.pricing)
    except PointsmanError:
        return Config(), {}
    loaded = examine(Path("pointsman.toml"), AnyKey(), text=draft(models.found, tiers=models.tiers))
    if loaded.config is None:
        raise loaded.errors[0]
    return loaded.config, dict(models.names)


def open_console(config: Config, file: Path, *, temporary: bool) -> None:
    """Serve the console on a ledger to this machine, open it in a browser, and wait for Ctrl-C."""
    with needs_extra("gateway", "pointsman audit --open"):
        from starlette.responses import PlainTextResponse

        from pointsman.gateway.app import Gateway
        from pointsman.gateway.build import Builder, demo_config
        from pointsman.gateway.listening import address, bound
        from pointsman.gateway.serve import Server

    class ReadOnlyConsole(Gateway):
        """The console alone: nothing is passed on to a model, and no page changes anything."""

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            """Serve one request."""
            is_read = scope["type"] != "http" or scope["method"] in {"GET", "HEAD"}
            if is_read and (scope["type"] != "http" or self.serves_console(scope["raw_path"])):
                await super().__call__(scope, receive, send)
                return
            refused = PlainTextResponse("this console is read-only: it shows what logs hold\n", 405)
            await refused(scope, receive, send)

    shown = msgspec.structs.replace(
        config if config.models else demo_config(),
        ledger=LedgerSpec(path=file, text="off", keep_days=0, max_mb=0, spill_mb=0),
        server=ServerSpec(host=_LOOPBACK, port=0),
    )
    with closing(Builder(lambda: shown)) as builder, bound(_LOOPBACK, 0) as listening:
        page = f"http://{address(*listening.getsockname()[:2])}/console/decisions"
        ends = "; its ledger is temporary and ends with it" if temporary else ""
        echo(f"console: {page} (read-only, Ctrl-C ends it{ends})", err=True)
        server = Server(ReadOnlyConsole(builder()))
        import webbrowser

        if not webbrowser.open(page):
            echo("there is no browser here; open the address in one", err=True)
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listening])

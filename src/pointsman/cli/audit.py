"""``pointsman audit``: costs and failures of agents, from the logs on this machine."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import typer

from pointsman.audit import Collection, Home, sources
from pointsman.audit.collect import KeptFigures
from pointsman.audit.decisions import LoggedDecisions
from pointsman.audit.figures import SessionFigures
from pointsman.audit.money import Pricing, logged_models
from pointsman.audit.page import page
from pointsman.audit.policies import PolicyVerdict, policy_verdicts
from pointsman.audit.report import AuditReport, labelled, read_labels
from pointsman.audit.tables import dearest
from pointsman.cli.ledger import KEEP_ALL
from pointsman.cli.output import JsonOption, MarginOption, echo, needs_extra, print_report, save, writable
from pointsman.cli.terminal import progress
from pointsman.config import AnyKey, Config, LedgerSpec, load
from pointsman.config.draft import draft
from pointsman.decision.policy import Policy
from pointsman.errors import PointsmanError
from pointsman.factory import build_engine, build_policy, default_policy, policy_toml, read_policy
from pointsman.stores.ledger import PolicyText, SqliteLedger
from pointsman.stores.pattern_cache import cache_directory
from pointsman.upstreams.port import ServerSpec

#: Name of the policy that decides without any configuration.
SHIPPED: Final = "shipped"
#: How a page of --html begins.
_PAGE: Final = b"<!doctype html"
_PERIOD: Final = re.compile(r"(\d{1,5})([hdwm])")
_SECONDS: Final = {"h": 3_600, "d": 86_400, "w": 604_800, "m": 2_592_000}


def audit(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Exports to read instead of the home directory, or a ledger of Pointsman."),
    ] = None,
    *,
    home: Annotated[
        Path | None, typer.Option(help="Directory to look in; default: the user's home directory.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Leave out what is older: 12h, 30d, 8w or 6m; default: read all.")
    ] = None,
    subscription: Annotated[
        list[str] | None,
        typer.Option(help="Client that a subscription pays for, such as claude-code; may be repeated."),
    ] = None,
    incremental: Annotated[
        bool,
        typer.Option(
            "--incremental",
            help="Cache the figures of every log, without texts, in the user's cache directory; read changed "
            "logs alone.",
        ),
    ] = False,
    labels: Annotated[
        Path | None,
        typer.Option(
            help='JSON lines {"session": ID, "solved": true or false}: outcomes that the logs do not prove.'
        ),
    ] = None,
    margin: MarginOption = 0.0,  # a loss is tolerated where somebody says so
    policy: Annotated[
        list[Path] | None,
        typer.Option(
            help="Decide the logged requests again by this pointsman.toml or tier profile, and by the "
            "shipped policy; may be repeated."
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Write the report to this file, as one page without texts of prompts."),
    ] = None,
    with_text: Annotated[
        bool,
        typer.Option(
            "--with-text",
            help="Put prompts into the page of --html and the ledger, without keys and e-mail addresses.",
        ),
    ] = False,
    ledger: Annotated[
        Path | None,
        typer.Option(help="Write the requests as decisions into this new ledger, for other commands."),
    ] = None,
    opens: Annotated[
        bool,
        typer.Option(
            "--open",
            help="Open the console on these requests in a browser, read-only, until Ctrl-C. Without --ledger "
            "its ledger is temporary.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Audit the logs of agents on this machine: costs, and where agents were stuck.

    Reads the session files of coding agents, or exports of LiteLLM, OpenRouter, Langfuse, Helicone and
    OpenTelemetry. It needs no key, gateway or configuration, opens no connection, and writes
    nothing but the cache of --incremental and the files of --html and --ledger. --open serves its console
    to this machine alone.
    """
    if html is not None:
        _new_page(html)
    if ledger is not None:
        new_file(ledger)
    given = read_labels(labels) if labels else {}
    # All logs are read again to decide their requests: with --incremental only where that is asked for.
    policies = _policies(policy or ()) if policy or not incremental else {}
    logs = _Logs(files or (), home, time.time() - _period(since) if since else 0.0)
    collection = logs.read()
    of = _figures(collection, given, labels, incremental=incremental)
    _check_clients(subscription or (), collection, of)
    report = _report(logs, collection, of, frozenset(subscription or ()), policies, margin)
    if html is not None:
        dear = [figures for figures, _ in dearest(report.sessions, report.pricing)]
        save(html, page(report, dict(collection.prompts(dear)) if with_text else {}).encode())
    print_report(report, as_json=as_json)
    if ledger is not None or opens:
        _show_ledger(ledger, logs.read(), report, with_text=with_text, opens=opens)


class _Logs(NamedTuple):
    """Which logs are read; more than once, since none is held in memory."""

    files: Sequence[Path]
    home: Path | None
    since: float  # seconds since the epoch

    def read(self) -> Collection:
        """Find them, as yet unread."""
        return read_logs(self.files, self.home, since=self.since)


def _report(
    logs: _Logs,
    collection: Collection,
    of: Sequence[SessionFigures],
    subscriptions: frozenset[str],
    policies: dict[str, Policy],
    margin: float,
) -> AuditReport:
    """What the logs cost and show, and what some policies would have decided."""
    pricing = Pricing(of, subscriptions=subscriptions)
    return AuditReport(
        place=str(collection.home.path) if collection.home else ", ".join(map(str, logs.files)),
        sessions=of,
        found=collection.found(),
        pricing=pricing,
        notes=collection.notes,
        copies=collection.copies,
        empty=collection.empty,
        since=logs.since,
        arguments=_arguments(logs.files, logs.home),
        policies=_replayed(policies, logs.read(), of, pricing, margin) if policies else (),
        margin=margin,
    )


def _figures(
    collection: Collection, given: dict[str, bool], labels: Path | None, *, incremental: bool
) -> Sequence[SessionFigures]:
    """The figures of all sessions, with the labels of a file; from the cache as far as it has them."""
    with progress("pointsman audit", len(collection.logs)) as shown:
        collection.on_log = shown.advance if shown else None
        kept = KeptFigures(_cache_file()) if incremental else None
        of, unknown = labelled(collection.figures(kept), given)
    if kept is not None:
        kept.save()
    for name in unknown:
        collection.note(f"{labels}: no session {name} was read, so its label counts nowhere")
    return of


def _replayed(
    policies: dict[str, Policy],
    logs: Collection,
    of: Sequence[SessionFigures],
    pricing: Pricing,
    margin: float,
) -> tuple[PolicyVerdict, ...]:
    """Decide the logged requests again by some policies."""
    with progress("pointsman audit, policies", len(logs.logs)) as shown:
        logs.on_log = shown.advance if shown else None
        return policy_verdicts(policies, (read.session for read in logs.sessions()), of, pricing, margin)


def _show_ledger(
    file: Path | None, logs: Collection, report: AuditReport, *, with_text: bool, opens: bool
) -> None:
    """Write the ledger, a temporary one where no file is named, and open the console on it."""
    from tempfile import TemporaryDirectory

    with ExitStack() as stack:
        place = file or (
            Path(stack.enter_context(TemporaryDirectory(prefix="pointsman-audit-"))) / "ledger.sqlite"
        )
        config = write_ledger(place, logs, report, with_text=with_text)
        if opens:
            open_console(config, place, temporary=file is None)


def new_file(file: Path) -> None:
    """Refuse a ledger that is there: requests that it has would be in it twice.

    Raises:
        PointsmanError: the file exists, or cannot be written.
    """
    if writable(file).exists():
        raise PointsmanError(f"{file} exists", hint="name another file, or remove it")


def read_logs(files: Sequence[Path], home: Path | None, *, since: float = 0.0) -> Collection:
    """Find logs: of a home directory, exports, or both.

    Raises:
        PointsmanError: there are none.
    """
    place = None if files and home is None else Home.at(home)
    collection = Collection(place, sources(), files=files, since=since)
    if not collection.logs:
        raise _nothing(collection)
    return collection


def _arguments(files: Sequence[Path], home: Path | None) -> str:
    """The options with which ``config init --from-audit`` reads the same logs."""
    words = ["--from-audit", *(["--home", str(home)] if home else ())]
    return shlex.join([*words, *(word for file in files for word in ("--logs", str(file)))])


def _policies(files: Sequence[Path]) -> dict[str, Policy]:
    """The shipped policy, and those in files."""
    shipped = default_policy()
    return {SHIPPED: shipped, **{str(file): read_policy(file, shipped) for file in files}}


def _cache_file() -> Path:
    folder = cache_directory()
    if folder is None:
        raise PointsmanError("there is no cache directory", hint="name one with POINTSMAN_CACHE_DIR")
    return folder / "audit.msgpack"


def _period(text: str) -> float:
    found = _PERIOD.fullmatch(text.strip())
    if found is None:
        raise PointsmanError(f'--since {text}: a number and h, d, w or m are expected, such as "30d"')
    return int(found[1]) * _SECONDS[found[2]]


def _new_page(file: Path) -> None:
    """Refuse to write over a file that is not a page."""
    if writable(file).is_file():
        with file.open("rb") as opened:
            start = opened.read(len(_PAGE))
        if start and start.lower() != _PAGE:
            raise PointsmanError(f"{file} exists and is not a page", hint="name another file for --html")


def _check_clients(named: Sequence[str], collection: Collection, sessions: Sequence[SessionFigures]) -> None:
    """Refuse a name in --subscription that no client has: its requests would count as paid for."""
    known = {*(of.client for of in sessions), *collection.sources}
    unknown = [name for name in named if name not in known]
    if unknown:
        raise PointsmanError(
            f"--subscription {unknown[0]}: there is no client of this name",
            hint=f"clients: {', '.join(sorted(known))}",
        )


def _nothing(collection: Collection) -> PointsmanError:
    if collection.old_logs:
        count = collection.old_logs
        return PointsmanError(
            f"no log under {collection.home.path if collection.home else 'these files'} was changed in the "
            f"period of --since; {count} {'is' if count == 1 else 'are'} older",
            hint="name a longer period, or leave out --since",
        )
    looked = "; ".join(
        f"{name}: {', '.join(map(str, places))}" for name, places in collection.places().items()
    )
    return PointsmanError(
        f"no logs of agents under {collection.home.path if collection.home else 'these files'}; "
        f"looked for {looked}",
        hint="name another directory with --home",
    )


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
        closing(SqliteLedger(file, text="redacted" if with_text else "off", retention=KEEP_ALL)) as ledger,
        progress("pointsman audit", len(collection.logs)) as shown,
    ):
        collection.on_log = shown.advance if shown else None
        # Before the decisions: the first one by it keeps it.
        ledger.append(PolicyText(version=engine.version, text=policy_toml(config)))
        written = LoggedDecisions(ledger, engine, names)
        for session, _ in collection.sessions():
            if (of := figures.get((session.client, session.id))) is not None:
                written.write(session, of)
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
    text = draft(models.found, tiers=models.tiers)
    return load(Path("pointsman.toml"), AnyKey(), text=text), dict(models.names)


def open_console(config: Config, file: Path, *, temporary: bool) -> None:
    """Serve the console on a ledger to this machine, open it in a browser, and wait for Ctrl-C."""
    with needs_extra("gateway", "pointsman audit --open"):
        from starlette.responses import PlainTextResponse

        from pointsman.config.shapes import demo_config
        from pointsman.gateway.app import Gateway
        from pointsman.gateway.build import Builder
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

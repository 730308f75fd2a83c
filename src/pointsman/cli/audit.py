"""``pointsman audit``: what agents cost and where they went wrong, from the logs on this machine."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Final

import typer

from pointsman.audit import Collection, Home, sources
from pointsman.audit.kept import KeptFigures
from pointsman.audit.labels import labelled, read_labels
from pointsman.audit.money import Pricing
from pointsman.audit.page import page
from pointsman.audit.policies import PolicyVerdict, policy_verdicts
from pointsman.audit.report import AuditReport
from pointsman.audit.tables import dearest
from pointsman.cli._audit_ledger import new_file, open_console, write_ledger
from pointsman.cli.options import JsonOption
from pointsman.cli.output import print_report, save, writable
from pointsman.cli.terminal import progress
from pointsman.decision.policy import Policy
from pointsman.errors import PointsmanError
from pointsman.factory import default_policy, read_policy
from pointsman.stores.pattern_cache import cache_directory

__all__ = ["read_logs", "register"]

#: Name of the policy that decides without any configuration.
SHIPPED: Final = "shipped"
_PERIOD: Final = re.compile(r"(\d{1,5})([hdwm])")
_SECONDS: Final = {"h": 3_600, "d": 86_400, "w": 604_800, "m": 2_592_000}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("audit")(audit)


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
        typer.Option(help="Client whose requests a subscription pays, such as claude-code; may be repeated."),
    ] = None,
    incremental: Annotated[
        bool,
        typer.Option(
            "--incremental",
            help="Keep the figures of every log, without texts, in the user's cache directory; read changed "
            "logs alone.",
        ),
    ] = False,
    labels: Annotated[
        Path | None,
        typer.Option(
            help='JSON lines {"session": ID, "solved": true or false}: outcomes that the logs do not prove.'
        ),
    ] = None,
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
    """Audit the logs of agents on this machine: what they cost and where they were stuck.

    Reads the session files of coding agents, or exports of LiteLLM, OpenRouter, Langfuse, Helicone and
    OpenTelemetry. It needs no key, gateway or configuration, opens no connection, and writes
    nothing but what --incremental keeps and the files of --html and --ledger. --open serves its console
    to this machine alone.
    """
    if html is not None:
        writable(html)
    if ledger is not None:
        new_file(ledger)
    given = read_labels(labels) if labels else {}
    # All logs are read again to decide their requests: with --incremental only where that is asked for.
    policies = _policies(policy or ()) if policy or not incremental else {}
    began = time.time() - _period(since) if since else 0.0
    collection = read_logs(files or (), home, since=began)
    with progress("pointsman audit", len(collection.logs)) as shown:
        collection.on_log = shown.advance if shown else None
        kept = KeptFigures(_cache_file()) if incremental else None
        of, unknown = labelled(collection.figures(kept), given)
    if kept is not None:
        kept.save()
    for name in unknown:
        collection.note(f"{labels}: no session {name} was read, so its label counts nowhere")
    pricing = Pricing(subscriptions=frozenset(subscription or ()))
    replayed: tuple[PolicyVerdict, ...] = ()
    if policies:
        again = read_logs(files or (), home, since=began)
        with progress("pointsman audit, policies", len(again.logs)) as shown:
            again.on_log = shown.advance if shown else None
            replayed = policy_verdicts(policies, (read.session for read in again.sessions()), of, pricing)
    report = AuditReport(
        place=str(collection.home.path) if collection.home else ", ".join(map(str, files or ())),
        sessions=of,
        found=collection.found(),
        pricing=pricing,
        notes=collection.notes,
        copies=collection.copies,
        empty=collection.empty,
        since=began,
        arguments=_arguments(files or (), home),
        policies=replayed,
    )
    if html is not None:
        said = (
            dict(collection.prompts([of for of, _ in dearest(report.sessions, report.pricing)]))
            if with_text
            else {}
        )
        save(html, page(report, said).encode())
    print_report(report, as_json=as_json)
    if ledger is None and not opens:
        return
    from tempfile import TemporaryDirectory  # nobody else needs it

    with ExitStack() as stack:
        file = (
            ledger
            or Path(stack.enter_context(TemporaryDirectory(prefix="pointsman-audit-"))) / "ledger.sqlite"
        )
        again = read_logs(files or (), home, since=began)
        config = write_ledger(file, again, report, with_text=with_text)
        if opens:
            open_console(config, file, temporary=ledger is None)


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


def _nothing(collection: Collection) -> PointsmanError:
    looked = "; ".join(
        f"{name}: {', '.join(map(str, places))}" for name, places in collection.places().items()
    )
    return PointsmanError(
        f"no logs of agents under {collection.home.path if collection.home else 'these files'}; "
        f"looked for {looked}",
        hint="name another directory with --home",
    )

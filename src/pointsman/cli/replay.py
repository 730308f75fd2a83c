"""``pointsman replay``: decide recorded traffic again under another policy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from pointsman.batch.work import BatchEngine, Work
from pointsman.cli.classify import (
    EngineOption,
    InOption,
    WorkersOption,
    rows_shown,
    say_finished,
    say_unreadable,
    work_of,
)
from pointsman.cli.ledger import has_no_demo, opened
from pointsman.cli.output import DemoOption, JsonOption, MarginOption, echo, json_line
from pointsman.cli.terminal import progress
from pointsman.decision.engine import Engine
from pointsman.errors import ConfigError, PointsmanError
from pointsman.factory import build_engine, default_policy, read_policy, read_policy_text
from pointsman.learning.intervals import MARGIN
from pointsman.reports.labels import ScoredAnswers
from pointsman.reports.replay import Replay, Replayed, Summary, differences
from pointsman.reports.replay_period import ReplayFile
from pointsman.stores.ledger import Record, Search
from pointsman.tiers import BUILTIN_PROFILES


def replay(
    ledger: Annotated[
        str | None,
        typer.Argument(
            help="Ledger: SQLite file, or address of PostgreSQL; default: the configured one. Not with --in."
        ),
    ] = None,
    *,
    policy: Annotated[
        Path,
        typer.Option(
            help="The other policy: a pointsman.toml, a tier profile, or the version of an earlier one."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write one JSON line per decision to this file; with --in: folder of Parquet files."
        ),
    ] = None,
    demo: DemoOption = False,
    margin: MarginOption = MARGIN,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted --out file.")] = False,
    as_json: JsonOption = False,
    pattern: InOption = "",
    engine: EngineOption = BatchEngine.LOCAL,
    workers: WorkersOption = None,
) -> None:
    """Decide recorded requests again under another policy, oldest first, and report the changes.

    No model is asked. Where the model changes, the summary states whether the cheaper one's answers are good
    enough, as "pointsman report quality" does. Without --out, --json prints one line per decision and the
    summary last. With --in it reads Parquet files with a column "record", a line of pointsman decisions
    export, and replays session by session; the same command resumes an earlier run.
    """
    others = {"--resume": resume, "--demo": demo}
    if pattern and (work := work_of(pattern, out, engine, workers, LEDGER=ledger, **others)):
        _replay_parquet(work, policy, as_json=as_json)
        return
    work_of("", None, engine, workers)
    if resume and out is None:
        raise PointsmanError("--resume continues a file", hint="name it with --out FILE")
    if has_no_demo(ledger, demo=demo):
        return
    with opened(ledger, None, demo=demo) as store:
        decides = _engine(policy, store)
        answers = ScoredAnswers(decides.policy.models, margin)
        summary = Summary(decides.version, answers)
        records = answers.noted(_watched(store.records(), store.count()))
        again = Replay(decides)
        for line in ReplayFile(out).write(again, records, resume=resume) if out else again.turns(records):
            summary.add(line)
            if out is None and (as_json or line.changed):
                echo(json_line(line) if as_json else _readable(line))
    if as_json:
        echo(json_line({"summary": summary.to_json()}))
        return
    echo("\n".join(summary.lines()))


def _replay_parquet(work: Work, policy: Path, *, as_json: bool) -> None:
    from pointsman.batch.replay import BatchReplayer
    from pointsman.batch.sessions import replay_sessions, summary_of

    job = BatchReplayer(read_policy(policy, default_policy()))
    done = replay_sessions(job, work, rows_shown("replaying"))
    summary = summary_of(job, done)
    if as_json:
        echo(json_line({"summary": summary.to_json()}))
    else:
        say_finished(done, work.out)
        echo("\n".join(summary.lines()))
    say_unreadable(done, "error")


def _engine(policy: Path, ledger: Search) -> Engine:
    """Build an engine of a policy in a file, or of an earlier one with its text in the ledger."""
    text = None if policy.exists() else ledger.policy(str(policy))
    if text is None:
        if not policy.exists() and str(policy) not in BUILTIN_PROFILES:
            known = [each.version for each in ledger.policies() if each.has_text]
            hint = f"policies of this ledger: {', '.join(known) or 'none with a text'}"
            raise ConfigError(f'"{policy}" is no file, and no policy of this ledger', hint=hint)
        return build_engine(read_policy(policy, default_policy()))
    engine = build_engine(read_policy_text(text, Path.cwd() / f"policy {policy}", default_policy()))
    if engine.version != str(policy):
        echo(f"pointsman: files that policy {policy} names have changed since: {engine.version}", err=True)
    return engine


def _watched(records: Iterable[Record], count: int) -> Iterator[Record]:
    """Pass records on, showing on a terminal how far they have come."""
    with progress("replaying", count) as shown:
        for record in records:
            yield record
            if shown is not None:
                shown.advance()


def _readable(line: Replayed) -> str:
    """One changed decision for a person."""
    why = f"  ({'; '.join(line.why)})" if line.why else ""
    return f"{line.id}  {differences(line.then, line.now, line.changed)}{why}"

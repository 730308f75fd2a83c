"""``pointsman classify``: decide many prompts, JSON lines or Parquet; options of whatever reads Parquet."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from pointsman.batch.work import BatchEngine, Reports, RowJob, Work
from pointsman.cli.output import (
    FAILED,
    LearnedRouterOption,
    check_profile,
    config_file,
    echo,
    json_line,
    needs_extra,
    read_lines,
)
from pointsman.cli.terminal import progress
from pointsman.config import AnyKey, Config, load
from pointsman.decision.engine import Decided, Engine
from pointsman.decision.memory import Memory
from pointsman.decision.policy import Policy
from pointsman.decoding import UNREADABLE, why_unreadable, without_halves
from pointsman.drivers import drive, no_model
from pointsman.encoders.learned_routers import load_scorer
from pointsman.errors import CallerError, ConfigError, MalformedRequest, PointsmanError
from pointsman.factory import build_engine, build_policy, default_policy, read_policy, read_profile
from pointsman.printable import counted
from pointsman.tiers import with_margin
from pointsman.tiers.learned_router import LearnedScorer
from pointsman.vocabulary import AgentRequest, ModelQuery, ModelReply, WireFormat
from pointsman.wire import FORMATS
from pointsman.wire.request import read_request, request_from_text

if TYPE_CHECKING:
    from pointsman.batch.row_jobs import Finished


InOption = Annotated[
    str, typer.Option("--in", help="Parquet files to read instead: 'x/*.parquet', a file, or a folder.")
]
OutOption = Annotated[
    Path | None, typer.Option("--out", help="With --in: folder of Parquet files to write, or to resume.")
]
EngineOption = Annotated[
    BatchEngine, typer.Option("--engine", help="With --in: processes of this machine, or Ray.")
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", min=1, help="With --in: processes; default: one for each core.")
]
ColumnOption = Annotated[
    str | None,
    typer.Option(
        "--column", help="With --in: column of the input, as text=NAME, messages=NAME or request=NAME."
    ),
]


def work_of(
    pattern: str, out: Path | None, engine: BatchEngine, workers: int | None, **others: object
) -> Work | None:
    """Return the options of a batch; None without Parquet files.

    Args:
        pattern: ``--in``.
        out: ``--out``.
        engine: ``--engine``.
        workers: ``--workers``.
        others: By name, options that do not go with ``--in``.

    Raises:
        PointsmanError: ``--in`` lacks ``--out`` or has an option that it cannot go with, or it is ``--in``
            that the others lack.
        MissingExtra: pyarrow is not installed.
    """
    if not pattern:
        if out or workers or engine is not BatchEngine.LOCAL:
            raise PointsmanError("--out, --engine and --workers go with --in")
        return None
    for name, value in others.items():
        if value:
            raise PointsmanError(f"{name} does not go with --in")
    if out is None:
        raise PointsmanError("--in needs a folder to write to", hint="name it with --out DIR")
    with needs_extra("batch", "--in"):
        from pointsman.batch.row_jobs import available_cores
    return Work(pattern, out, engine, workers or available_cores())


def run_rows(job: RowJob, work: Work) -> Finished:
    """Run a job over rows, showing on a terminal how far it has come."""
    from pointsman.batch.row_jobs import map_rows

    return map_rows(job, work, rows_shown(job.name))


def rows_shown(label: str) -> Reports:
    """Return what shows rows on a terminal as they are done."""

    @contextmanager
    def started(total: int) -> Iterator[Callable[[int], None]]:
        with progress(label, total) as bar:
            yield bar.advance if bar else lambda _: None

    return started


def say_finished(done: Finished, out: Path) -> None:
    """Print how many rows were done, and the number done by an earlier run."""
    before = f", {done.found:,} of them by an earlier run" if done.found else ""
    echo(f"{counted(done.rows, 'row')}{before}; {counted(len(done.parts), 'file')} in {out}")


def say_unreadable(done: Finished, column: str) -> None:
    """End with the exit code of failed rows, if a column has a reason for any row."""
    failed = done.rows - done.folder.missing_values(done.parts, column)
    if failed:
        echo(f'{failed:,} rows could not be read; column "{column}" says why', err=True)
        raise typer.Exit(FAILED)


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of input: a text, or the messages of a request."""

    id: Any = None
    text: str | None = None
    messages: list[Any] | None = None
    format: WireFormat = WireFormat.CHAT
    system: str = ""
    session: str = ""
    turn: int | str | None = None  # names the user message; kept in the output, never interpreted


_decode: Final = msgspec.json.Decoder(Line).decode


def classify(
    file: Annotated[Path | None, typer.Argument(help="JSON lines; default: standard input.")] = None,
    *,
    profile: Annotated[
        str | None, typer.Option(help="seed, default, or a profile file; no configuration is then read.")
    ] = None,
    learned_router: LearnedRouterOption = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Verify uncertain tiers with the configured model.")
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            help="Decide as the gateway with this configuration; without --verify no model is asked."
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(help="The same, or a tier profile; --config then names the model that verifies."),
    ] = None,
    pattern: InOption = "",
    out: OutOption = None,
    engine: EngineOption = BatchEngine.LOCAL,
    workers: WorkersOption = None,
    column: ColumnOption = None,
) -> None:
    """Classify prompts: JSON lines {"id", "text"} or {"id", "messages", "format"} in, one line each out.

    A line has guidance where the agent of its messages is stuck. With --learned-router "score" is that
    router's, "rules_score" the rules'; the tier stays the rules', because a router file has no boundaries:
    --config decides by those of [tiers.learned_router].
    A malformed line gives an error object in its place, and processing continues; the exit code is then 1.
    With --in the same for Parquet files, each row by itself: pointsman classify --in 'x/*.parquet' --out DIR
    writes a file for each row group. The same command resumes an earlier run.
    """
    decides = _policy(profile, config, policy)
    only_lines = {"FILE": file, "--verify": verify, "--learned-router": learned_router}
    if work := work_of(pattern, out, engine, workers, **only_lines):
        _classify_parquet(replace(decides, guidance=None), work, column)
    elif column:
        raise PointsmanError("--column goes with --in")
    else:
        _classify_lines(file, decides, config, learned_router, verify=verify)


def _policy(profile: str | None, config: Path | None, whole: Path | None) -> Policy:
    """Return the policy of a file, or a tier profile in the default policy.

    No model is asked: a line is marked if its score is uncertain.
    """
    check_profile(profile, config)
    policy = replace(default_policy(), profile=read_profile(profile or "default"))
    if whole:
        policy = read_policy(whole, policy)
    elif config:
        policy = build_policy(load(config, AnyKey()))
    return replace(policy, profile=with_margin(policy.profile, policy.verify), verify=None)


def _classify_parquet(policy: Policy, work: Work, column: str | None) -> None:
    from pointsman.batch.classify import BatchClassifier
    from pointsman.batch.columns import named

    done = run_rows(BatchClassifier(policy, named(column) if column else None), work)
    say_finished(done, work.out)
    say_unreadable(done, "error")


def _classify_lines(
    file: Path | None, policy: Policy, config: Path | None, learned_router: Path | None, *, verify: bool
) -> None:
    scorer = load_scorer(learned_router) if learned_router else None
    if verify:
        with needs_extra("gateway", "--verify"):
            import asyncio

            from pointsman.factory import build_ask
            from pointsman.upstreams.connections import Connections
        settings = _settings(config)
        policy = replace(policy, models=settings.models, verify=build_policy(settings).verify)
        with asyncio.Runner() as loop, closing(Connections()) as connections:
            ask = build_ask(settings, connections)
            asking = _Classifier(build_engine(policy), lambda need: loop.run(ask(need)), scorer)
            failed = _classify(file, asking)
    else:
        failed = _classify(file, _Classifier(build_engine(policy), no_model, scorer))
    if failed:
        echo('  hint: a line is {"text": "…"}, or {"messages": […], "format": "chat"}', err=True)
        raise typer.Exit(FAILED)


def _classify(file: Path | None, classifier: _Classifier) -> bool:
    """Classify every line in order. Returns whether one was malformed."""
    failed = False
    with progress("classifying") as shown:
        for number, raw in read_lines(file):
            try:
                answer = classifier.classify(raw)
            except CallerError as error:
                failed = True
                answer = {"error": {"line": number, "message": str(error)}}
            echo(json_line(answer))
            if shown is not None:
                shown.advance()
    return failed


class _Classifier:
    """Classifies lines one by one, keeping memory for lines that name a session."""

    def __init__(
        self, engine: Engine, ask: Callable[[ModelQuery], ModelReply], learned_router: LearnedScorer | None
    ) -> None:
        self._engine = engine
        self._learned_router = learned_router
        self._ask = ask
        self._memories: dict[str, Memory] = {}

    def classify(self, raw: bytes) -> dict[str, object]:
        line = _read(raw)
        turn = _turn(line)
        memory = self._memories.get(line.session, Memory())
        began = time.perf_counter()
        decided = drive(self._engine.decide(turn, memory, ""), self._ask)
        elapsed = (time.perf_counter() - began) * 1e6
        answer = _answer(line, decided, elapsed)
        if self._learned_router:
            found = decided.decision.domains
            domain = found.effective.domains[0] if found else ""
            said = self._learned_router.score(decided.words.text, rules=self._rules(decided), domain=domain)
            answer |= {"score": said.score, "rules_score": answer["score"], "learned_router": said}
        if (guidance := decided.decision.guidance) and guidance.firings:
            answer["guidance"] = [
                {"classifier": each.classifier, "rung": each.rung, "reason": each.reason}
                for each in guidance.firings
            ]
        if selected := decided.decision.capabilities:
            answer["capabilities"] = selected
        if line.session:
            self._memories[line.session] = decided.memory
            if decided.decision.domains:
                answer["domains"] = decided.decision.domains.to_json()
        return answer

    def _rules(self, decided: Decided) -> float | None:
        """The score of the rules, if they are the learned router's baseline."""
        tier = decided.decision.tier
        same = (
            self._learned_router
            and self._learned_router.learned_router.rules == self._engine.policy.profile.name
        )
        return tier.score if same and tier else None


def _settings(named: Path | None) -> Config:
    settings = load(config_file(named))
    if settings.tiers.verify is None:
        raise ConfigError(
            "--verify needs a model to ask", hint='verify = { model = "…" } in [tiers] of pointsman.toml'
        )
    return settings


def _read(raw: bytes) -> Line:
    try:
        line = _decode(raw if rb"\ud" not in raw.lower() else without_halves(raw))
    except UNREADABLE as error:
        raise MalformedRequest(why_unreadable(error)) from None
    if (line.text is None) == (line.messages is None):
        raise MalformedRequest('a line needs either "text" or "messages"')
    return line


def _turn(line: Line) -> AgentRequest:
    if line.text is not None:
        turn = request_from_text(line.text, system=line.system, session=line.session)
    else:
        # Each format has another place for the system prompt.
        body = FORMATS[line.format].body(line.messages or [], line.system)
        turn = read_request(line.format, body, session=line.session)
    return turn if line.turn is None else msgspec.structs.replace(turn, message_id=str(line.turn))


def _answer(line: Line, decided: Decided, elapsed: float) -> dict[str, object]:
    tier = decided.decision.tier
    assert tier is not None  # noqa: S101 - a line never asks for a model
    return {
        "id": line.id,
        "tier": tier.tier,
        "score": tier.score,
        "confidence": tier.confidence,
        "signals": tier.signals,
        "stage": tier.stage,
        "needs_verification": tier.needs_verification,
        "extracted": decided.words.text,
        "elapsed_us": round(elapsed, 1),
    }

"""``pointsman watch``: replay guidance over recorded runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import groupby
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from pointsman.cli.output import FAILED, echo, json_line, print_either, read_lines
from pointsman.decoding import UNREADABLE, why_unreadable
from pointsman.drivers import no_model
from pointsman.errors import CallerError, MalformedRequest, PointsmanError
from pointsman.guidance import Guide, Mode
from pointsman.learning.guidance import GuidanceRow, Replayed, Run, Summary, replay
from pointsman.printable import Block, Column, TextTable
from pointsman.vocabulary import ModelQuery, ModelReply

_decode: Final = msgspec.json.Decoder(Run).decode


def watch(
    file: Annotated[
        Path | None, typer.Argument(help="Runs as JSON lines, optionally gzipped; default: standard input.")
    ] = None,
    *,
    summary: Annotated[
        bool, typer.Option("--summary", help="Print shares per source and outcome, against four baselines.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --summary: JSON instead of a table.")] = False,
    control: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, help="Share of runs in the control group, in which guidance is withheld."
        ),
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Random seed of the control group.")] = 0,
    config: Annotated[
        Path | None,
        typer.Option(help="File with a [guidance] table; default: the built-in policy, switched on."),
    ] = None,
    ask_models: Annotated[
        bool,
        typer.Option(
            "--ask-models", help="Let model classifiers ask the model of --config; otherwise they abstain."
        ),
    ] = False,
) -> None:
    """Show where guidance would fire in recorded runs: one JSON line per firing.

    A line has "id" and either "messages" and "format" (chat, responses, messages) or "steps"; for the
    summary also "source" and "success". A malformed line gives an error object, and the exit code is then 1.
    """
    from pointsman.cli.hook import own_classes, policy_of  # eval reads runs by this module, without hooks

    policy = msgspec.structs.replace(policy_of(config), mode=Mode.ON, control=control, seed=seed)
    guide = Guide(policy, own=own_classes(policy))
    counts = Summary()
    with _asking(config if ask_models else None) as ask:
        good = _watch(file, guide, ask, counts if summary else None)
    if summary:
        print_either(counts.rows(), *tables(counts.rows()), as_json=as_json)
    if not good:
        raise typer.Exit(FAILED)


def _watch(
    file: Path | None, guide: Guide, ask: Callable[[ModelQuery], ModelReply], counts: Summary | None
) -> bool:
    """Replay every run, and count or print its firings. Returns whether all lines were valid."""
    good, number = True, 0
    for number, raw in read_lines(file):
        try:
            run = read_run(raw)
            replayed = replay(run, guide, ask)
        except CallerError as error:
            if good and file is not None:
                _check_kind(file)
            good = False
            line = {"error": {"line": number, "message": str(error)}}
            echo(json_line(line), err=counts is not None)
            continue
        if counts is None:
            _print_firings(run, replayed)
        else:
            counts.add(run, replayed)
    if not number:
        echo(f"pointsman: no runs in {file or 'standard input'}: nothing to replay", err=True)
    return good


def _check_kind(file: Path) -> None:
    """Refuse an agent's own log, no line of which is a run.

    Raises:
        PointsmanError: it is one.
    """
    from pointsman.audit.sources import session_file  # only for an error

    source = None
    with suppress(PointsmanError):  # no JSON at all, which each line says of itself
        source = session_file(file)
    if source is not None:
        raise PointsmanError(f"{file} is a log of {source.name}, not runs", hint=f"pointsman audit {file}")


def _asking(config: Path | None) -> AbstractContextManager[Callable[[ModelQuery], ModelReply]]:
    """Return the models of a file, which answer model classifiers; without a file no model is asked."""
    if config is None:
        return nullcontext(no_model)
    from pointsman.cli.hook import asking
    from pointsman.config import AnyKey, load

    found = load(config, AnyKey())
    guidance = msgspec.structs.replace(found.guidance, mode=Mode.ON)
    return asking(msgspec.structs.replace(found, guidance=guidance), config)


def read_run(raw: bytes) -> Run:
    """One line of recorded runs.

    Raises:
        MalformedRequest: it is not a run.
    """
    try:
        return _decode(raw)
    except UNREADABLE as error:
        raise MalformedRequest(why_unreadable(error)) from None


def _print_firings(run: Run, replayed: Replayed) -> None:
    for firing in replayed.firings:
        line = {
            "id": run.id,
            "step": firing.step,
            "provider": firing.provider,
            "classifier": firing.classifier,
            "confidence": firing.confidence,
            "reason": firing.reason,
            "delivered": firing.delivered,
        }
        echo(json_line(line))


_OUTCOMES: Final = {True: "succeeded", False: "failed", None: "unknown outcome"}


_RULES: Final = (
    Column("  rule", least=34),
    *(Column(name, right=True, least=least) for name, least in (("fired", 28), ("first call", 10))),
    Column("streak goes on", right=True, least=16),
)


def tables(rows: Iterable[GuidanceRow]) -> Iterator[Block]:
    """A table per source and outcome, under its heading."""
    for number, (heading, found) in enumerate(groupby(rows, _heading)):
        if number:
            yield ""
        yield heading
        yield TextTable(_RULES, [_cells(row) for row in found])


def _heading(row: GuidanceRow) -> str:
    return f"{row.source or 'no source'}, {_OUTCOMES[row.success]}: {row.runs} runs"


def _cells(row: GuidanceRow) -> tuple[str, ...]:
    fired = f"{row.fired} ({row.share:.1%}, {row.low:.1%} .. {row.high:.1%})"
    first = "–" if row.first is None else f"{row.first:g}"
    goes_on = f"{row.continued} of {row.followed}" if row.followed else "–"
    return f"  {row.rule}", fired, first, goes_on

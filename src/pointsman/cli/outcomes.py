"""``pointsman outcomes``: import, derive and export outcomes."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pointsman.cli.ledger import has_no_demo, opened
from pointsman.cli.output import (
    FAILED,
    ConfigOption,
    DemoOption,
    Group,
    JsonOption,
    LedgerOption,
    config_file,
    echo,
    json_line,
    needs_extra,
    print_blocks,
    print_rows,
    read_lines,
    require_model,
)
from pointsman.config import Config, load
from pointsman.decoding import why_unreadable
from pointsman.errors import CallerError, ConfigError, PointsmanError, StoreUnavailable, UpstreamError
from pointsman.printable import Column, TextTable, counted
from pointsman.remembering import grouped
from pointsman.reports.judge import (
    ENOUGH_PAIRS,
    Judgement,
    Pair,
    combine,
    labels,
    pairs_in,
    question,
    refusal,
    summarise,
    tries_in,
)
from pointsman.reports.labels import queue
from pointsman.reports.outcomes import Fittable, derive, new_outcomes, prompts, scored, scores_of
from pointsman.stores.ledger import Ledger, Outcome
from pointsman.stores.ledger.outcome_reports import read_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pointsman.upstreams import ChatModel
    from pointsman.vocabulary import ModelSpec


outcomes: Final = typer.Typer(
    cls=Group, no_args_is_help=True, help="Import, derive, judge and export outcomes of decisions."
)

# ``pointsman outcomes queue``: the decisions most worth an outcome.


_QUEUED: Final = (Column("decision", whole=True), Column("project"), Column("why"))


def queue_outcomes(
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number.")] = 20,
    ledger: LedgerOption = None,
    demo: DemoOption = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List decisions without an outcome that are most worth one, with the reasons.

    Near a boundary of the tiers, unlike the training data, of an agent in trouble, or an exploration; then
    ordinary ones, without a reason.
    """
    if has_no_demo(ledger, demo=demo):
        return
    with opened(ledger, config, demo=demo) as store:
        found = queue(store.records(newest_first=True))[:limit]
    rows = [(each.decision, each.name or each.project or "-", "; ".join(each.why)) for each in found]
    print_rows((each._asdict() for each in found), TextTable(_QUEUED, rows), as_json=as_json)


# ``pointsman outcomes judge``: let a model judge shadow answers, once its agreement with people is shown.

_SECONDS = 60.0  # for one question


def judge_outcomes(
    *,
    judge: Annotated[str, typer.Option(help="Configured name of the model that judges.")],
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Pairs to judge at most.")] = 200,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
) -> None:
    """Let a model judge pairs of an answer and a shadow's answer, blind and in both orders.

    Pairs that people judged come first, one of each session. No label is written unless the judge agrees with
    them more often than one that always prefers the same side. A refused try is recorded with its cost; the
    next one needs more.
    """
    from asyncio import run  # most commands do without

    loaded = load(config_file(config))
    require_model(loaded, judge)
    with opened(ledger, config) as store:
        found = list(pairs_in(store.records(), judge))
        sessions = grouped((pair.session, pair) for pair in found if pair.preference)
        known = [first for first, *_ in sessions.values()]
        if len(known) < ENOUGH_PAIRS:
            raise PointsmanError(
                f"{len(known)} sessions have outcomes of people for both answers that differ, and the "
                f"agreement of a judge needs {ENOUGH_PAIRS}",
                hint='give one for each answer: "model" names the shadow; [shadow] text stores both',
            )
        chosen = frozenset(known)
        rest = [pair for pair in found if pair not in chosen]
        refused = tries_in(store.records())
        asked = [*known, *rest][: max(limit, ENOUGH_PAIRS)]
        said = run(_judge(judge, loaded, asked, len(known), refused))
        summary = summarise(said, refused=refused)
        print_blocks(summary.lines())
        now = time.time()
        if not summary.counts:
            _append(store, (refusal(*each, judge, at=now) for each in said))
            low, high = summary.interval
            raise PointsmanError(
                f'"{judge}" agrees with people in {summary.agreement:.0%} of {summary.compared} sessions '
                f"({low:.0%} to {high:.0%}): not better than always the same side; no label was written",
                hint="--judge names another model",
            )
        _append(store, (outcome for each in said for outcome in labels(*each, judge, at=now)))
    echo(f"added {2 * len(said):,} outcomes of {judge}")


async def _judge(
    name: str, config: Config, pairs: Sequence[Pair], known: int, refused: int
) -> list[tuple[Pair, Judgement]]:
    """Judge the pairs; after those that people judged, only where the judge is better than a constant one."""
    with needs_extra("gateway", needed_for="asking a model"):
        from pointsman.upstreams.chat_model import chat_models
        from pointsman.upstreams.connections import Connections
    model = chat_models(config.models, config.upstreams, Connections()).get(name)
    if model is None:
        raise ConfigError(f'model "{name}" cannot be asked', hint="its upstream needs an api_key")
    said = await judge_all(model, config.models[name], pairs[:known])
    if summarise(said, refused=refused).counts:
        said += await judge_all(model, config.models[name], pairs[known:])
    return said


async def judge_all(model: ChatModel, spec: ModelSpec, pairs: Sequence[Pair]) -> list[tuple[Pair, Judgement]]:
    """Ask a model about pairs, each in both orders. A pair that it does not answer is left out."""
    from pointsman.upstreams import ask_metered

    found = []
    for pair in pairs:
        words, cost = [], 0.0
        try:
            for swapped in (False, True):
                answer = await ask_metered(model, question(pair, swapped=swapped), timeout=_SECONDS)
                words.append(answer.text)
                if answer.usage is not None:
                    cost += spec.cost(*answer.usage.priced) or 0.0
        except UpstreamError as error:
            echo(f"{pair.decision}: {error}", err=True)
            continue
        preference, by_position = combine(*words)
        found.append((pair, Judgement(preference, by_position, cost)))
    return found


#: Outcomes appended between two waits for the disk: a tenth of what a ledger's queue holds.
BATCH: Final = 1_000


def import_outcomes(
    file: Annotated[
        Path, typer.Argument(help="JSON lines: decision, score 0 to 1, label, source, comment, model.")
    ],
    *,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
) -> None:
    """Import outcomes into the ledger. Duplicates are not added again."""
    added = wrong = 0
    now = time.time()
    with opened(ledger, config) as store:
        for number, line in read_lines(file):
            try:
                said = read_line(line, at=now)
                for outcome in new_outcomes([said], store.outcomes(said.decision)):
                    store.add_outcome(outcome)
                    added += 1
            except (ValueError, RecursionError, CallerError) as error:
                wrong += 1
                echo(f"{file}:{number}: {why_unreadable(error)}", err=True)
                continue
        _append(store, ())  # waits for the disk
    echo(f"added {counted(added, 'outcome')}" + (f"; {wrong:,} lines were invalid" if wrong else ""))
    if wrong:
        echo('  hint: {"decision": ID, "score": 0.5}, and perhaps label, source, comment, model', err=True)
        raise typer.Exit(FAILED)


def derive_outcomes(*, ledger: LedgerOption = None, config: ConfigOption = None) -> None:
    """Derive implicit outcomes from later requests: retry, escalation, error streak, correction, last call.

    Each has an implicit source, and score 0, or 1 where tests passed last. A second run adds only new ones.
    """
    with opened(ledger, config) as store:
        added = _append(store, derive(store.records()))
    echo(f"added {counted(added, 'implicit outcome')}")


def export_outcomes(
    *,
    weak: Annotated[str, typer.Option(help="With --strong: only prompts that both models answered.")] = "",
    strong: Annotated[str, typer.Option(help="With --weak: only prompts that both models answered.")] = "",
    ledger: LedgerOption = None,
    demo: DemoOption = False,
    config: ConfigOption = None,
) -> None:
    """Write prompts with each model's score, as training data for "pointsman fit tiers".

    Only prompts with stored words and an outcome with a score. Where the weights of a tier
    drew the model, "chances" gives the probability with which each model was drawn.
    """
    if has_no_demo(ledger, demo=demo):
        return
    models = [name for name in (weak, strong) if name]
    found: list[Fittable] = []
    wordless = written = 0
    with opened(ledger, config, demo=demo) as store:
        for record in store.records():
            if (known := scored(record)) is not None:
                found.append(known)
            elif any(scores_of(record)):
                wordless += 1
    for written, line in enumerate(prompts(found, models), start=1):  # noqa: B007 - counts
        echo(json_line(line))
    echo(f"wrote {counted(written, 'prompt')}", err=True)
    alone = len({each.prompt for each in found}) - written if models else 0
    left_out = [f"{wordless:,} decisions without stored words ([ledger] text)"] if wordless else []
    left_out += [f"{alone:,} prompts without a score of each of these models"] if alone else []
    if left_out:
        echo(f"left out: {', '.join(left_out)}", err=True)
    elif not written:
        echo("no decision has a score: label some on the console, or pointsman outcomes import", err=True)


def _append(store: Ledger, outcomes: Iterable[Outcome]) -> int:
    """Append outcomes, with back-pressure from the disk. Returns the number added.

    Raises:
        StoreUnavailable: some could not be written.
    """
    added = 0
    for outcome in outcomes:
        store.append(outcome)
        added += 1
        if added % BATCH == 0:
            store.flush()
    store.flush()
    if store.fault:
        raise StoreUnavailable(f"outcomes could not be written: {store.fault}")
    if store.lost:
        raise StoreUnavailable(f"{store.lost:,} outcomes could not be written")
    return added


for command in (import_outcomes, derive_outcomes, export_outcomes, judge_outcomes, queue_outcomes):
    outcomes.command(command.__name__.partition("_")[0])(command)

"""``pointsman eval``: evaluate on labelled data."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from pointsman.batch.work import BatchEngine, Work
from pointsman.cli.classify import (
    EngineOption,
    InOption,
    OutOption,
    WorkersOption,
    run_rows,
    say_unreadable,
    work_of,
)
from pointsman.cli.eval_savings import DECIMALS, FLATTERS, INSTRUCTIONS, prices_in_folder, savings, spread
from pointsman.cli.output import (
    FAILED,
    JsonOption,
    LearnedRouterOption,
    SlowGroup,
    StrongOption,
    WeakOption,
    echo,
    needs_extra,
    print_either,
    read_lines,
    report_error,
)
from pointsman.cli.patterns import JsonLines, Seed, evaluate_domains
from pointsman.cli.tasks import EncoderName
from pointsman.cli.watch import read_run
from pointsman.cli.watch import tables as guidance_tables
from pointsman.decoding import UNREADABLE, mapped, why_unreadable
from pointsman.encoders import load_encoder
from pointsman.encoders.learned_routers import load_kinds, load_scorer, open_kinds
from pointsman.errors import CallerError, ConfigError, PointsmanError
from pointsman.guidance import GuidancePolicy, Guide, Mode
from pointsman.learning.datasets import read_outcomes
from pointsman.learning.guidance import Summary, replay
from pointsman.printable import Block, Column, TextTable
from pointsman.tiers.kinds import Kinds

if TYPE_CHECKING:
    from pointsman.batch.row_jobs import Finished
    from pointsman.learning.answers import AgreementRow
    from pointsman.learning.metrics import Interval
    from pointsman.learning.selection import Selections
    from pointsman.learning.tiers import ScoredPrompts


# ``pointsman eval capabilities``, ``guidance``: evaluate two of the other decisions.


def capabilities(
    file: JsonLines,
    descriptions: Annotated[
        Path | None, typer.Option(help='JSON {"name": "description"}; default: the names alone.')
    ] = None,
    examples: Annotated[
        int, typer.Option(min=0, help="Examples per capability, from tasks outside the holdout.")
    ] = 10,
    encoder: EncoderName = "none",
    seed: Seed = 0,
    as_json: JsonOption = False,
) -> None:
    """Evaluate the selection of capabilities, against four baselines.

    Baselines: TF-IDF, the nearest example, the most frequent class, chance. A line has task (or text, query)
    and capabilities (or label, tool), and may have split. Without split, one line in five is held out and the
    others are examples. Label "oos" means out of scope.
    """
    with needs_extra("fit", "pointsman eval capabilities"):
        from pointsman.learning.capabilities import read_labelled
        from pointsman.learning.selection import evaluate_selection

    found = evaluate_selection(
        read_labelled(read_lines(file), str(file)),
        described=_descriptions(descriptions) if descriptions else {},
        examples=examples,
        encoder=load_encoder(encoder),
        seed=seed,
    )
    print_either(found, *_selection(found), as_json=as_json)


def guidance(file: JsonLines, as_json: JsonOption = False) -> None:
    """Evaluate guidance on recorded runs, by source and outcome, against four simple rules.

    A line has "id" and either "messages" and "format" (chat, responses, messages) or "steps", and may have
    "source" and "success". A malformed line is reported, and the exit code is then 1.
    """
    guide, counts, failed = Guide(GuidancePolicy(mode=Mode.ON)), Summary(), False
    for number, raw in read_lines(file):
        try:
            run = read_run(raw)
            counts.add(run, replay(run, guide))
        except CallerError as error:
            failed = True
            report_error(ConfigError(str(error), place=f"{file}:{number}"))
    print_either({"rows": counts.rows()}, *guidance_tables(counts.rows()), as_json=as_json)
    if failed:
        raise typer.Exit(FAILED)


def _descriptions(file: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, str])
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", place=str(file)) from error
    except UNREADABLE as error:
        raise ConfigError(f"not descriptions by name: {why_unreadable(error)}", place=str(file)) from error


_SELECTORS: Final = (
    Column("", least=12),
    Column("n", right=True, least=4),
    Column("the likeliest is needed", right=True, least=26),
    Column("all needed in the first five", right=True),
)


def _selection(found: Selections) -> tuple[Block, ...]:
    chosen = found.selected
    parts = {
        "exactly right": chosen.exact,
        "needed ones selected": chosen.recall,
        "nothing selected where nothing serves": chosen.rejected,
        "calibration error": chosen.error,
    }
    shown = ", ".join(f"{name} {value:.3f}" for name, value in parts.items() if value is not None)
    rows = [(row.selector, row.n, _shown(row.first), _shown(row.first_five)) for row in found.rows]
    return (
        TextTable(_SELECTORS, rows),
        f"{found.capabilities} capabilities, up to {found.examples} examples each",
        f"pointsman at its threshold of {found.threshold}, {chosen.tasks} tasks: {shown}",
    )


def _shown(found: Interval) -> str:
    return f"{found.value:.3f} ({found.low:.3f} .. {found.high:.3f})"


# ``pointsman eval answers``: savings by agreement of two cheap models on stored answers.


def answers(
    file: Annotated[
        Path, typer.Argument(help="JSON lines, optionally gzipped: set, id, prompt_chars, answers by model.")
    ],
    *,
    cheap: Annotated[
        list[str], typer.Option(help="A cheap model; give two. The first one serves if they agree.")
    ],
    strong: Annotated[str, typer.Option(help="The model that is asked if they do not agree.")],
    prices: Annotated[
        Path | None,
        typer.Option(
            help="JSON: dollars per million tokens by model; default: prices.json of its folder, catalogue."
        ),
    ] = None,
    instruction_tokens: Annotated[
        int, typer.Option(min=0, help="Tokens of instructions that were sent with each question.")
    ] = INSTRUCTIONS,
    seed: Annotated[int, typer.Option(help="Random seed of the bootstrap.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Evaluate agreement on stored answers: two cheap models are asked, the strong one if these disagree.

    Two answers agree if "answer" or "value" is equal; null never agrees. Costs count both cheap models and,
    if asked, the strong one. Every set is reported alone, with 95 % intervals over questions.
    """
    if len(cheap) != 2:
        raise PointsmanError(
            f"the rule compares two cheap models, not {len(cheap)}", hint="--cheap A --cheap B"
        )
    models = (*cheap, strong)
    if len(set(models)) != len(models):
        raise PointsmanError("the three models must differ: a model always agrees with itself")
    with needs_extra("fit", "pointsman eval answers"):
        from pointsman.learning.answers import evaluate_agreement, read_answers, read_prices

    rows = read_answers(read_lines(file), str(file), models)
    if copies := len(rows) - len({(row.set, row.id) for row in rows}):
        echo(f"{copies} rows repeat the set and id of another row; each counts as a question", err=True)
    table = prices or prices_in_folder(file)
    found = evaluate_agreement(
        rows,
        (cheap[0], cheap[1]),
        strong,
        read_prices(table, file.name, models),
        instructions=instruction_tokens,
        seed=seed,
    )
    print_either(
        {"cheap": cheap, "strong": strong, "rows": len(rows), "sets": [_plain(row) for row in found]},
        f"{cheap[0]} serves where {cheap[1]} agrees, else {strong}; 95 % intervals over questions",
        TextTable(_ANSWER_COLUMNS, [_answer_cells(row) for row in found]),
        "\n".join(_summary(found)),
        as_json=as_json,
    )


_ANSWER_COLUMNS: Final = (
    Column("set"),
    Column("n", right=True),
    Column("agreed"),
    Column("cheap", right=True),
    Column("second", right=True),
    Column("strong", right=True),
    Column("rule", right=True),
    Column("rule - strong"),
    Column("cost over strong"),
)


def _answer_cells(row: AgreementRow) -> list[str]:
    first, second = row.success_cheap
    return [
        row.set or "all",
        f"{row.n:,}",
        _share(row.agreed.value),
        *(_share(each.value) for each in (first, second, row.success_strong, row.success_rule)),
        spread(row.success_minus_strong, sign=True),
        spread(row.cost),
    ]


def _share(value: float) -> str:
    return f"{value:.{DECIMALS}f}"


def _summary(rows: Sequence[AgreementRow]) -> Iterable[str]:
    """The mean of the sets with the worst, so that no large set hides a small one."""
    if len(rows) < 2:
        return
    gains = {row.set: row.success_minus_strong.value for row in rows}
    costs = {row.set: row.cost.value for row in rows if not math.isnan(row.cost.value)}
    if not costs:
        return
    worst, dearest = min(gains, key=gains.__getitem__), max(costs, key=costs.__getitem__)
    gain, cost = (fmean(column.values()) for column in (gains, costs))
    yield (
        f"mean of {len(rows)} sets: rule - strong {gain:+.{DECIMALS}f} (worst {worst}"
        f" {gains[worst]:+.{DECIMALS}f}), cost over strong {cost:.{DECIMALS}f} (worst {dearest}"
        f" {costs[dearest]:.{DECIMALS}f})"
    )


def _plain(row: AgreementRow) -> Mapping[str, object]:
    """One row for a program: fractions with four decimals."""

    def rounded(value: object) -> object:
        if isinstance(value, float):
            return None if value != value else round(value, DECIMALS)
        return value

    found: Mapping[str, object] = mapped(msgspec.to_builtins(row), rounded)
    return found


evaluate = typer.Typer(
    cls=SlowGroup, no_args_is_help=True, help="Evaluate routers and classifiers on labelled data."
)


@evaluate.command()
def tiers(
    *,
    data: Annotated[
        Path | None, typer.Option("--data", help="JSON lines: prompt, weak, strong; or prompt, scores.")
    ] = None,
    learned_router: LearnedRouterOption = None,
    weak: WeakOption = "",
    strong: StrongOption = "",
    quality: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="Share of the strong model's quality at which costs are compared, 0 to 1."
        ),
    ] = 0.95,
    price_weak: Annotated[
        float | None, typer.Option(min=0, help="Price of a call of the weak model.")
    ] = None,
    price_strong: Annotated[
        float | None, typer.Option(min=0, help="Price of a call of the strong model, in the same currency.")
    ] = None,
    kinds: Annotated[
        str, typer.Option(help="Kinds of prompts to measure: default, off, or a file by pointsman fit kinds.")
    ] = "default",
    seed: Annotated[int, typer.Option(help="Random seed of the bootstrap.")] = 0,
    as_json: JsonOption = False,
    pattern: InOption = "",
    out: OutOption = None,
    engine: EngineOption = BatchEngine.LOCAL,
    workers: WorkersOption = None,
) -> None:
    """Evaluate how well each router ranks prompts by their need for the strong model, and its cost.

    Baselines: random, length, both rule profiles and an oracle; kinds of prompts where the extra static is
    installed. Lines with "bench" are also evaluated by bench, else by task up to 30 of them. With --in it
    reads Parquet files with columns prompt, weak and strong (--weak and --strong name other columns) and
    writes the score of every ranker for each row.
    """
    with needs_extra("fit", "pointsman eval tiers"):
        from pointsman.learning.tiers import evaluate_scored, evaluation_lines

    ratio = _ratio(price_weak, price_strong)
    done: Finished | None = None
    if work := work_of(pattern, out, engine, workers, **{"--data": data}):
        scored, done = _scored_parquet(work, weak, strong, kinds, learned_router)
    elif data:
        scored = _scored_lines(data, weak, strong, kinds, learned_router)
    else:
        raise PointsmanError("there are no outcomes to read", hint="name them with --data or --in")
    rows = evaluate_scored(scored, seed=seed, quality=quality, price_ratio=ratio)
    print_either({"rows": rows}, *evaluation_lines(rows), as_json=as_json)
    if done:
        say_unreadable(done, "error")


def _scored_lines(
    data: Path, weak: str, strong: str, kinds: str, learned_router: Path | None
) -> ScoredPrompts:
    from pointsman.learning.rankers import was_fitted_on
    from pointsman.learning.tiers import score_prompts

    outcomes = read_outcomes(data, weak=weak, strong=strong)
    scorer = load_scorer(learned_router) if learned_router else None
    if scorer and was_fitted_on(scorer.learned_router, outcomes):
        echo(f"{FLATTERS}; pointsman fit tiers measured it on held-out ones", err=True)
    return score_prompts(outcomes, scorer, kinds=_kinds(kinds, data))


def _scored_parquet(
    work: Work, weak: str, strong: str, kinds: str, learned_router: Path | None
) -> tuple[ScoredPrompts, Finished]:
    from pointsman.batch.rank import BatchRanker, scored_in
    from pointsman.encoders.learned_routers import load_learned_router
    from pointsman.learning.rankers import has_seen

    job = BatchRanker(weak=weak, strong=strong, kinds=kinds, learned_router=learned_router)
    done = run_rows(job, work)
    scored, digests, characters = scored_in(job, done)
    if learned_router and has_seen(load_learned_router(learned_router), digests, characters):
        echo(f"{FLATTERS}; pointsman fit tiers measured it on held-out ones", err=True)
    return scored, done


def _kinds(name: str, data: Path) -> Kinds | None:
    """The kinds to measure; a note on standard error if they were made from this file."""
    file = load_kinds(name)
    if file and hashlib.sha256(data.read_bytes()).hexdigest() in {origin.sha256 for origin in file.origins}:
        echo("pointsman: the kinds were made from this file: their figures flatter", err=True)
    return open_kinds(file)


def _ratio(weak: float | None, strong: float | None) -> float | None:
    """Price of a weak call in strong calls; None without prices.

    Raises:
        PointsmanError: only one price is given, or the strong model is not the more expensive one.
    """
    if weak is None and strong is None:
        return None
    if weak is None or strong is None:
        raise PointsmanError("a cost needs both prices", hint="--price-weak and --price-strong")
    if strong <= weak:
        raise PointsmanError("the strong model is not more expensive than the weak one")
    return weak / strong


for part in (savings, answers, evaluate_domains, capabilities, guidance):
    evaluate.command(part.__name__.removeprefix("evaluate_"))(part)

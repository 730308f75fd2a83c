"""``pointsman eval``: evaluate on labelled data."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pointsman.batch.work import BatchEngine, Work
from pointsman.cli._batch import (
    EngineOption,
    InOption,
    OutOption,
    WorkersOption,
    run_rows,
    say_unreadable,
    work_of,
)
from pointsman.cli.eval_answers import answers
from pointsman.cli.eval_parts import capabilities, domains, guidance
from pointsman.cli.eval_savings import savings
from pointsman.cli.eval_sets import datasets, export
from pointsman.cli.options import JsonOption, LearnedRouterOption, StrongOption, WeakOption
from pointsman.cli.output import SlowGroup, echo, needs_extra, print_json
from pointsman.encoders.kinds import load_kinds, open_kinds
from pointsman.encoders.learned_routers import load_scorer
from pointsman.errors import PointsmanError
from pointsman.learning.datasets import read_easy, read_outcomes, read_prompts
from pointsman.tiers.kinds import Kinds

if TYPE_CHECKING:
    from pointsman.batch.row_jobs import Finished
    from pointsman.learning.tiers import ScoredPrompts

__all__ = ["register"]

_FLATTERS: Final = (
    "pointsman: the learned router was fitted on these very prompts: its figures flatter;"
    " pointsman fit tiers measured it on held-out ones"
)

evaluate = typer.Typer(
    cls=SlowGroup, no_args_is_help=True, help="Evaluate routers and classifiers on labelled data."
)


def register(app: typer.Typer) -> None:
    """Add the command group."""
    app.add_typer(evaluate, name="eval")


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
        from pointsman.learning.show import evaluation_lines
        from pointsman.learning.tiers import evaluate_scored

    ratio = _ratio(price_weak, price_strong)
    done: Finished | None = None
    if work := work_of(pattern, out, engine, workers, **{"--data": data}):
        scored, done = _scored_parquet(work, weak, strong, kinds, learned_router)
    elif data:
        scored = _scored_lines(data, weak, strong, kinds, learned_router)
    else:
        raise PointsmanError("there are no outcomes to read", hint="name them with --data or --in")
    rows = evaluate_scored(scored, seed=seed, quality=quality, price_ratio=ratio)
    if as_json:
        print_json({"rows": rows})
    else:
        echo("\n".join(evaluation_lines(rows)))
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
        echo(_FLATTERS, err=True)
    return score_prompts(outcomes, scorer, kinds=_kinds(kinds, data))


def _scored_parquet(
    work: Work, weak: str, strong: str, kinds: str, learned_router: Path | None
) -> tuple[ScoredPrompts, Finished]:
    from pointsman.batch.measured import scored_in
    from pointsman.batch.rank import BatchRanker
    from pointsman.encoders.learned_routers import load_learned_router
    from pointsman.learning.rankers import has_fitted_lengths

    job = BatchRanker(weak=weak, strong=strong, kinds=kinds, learned_router=learned_router)
    done = run_rows(job, work)
    scored, characters = scored_in(job, done)
    if learned_router and has_fitted_lengths(load_learned_router(learned_router), characters):
        echo(_FLATTERS, err=True)
    return scored, done


@evaluate.command()
def robustness(
    *,
    data: Annotated[Path, typer.Option(help="JSON lines with prompt.")],
    learned_router: LearnedRouterOption = None,
    boundary: Annotated[
        float | None,
        typer.Option(help="Boundary on the learned router's score; default: its median over the prompts."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the changes and the bootstrap.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Measure robustness: whether decisions change with the form of a prompt, or with keywords set beside it.

    The changes are typing errors (one word in twenty), spacing, case, look-alike letters, politeness, and the
    language of an instruction around the prompt. The decision of a rule profile is the tier; of a learned
    router, the side of a boundary. Easy prompts are those labelled SIMPLE or right by the weak model, where
    the file says so, else those of tier SIMPLE.
    """
    with needs_extra("fit", "pointsman eval robustness"):
        from pointsman.learning.robustness import decided_simple, evaluate_gadgets, evaluate_robustness
        from pointsman.learning.show import gadget_lines, robustness_lines

    scorer = load_scorer(learned_router) if learned_router else None
    prompts = read_prompts(data)
    rows = evaluate_robustness(prompts, scorer, boundary=boundary, seed=seed)
    easy = read_easy(data) or decided_simple(prompts)
    gadgets = evaluate_gadgets(easy, seed=seed) if easy else []
    if as_json:
        print_json({"rows": rows, "gadgets": gadgets})
    else:
        echo("\n".join([*robustness_lines(rows), "", *gadget_lines(gadgets)]))


def _kinds(name: str, data: Path) -> Kinds | None:
    """The kinds to measure; a note on standard error where they were made from this very file."""
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


for part in (savings, answers, domains, capabilities, guidance, datasets, export):
    evaluate.command()(part)

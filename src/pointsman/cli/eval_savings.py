"""``pointsman eval savings``: what routers save on own outcomes, beyond a coin of equal success."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pointsman.cli.eval_answers import spread
from pointsman.cli.fit_policy_models import NamedModels, served_models
from pointsman.cli.options import JsonOption, LearnedRouterOption, OutcomesOption, StrongOption, WeakOption
from pointsman.cli.output import echo, needs_extra, print_json, print_table
from pointsman.config import AnyKey, Config, load
from pointsman.decision.engine import ANSWER
from pointsman.encoders.learned_routers import load_scorer
from pointsman.errors import ConfigError
from pointsman.learning.datasets import Graded, PromptOutcome, read_graded
from pointsman.learning.features import Features
from pointsman.printable import Column

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pointsman.learning.savings import RouterSavings, Rule, SourceSavings

__all__ = ["savings"]

#: Sources that get a table each; subjects of an exam are more, and too small to say anything alone.
_SOURCES: Final = 30
#: Rows of a table before the first router that ranks.
_BASELINES: Final = 3


def savings(
    *,
    data: OutcomesOption,
    learned_router: LearnedRouterOption = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", help="Configuration whose [tiers] names the models, with their prices."),
    ] = None,
    weak: WeakOption = "",
    strong: StrongOption = "",
    price_weak: Annotated[
        float | None, typer.Option(min=0, help="Price of a call of the weak model.")
    ] = None,
    price_strong: Annotated[
        float | None, typer.Option(min=0, help="Price of a call of the strong model, in the same currency.")
    ] = None,
    answer_tokens: Annotated[
        int, typer.Option(min=0, help="With --config: tokens of an answer, for its cost.")
    ] = ANSWER,
    labels: Annotated[int, typer.Option(min=1, help="Rows that fix the cut: the first ones.")] = 300,
    margin: Annotated[
        float, typer.Option(min=0.0001, max=1, help="Success that a cut may lose against always strong.")
    ] = 0.01,
    certainty: Annotated[
        float, typer.Option(min=0.5, max=0.999, help="Certainty that it does not lose more.")
    ] = 0.9,
    splits: Annotated[
        int | None,
        typer.Option(min=1, help="Draw the labels by chance so many times, instead of the first rows."),
    ] = None,
    features: Annotated[
        Features, typer.Option(help="Features of the router that is fitted on the labels.")
    ] = Features.AUTO,
    seed: Annotated[int, typer.Option(help="Random seed of the splits and the bootstrap.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Evaluate what each router saves at a cut fixed beforehand, beyond a coin of equal success.

    The first rows fix the cut: the cheapest whose success is within the margin of always strong, with the
    certainty asked for. If none is, the router is "always strong". The other rows are served under that cut.
    A coin serves rows drawn by chance with the weak model; "saved beyond coin" is the cost of the coin with
    the same success minus the cost of the router, over the cost of always strong. Costs are those of the
    lines ("costs", which may hold what prompt caches saved), else those of the prices. Every source ("bench",
    else "task" or "domain") fixes a cut of its own. 95 % intervals, duplicate prompts drawn as one.
    """
    with needs_extra("fit", "pointsman eval savings"):
        from pointsman.learning.fit import read_with
        from pointsman.learning.learning import Corpus
        from pointsman.learning.savings import LEAST_SERVED, Rule, evaluate_savings

    settings = load(config, AnyKey()) if config else None
    named = NamedModels(weak, strong, price_weak, price_strong, ())
    rows = read_graded(data, served_models(settings, 2, named).names if settings else (weak, strong))
    costs = _costs(rows, settings, named, answer_tokens)
    outcomes = [PromptOutcome(row.prompt, row.scores[0], row.scores[1], row.group) for row in rows]
    corpus = Corpus.of(outcomes, *read_with(features, None))
    scores = _scores(outcomes, learned_router)
    rule = Rule(labels=labels, margin=margin, certainty=certainty)
    found: list[SourceSavings] = []
    too_few: dict[str, int] = {}
    for source, places in _sources(rows).items():
        if source and len(places) < labels + LEAST_SERVED:
            too_few[source] = len(places)
            continue
        part = {name: each[places] for name, each in scores.items()}
        found.append(
            evaluate_savings(
                source,
                corpus.take(places),
                costs[places],
                scores=part,
                rule=rule,
                splits=splits,
                seed=seed,
            )
        )
    if as_json:
        print_json({"rule": rule, "sources": found, "too_few": too_few})
        return
    echo(_told(rule, splits))
    for each in found:
        echo(f"\n{each.source or 'all rows'}: {each.labels:,} labels, {each.served:,} served")
        print_table(_COLUMNS, [_cells(row) for row in each.rows])
    if len(sources := [each for each in found if each.source]) > 1:
        echo(f"\nmean of {len(sources)} sources, worst source in brackets")
        print_table(_MEANS, list(_mean_cells(sources)))
    echo("\n".join(["", *_verdict(found[0], too_few, rule)]))


def _told(rule: Rule, splits: int | None) -> str:
    which = "the first rows" if splits is None else f"drawn by chance, mean of {splits:,} draws"
    return (
        f"cut: the cheapest within {rule.margin:g} of always strong with {rule.certainty:.0%} certainty,"
        f" fixed on {rule.labels:,} labels ({which}); served: the others"
    )


_COLUMNS: Final = (
    Column("router"),
    Column("cut fixed", right=True),
    Column("weak", right=True),
    Column("success", right=True),
    Column("success - strong"),
    Column("cost over strong"),
    Column("saved beyond coin"),
)


def _cells(row: RouterSavings) -> list[str]:
    if row.fixed == 0 and row.router != "always strong":
        return [row.router, "no", *["always strong" if column == 0 else "" for column in range(5)]]
    fixed = "yes" if row.fixed == 1 else f"{row.fixed:.0%}"
    return [
        row.router,
        "" if row.router.startswith("always") else fixed,
        f"{row.weak_share:.1%}",
        f"{row.success.value:.4f}",
        spread(row.success_minus_strong, sign=True),
        spread(row.cost),
        spread(row.saved_beyond_coin, sign=True),
    ]


_MEANS: Final = (
    Column("router"),
    Column("success - strong"),
    Column("cost over strong"),
    Column("saved beyond coin"),
)


def _mean_cells(sources: Sequence[SourceSavings]) -> Iterable[list[str]]:
    """The mean over the sources with the worst beside it, so that no large source hides a small one."""
    for name in [row.router for row in sources[0].rows]:
        rows = {each.source: row for each in sources for row in each.rows if row.router == name}
        less = {source: row.success_minus_strong.value for source, row in rows.items()}
        cost = {source: row.cost.value for source, row in rows.items()}
        saved = {source: row.saved_beyond_coin.value for source, row in rows.items()}
        yield [
            name,
            _worst(less, min(less, key=less.__getitem__), "+"),
            _worst(cost, max(cost, key=cost.__getitem__), ""),
            _worst(saved, min(saved, key=saved.__getitem__), "+"),
        ]


def _worst(values: Mapping[str, float], worst: str, plus: str) -> str:
    return f"{fmean(values.values()):{plus}z.4f} ({worst} {values[worst]:{plus}z.4f})"


def _verdict(whole: SourceSavings, too_few: dict[str, int], rule: Rule) -> Iterable[str]:
    if too_few:
        names = ", ".join(f"{name} ({count:,})" for name, count in too_few.items())
        yield f"too few rows for a cut of their own: {names}"
    if all(row.fixed == 0 for row in whole.rows[_BASELINES:]):
        yield (
            f"{rule.labels:,} labels fix no cut within {rule.margin:g}: every router is always strong;"
            " more --labels, a larger --margin or a lower --certainty may"
        )
    shown = [row.router for row in whole.rows if row.shown]
    yield (
        f"shown to save more than a coin of equal success: {', '.join(shown)}"
        if shown
        else "no router is shown to save more than a coin of equal success"
    )


def _costs(
    rows: Sequence[Graded], settings: Config | None, named: NamedModels, answer: int
) -> NDArray[np.float64]:
    """Money for a call of both models on each row. Shape ``(n, 2)``."""
    import numpy as np

    without = next((place for place, row in enumerate(rows) if not row.costs), None)
    if without is None:
        return np.array([row.costs for row in rows], dtype=np.float64)
    if any(row.costs for row in rows):
        raise ConfigError(
            f'row {without + 1:,} has no "costs" while others have', hint="all rows of a file, or none"
        )
    return served_models(settings, 2, named).costs(rows, answer) / 1000


def _sources(rows: Sequence[Graded]) -> dict[str, NDArray[np.intp]]:
    """Places of the rows of every source; "" are all of them."""
    import numpy as np

    name_of = attrgetter("bench" if len({row.bench for row in rows}) > 1 else "group")
    found: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        found.setdefault(name_of(row), []).append(place)
    parts = found if 1 < len(found) <= _SOURCES else {}
    whole = {"": np.arange(len(rows))}
    return whole | {name: np.array(parts[name], dtype=np.intp) for name in sorted(parts) if name}


def _scores(outcomes: Sequence[PromptOutcome], learned_router: Path | None) -> dict[str, NDArray[np.float64]]:
    """What the learned router of a file says of the rows."""
    import numpy as np

    from pointsman.learning.rankers import by_learned_router, was_fitted_on

    if learned_router is None:
        return {}
    scorer = load_scorer(learned_router)
    if was_fitted_on(scorer.learned_router, outcomes):
        echo("pointsman: the learned router was fitted on these very prompts: its figures flatter", err=True)
    found = [each.score for each in by_learned_router(outcomes, scorer)]
    return {learned_router.name: np.array(found)}

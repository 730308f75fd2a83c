"""``pointsman eval savings``: what routers save on own outcomes, beyond a coin of equal success."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from pointsman.cli.fit_policy import NamedModels, served_models
from pointsman.cli.output import (
    JsonOption,
    LearnedRouterOption,
    OutcomesOption,
    StrongOption,
    WeakOption,
    echo,
    needs_extra,
    print_either,
    read_lines,
)
from pointsman.config import AnyKey, Config, load
from pointsman.decision.choosing import ANSWER
from pointsman.encoders.learned_routers import load_scorer
from pointsman.errors import ConfigError, PointsmanError
from pointsman.learning.datasets import Features, Graded, PromptOutcome, read_graded
from pointsman.printable import Block, Column, TextTable
from pointsman.remembering import grouped

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pointsman.learning.learning import Corpus
    from pointsman.learning.metrics import Interval
    from pointsman.learning.savings import Agreement, RouterSavings, Rule, SourceSavings


#: The file of prices that is read if it lies beside the answers.
_BESIDE: Final = "prices.json"
#: Tokens of instructions that go with a question, where nothing else is said.
INSTRUCTIONS: Final = 250
FLATTERS: Final = (
    "pointsman: the learned router was fitted on these very prompts, or on some of them: its figures flatter"
)
#: Decimals of a printed fraction.
DECIMALS: Final = 4


def spread(interval: Interval, *, sign: bool = False) -> str:
    """A fraction with its interval: ``0.6000 [0.5800, 0.6200]``; "–" if undefined."""
    if math.isnan(interval.value):
        return "–"
    plus = "+" if sign else ""
    value, low, high = (
        f"{each:{plus}z.{DECIMALS}f}" for each in (interval.value, interval.low, interval.high)
    )
    return f"{value} [{low}, {high}]"


#: Sources that get a table each; subjects of an exam are more, and too small to say anything alone.
_SOURCES: Final = 30
#: Rows of a table before the first router that ranks.
_BASELINES: Final = 3


def savings(
    *,
    data: OutcomesOption,
    second: Annotated[
        str,
        typer.Option(help="Second cheap model, where lines hold answers by model: adds rows for agreement."),
    ] = "",
    prices: Annotated[
        Path | None, typer.Option(help="With --second: prices by model, as for eval answers.")
    ] = None,
    instruction_tokens: Annotated[
        int, typer.Option(min=0, help="With --second: tokens of instructions sent with each question.")
    ] = INSTRUCTIONS,
    learned_router: LearnedRouterOption = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", help="Configuration that names the models in [tiers], with their prices."),
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

    The first rows fix the cut: the cheapest with a success within the margin of always strong, with the
    certainty asked for. If none is, the router is "always strong". The other rows are served under that cut.
    A coin serves rows drawn by chance with the weak model; "saved beyond coin" is the cost of the coin with
    the same success minus the cost of the router, over the cost of always strong. Costs are those of the
    lines ("costs", which may hold what prompt caches saved), else those of the prices. Every source ("bench",
    else "task" or "domain") fixes a separate cut; if its rows are of several projects ("task",
    "domain"), router "group" ranks by the gain that the labels of each show. 95 % intervals, duplicate
    prompts drawn as one. With --second the lines hold answers ("eval answers"), each "set" is a source, and
    two rows are added: agreement of --weak and --second, which needs no cut, and agreement with the gate: a
    router fitted on the labels, or length, chooses what both are asked; the strong model serves the rest.
    """
    with needs_extra("fit", "pointsman eval savings"):
        from pointsman.learning.savings import Rule

    if second:
        rows = _stored(data, (weak, second), strong, prices, instruction_tokens)
    else:
        settings = load(config, AnyKey()) if config else None
        named = NamedModels(weak, strong, price_weak, price_strong, ())
        rows = _graded(data, settings, named, answer_tokens, features, learned_router)
    rule = Rule(labels=labels, margin=margin, certainty=certainty)
    found, too_few = _by_source(rows, rule, splits, seed)
    shown = {"rule": rule, "sources": found, "too_few": too_few, "flattered": rows.flattered}
    blocks = _blocks(rule, splits, found)
    print_either(shown, *blocks, *_verdict(found[0], too_few, rule, rows.flattered), as_json=as_json)


def _by_source(
    rows: _Rows, rule: Rule, splits: int | None, seed: int
) -> tuple[list[SourceSavings], dict[str, int]]:
    """Evaluate all rows and each source; the sources with too few rows for a cut, with their counts."""
    from pointsman.learning.savings import LEAST_SERVED, Agreement, evaluate_savings

    found: list[SourceSavings] = []
    too_few: dict[str, int] = {}
    for source, places in _sources(rows.names).items():
        if source and len(places) < rule.labels + LEAST_SERVED:
            too_few[source] = len(places)
            continue
        agreement = Agreement(*(each[places] for each in rows.agreement)) if rows.agreement else None
        found.append(
            evaluate_savings(
                source,
                rows.corpus.take(places),
                rows.costs[places],
                scores={name: each[places] for name, each in rows.scores.items()},
                groups=[rows.groups[place] for place in places],
                agreement=agreement,
                rule=rule,
                splits=splits,
                seed=seed,
            )
        )
    return found, too_few


def _blocks(rule: Rule, splits: int | None, found: Sequence[SourceSavings]) -> Iterator[Block]:
    yield _told(rule, splits)
    for each in found:
        yield f"\n{each.source or 'all rows'}: {each.labels:,} labels, {each.served:,} served"
        yield TextTable(_COLUMNS, [_cells(row) for row in each.rows])
    if len(sources := [each for each in found if each.source]) > 1:
        yield f"\nmean of {len(sources)} sources, worst source in brackets"
        yield TextTable(_MEANS, list(_mean_cells(sources)))
    yield ""


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
        "" if row.router.startswith("always") or row.router == "agreement" else fixed,
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
    """The mean over the sources with the worst, so that no large source hides a small one."""
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


def _verdict(
    whole: SourceSavings, too_few: dict[str, int], rule: Rule, flattered: Sequence[str]
) -> Iterable[str]:
    if too_few:
        names = ", ".join(f"{name} ({count:,})" for name, count in too_few.items())
        yield f"too few rows for a cut of their own: {names}"
    if all(row.fixed == 0 for row in whole.rows[_BASELINES:]):
        yield (
            f"{rule.labels:,} labels fix no cut within {rule.margin:g}: every router is always strong;"
            " more --labels, a larger --margin or a lower --certainty may"
        )
    shown = [row.router for row in whole.rows if row.shown and row.router not in flattered]
    yield (
        f"shown to save more than a coin of equal success: {', '.join(shown)}"
        if shown
        else "no router is shown to save more than a coin of equal success"
    )


class _Rows(NamedTuple):
    """Outcomes with their costs, and the data that single routers need."""

    corpus: Corpus
    costs: NDArray[np.float64]  # money for a call of both models on each row; shape (n, 2)
    names: list[str]  # source of each row
    groups: list[str]
    scores: Mapping[str, NDArray[np.float64]]  # by router
    agreement: Agreement | None = None
    flattered: Sequence[str] = ()  # routers that were fitted on some of the rows


def _graded(
    file: Path,
    settings: Config | None,
    named: NamedModels,
    answer: int,
    features: Features,
    learned_router: Path | None,
) -> _Rows:
    """Outcomes of two models, with the bench or the group of each row."""
    from pointsman.learning.fit import read_with
    from pointsman.learning.learning import Corpus

    models = served_models(settings, 2, named).names if settings else (named.weak, named.strong)
    rows = read_graded(file, models)
    outcomes = [row.outcome for row in rows]
    name_of = attrgetter("bench" if len({row.bench for row in rows}) > 1 else "group")
    scores, flattered = _scores(outcomes, learned_router)
    return _Rows(
        Corpus.of(outcomes, *read_with(features, None)),
        _costs(rows, settings, named, answer),
        list(map(name_of, rows)),
        [row.group for row in rows],
        scores,
        flattered=flattered,
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


def _stored(file: Path, cheap: tuple[str, str], strong: str, prices: Path | None, instructions: int) -> _Rows:
    """Stored answers as outcomes of the first cheap model and the strong one, with the set of each row."""
    import numpy as np

    from pointsman.learning.answers import corpus_of, measured, read_answers, read_prices
    from pointsman.learning.savings import Agreement

    models = (*cheap, strong)
    if len(set(models)) < len(models) or not all(models):
        raise PointsmanError("agreement needs three different models", hint="--weak A --second B --strong C")
    rows = read_answers(read_lines(file), str(file), models)
    table = prices or prices_in_folder(file)
    found = measured(rows, cheap, strong, read_prices(table, file.name, models), instructions=instructions)
    costs = np.stack([found.costs[cheap[0]], found.costs[strong]], axis=1)
    corpus = corpus_of(rows, found, cheap[0], strong)
    agreement = Agreement(found.ruled, found.paid, found.agreed)
    return _Rows(corpus, costs, [row.set for row in rows], [""] * len(rows), {}, agreement)


def prices_in_folder(file: Path) -> Path | None:
    """The file of prices in the folder of a file of answers."""
    beside = file.parent / _BESIDE
    return beside if beside.is_file() else None


def _sources(names: Sequence[str]) -> dict[str, NDArray[np.intp]]:
    """Places of the rows of every source; "" are all of them."""
    import numpy as np

    found = grouped((name, place) for place, name in enumerate(names))
    parts = found if 1 < len(found) <= _SOURCES else {}
    whole = {"": np.arange(len(names))}
    return whole | {name: np.array(parts[name], dtype=np.intp) for name in sorted(parts) if name}


def _scores(
    outcomes: Sequence[PromptOutcome], learned_router: Path | None
) -> tuple[dict[str, NDArray[np.float64]], Sequence[str]]:
    """Score the rows with the learned router of a file; its name if it was fitted on some of them."""
    import numpy as np

    from pointsman.learning.rankers import by_learned_router, was_fitted_on

    if learned_router is None:
        return {}, ()
    scorer = load_scorer(learned_router)
    flattered = [learned_router.name] if was_fitted_on(scorer.learned_router, outcomes) else []
    if flattered:
        echo(FLATTERS, err=True)
    found = [each.score for each in by_learned_router(outcomes, scorer)]
    return {learned_router.name: np.array(found)}, flattered

"""``pointsman eval savings``: what routers save on own outcomes, beyond a coin of equal success."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from pointsman.cli.fit_policy_models import NamedModels, served_models
from pointsman.cli.options import JsonOption, LearnedRouterOption, OutcomesOption, StrongOption, WeakOption
from pointsman.cli.output import echo, needs_extra, print_json, print_table, read_lines
from pointsman.config import AnyKey, Config, load
from pointsman.decision.choosing import ANSWER
from pointsman.encoders.learned_routers import load_scorer
from pointsman.errors import ConfigError, PointsmanError
from pointsman.learning.datasets import Graded, PromptOutcome, read_graded
from pointsman.learning.features import Features
from pointsman.printable import Column

if TYPE_CHECKING:
    from pointsman.learning.answers import AgreementRow
    from pointsman.learning.metrics import Interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pointsman.learning.learning import Corpus
    from pointsman.learning.savings import Agreement, RouterSavings, Rule, SourceSavings

__all__ = ["answers", "savings", "spread"]


# ``pointsman eval answers``: savings by agreement of two cheap models on stored answers.

#: The file of prices that is read if it lies beside the answers.
_BESIDE: Final = "prices.json"
#: Tokens of instructions that go with a question, where nothing else is said.
INSTRUCTIONS: Final = 250
#: Decimals of a printed fraction.
_DECIMALS: Final = 4


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
    table = prices or _beside(file)
    found = evaluate_agreement(
        rows,
        (cheap[0], cheap[1]),
        strong,
        read_prices(table, file.name, models),
        instructions=instruction_tokens,
        seed=seed,
    )
    if as_json:
        print_json(
            {"cheap": cheap, "strong": strong, "rows": len(rows), "sets": [_plain(row) for row in found]}
        )
        return
    echo(f"{cheap[0]} serves where {cheap[1]} agrees, else {strong}; 95 % intervals over questions")
    print_table(_ANSWER_COLUMNS, [_answer_cells(row) for row in found])
    echo("\n".join(_summary(found)))


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
    return f"{value:.{_DECIMALS}f}"


def spread(interval: Interval, *, sign: bool = False) -> str:
    """A fraction with its interval: ``0.6000 [0.5800, 0.6200]``; "–" if undefined."""
    if math.isnan(interval.value):
        return "–"
    plus = "+" if sign else ""
    value, low, high = (
        f"{each:{plus}z.{_DECIMALS}f}" for each in (interval.value, interval.low, interval.high)
    )
    return f"{value} [{low}, {high}]"


def _summary(rows: Sequence[AgreementRow]) -> Iterable[str]:
    """The mean of the sets with the worst, so that no large set hides a small one."""
    if len(rows) < 2:
        return
    gains = {row.set: row.success_minus_strong.value for row in rows}
    costs = {row.set: row.cost.value for row in rows if not math.isnan(row.cost.value)}
    if not costs:
        return
    worst, dearest = min(gains, key=gains.__getitem__), max(costs, key=costs.__getitem__)
    gain, cost = (sum(column.values()) / len(rows) for column in (gains, costs))
    yield (
        f"mean of {len(rows)} sets: rule - strong {gain:+.{_DECIMALS}f} (worst {worst}"
        f" {gains[worst]:+.{_DECIMALS}f}), cost over strong {cost:.{_DECIMALS}f} (worst {dearest}"
        f" {costs[dearest]:.{_DECIMALS}f})"
    )


def _plain(row: AgreementRow) -> Mapping[str, object]:
    """One row for a program: fractions with four decimals."""

    def rounded(value: object) -> object:
        if isinstance(value, float):
            return None if value != value else round(value, _DECIMALS)
        if isinstance(value, dict):
            return {name: rounded(member) for name, member in value.items()}
        if isinstance(value, list | tuple):
            return [rounded(member) for member in value]
        return value

    found = rounded(msgspec.to_builtins(row))
    assert isinstance(found, dict)  # noqa: S101 - a struct becomes an object
    return found


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
        from pointsman.learning.fit import read_with
        from pointsman.learning.learning import Corpus
        from pointsman.learning.savings import LEAST_SERVED, Agreement, Rule, evaluate_savings

    agreement: Agreement | None = None
    scores: dict[str, NDArray[np.float64]] = {}
    if second:
        corpus, costs, agreement, names = _stored(data, (weak, second), strong, prices, instruction_tokens)
        groups = [""] * len(corpus)
    else:
        settings = load(config, AnyKey()) if config else None
        named = NamedModels(weak, strong, price_weak, price_strong, ())
        rows = read_graded(data, served_models(settings, 2, named).names if settings else (weak, strong))
        costs = _costs(rows, settings, named, answer_tokens)
        outcomes = [PromptOutcome(row.prompt, row.scores[0], row.scores[1], row.group) for row in rows]
        corpus = Corpus.of(outcomes, *read_with(features, None))
        scores = _scores(outcomes, learned_router)
        groups = [row.group for row in rows]
        name_of = attrgetter("bench" if len({row.bench for row in rows}) > 1 else "group")
        names = list(map(name_of, rows))
    rule = Rule(labels=labels, margin=margin, certainty=certainty)
    found: list[SourceSavings] = []
    too_few: dict[str, int] = {}
    for source, places in _sources(names).items():
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
                groups=[groups[place] for place in places],
                agreement=Agreement(*(each[places] for each in agreement)) if agreement else None,
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


def _stored(
    file: Path, cheap: tuple[str, str], strong: str, prices: Path | None, instructions: int
) -> tuple[Corpus, NDArray[np.float64], Agreement, list[str]]:
    """Stored answers as outcomes of the first cheap model and the strong one, with the set of each row."""
    import numpy as np

    from pointsman.learning.answers import corpus_of, measured, read_answers, read_prices
    from pointsman.learning.savings import Agreement

    models = (*cheap, strong)
    if len(set(models)) < len(models) or not all(models):
        raise PointsmanError("agreement needs three different models", hint="--weak A --second B --strong C")
    rows = read_answers(read_lines(file), str(file), models)
    table = prices or _beside(file)
    found = measured(rows, cheap, strong, read_prices(table, file.name, models), instructions=instructions)
    costs = np.stack([found.costs[cheap[0]], found.costs[strong]], axis=1)
    corpus = corpus_of(rows, found, cheap[0], strong)
    return corpus, costs, Agreement(found.ruled, found.paid, found.agreed), [row.set for row in rows]


def _beside(file: Path) -> Path | None:
    """The file of prices in the folder of a file of answers."""
    beside = file.parent / _BESIDE
    return beside if beside.is_file() else None


def _sources(names: Sequence[str]) -> dict[str, NDArray[np.intp]]:
    """Places of the rows of every source; "" are all of them."""
    import numpy as np

    found: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        found.setdefault(name, []).append(place)
    parts = found if 1 < len(found) <= _SOURCES else {}
    whole = {"": np.arange(len(names))}
    return whole | {name: np.array(parts[name], dtype=np.intp) for name in sorted(parts) if name}


def _scores(outcomes: Sequence[PromptOutcome], learned_router: Path | None) -> dict[str, NDArray[np.float64]]:
    """Score the rows with the learned router of a file."""
    import numpy as np

    from pointsman.learning.rankers import by_learned_router, was_fitted_on

    if learned_router is None:
        return {}
    scorer = load_scorer(learned_router)
    if was_fitted_on(scorer.learned_router, outcomes):
        echo("pointsman: the learned router was fitted on these very prompts: its figures flatter", err=True)
    found = [each.score for each in by_learned_router(outcomes, scorer)]
    return {learned_router.name: np.array(found)}

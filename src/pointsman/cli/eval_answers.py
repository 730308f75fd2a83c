"""``pointsman eval answers``: what the agreement of two cheap models would have saved on stored answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from pointsman.cli.options import JsonOption
from pointsman.cli.output import echo, needs_extra, print_json, print_table, read_lines
from pointsman.errors import PointsmanError
from pointsman.printable import Column

if TYPE_CHECKING:
    from pointsman.learning.answers import AgreementRow
    from pointsman.learning.metrics import Interval

__all__ = ["answers", "spread"]

#: The file of prices that is read if it lies beside the answers.
_BESIDE: Final = "prices.json"
#: Decimals of a printed fraction.
_DECIMALS: Final = 4


def answers(
    file: Annotated[
        Path, typer.Argument(help="JSON lines, optionally gzipped: set, id, prompt_chars, answers by model.")
    ],
    *,
    cheap: Annotated[
        list[str], typer.Option(help="A cheap model; give two. The first one serves where they agree.")
    ],
    strong: Annotated[str, typer.Option(help="The model that is asked where they do not agree.")],
    prices: Annotated[
        Path | None,
        typer.Option(
            help="JSON: dollars per million tokens by model; default: prices.json of its folder, catalogue."
        ),
    ] = None,
    instruction_tokens: Annotated[
        int, typer.Option(min=0, help="Tokens of instructions that were sent with each question.")
    ] = 250,
    seed: Annotated[int, typer.Option(help="Random seed of the bootstrap.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Evaluate agreement on stored answers: two cheap models are asked, the strong one where they disagree.

    Two answers agree if "answer" or "value" is equal; null never agrees. Costs count both cheap models and,
    where it is asked, the strong one. Every set is reported alone, with 95 % intervals over questions.
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
    beside = file.parent / _BESIDE
    table = prices or (beside if beside.is_file() else None)
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
    print_table(_COLUMNS, [_cells(row) for row in found])
    echo("\n".join(_summary(found)))


_COLUMNS: Final = (
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


def _cells(row: AgreementRow) -> list[str]:
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
    """A fraction with its interval: ``0.6000 [0.5800, 0.6200]``."""
    plus = "+" if sign else ""
    value, low, high = (
        f"{each:{plus}z.{_DECIMALS}f}" for each in (interval.value, interval.low, interval.high)
    )
    return f"{value} [{low}, {high}]"


def _summary(rows: Sequence[AgreementRow]) -> Iterable[str]:
    """The mean of the sets with the worst beside it, so that no large set hides a small one."""
    if len(rows) < 2:
        return
    gains = {row.set: row.success_minus_strong.value for row in rows}
    costs = {row.set: row.cost.value for row in rows}
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

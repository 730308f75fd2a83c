"""The agreement of two cheap models on stored answers: success, cost, and the gain from the strong model.

The rule: ask two cheap models; serve the first one's answer if both agree, else ask the strong model and
serve its answer. A row holds the answers of several models to one question. Costs are list prices times
tokens; four characters count as one token where a row states no tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
from scipy import sparse

from pointsman.agreement.answers import FinalAnswer, same_answer
from pointsman.catalogue import ANY, installed
from pointsman.decoding import UNREADABLE, why_unreadable
from pointsman.errors import ConfigError
from pointsman.learning.datasets import PromptOutcome
from pointsman.learning.intervals import wilson
from pointsman.learning.learning import Corpus
from pointsman.learning.metrics import Floats, Interval, paired_bounds, sums_interval, widened
from pointsman.prices import Price, Prices

__all__ = [
    "AgreementRow",
    "StoredAnswers",
    "corpus_of",
    "evaluate_agreement",
    "measured",
    "read_answers",
    "read_prices",
]

#: Characters of one token, where a row has no tokens.
_CHARACTERS: Final = 4
#: Not the provider of a model of its own: any, and who sells those of others.
_RESELLERS: Final = frozenset({ANY, "openrouter"})

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class _Answer(msgspec.Struct, frozen=True):
    correct: bool
    answer: str | None = None
    value: str | None = None
    chars: Count = 0
    output_tokens: Count | None = None

    @property
    def final(self) -> FinalAnswer:
        return FinalAnswer(answer=self.answer, value=self.value)


class StoredAnswers(msgspec.Struct, frozen=True):
    """One question with the answers of several models."""

    answers: dict[str, _Answer]
    set: str = ""
    id: str | int = ""
    prompt: str = ""
    prompt_chars: Count = 0
    input_tokens: Count | None = None


class AgreementRow(msgspec.Struct, frozen=True):
    """The rule on one set. Success: share of the questions; cost: over that of the strong model alone."""

    set: str
    n: int
    agreed: Interval
    success_if_agreed: Interval  # NaN where the models never agree
    success_cheap: tuple[Interval, Interval]  # of each cheap model alone, in the order given
    success_strong: Interval
    success_rule: Interval
    success_minus_strong: Interval
    cost: Interval


def read_answers(
    lines: Iterable[tuple[int, bytes]], place: str, models: Sequence[str]
) -> list[StoredAnswers]:
    """Read rows that hold the answer of every model named; rows without one of them are left out.

    Raises:
        ConfigError: a line is of another shape, or no row has answers of all models.
    """
    kept, known = [], dict[str, None]()
    for number, line in lines:
        try:
            row = msgspec.json.decode(line, type=StoredAnswers)
        except UNREADABLE as error:
            why = f"not a row of answers: {why_unreadable(error)}"
            raise ConfigError(
                why, place=f"{place}:{number}", hint='{"set", "prompt_chars", "answers"}'
            ) from error
        known.update(dict.fromkeys(row.answers))
        if all(model in row.answers for model in models):
            kept.append(row)
    if kept:
        return kept
    missing = [model for model in models if model not in known]
    if missing:
        wanted = ", ".join(f'"{model}"' for model in missing)
        raise ConfigError(
            f"holds no answer of {wanted}", place=place, hint=f"models: {', '.join(known) or 'none'}"
        )
    raise ConfigError("no row has answers of all three models", place=place)


def read_prices(file: Path | None, answers: str, models: Sequence[str]) -> dict[str, Prices]:
    """Prices of the models: from a file, else from the catalogue.

    Args:
        file: JSON ``{model: {"input": …, "output": …}}`` in dollars per million tokens, perhaps one such
            object for each
            file of answers; None: the catalogue alone.
        answers: name of the file of answers, which chooses among such objects.
        models: whose prices are needed.

    Raises:
        ConfigError: the file is of another shape, or a model has no price.
    """
    table = _table(file, answers) if file else {}
    found = {model: _prices(table.get(model), str(file)) or _from_catalogue(model) for model in models}
    unknown = [model for model, prices in found.items() if prices is None]
    if unknown:
        place = f" in {file} or" if file else ""
        raise ConfigError(
            f"no price is known of {', '.join(unknown)}:{place} the catalogue",
            hint='--prices FILE with {"MODEL": {"input": 0.15, "output": 0.6}}, dollars per million tokens',
        )
    return {model: prices for model, prices in found.items() if prices}


def _table(file: Path, answers: str) -> Mapping[str, Any]:
    try:
        read = msgspec.json.decode(file.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", place=str(file)) from error
    except UNREADABLE as error:
        raise ConfigError(f"not JSON: {why_unreadable(error)}", place=str(file)) from error
    if not isinstance(read, dict):
        raise ConfigError("not an object of prices by model", place=str(file))
    inner = read.get(answers)
    return inner if isinstance(inner, dict) else read


def _prices(row: object, place: str) -> Prices | None:
    if row is None:
        return None
    try:
        pair = msgspec.convert(row, dict[str, Price | None])
    except msgspec.ValidationError as error:
        raise ConfigError(f"a price is not a number of at least 0: {error}", place=place) from error
    prices = Prices(input_per_million=pair.get("input"), output_per_million=pair.get("output"))
    return prices if prices.is_priced else None


def _from_catalogue(model: str) -> Prices | None:
    """The catalogue's prices of a model; None if no provider or several sell a model of this id."""
    for catalogue in installed():
        makers = {entry.provider for entry in catalogue.entries} - _RESELLERS
        matches = [match for maker in makers if (match := catalogue.find(maker, model))]
        priced = [match.entry for match in matches if match.has_its_prices and match.entry.is_priced]
        if priced:
            return priced[0] if len(priced) == 1 else None
    return None


def evaluate_agreement(
    rows: Sequence[StoredAnswers],
    cheap: tuple[str, str],
    strong: str,
    prices: Mapping[str, Prices],
    *,
    instructions: int = 0,
    seed: int = 0,
) -> list[AgreementRow]:
    """Evaluate the rule on every set of the rows, in the order of their first rows.

    Args:
        rows: with answers of all three models.
        cheap: the two models that are asked first; the first one serves where they agree.
        strong: asked where they do not.
        prices: of all three.
        instructions: tokens of instructions that were sent with each question, added to its input.
        seed: of the bootstrap, which draws questions for the cost and the difference of success.
    """
    names = dict.fromkeys(row.set for row in rows)
    return [
        _evaluate(name, [row for row in rows if row.set == name], cheap, strong, prices, instructions, seed)
        for name in names
    ]


class Measured(NamedTuple):
    """The rule on each row. Shapes ``(n,)``."""

    agreed: Floats
    right: Mapping[str, Floats]  # by model
    costs: Mapping[str, Floats]  # dollars, by model
    ruled: Floats  # success of the rule
    paid: Floats  # dollars for all models that it asks


def measured(
    rows: Sequence[StoredAnswers],
    cheap: tuple[str, str],
    strong: str,
    prices: Mapping[str, Prices],
    *,
    instructions: int = 0,
) -> Measured:
    """Apply the rule to each row; arguments as those of ``evaluate_agreement``."""
    models = (*cheap, strong)
    agreed = _column(rows, lambda row: same_answer(*(row.answers[model].final for model in cheap)))
    right = {model: _column(rows, lambda row, model=model: row.answers[model].correct) for model in models}
    costs = {
        model: _column(rows, lambda row, model=model: _cost(row, model, prices[model], instructions))
        for model in models
    }
    ruled = np.where(agreed > 0, right[cheap[0]], right[strong])
    paid = costs[cheap[0]] + costs[cheap[1]] + np.where(agreed > 0, 0.0, costs[strong])
    return Measured(agreed, right, costs, ruled, paid)


def corpus_of(rows: Sequence[StoredAnswers], found: Measured, weak: str, strong: str) -> Corpus:
    """The rows as outcomes of two models, in their order.

    Where a row has no prompt, nothing but the lengths of the prompts is known of any.
    """
    if all(row.prompt for row in rows):
        pairs = zip(rows, found.right[weak], found.right[strong], strict=True)
        return Corpus.of([PromptOutcome(row.prompt, float(left), float(right)) for row, left, right in pairs])
    length, count = np.log([max(row.prompt_chars, 1) for row in rows]), len(rows)
    empty = sparse.csr_matrix((count, 0))
    return Corpus(found.right[weak], found.right[strong], length, length, empty, None, np.arange(count))


def _evaluate(
    name: str,
    rows: Sequence[StoredAnswers],
    cheap: tuple[str, str],
    strong: str,
    prices: Mapping[str, Prices],
    instructions: int,
    seed: int,
) -> AgreementRow:
    agreed, right, costs, ruled, paid = measured(rows, cheap, strong, prices, instructions=instructions)
    less = ruled - right[strong]
    return AgreementRow(
        set=name,
        n=len(rows),
        agreed=_share(agreed),
        success_if_agreed=_share(right[cheap[0]][agreed > 0]),
        success_cheap=(_share(right[cheap[0]]), _share(right[cheap[1]])),
        success_strong=_share(right[strong]),
        success_rule=_share(ruled),
        # Where few of the questions differ, a bootstrap alone is too narrow: where none does, without width.
        success_minus_strong=widened(sums_interval(less, seed=seed), *paired_bounds(less)),
        cost=_cost_over(paid, costs[strong], agreed, seed),
    )


def _cost_over(paid: Floats, strong: Floats, agreed: Floats, seed: int) -> Interval:
    """The cost over that of the strong model alone.

    The bootstrap is too narrow where few questions differ. What varies most is the share of the strong
    model's cost that is spent where the two differ: the interval holds that of its score interval as well.
    """
    found, alone = sums_interval(paid, strong, seed=seed), float(strong.sum())
    if not alone:
        return found
    differing = float(strong[agreed == 0].sum()) / alone
    worth = alone**2 / float((strong**2).sum())  # questions of equal cost that tell as much (Kish 1965)
    low, high = wilson(differing * worth, worth)
    return widened(found, found.value - differing + low, found.value - differing + high)


def _share(hits: Floats) -> Interval:
    """The share of rows that are 1, with its score interval; NaN without rows."""
    if not len(hits):
        return Interval(np.nan, np.nan, np.nan)
    return Interval(float(hits.mean()), *wilson(float(hits.sum()), len(hits)))


def _column(rows: Sequence[StoredAnswers], value: Any) -> Floats:
    return np.array([value(row) for row in rows], dtype=np.float64)


def _cost(row: StoredAnswers, model: str, prices: Prices, instructions: int) -> float:
    answer = row.answers[model]
    tokens = row.prompt_chars / _CHARACTERS if row.input_tokens is None else row.input_tokens
    output = answer.chars / _CHARACTERS if answer.output_tokens is None else answer.output_tokens
    return prices.cost(tokens + instructions, 0, output) or 0.0

"""Outcome data: results of a weak and a strong model on the same prompt. JSON lines, plain or gzipped."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from pointsman.errors import ConfigError, PointsmanError
from pointsman.jsonl import decoded, numbered_lines

__all__ = [
    "LEAST_CHANCE",
    "LEAST_FOR_POLICY",
    "LEAST_FOR_TIERS",
    "Features",
    "Graded",
    "PromptOutcome",
    "read_difficulties",
    "read_graded",
    "read_outcomes",
    "read_served",
]

#: Different prompts that ``fit tiers`` asks for: with fewer, five folds leave too little to learn from, and
#: intervals are wider than any improvement.
LEAST_FOR_TIERS: Final = 40
#: That ``fit policy`` asks for: with fewer the interval is wider than anything a policy could gain.
LEAST_FOR_POLICY: Final = 100


Row = TypeVar("Row")


class _Line(msgspec.Struct, frozen=True):
    prompt: str
    id: str | int | None = None
    difficulty: float | None = None
    weak: float | bool | None = None
    strong: float | bool | None = None
    scores: dict[str, float | bool] | None = None
    chances: dict[str, float] | None = None
    session: str = ""
    costs: dict[str, float] | None = None
    domain: str | None = None
    task: str | None = None
    bench: str = ""


#: Smallest chance of either model with which outcomes are compared: no prompt counts more than ten times.
LEAST_CHANCE: Final = 0.1


@dataclass(frozen=True, slots=True)
class PromptOutcome:
    """One prompt and how well each of the two models did: 0 wrong .. 1 right, NaN where it was not seen."""

    prompt: str
    weak: float
    strong: float
    group: str = ""  # subject, task or domain the prompt comes from, where the data says
    bench: str = ""  # set of tests it comes from, where a file holds several
    drawn: tuple[float, float] = (0.0, 0.0)  # with which chance chose each model; 0: a rule chose
    session: str = ""  # its prompts are resampled as one cluster

    @property
    def is_paired(self) -> bool:
        """Whether both models were seen."""
        return not math.isnan(self.weak + self.strong)

    @property
    def is_drawn(self) -> bool:
        """Whether chance could have chosen either model, with ``LEAST_CHANCE`` or more."""
        return min(self.drawn) > LEAST_CHANCE - 1e-6  # chances are recorded with six digits

    @property
    def gain(self) -> float:
        """Gain from the strong model."""
        return self.strong - self.weak


_decode: Final = msgspec.json.Decoder(_Line).decode


@dataclass(frozen=True, slots=True)
class Graded:
    """One prompt and how well each of several models did, in the order of their names; 0 wrong .. 1 right."""

    prompt: str
    scores: tuple[float, ...]
    group: str = ""
    bench: str = ""
    costs: tuple[float, ...] = ()  # money for its call of each model, where the line says
    session: str = ""  # its prompts are resampled as one cluster

    @property
    def outcome(self) -> PromptOutcome:
        """The outcomes of the cheapest and of the best model."""
        return PromptOutcome(
            self.prompt, self.scores[0], self.scores[-1], self.group, self.bench, session=self.session
        )


def read_outcomes(path: Path, *, weak: str = "", strong: str = "") -> list[PromptOutcome]:
    """Read outcomes; ``weak`` and ``strong`` name the two models where lines hold ``scores`` by model.

    Raises:
        PointsmanError: the file cannot be read or holds no line.
        ConfigError: a line is not of the shape ``{"prompt", "weak", "strong"}`` or ``{"prompt", "scores"}``,
            a model is not among the scores, a score is outside 0..1, or two lines of one ``id`` differ.
    """
    return [row.outcome for row in read_graded(path, (weak, strong))]


def read_served(path: Path, *, weak: str = "", strong: str = "") -> list[PromptOutcome]:
    """Read outcomes of which some are of one model alone, as ``pointsman outcomes export`` writes them.

    Lines without a score of either model are passed over, and the chances of the two are divided by their
    sum: those with which one of the two is seen where all others are left out.

    Raises what ``read_outcomes`` raises, and ``ConfigError`` where a line has a chance outside 0..1.
    """

    def served(place: str, line: _Line) -> tuple[PromptOutcome, tuple[float, ...]] | None:
        scores = line.scores or {}
        if not (weak and strong and line.scores) or (weak in scores and strong in scores):
            row = _graded(place, line, (weak, strong)).outcome
        elif weak in scores or strong in scores:
            row = _one_sided(place, line, weak, strong)
        else:
            return None
        return row, tuple(value for value in (row.weak, row.strong) if value == value)

    return _rows(path, served, of=f' with a score of "{weak}" or "{strong}"')


def _one_sided(place: str, line: _Line, weak: str, strong: str) -> PromptOutcome:
    model = weak if weak in (line.scores or {}) else strong
    (score,) = _graded(place, line, (model,)).scores
    chances = (line.chances or {}).get(weak, 0.0), (line.chances or {}).get(strong, 0.0)
    if not all(0 <= chance <= 1 for chance in chances) or sum(chances) > 1 + 1e-9:
        raise ConfigError(
            f"chances {chances[0]:g} and {chances[1]:g} are no probabilities of one draw", place=place
        )
    whole = sum(chances) or 1.0
    chances = chances[0] / whole, chances[1] / whole
    of_weak, of_strong = (score, math.nan) if model == weak else (math.nan, score)
    group = line.domain or line.task or ""
    return PromptOutcome(line.prompt, of_weak, of_strong, group, line.bench, chances, line.session)


def read_graded(path: Path, models: Sequence[str]) -> list[Graded]:
    """Read how each of the named models did; two may also be called ``weak`` and ``strong``.

    Raises what ``read_outcomes`` raises.
    """

    def graded(place: str, line: _Line) -> tuple[Graded, tuple[float, ...]]:
        row = _graded(place, line, models)
        return row, row.scores

    return _rows(path, graded)


def _rows(
    path: Path, read: Callable[[str, _Line], tuple[Row, tuple[float, ...]] | None], *, of: str = ""
) -> list[Row]:
    """Return the row of each line, with the scores that lines of one id have in common.

    Raises:
        PointsmanError: the file cannot be read or holds no line of this kind.
        ConfigError: two lines of one id have different scores.
    """
    rows: list[Row] = []
    known: dict[str | int, tuple[str, tuple[float, ...]]] = {}
    for place, line in decoded(numbered_lines(path), _decode, path.name):
        found = read(place, line)
        if found is None:
            continue
        row, scores = found
        first, said = (place, scores) if line.id is None else known.setdefault(line.id, (place, scores))
        if said != scores:
            raise ConfigError(
                f'outcomes contradict themselves: id "{line.id}" has another score at {first}',
                place=place,
                hint="keep one line of each id, or give every run its own",
            )
        rows.append(row)
    if not rows:
        raise PointsmanError(f"{path} holds no line{of}")
    return rows


def read_difficulties(path: Path) -> list[tuple[str, float]]:
    """Read prompts with the share of models that failed at each, 0..1, from any file of outcomes.

    Raises:
        PointsmanError: the file cannot be read or holds no line.
        ConfigError: a line has neither ``difficulty``, ``scores`` nor ``weak`` and ``strong``, or a score is
            outside 0..1, or two lines of one id contradict each other.
    """

    def failing(place: str, line: _Line) -> tuple[tuple[str, float], tuple[float, ...]]:
        if line.difficulty is not None:
            failed = line.difficulty
        elif line.scores:
            failed = 1 - sum(map(float, line.scores.values())) / len(line.scores)
        else:
            failed = 1 - sum(_pair(place, line, ("", ""))) / 2
        if not 0 <= failed <= 1:
            raise ConfigError(f"a score is outside 0..1: {failed:g} failed", place=place)
        return (line.prompt, failed), (failed,)

    return _rows(path, failing)


def _graded(place: str, row: _Line, models: Sequence[str]) -> Graded:
    values = tuple(
        map(float, _pair(place, row, models) if row.scores is None else _named(place, row, models))
    )
    if not all(0 <= value <= 1 for value in values):
        wrong = next(value for value in values if not 0 <= value <= 1)
        raise ConfigError(
            f"a score is outside 0..1: {wrong:g}",
            place=place,
            hint="1 is correct; divide percentages by 100",
        )
    costs = _costs(place, row.costs, models) if row.costs else ()
    return Graded(row.prompt, values, row.domain or row.task or "", row.bench, costs, row.session)


def _costs(place: str, found: dict[str, float], models: Sequence[str]) -> tuple[float, ...]:
    names = [name or other for name, other in zip(models, ("weak", "strong"), strict=False)]
    missing = [name for name in names if not found.get(name, -1.0) >= 0]
    if missing:
        wanted = ", ".join(f'"{name}"' for name in missing)
        raise ConfigError(
            f'"costs" has no money of 0 or more for {wanted}',
            place=place,
            hint='"costs": {"weak": 0.002, "strong": 0.03}, or the names of the models',
        )
    return tuple(found[name] for name in names)


def _pair(place: str, row: _Line, models: Sequence[str]) -> tuple[float, float]:
    if row.weak is None or row.strong is None:
        raise ConfigError('a line needs "weak" and "strong", or "scores"', place=place)
    if len(models) != 2:
        raise ConfigError(f'a line needs "scores" of {len(models)} models', place=place)
    return row.weak, row.strong


def _named(place: str, row: _Line, models: Sequence[str]) -> list[float]:
    scores = row.scores or {}
    known = f"models here: {', '.join(scores)}"
    if not all(models):
        raise ConfigError(
            "scores of several models: name two with --weak and --strong", place=place, hint=known
        )
    for name in models:
        if name not in scores:
            raise ConfigError(f'no score of model "{name}"', place=place, hint=known)
    return [scores[name] for name in models]


class Features(StrEnum):
    """Input features of a learned router."""

    AUTO = "auto"  # hashed: on the development data an embedding adds nothing (docs/decisions/0060)
    HASHED = "hashed"
    STATIC = "static"  # hashed, and a static embedding (extra ``static``)
    KINDS = "kinds"  # length and kinds of prompts as the prior, a static embedding for the rest
    SENTENCE = "sentence"  # hashed, and a sentence model (extra ``sentence``)

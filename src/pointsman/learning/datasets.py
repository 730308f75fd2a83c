"""Outcome data: what a weak and a strong model made of the same prompt. JSON lines, plain or gzipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from pointsman.errors import ConfigError, PointsmanError
from pointsman.jsonl import decoded, numbered_lines

__all__ = ["Graded", "PromptOutcome", "read_easy", "read_graded", "read_outcomes", "read_prompts"]


class _Line(msgspec.Struct, frozen=True):
    prompt: str
    weak: float | bool | None = None
    strong: float | bool | None = None
    scores: dict[str, float | bool] | None = None
    domain: str | None = None
    task: str | None = None
    bench: str = ""


@dataclass(frozen=True, slots=True)
class PromptOutcome:
    """One prompt and how well each of the two models did: 0 wrong .. 1 right."""

    prompt: str
    weak: float
    strong: float
    group: str = ""  # subject, task or domain the prompt comes from, where the data says
    bench: str = ""  # set of tests it comes from, where a file holds several

    @property
    def gain(self) -> float:
        """What the strong model adds."""
        return self.strong - self.weak


_decode: Final = msgspec.json.Decoder(_Line).decode


@dataclass(frozen=True, slots=True)
class Graded:
    """One prompt and how well each of several models did, in the order of their names; 0 wrong .. 1 right."""

    prompt: str
    scores: tuple[float, ...]
    group: str = ""
    bench: str = ""


class _Prompt(msgspec.Struct, frozen=True):
    prompt: str
    weak: float | bool | None = None
    expected_tier: str = ""


def read_prompts(path: Path) -> list[str]:
    """Read the prompts of a file, whatever else its lines hold.

    Raises:
        PointsmanError: the file cannot be read or holds no line.
        ConfigError: a line has no prompt.
    """
    return [row.prompt for row in _prompts(path)]


def read_easy(path: Path) -> list[str]:
    """Read the prompts of a file that need no strong model: labelled SIMPLE, or right by the weak model.

    Empty where the lines do not say. Raises what ``read_prompts`` raises.
    """
    return [row.prompt for row in _prompts(path) if row.expected_tier == "SIMPLE" or row.weak == 1]


def _prompts(path: Path) -> list[_Prompt]:
    decode = msgspec.json.Decoder(_Prompt).decode
    found = [row for _, row in decoded(numbered_lines(path), decode, path.name)]
    if not found:
        raise PointsmanError(f"{path} holds no line")
    return found


def read_outcomes(path: Path, *, weak: str = "", strong: str = "") -> list[PromptOutcome]:
    """Read outcomes; ``weak`` and ``strong`` name the two models where lines hold ``scores`` by model.

    Raises:
        PointsmanError: the file cannot be read or holds no line.
        ConfigError: a line is not of the shape ``{"prompt", "weak", "strong"}`` or ``{"prompt", "scores"}``,
            a model is not among the scores, or a score is outside 0..1.
    """
    rows = read_graded(path, (weak, strong))
    return [PromptOutcome(row.prompt, row.scores[0], row.scores[1], row.group, row.bench) for row in rows]


def read_graded(path: Path, models: Sequence[str]) -> list[Graded]:
    """Read how each of the named models did; two may also stand as ``weak`` and ``strong``.

    Raises what ``read_outcomes`` raises.
    """
    lines = decoded(numbered_lines(path), _decode, path.name)
    rows = [_graded(place, line, models) for place, line in lines]
    if not rows:
        raise PointsmanError(f"{path} holds no line")
    return rows


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
    return Graded(row.prompt, values, row.domain or row.task or "", row.bench)


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

"""Outcome data: what a weak and a strong model made of the same prompt. JSON lines, plain or gzipped."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from pointsman.errors import ConfigError, PointsmanError

__all__ = ["Outcome", "json_lines", "read_outcomes"]


class _Line(msgspec.Struct, frozen=True):
    prompt: str
    weak: float | bool | None = None
    strong: float | bool | None = None
    scores: dict[str, float | bool] | None = None
    domain: str | None = None
    task: str | None = None
    bench: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
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


def json_lines(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield ``file:line`` and bytes of every line that is not blank; ``.gz`` is unpacked.

    Raises:
        PointsmanError: the file cannot be read.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield f"{path.name}:{number}", line
    except (OSError, EOFError) as error:
        raise PointsmanError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


def read_outcomes(path: Path, *, weak: str = "", strong: str = "") -> list[Outcome]:
    """Read outcomes; ``weak`` and ``strong`` name the two models where lines hold ``scores`` by model.

    Raises:
        PointsmanError: the file cannot be read or holds no line.
        ConfigError: a line is not of the shape ``{"prompt", "weak", "strong"}`` or ``{"prompt", "scores"}``,
            a model is not among the scores, or a score is outside 0..1.
    """
    rows = [_outcome(place, line, weak, strong) for place, line in json_lines(path)]
    if not rows:
        raise PointsmanError(f"{path} holds no line")
    return rows


def _outcome(place: str, line: bytes, weak: str, strong: str) -> Outcome:
    try:
        row = _decode(line)
    except msgspec.MsgspecError as error:
        raise ConfigError(str(error), place=place) from None
    pair = (row.weak, row.strong) if row.scores is None else _named(place, row.scores, weak, strong)
    if pair[0] is None or pair[1] is None:
        raise ConfigError('a line needs "weak" and "strong", or "scores"', place=place)
    low, high = float(pair[0]), float(pair[1])
    if not (0 <= low <= 1 and 0 <= high <= 1):
        raise ConfigError("a score is outside 0..1", place=place)
    return Outcome(row.prompt, low, high, row.domain or row.task or "", row.bench)


def _named(
    place: str, scores: dict[str, float | bool], weak: str, strong: str
) -> tuple[float | bool, float | bool]:
    known = f"models here: {', '.join(scores)}"
    if not weak or not strong:
        raise ConfigError(
            "scores of several models: name two with --weak and --strong", place=place, hint=known
        )
    for name in (weak, strong):
        if name not in scores:
            raise ConfigError(f'no score of model "{name}"', place=place, hint=known)
    return scores[weak], scores[strong]

"""Outcome files: every shape that is read, and a place and a way out for every one that is not."""

import gzip
from pathlib import Path

import pytest

from pointsman.errors import ConfigError, PointsmanError
from pointsman.learning.datasets import PromptOutcome, read_outcomes

LAW = '{"prompt": "p", "weak": 0.5, "strong": 1, "domain": "law"}'
PAIR = '{"prompt": "p", "weak": false, "strong": true}'
SCORES = '{"prompt": "p", "scores": {"a": 0.25, "b": 1, "c": 0}, "task": "t"}'


def written(folder: Path, *lines: str) -> Path:
    file = folder / "data.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("line", "names", "outcome"),
    [
        (PAIR, ("", ""), PromptOutcome("p", 0.0, 1.0)),
        (
            '{"prompt": "p", "weak": 0.5, "strong": 1, "domain": "law"}',
            ("", ""),
            PromptOutcome("p", 0.5, 1.0, "law"),
        ),
        (SCORES, ("a", "b"), PromptOutcome("p", 0.25, 1.0, "t")),
        (SCORES, ("c", "a"), PromptOutcome("p", 0.0, 0.25, "t")),
    ],
)
def test_a_line(tmp_path: Path, line: str, names: tuple[str, str], outcome: PromptOutcome) -> None:
    assert read_outcomes(written(tmp_path, "", line, " "), weak=names[0], strong=names[1]) == [outcome]


def test_a_gzipped_file_is_unpacked(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl.gz"
    file.write_bytes(gzip.compress(PAIR.encode()))
    assert read_outcomes(file) == [PromptOutcome("p", 0.0, 1.0)]


@pytest.mark.parametrize(
    ("line", "names", "message"),
    [
        ("{", ("", ""), r"data\.jsonl:2: .*truncated"),
        ('{"weak": 1, "strong": 1}', ("", ""), r"data\.jsonl:2: .*`prompt`"),
        ('{"prompt": "p", "weak": 1}', ("", ""), r'data\.jsonl:2: .*"weak" and "strong"'),
        ('{"prompt": "p", "weak": 2, "strong": 1}', ("", ""), r"data\.jsonl:2: .*outside 0\.\.1: 2"),
        ('{"prompt": "p", "weak": "no", "strong": 1}', ("", ""), r"data\.jsonl:2: Expected"),
        (SCORES, ("", ""), r"data\.jsonl:2: .*--weak and --strong"),
        (SCORES, ("a", "d"), r'data\.jsonl:2: no score of model "d"'),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, names: tuple[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_outcomes(written(tmp_path, PAIR, line), weak=names[0], strong=names[1])


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PointsmanError, match=r"cannot read .*none\.jsonl: No such file"):
        read_outcomes(tmp_path / "none.jsonl")


def test_a_file_that_is_not_gzip(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl.gz"
    file.write_text(PAIR)
    with pytest.raises(PointsmanError, match="cannot read"):
        read_outcomes(file)


def test_an_empty_file_is_not_zero_outcomes(tmp_path: Path) -> None:
    with pytest.raises(PointsmanError, match="holds no line"):
        read_outcomes(written(tmp_path, "", ""))

"""Lines of files, plain and gzipped, whole and damaged."""

import gzip
from pathlib import Path

import pytest

from pointsman.errors import PointsmanError
from pointsman.jsonl import numbered_lines

LINES = b"one\n\n  \t\nfour\nfive"
NUMBERED = [(1, b"one\n"), (4, b"four\n"), (5, b"five")]
PACKED = gzip.compress(bytes(range(256)) * 40, mtime=0)  # the same in every worker, as names of tests must be


@pytest.mark.parametrize("name", ["data.jsonl", "data.jsonl.gz", "data.JSONL.gz"])
def test_blank_lines_are_counted_and_passed_over(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(gzip.compress(LINES) if name.endswith(".gz") else LINES)
    assert list(numbered_lines(file)) == NUMBERED


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    file = tmp_path / "windows.jsonl"
    file.write_bytes(b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n")
    assert list(numbered_lines(file)) == [(1, b"one\n"), (2, b"\xef\xbb\xbftwo\n")]


@pytest.mark.parametrize(
    "packed",
    [
        PACKED[:-12],  # cut off while it was copied
        PACKED[:12],
        PACKED[:20] + b"\xff\xff\xff\xff" + PACKED[24:],
        PACKED[:-8] + bytes(8),  # another checksum
        b"no gzip at all",
    ],
)
def test_a_damaged_file_is_told_as_one(tmp_path: Path, packed: bytes) -> None:
    file = tmp_path / "data.jsonl.gz"
    file.write_bytes(packed)
    with pytest.raises(PointsmanError, match=r"cannot read .*data\.jsonl\.gz: \w"):
        list(numbered_lines(file))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PointsmanError, match=r"none\.jsonl: No such file or directory"):
        list(numbered_lines(tmp_path / "none.jsonl"))

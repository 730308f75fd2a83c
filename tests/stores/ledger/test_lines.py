"""A ledger as JSON lines: what a line is, rotation, packing, several processes, a full disk."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from pointsman.agreement import Result
from pointsman.stores.ledger import (
    ComparedAnswers,
    Entry,
    Outcome,
    Owner,
    PassedRequest,
    PolicyText,
    PromptText,
    Retention,
    ShadowAnswer,
    ShadowDecision,
)
from pointsman.stores.ledger import lines as files
from pointsman.stores.ledger._spill import write_all
from pointsman.stores.ledger.lines import JsonLinesLedger, entry_in, line_of, put_aside, row_of
from pointsman.testing import a_decision, a_run_entry, an_attempt
from support.waiting import until

NOW = 1_800_000_000.0
ENTRIES: tuple[Entry, ...] = (
    a_decision("d", at=NOW),
    an_attempt("d"),
    Outcome(decision="d", label="é\n"),
    PromptText(decision="d", text="words\u2028of\nit"),
    ShadowDecision(decision="d", at=NOW, policy="p"),
    ShadowAnswer(decision="d", at=NOW, model="m", upstream="u"),
    ComparedAnswers(decision="d", at=NOW, rule="tools", cheap=("a", "b"), result=Result.AGREED),
    PassedRequest(id="p", at=NOW, upstream="main", method="GET", path="/v1/files"),
    a_run_entry("r"),
    Owner(object="o", caller="ann", at=NOW),
    PolicyText(version="p1", text="[tiers]"),
)


@contextmanager
def opened(path: Path | None, **settings: Any) -> Iterator[JsonLinesLedger]:
    with closing(JsonLinesLedger(path, **{"text": "full", **settings})) as ledger:
        yield ledger


def lines_in(path: Path) -> list[bytes]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    assert data.endswith(b"\n")
    return data.split(b"\n")[:-1]


def written(ledger: JsonLinesLedger) -> bool:
    """Let the writer hurry; tell whether nothing waits."""
    ledger.flush()
    return not (ledger.fault or ledger.waiting)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: type(entry).__name__)
def test_every_entry_is_one_line_and_comes_back(entry: Entry) -> None:
    line = line_of(entry)
    assert b"\n" not in line
    said = json.loads(line)
    assert (said["version"], said["row"]) == (3, row_of(entry))
    assert entry_in(line) == entry


def test_every_kind_of_entry_has_a_row() -> None:
    kinds = {each for found in get_args(Entry) for each in (get_args(found) or (found,))}
    assert {type(entry) for entry in ENTRIES} == kinds
    names = {row_of(entry) for entry in ENTRIES}
    assert names == {"decision", "attempt", "outcome", "text", "shadow", "passed", "run", "owner", "policy"}
    kinds.remove(PolicyText)  # its version stands under another name
    assert not {"version", "row"} & {name for kind in kinds for name in kind.__struct_fields__}


def test_a_line_of_an_earlier_version_is_read() -> None:
    line = line_of(a_decision("d")).replace(b'"version":3', b'"version":2')
    assert entry_in(line).id == "d"  # type: ignore[union-attr]


def test_a_file_begins_anew_at_its_size_and_the_one_before_is_packed(tmp_path: Path) -> None:
    path = tmp_path / "made" / "ledger.jsonl"
    with opened(path, rotate_mb=0.01) as ledger:
        for number in range(60):
            ledger.append(a_decision(f"d{number}", at=NOW))
            if number % 10 == 9:
                ledger.flush()
        until(lambda: written(ledger) and all(each.suffix == ".gz" for each in put_aside(path)))
    aside = put_aside(path)
    assert len(aside) >= 2
    found = [entry_in(line) for each in [*aside, path] for line in lines_in(each)]
    assert [each.id for each in found] == [f"d{number}" for number in range(60)]  # type: ignore[union-attr]
    assert path.stat().st_mode & 0o777 == aside[0].stat().st_mode & 0o777 == 0o600


def test_several_processes_write_one_file(tmp_path: Path) -> None:
    """Each has a file description of its own, as a process has."""
    path = tmp_path / "ledger.jsonl"

    def append(name: int) -> None:
        with opened(path, rotate_mb=0.05, gzip=False) as ledger:
            for number in range(100):
                ledger.append(a_decision(f"{name}-{number}", at=NOW))
                if number % 10 == 0:
                    ledger.flush()

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(append, range(3)))
    found = [entry_in(line) for each in [*put_aside(path), path] for line in lines_in(each)]
    expected = {f"{name}-{number}" for name in range(3) for number in range(100)}
    assert len(found) == len(expected)
    assert {each.id for each in found} == expected  # type: ignore[union-attr]


def test_a_file_that_is_moved_away_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with opened(path) as ledger:
        ledger.append(a_decision("first"))
        ledger.flush()
        path.rename(tmp_path / "by-logrotate")
        ledger.append(a_decision("second"))
        ledger.flush()
        assert [len(lines_in(tmp_path / name)) for name in ("by-logrotate", "ledger.jsonl")] == [1, 1]


def test_what_is_put_aside_goes_by_age_and_size(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    for day, size in ((1, 10), (2, 10), (3, 2_000_000), (4, 10)):
        each = tmp_path / f"ledger-2027010{day}T000000.000000.jsonl.gz"
        each.write_bytes(b"x" * size)
        os.utime(each, (NOW - (5 - day) * 86_400,) * 2)
    keep = files.LineFile(
        path, rotate=1, gzip=True, retention=Retention(keep_days=2.5, max_mb=1), clock=lambda: NOW
    )
    keep.upkeep()
    assert [each.name[:15] for each in put_aside(path)] == ["ledger-20270104"]


def test_a_line_that_was_written_in_part_is_written_again_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.jsonl"
    whole, failures = write_all, iter([True])

    def half(fd: int, data: bytes) -> None:
        if next(failures, False):
            whole(fd, data[: len(data) // 2])
            raise OSError(28, "No space left on device")
        whole(fd, data)

    with opened(path) as ledger:
        monkeypatch.setattr(files, "write_all", half)
        ledger.append(a_decision("d"))
        until(lambda: written(ledger))
        assert [entry_in(line) for line in lines_in(path)] == [a_decision("d")]
        assert ledger.lost == 0


def test_standard_output_gets_whole_lines(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with opened(None) as ledger:
        for number in range(20):
            ledger.append(a_decision(f"d{number}"))
        ledger.append(replace(an_attempt("d1"), upstream="u" * 9_000))  # longer than a pipe takes at once
    said = capfdbinary.readouterr().out
    assert [row_of(entry_in(line)) for line in said.splitlines()] == ["decision"] * 20 + ["attempt"]


def test_text_is_kept_as_the_mode_says(tmp_path: Path) -> None:
    for mode, kept in (("off", None), ("hash", "sha256:"), ("full", "words")):
        path = tmp_path / f"{mode}.jsonl"
        with opened(path, text=mode) as ledger:
            ledger.append(a_decision("d"))
            ledger.append(PromptText(decision="d", text="words"))
            text = ledger.text("d")
        found = [json.loads(line) for line in lines_in(path)]
        texts = [row["text"] for row in found if row["row"] == "text"]
        assert texts == ([] if kept is None else [text])
        assert (text or "").startswith(kept or "")


def test_only_the_newest_decisions_can_be_read(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger.jsonl", recent=3) as ledger:
        for number in range(5):
            ledger.append(a_decision(f"d{number}", at=NOW + number))
        assert [each.id for each in ledger.decisions()] == ["d4", "d3", "d2"]
    assert len(lines_in(tmp_path / "ledger.jsonl")) == 5

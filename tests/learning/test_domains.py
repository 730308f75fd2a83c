"""The four strategies and what is measured of them, on dialogues small enough to count by hand."""

import gzip
import os
from pathlib import Path

import msgspec
import pytest

from pointsman.domains import DomainTracker, parse_domains
from pointsman.evidence import Scanner, SignalTable
from pointsman.learning.domains import STRATEGIES, DomainReport, LabelledTurn, evaluate
from support.oracle import ReMatcher

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("POINTSMAN_SHARED", ROOT.parent / "shared")) / "data" / "domains"

LETTERS = parse_domains(
    'extends = "none"\n'
    + "".join(
        f"[domains.{name}]\nclass = 'task'\npriority = {number}\nsignals = {{x = '{name}'}}\n"
        for number, name in enumerate("abc")
    )
)


def run(*dialogues: str) -> dict[str, DomainReport]:
    """Turns as ``words=domain``; ``!`` marks a switch, ``-`` says nothing."""
    turns = []
    for number, dialogue in enumerate(dialogues):
        for index, item in enumerate(dialogue.split()):
            words, domain = item.rstrip("!").split("=")
            turns.append(
                LabelledTurn(str(number), index, words.replace("+", " "), domain, item.endswith("!"))
            )
    table = SignalTable(LETTERS.signals())
    reports = evaluate(turns, DomainTracker(LETTERS, table), Scanner(table, ReMatcher(table)))
    return {report.strategy: report for report in reports}


def test_there_are_four_strategies_in_order() -> None:
    assert list(run("a=a")) == list(STRATEGIES)
    assert list(STRATEGIES) == ["no memory", "seed momentum as given", "carry-on-null", "default"]


def test_what_is_counted() -> None:
    """No memory: a - b! - - c!; right on the first turn of each subject, silent in between."""
    reports = run("a=a -=a b=b! -=b -=b b=c! c=c")
    assert reports["no memory"] == DomainReport(
        strategy="no memory",
        turns=7,
        accuracy=3 / 7,
        switch_accuracy=1 / 2,
        changes=3 / 4,
        delay=1 / 2,
        missed=0.0,
        coverage=4 / 7,
    )
    assert reports["carry-on-null"] == DomainReport(
        strategy="carry-on-null",
        turns=7,
        accuracy=6 / 7,
        switch_accuracy=1 / 2,
        changes=1 / 4,
        delay=1 / 2,
        missed=0.0,
        coverage=1.0,
    )


def test_a_switch_that_is_never_followed_is_missed_not_delayed() -> None:
    report = run("a=a -=b! -=b c=c!")["carry-on-null"]
    assert report.missed == 1 / 2
    assert report.delay == 0


def test_without_switches_and_stretches_there_is_nothing_to_report() -> None:
    report = run("a=a")["default"]
    assert (report.switch_accuracy, report.changes, report.delay, report.missed) == (None,) * 4


def test_the_seed_as_given_never_differs_from_no_memory() -> None:
    """Every branch of it returns the new primary."""
    reports = run("a+b=a a+b=a a+b=a a+b=a b=a c=a a=a -=a b=b! -=b c=c!")
    without, given = reports["no memory"], reports["seed momentum as given"]
    assert msgspec.structs.replace(given, strategy="no memory") == without


def test_the_default_holds_a_strong_pair_against_a_tie_and_carry_on_null_does_not() -> None:
    reports = run("b=b b=b b=b a+b=b b=b")
    assert reports["carry-on-null"].changes == 2 / 4
    assert reports["default"].changes == 0


def test_dialogues_may_be_interleaved_and_other_speakers_are_skipped() -> None:
    turns = [
        LabelledTurn("1", 0, "a", "a"),
        LabelledTurn("2", 0, "b", "b"),
        LabelledTurn("1", 1, "c", "c", speaker="assistant"),
        LabelledTurn("1", 2, "-", "a"),
        LabelledTurn("2", 1, "-", "b"),
    ]
    table = SignalTable(LETTERS.signals())
    *_, report = evaluate(turns, DomainTracker(LETTERS, table), Scanner(table, ReMatcher(table)))
    assert (report.turns, report.accuracy) == (4, 1.0)


@pytest.mark.data
@pytest.mark.skipif(not DATA.exists(), reason="needs ../shared/data or POINTSMAN_SHARED")
@pytest.mark.parametrize(
    ("name", "file"), [("sgd_multidomain", "sgd.toml"), ("bfcl_multi_turn", "bfcl.toml")]
)
def test_the_default_is_as_quick_as_carry_on_null_and_more_stable(name: str, file: str) -> None:
    path = ROOT / "benchmarks" / "domains" / file
    domains = parse_domains(path.read_text("utf-8"), place=str(path))
    with gzip.open(DATA / f"{name}.jsonl.gz") as lines:
        turns = [msgspec.json.decode(line, type=LabelledTurn) for line in lines]
    table = SignalTable(domains.signals())
    found = evaluate(turns, DomainTracker(domains, table), Scanner(table, ReMatcher(table)))
    reports = {report.strategy: report for report in found}
    default, baseline = reports["default"], reports["carry-on-null"]
    assert default.switch_accuracy is not None
    assert baseline.switch_accuracy is not None
    assert default.changes is not None
    assert baseline.changes is not None
    assert default.switch_accuracy >= baseline.switch_accuracy - 0.005
    assert default.changes < baseline.changes

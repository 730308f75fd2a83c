"""A flood of one kind of line becomes one line with a count."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from pointsman.gateway.log_sampling import LogSampler


class Shown(logging.Handler):
    """Keeps what is written, and calls later when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.due: list[Callable[[], None]] = []
        self.sampler = LogSampler(self, lambda _, call: self.due.append(call))
        self.addFilter(self.sampler)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def pass_time(self) -> None:
        [call] = self.due
        self.due.clear()
        call()


@pytest.fixture
def shown() -> Shown:
    return Shown()


def say(shown: Shown, message: str, *args: object, name: str = "pointsman.gateway", level: int = 20) -> None:
    shown.handle(logging.LogRecord(name, level, __file__, 1, message, args, None))


def test_a_flood_becomes_one_line(shown: Shown) -> None:
    for number in range(1_000):
        say(shown, "refused %d", number)
    assert shown.lines == [f"refused {number}" for number in range(10)]
    shown.pass_time()
    assert shown.lines[10:] == ["990 more lines like this within 10 s: refused 999"]


def test_few_lines_are_all_written(shown: Shown) -> None:
    for window in range(3):
        for number in range(10):
            say(shown, "refused %d", number)
        shown.pass_time()
        assert len(shown.lines) == 10 * (window + 1)


def test_kinds_are_counted_apart(shown: Shown) -> None:
    for _ in range(20):
        say(shown, "one")
    say(shown, "two")
    say(shown, "one", level=30)
    say(shown, "one", name="pointsman.stores")
    assert shown.lines[10:] == ["two", "one", "one"]


def test_the_decisions_that_were_asked_for_are_all_written(shown: Shown) -> None:
    for number in range(100):
        say(shown, "%s", number, name="pointsman.decisions")
    assert len(shown.lines) == 100


def test_what_is_kept_of_kinds_has_a_bound(shown: Shown) -> None:
    for number in range(1_000):
        say(shown, f"kind {number}")
    assert len(shown.lines) == 1_000
    assert len(shown.sampler._seen) == 256


def test_a_count_repeats_a_long_line_in_part(shown: Shown) -> None:
    for _ in range(11):
        say(shown, "%s", "x" * 10_000)
    shown.pass_time()
    assert len(shown.lines[-1]) < 300

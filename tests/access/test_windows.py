"""Windows of the calendar, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.access._limits import Every, Limit, money_text, window


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("every", "moment", "start", "end"),
    [
        ("minute", "2026-01-14T12:00:59.999", "2026-01-14T12:00:00", "2026-01-14T12:01:00"),
        ("hour", "2026-01-14T12:00:00", "2026-01-14T12:00:00", "2026-01-14T13:00:00"),
        ("day", "2026-01-14T23:59:59", "2026-01-14", "2026-01-15"),
        ("week", "2026-01-14T12:00:00", "2026-01-12", "2026-01-19"),
        ("week", "2026-01-12T00:00:00", "2026-01-12", "2026-01-19"),
        ("week", "2026-01-11T23:59:59", "2026-01-05", "2026-01-12"),
        ("month", "2026-12-31T23:59:59", "2026-12-01", "2027-01-01"),
        ("month", "2028-02-29T00:00:00", "2028-02-01", "2028-03-01"),
        ("week", "1970-01-01T00:00:00", "1969-12-29", "1970-01-05"),
    ],
)
def test_windows(every: Every, moment: str, start: str, end: str) -> None:
    assert window(every, at(moment)) == (at(start), at(end))


@given(st.sampled_from(["minute", "hour", "day", "week", "month"]), st.floats(0, 4e9))
def test_windows_follow_each_other(every: Every, moment: float) -> None:
    found = window(every, moment)
    assert found.start <= moment < found.end
    assert window(every, found.end).start == found.end
    assert window(every, found.start) == found


def test_a_limit_has_one_counter_for_each_window() -> None:
    limit = Limit("money", "team", "ml", 10, "day")
    noon, night = at("2026-01-14T12:00:00"), at("2026-01-15T00:00:00")
    counters = [limit.counter(moment) for moment in (noon, night - 1, night, noon)]
    assert counters[0] == counters[1] == counters[3] != counters[2]
    assert counters[0] == f"money/team/ml/day/{int(night) - 86_400}"
    # Kept for as long again as the window: a clock that is set back finds it.
    assert limit.claim(1, noon).seconds == 43_200 + 86_400


@pytest.mark.parametrize(
    ("units", "text"),
    [(0, "0.00"), (1, "0.00"), (50_000_000, "0.05"), (1_200_000_000, "1.20"), (123_000, "0.000123")],
)
def test_money_is_readable(units: int, text: str) -> None:
    assert money_text(units) == text

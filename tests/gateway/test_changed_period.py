"""A reload that changes the window of a budget is announced: the new window's counter begins at 0."""

import logging
from contextlib import closing
from pathlib import Path

import pytest

from pointsman.config import load
from pointsman.gateway.build import Builder

FILE = """
[upstreams.main]
base_url = "http://127.0.0.1:1/v1"
[models]
small = {{ upstream = "main", id = "small-1", input_per_million = 1, output_per_million = 1 }}
[tiers]
simple = "small"
[ledger]
path = "ledger.sqlite"
[access]
path = "access.sqlite"
[keys.alice]
sha256 = "{digest}"
budget = {{ money = {money}, per = "{per}" }}
"""


def test_a_changed_period_is_logged_and_a_changed_amount_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "pointsman.toml"

    def write(money: int, per: str) -> None:
        file.write_text(FILE.format(digest="ab" * 32, money=money, per=per))

    caplog.set_level(logging.WARNING, "pointsman.gateway.build")
    write(5, "day")
    with closing(Builder(lambda: load(file, {}))) as builder:
        state = builder()
        write(9, "day")
        state = builder(state)
        assert not [each for each in caplog.messages if "budget" in each]
        write(9, "week")
        builder(state)
    told = [each for each in caplog.messages if "budget" in each]
    assert told == ['the budget of key "alice" is now per week and begins with nothing spent']

"""``serve --workers N``: what is refused, what is told, and what the supervisor is given."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pointsman.cli._listening import LogFormat
from pointsman.cli._served import Totals
from pointsman.cli._workers import WorkerOptions, serve_with_workers
from pointsman.config import Config, load
from pointsman.errors import ConfigError
from pointsman.gateway.build import Builder
from pointsman.gateway.workers import Supervisor
from pointsman.stores.workers import Worker

DEMO = WorkerOptions(None, "127.0.0.1", 0, "warning", LogFormat.TEXT, requests=True)
CONFIG = """
[upstreams.up]
base_url = "demo:"
[models]
one = { upstream = "up", id = "one" }
[tiers]
simple = "one"
"""


def test_the_sums_of_all_are_printed_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given: list[Any] = []

    def serve(self: Any, serving: Callable[[], None]) -> None:
        assert capsys.readouterr().out == "", "nothing is announced before it is served"
        serving()
        given.append(self)
        for _ in range(2):
            totals = Totals()
            totals.requests, totals.input = 3, 10
            self._ended(totals)

    monkeypatch.setattr(Supervisor, "serve", serve)
    serve_with_workers(2, DEMO.read(), DEMO, traffic=False)
    said = capsys.readouterr().out
    assert "Pointsman listens on http://127.0.0.1:" in said
    assert "Requests: 6" in said
    assert "Tokens: 20 in" in said
    [supervisor] = given
    assert len(supervisor._sockets) == 2
    assert supervisor._options.port != 0
    assert not supervisor._first.folder.exists(), "what the run kept goes with it"


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ('[ledger]\njsonl = "rows.jsonl"', "JSON lines"),
        (
            f'[keys.one]\nsha256 = "{"0" * 64}"\nrequests_per_minute = 5\n[access]\nstore = "memory"',
            "limits of keys",
        ),
    ],
    ids=["ledger", "limits"],
)
def test_what_one_process_alone_keeps_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, named: str
) -> None:
    monkeypatch.setattr(Supervisor, "serve", lambda _: None)
    file = tmp_path / "pointsman.toml"
    file.write_text(CONFIG + more)
    config: Config = load(file, {})
    with pytest.raises(ConfigError, match=named):
        serve_with_workers(2, config, DEMO._replace(file=file), traffic=False)


def test_a_reload_adds_no_limit_that_each_process_would_count_alone(tmp_path: Path) -> None:
    file, alone = (
        tmp_path / "pointsman.toml",
        '[ledger]\npath = "ledger.sqlite"\n[access]\nstore = "memory"\n',
    )
    file.write_text(CONFIG + alone)
    with closing(Builder(lambda: load(file, {}), file, Worker(1, 2, tmp_path))) as builder:
        state = builder()
        file.write_text(f'{CONFIG}{alone}[keys.one]\nsha256 = "{"0" * 64}"\nrequests_per_minute = 5\n')
        with pytest.raises(ConfigError, match="limits of keys"):
            builder(state)
    with (
        closing(Builder(lambda: load(file, {}), file, Worker(2, 2, tmp_path))) as successor,
        pytest.raises(ConfigError, match="limits of keys"),
    ):
        successor()

"""What a terminal shows more than a pipe gets, and the commands around it: completion, and ``open``."""

import io
import re
import socket
import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pointsman.cli import app, terminal
from pointsman.cli.decisions import list_decisions
from pointsman.cli.output import echo, print_table
from pointsman.cli.terminal import progress
from pointsman.errors import PointsmanError
from pointsman.printable import Column, plain_rows
from pointsman.stores.ledger import SqliteLedger
from pointsman.testing.ledger import a_decision

COLUMNS = (Column("id", whole=True), Column("tier"), Column("tokens", right=True))
ROWS = [("d-1", "SIMPLE", "12"), ("d-\x1b[31m2", "REASONING", "1,234")]


class Screen(io.StringIO):
    """A terminal, in memory."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@contextmanager
def terminal_of(columns: int = 80, **environment: str) -> Iterator[Screen]:
    """Both streams of a program on one terminal."""
    told = {"TERM": "xterm-256color", "COLUMNS": str(columns), "NO_COLOR": "", **environment}
    screen = Screen()
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(screen), redirect_stderr(screen):
        for name, value in told.items():
            patched.setenv(name, value)
        yield screen


def test_a_pipe_gets_plain_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, ROWS)
    assert capsys.readouterr().out.splitlines() == [
        "id        tier       tokens",
        "d-1       SIMPLE         12",
        "d-\ufffd[31m2  REASONING   1,234",
    ]


def test_nothing_has_no_heading() -> None:
    assert list(plain_rows(COLUMNS, [])) == []


def test_a_terminal_gets_colours_and_none_but_ours() -> None:
    with terminal_of() as screen:
        print_table(COLUMNS, ROWS)
    shown = screen.getvalue()
    assert "\x1b[1m" in shown  # the headings
    assert "\x1b[32mSIMPLE" in shown
    assert "d-\ufffd[31m2" in shown


def test_no_color_is_honoured() -> None:
    with terminal_of(NO_COLOR="1") as screen:
        print_table(COLUMNS, ROWS)
    assert "\x1b[3" not in screen.getvalue()
    assert "SIMPLE" in screen.getvalue()


def test_an_id_is_whole_on_a_narrow_terminal() -> None:
    with terminal_of(40) as screen:
        print_table((Column("id", whole=True), Column("words")), [("d-" + 20 * "0", 90 * "w")])
    assert "d-" + 20 * "0" in screen.getvalue()
    assert "…" in screen.getvalue()


def test_what_takes_long_is_shown_and_gone_before_something_is_printed() -> None:
    with terminal_of() as screen, progress("fitting", 3, delay=0.0) as shown:
        assert shown is not None
        until = time.monotonic() + 60
        while "fitting" not in screen.getvalue():
            shown.advance()
            assert time.monotonic() < until
            threading.Event().wait(0.001)
        echo("done")
        ended = screen.getvalue()
        assert ended.rstrip().endswith("done")
        shown.advance()
    assert "fitting" not in screen.getvalue()[len(ended) :]


def test_what_is_quick_shows_nothing() -> None:
    with terminal_of() as screen, progress("fitting") as shown:
        assert shown is not None
    assert screen.getvalue() == ""


@pytest.mark.parametrize("name", ["fit", "eval"])
def test_groups_that_take_long_show_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    labels: list[str] = []
    monkeypatch.setattr(terminal._Progress, "__init__", lambda _, label, *__: labels.append(label))
    monkeypatch.setattr(terminal._Progress, "end", lambda _: None)
    monkeypatch.setattr(terminal, "is_terminal", lambda _=None: True)
    monkeypatch.setenv("TERM", "xterm")
    CliRunner().invoke(app, [name, "tiers", "--help"])
    assert [label.split()[-1] for label in labels] == [name]


def test_a_pipe_shows_no_progress() -> None:
    with progress("fitting", delay=0.0) as shown:
        assert shown is None


@pytest.mark.parametrize(
    ("words", "expected"),
    [("pointsman dec", {"decisions"}), ("pointsman decisions ", {"list", "show", "export"}),
     ("pointsman serve --dem", {"--demo"})],
)  # fmt: skip
def test_a_shell_completes_commands(words: str, expected: set[str]) -> None:
    told = {
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        "_POINTSMAN_COMPLETE": "complete_bash",
    }
    shown = CliRunner().invoke(app, [], env=told, prog_name="pointsman").stdout
    assert set(shown.split()) == expected


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What a browser was told to open."""
    opened: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("POINTSMAN_CONFIG", raising=False)

    def open_it(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", open_it)
    return opened


@pytest.mark.parametrize(
    ("arguments", "page"),
    [([], "/console"), (["d-1"], "/console/decisions/d-1"), (["../x"], "/console/decisions/..%2Fx")],
)
def test_open_opens_a_page(pages: list[str], arguments: list[str], page: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        Path("pointsman.toml").write_text(f"[server]\nport = {port}\n")
        shown = CliRunner().invoke(app, ["open", *arguments])
    assert pages == [f"http://127.0.0.1:{port}{page}"]
    assert shown.stdout == f"{pages[0]}\n"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://127.0.0.1:1", "no gateway listens at http://127.0.0.1:1: Connection refused"),
        ("http://user:canary@127.0.0.1:1", "no gateway listens at http://127.0.0.1:1: Connection refused"),
        ("127.0.0.1:4747", '"…" is no address of a gateway'),
        ("http://127.0.0.1:port", '"http://127.0.0.1:…" is no address of a gateway'),
    ],
)
def test_open_says_that_nobody_listens(pages: list[str], url: str, message: str) -> None:
    error = CliRunner().invoke(app, ["open", "--url", url]).exception
    assert isinstance(error, PointsmanError)
    assert error.message == message
    assert "--url" in error.hint
    assert pages == []


def test_open_needs_a_port_that_is_known(pages: list[str]) -> None:
    Path("pointsman.toml").write_text("[server]\nport = 0\n")
    error = CliRunner().invoke(app, ["open"]).exception
    assert isinstance(error, PointsmanError)
    assert "--url" in error.hint
    assert pages == []


def test_lists_on_a_terminal_are_tables(tmp_path: Path) -> None:
    store = SqliteLedger(tmp_path / "ledger.sqlite")
    store.append(a_decision("d-1"))
    store.close()
    with terminal_of(100) as screen:
        path = str(tmp_path / "ledger.sqlite")
        list_decisions(ledger=path, limit=20, session="", demo=False, as_json=False)
    assert re.search(r"\x1b\[1mdecision", screen.getvalue())
    assert re.search(r"d-1 +auto", screen.getvalue())


def test_reports_are_tables_on_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    config = tmp_path / "pointsman.toml"
    config.write_text('[upstreams.demo]\nbase_url = "demo:"\n[models.small]\nupstream = "demo"\nid = "s"\n')
    ledger = SqliteLedger(path)
    ledger.append(a_decision("d-1"))
    ledger.close()
    with terminal_of() as screen:
        app(["report", "roles", "--ledger", str(path), "--config", str(config)], standalone_mode=False)
    assert re.search(r"\x1b\[1m[^\n]*requests", screen.getvalue()), screen.getvalue()


@pytest.mark.parametrize("width", range(20, 60, 4))
def test_a_figure_is_never_cut(width: int) -> None:
    columns = (
        Column("answer"),
        Column("difference", right=True),
        Column("missing", right=True),
        Column("tiers"),
    )
    with terminal_of(width, NO_COLOR="1") as screen:
        print_table(columns, [("not known yet", "-0.08", "3,765", "REASONING (60)")])
    assert all(figure in screen.getvalue() for figure in ("-0.08", "3,765", "REASONING"))
    assert "…" not in screen.getvalue()

"""What a first-time reader of an audit meets: its sentence, its numbers, its commands, its page."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pointsman.audit import SessionFigures
from pointsman.audit.figures import Part, Spent, Split
from pointsman.audit.money import Money
from pointsman.audit.report import changes
from pointsman.audit.savings import (
    HOUSEKEEPING_CHANGE,
    MOVES_CHANGE,
    STUCK_CHANGE,
    TOOLS_CHANGE,
    Comparison,
    Sure,
)
from pointsman.audit.verdict import Stake, Verdict
from pointsman.cli import app
from support.agent_logs import ClaudeSession

#: A number other than 1 stands before a plural, 1 before a singular.
WRONG_NUMBER = re.compile(r"(?<![\d.,])1 (?:session|request|turn|edit|log|day)s\b")


def audit(home: Path, *more: str) -> str:
    ran = CliRunner().invoke(app, ["audit", "--home", str(home), *more])
    assert ran.exit_code == 0, ran.output + repr(ran.exception)
    return ran.stdout


def one_session(home: Path, errors: int = 0) -> ClaudeSession:
    """A session that ends well, or after so many calls that fail alike."""
    session = ClaudeSession(home)
    session.says("Mend the tests of the basket.")
    for number in range(errors):
        session.calls(f"m{number}", "Bash", "Exit code 1\nno such file", error=True, command="make test")
    session.answers("last", stop="end_turn")
    return session


def test_one_is_no_plural(tmp_path: Path) -> None:
    one_session(tmp_path)
    shown = audit(tmp_path, "--html", str(tmp_path / "a.html"))
    assert "1 request " in shown
    assert not WRONG_NUMBER.findall(shown)
    assert not WRONG_NUMBER.findall((tmp_path / "a.html").read_text())


def test_what_is_not_there_has_no_heading(tmp_path: Path) -> None:
    one_session(tmp_path)
    shown = audit(tmp_path)
    assert "No session ended stuck." in shown
    assert "By outcomes: nothing, for no project has proven outcomes of two models." in shown
    assert "A label says whether a session was solved" not in shown


def test_a_label_is_explained_where_labels_are_asked_for(tmp_path: Path) -> None:
    for number, model in enumerate(("claude-sonnet-4-5", "claude-haiku-4-5")):
        session = ClaudeSession(tmp_path, f"s{number}")
        session.says("Mend it.")
        session.answers(f"m{number}", model=model, stop="end_turn")
    assert "A label says whether a session was solved; pointsman audit --labels FILE reads them" in audit(
        tmp_path
    )


@pytest.mark.parametrize("calls", [8, 600])
def test_the_lane_shows_where_the_first_sign_was(tmp_path: Path, calls: int) -> None:
    """Also in a session that is too long to be drawn whole."""
    session = ClaudeSession(tmp_path)
    session.says("Mend the tests of the basket.")
    for number in range(calls):
        session.calls(f"w{number}", "Read", f"line {number}", file=f"{number}.py")
    for number in range(5):
        session.calls(f"m{number}", "Bash", "Exit code 1\nno such file", error=True, command="make test")
    assert json.loads(audit(tmp_path, "--json", "--html", str(tmp_path / "a.html")))["sessions"][0]["stuck"]
    page = (tmp_path / "a.html").read_text()
    (sign,) = re.findall(r'class="s" d="M(\d+) ', page)
    (failed,) = re.findall(r'class="x" d="M(\d+) ', page)  # where the first failed call is drawn
    assert int(failed) < int(sign) < int(failed) + 80
    assert (">…</text>" in page) is (calls > 400)


def test_a_lane_without_a_sign_has_none(tmp_path: Path) -> None:
    one_session(tmp_path)
    audit(tmp_path, "--html", str(tmp_path / "a.html"))
    assert 'class="s"' not in (tmp_path / "a.html").read_text()


def parse(command: str) -> None:
    """Read the words of a command of ours as the program would, without running it."""
    found: Any = typer.main.get_command(app)
    words = shlex.split(command)
    assert words.pop(0) == "pointsman"
    context = found.make_context("pointsman", words, resilient_parsing=False)
    while hasattr(context.command, "commands"):
        words = [*context._protected_args, *context.args]
        name, inner, rest = context.command.resolve_command(context, words)
        context = inner.make_context(name, rest, parent=context)


def commands(line: str) -> list[str]:
    """The commands of a line of a shell."""
    return [part.strip() for step in line.split("&&") for part in step.split(">")[:1]]


def of(client: str, **fields: Any) -> SessionFigures:
    split = Split("2026-11-20", "m", "p", "message")
    spent = Spent(requests=3, input_tokens=10_000, output_tokens=10)
    return SessionFigures(id="s", client=client, parts=(Part(split, spent),), **fields)


def found(*, sure: tuple[Sure, ...] = (), compared: tuple[Any, ...] = (), stakes: Any = ()) -> Verdict:
    return Verdict(Money(), 1, sure, compared, stakes, 1, Money())


CLAIMED = Comparison("dear", "cheap", (9, 9), 2, 0.2, (0.1, 0.3), (5.0, 9.0), "saves", "")
STAKE = Stake("dear", "cheap", 4.0, 10, (), 10, {}, {})
VERDICTS = {
    **{
        f"stuck, {client}": (found(sure=(Sure(STUCK_CHANGE, 1.0, 3, "why"),)), of(client, stuck=True))
        for client in ("claude-code", "codex", "opencode", "aider", "litellm")
    },
    **{
        f"tools, {client}": (
            found(sure=(Sure(TOOLS_CHANGE, 1.0, 3, "why"),)),
            of(client, unused_tools={"Web'Search": 400, "rm -rf; $(x)": 4}),
        )
        for client in ("claude-code", "codex")
    },
    "housekeeping": (found(sure=(Sure(HOUSEKEEPING_CHANGE, 1.0, 3, "why"),)), of("codex")),
    "moves": (found(sure=(Sure(MOVES_CHANGE, 1.0, 3, "why"),)), of("codex")),
    "outcomes": (found(compared=(CLAIMED,)), of("codex")),
    "unknown": (found(stakes=(STAKE,)), of("codex")),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_every_command_runs_as_it_is_printed(name: str) -> None:
    verdict, session = VERDICTS[name]
    (change,) = changes(verdict, [session])
    ours = [each for each in commands(change.command) if each.startswith("pointsman ")]
    for each in ours:
        parse(each)
    others = [shlex.split(each) for each in commands(change.command) if each not in ours]
    assert all(words[0] in {"mkdir", "claude"} for words in others)
    assert all(len(words) == 3 for words in others)  # what logs name is one word of the shell


def test_one_cheaper_model_is_one_change() -> None:
    """Asked in the background it shows what it makes of the work of both others."""
    stakes = (STAKE, STAKE._replace(dear="dearer", dollars=2.0), STAKE._replace(cheap="other", dollars=1.0))
    both, other = changes(found(stakes=stakes), [of("codex")])
    assert "would do the work of dear and dearer" in both.what
    assert both.worth == "unknown, $6.00 at stake"
    [named] = changes(found(stakes=(STAKE._replace(cheap="gpt-5"),)), [of("codex")])
    assert named.what.endswith("ask it in the background, which needs OPENAI_API_KEY")
    assert other.command.endswith("--shadow other && pointsman serve")


def test_days_without_a_request_have_a_place_too(tmp_path: Path) -> None:
    for name, day in (("s1", "2026-11-01"), ("s2", "2026-11-04")):
        session = ClaudeSession(tmp_path, name, day=day)
        session.says("Mend it.")
        session.answers(name, stop="end_turn")
    audit(tmp_path, "--html", str(tmp_path / "a.html"))
    page = (tmp_path / "a.html").read_text()
    assert 'aria-label="Money by day, 4 days"' in page
    assert re.findall(r'class="bar" x="([\d.]+)"', page) == ["1.0", "121.0"]
    assert "<span>2026-11-01</span><span>2026-11-04</span>" in page


def test_only_a_quarter_has_bars(tmp_path: Path) -> None:
    for name, day in (("s1", "2026-01-01"), ("s2", "2026-11-04")):
        session = ClaudeSession(tmp_path, name, day=day)
        session.says("Mend it.")
        session.answers(name, stop="end_turn")
    audit(tmp_path, "--html", str(tmp_path / "a.html"))
    page = (tmp_path / "a.html").read_text()
    assert 'aria-label="Money by day, 92 days"' in page
    assert "216 days before are left out." in page
    assert page.count('class="bar"') == 1


def test_a_command_that_does_not_parse_is_found() -> None:
    with pytest.raises(Exception, match="No such option"):
        parse("pointsman config init --frm-audit")
    with pytest.raises(Exception, match="No such command"):
        parse("pointsman hook aider install")

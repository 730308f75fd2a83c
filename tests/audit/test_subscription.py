"""What a subscription paid is worth an amount, and is never money: in all three parts, and in the changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pointsman.audit import Request, Session, ToolUse, Usage, figures
from pointsman.audit.money import Pricing
from pointsman.audit.report import changes
from pointsman.audit.savings import Run, compare
from pointsman.audit.verdict import amount, amounts, verdict
from pointsman.cli import app
from support.agent_logs import ClaudeSession, CodexSession

DEAR, CHEAP = "claude-opus-4-8", "claude-haiku-4-5"
USED = {"input_tokens": 20_000, "output_tokens": 500}
WORTH = " worth of a subscription"


def audit(home: Path, *more: str) -> str:
    ran = CliRunner().invoke(app, ["audit", "--home", str(home), *more])
    assert ran.exit_code == 0, ran.output + repr(ran.exception)
    return ran.stdout


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A session of Claude Code that ends stuck, one on another model, and one request of Codex."""
    stuck = ClaudeSession(tmp_path, "stuck")
    stuck.says("Mend the tests of the basket.")
    for number in range(12):
        use = {"type": "tool_use", "id": f"c{number}", "name": "Bash", "input": {"command": "make test"}}
        stuck.answers(f"m{number}", use, usage=USED, model=DEAR)
        stuck.result(f"c{number}", "Exit code 1\nno such file", error=True)
    other = ClaudeSession(tmp_path, "other")
    other.says("Hello")
    other.answers("o1", usage=USED, model=CHEAP, stop="end_turn")
    codex = CodexSession(tmp_path)
    codex.says("Hello")
    codex.count()
    return tmp_path


def sentence(home: Path, *more: str) -> dict[str, str]:
    """Parts of the report's sentence by their beginning."""
    whole = audit(home, *more).splitlines()[0]
    parts = whole.replace(". ", ".\n").splitlines()
    return {part.partition(":")[0]: part for part in parts} | {"first": parts[0], "last": parts[-1]}


def test_nothing_is_saved_where_a_subscription_paid(home: Path) -> None:
    paid, named = sentence(home), sentence(home, "--subscription", "claude-code")
    for part in ("Sure to save", "Unknown", "last"):
        assert WORTH not in paid[part]
        assert WORTH in named[part]
    assert paid["Sure to save"] == "Sure to save: $1.02."
    assert named["Sure to save"] == f"Sure to save: $1.02{WORTH}."
    assert named["first"].startswith(f"less than $0.01 and $1.38{WORTH}")  # Codex was paid


def test_changes_and_tables_say_what_a_subscription_is_worth(home: Path) -> None:
    shown = audit(home, "--subscription", "claude-code", "--html", str(home / "a.html"))
    lines = shown[shown.index("Sure to save:\n") :].splitlines()
    own = [each for each in lines if "$" in each and DEAR in each and "Tiers" not in each]
    assert len(own) >= 2  # the table of what is unknown, and a change
    for line in (*own, *(each for each in lines if each.startswith("stop when stuck"))):
        assert WORTH in line
    assert f"Sure to save: $1.02{WORTH}" in (home / "a.html").read_text()


def test_the_parts_of_the_json_have_their_worth(home: Path) -> None:
    def worth(*more: str) -> list[tuple[float, float]]:
        found: dict[str, Any] = json.loads(audit(home, "--json", *more))
        stakes = [found["verdict"]["unknown"], *(each["stakes"] for each in found["policies"])]
        parts = [each for own in stakes for each in own if each["dear"] == DEAR]
        assert len(parts) == 2
        return [(each["dollars"], each["worth"]) for each in (*found["verdict"]["sure"], *parts)]

    assert all(own == 0 for _, own in worth())
    named = worth("--subscription", "claude-code")
    assert all(own == pytest.approx(all_) for all_, own in named)


def test_a_hint_is_not_sold_as_sure(home: Path) -> None:
    shown = audit(home)
    assert "a hint when an agent is stuck" in shown
    (line,) = [each for each in shown.splitlines() if "a hint when an agent is stuck" in each]
    assert "(at most $" in line
    assert 'escalate = ["stop"] there also ends a run' in line, "what is sure is what a stop would have saved"
    assert "sure" not in line


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_the_hook_of_an_agent_is_named_with_what_ends_a_run(client: str) -> None:
    usage = Usage(input_tokens=20_000, output_tokens=500, output_at_most=500)
    requests = tuple(
        Request(
            id=f"r{at}",
            at=1_795_000_000.0 + at,
            model=DEAR,
            provider="anthropic",
            usage=usage,
            calls=(ToolUse(f"c{at}", "Bash", '{"command": "make"}', "no such file", is_error=True),),
        )
        for at in range(12)
    )
    found = [figures(Session(id="s", client=client, project="/p", requests=requests))]
    (hint,) = (each for each in changes(verdict(found, Pricing()), found) if "hint" in each.what)
    assert hint.command == f"pointsman hook {client} install"
    assert 'escalate = ["stop"] there also ends a run' in hint.what


@pytest.mark.parametrize(
    ("total", "worth", "said"),
    [
        (0.06, 0.0, "$0.06"),
        (0.06, 0.06, f"$0.06{WORTH}"),
        (0.5, 0.2, f"$0.30 and $0.20{WORTH}"),
        (0.0, 0.0, "$0.00"),
        (0.1 + 0.2, 0.3, f"$0.30{WORTH}"),  # a rest of rounding is no money
    ],
)
def test_an_amount(total: float, worth: float, said: str) -> None:
    assert amount(total, worth) == said


def test_what_outcomes_show_is_worth_as_much_as_the_dear_runs_were() -> None:
    def runs(worth: float) -> list[Run]:
        return [
            Run(f"p{at % 5}", model, at % 10 < solved, cost + at / 1e4, (cost + at / 1e4) * worth)
            for model, solved, cost in ((DEAR, 3, 1.0), (CHEAP, 9, 0.1))
            for at in range(400)
        ]

    said = {share: amounts([compare(runs(share), DEAR, CHEAP)]) for share in (0.0, 0.5, 1.0)}
    assert WORTH not in said[0.0]
    assert said[1.0] == f"{said[0.0]}{WORTH}"
    assert said[0.5].count("$") == 4
    assert said[0.5].endswith(WORTH)


def test_both_halves_of_a_stake_are_exact() -> None:
    """Of two clients with one model, a subscription pays one: each saves what its own tokens would."""
    usage = Usage(input_tokens=10_000, output_tokens=100, output_at_most=100)
    logs = [
        figures(
            Session(
                id=f"{client}-{model}",
                client=client,
                project="/p",
                requests=(Request(id="r", model=model, provider="anthropic", usage=usage),),
            )
        )
        for client, model in (("codex", DEAR), ("claude-code", DEAR), ("codex", CHEAP))
    ]
    (both,) = verdict(logs, Pricing(subscriptions=frozenset({"claude-code"}))).stakes
    assert both.worth == pytest.approx(both.dollars / 2)

"""``pointsman report agreement``: what was saved, who was right, and what another table would do."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pointsman.agreement import AgreementPolicy, Compared, Result
from pointsman.cli import app
from pointsman.reports.shadow import agreement_report
from pointsman.stores.ledger import Attempt, ComparedAnswers, MemoryLedger, SqliteLedger
from pointsman.testing import a_decision
from pointsman.vocabulary import ModelSpec

MODELS = {
    name: ModelSpec(name, "main", name, input_per_million=price, output_per_million=price)
    for name, price in (("a", 1.0), ("b", 1.0), ("s", 10.0))
}
POLICY = AgreementPolicy(cheap=("a", "b"), strong="s", share=0.0)
CONFIG = """
[upstreams.main]
base_url = "https://llm.example.com/v1"
[models]
a = { upstream = "main", id = "a", input_per_million = 1, output_per_million = 1 }
b = { upstream = "main", id = "b", input_per_million = 1, output_per_million = 1 }
s = { upstream = "main", id = "s", input_per_million = 10, output_per_million = 10 }
[agreement.tools]
cheap = ["a", "b"]
strong = "s"
"""


def written(ledger: MemoryLedger | SqliteLedger) -> None:
    """One session: agreed, differed, control, differed, skipped; each answer has a million tokens."""
    found = [
        (Result.AGREED, Compared.CALLS, (None, None)),
        (Result.DIFFERENT, Compared.CALLS, (False, True)),
        (Result.CONTROL, Compared.ANSWER, (True, True)),
        (Result.DIFFERENT, Compared.ANSWER, (False, False)),
        (Result.SKIPPED, Compared.NOTHING, (None, None)),
    ]
    for number, (result, compared, same) in enumerate(found):
        name, by_strong = f"d{number}", result is not Result.AGREED
        ledger.append(a_decision(name, at=1_800_000_000.0 + number, session="one"))
        asked = ["s"] if result is Result.SKIPPED else ["a", "b", "s"] if by_strong else ["a", "b"]
        served = "s" if by_strong else "a"
        for place, model in enumerate(asked, 1):
            ledger.append(
                Attempt(
                    decision=name,
                    number=place,
                    model=model,
                    upstream="main",
                    status=200,
                    error="" if model == served else "compared",
                    started_at=1_800_000_000.0 + number,
                    total_ms=5.0,
                    input_tokens=600_000,
                    output_tokens=400_000,
                )
            )
        ledger.append(
            ComparedAnswers(
                decision=name,
                at=1_800_000_000.0 + number,
                rule="tools",
                cheap=("a", "b"),
                strong="s" if by_strong and result is not Result.SKIPPED else "",
                result=result,
                compared=compared,
                strong_same=same,
                drawn=result is Result.CONTROL,
                elapsed_ms=10.0,
            )
        )


def test_the_figures_are_those_counted_by_hand() -> None:
    ledger = MemoryLedger()
    written(ledger)
    report = agreement_report(ledger.records(), MODELS, {"tools": POLICY})
    [rule] = report.rules.values()
    assert (rule.asked, rule.agreed, rule.by_cheap) == (4, 2, 1)
    assert dict(rule.kinds) == {"calls": 1, "answer": 1}
    assert (rule.controls, rule.confirmed) == (1, 1)
    assert dict(rule.sided) == {"second": 1, "neither": 1}
    assert rule.paid == pytest.approx(2 + 3 * 12)
    assert rule.alone == pytest.approx(40)
    assert rule.skipped == pytest.approx(10)
    # Without a control group the third would be served by a cheap model; the fifth is over the limit.
    assert dict(rule.would) == {"cheap": 2, "strong": 3}
    more = POLICY.__class__(cheap=("a", "b"), disagreements=9, share=0.0)
    [other] = agreement_report(ledger.records(), MODELS, {"tools": more}).rules.values()
    assert dict(other.would) == {"cheap": 2, "strong": 2, "unknown": 1}
    [unknown] = agreement_report(ledger.records(), {}, {}).rules.values()
    assert (unknown.priced, dict(unknown.would)) == (0, {})
    assert any("unknown" in line for line in unknown.lines())
    assert "configure [agreement.NAME]" in "".join(agreement_report([], MODELS, {}).blocks())


@pytest.mark.parametrize(
    ("error", "status", "priced"), [("status", 429, 5), ("connect", 0, 5), ("cut", 200, 4)]
)
def test_a_model_that_failed_for_free_leaves_its_request_in_the_sum(
    error: str, status: int, priced: int
) -> None:
    """Requests of which one model failed save nothing: without them the rest saves more."""
    ledger = MemoryLedger()
    written(ledger)
    ledger.append(a_decision("d9", at=1_800_000_009.0, session="two"))
    tries = [("a", 200, "compared", 600_000), ("b", status, error, None), ("s", 200, "", 600_000)]
    for number, (model, answered, why, tokens) in enumerate(tries, 1):
        ledger.append(
            Attempt(
                decision="d9",
                number=number,
                model=model,
                upstream="main",
                status=answered,
                error=why,
                started_at=1_800_000_009.0,
                total_ms=5.0,
                input_tokens=tokens,
                output_tokens=tokens and 400_000,
            )
        )
    ledger.append(
        ComparedAnswers(
            decision="d9", at=1.0, rule="tools", cheap=("a", "b"), strong="s", result=Result.FAILED
        )
    )
    [rule] = agreement_report(ledger.records(), MODELS, {"tools": POLICY}).rules.values()
    assert rule.priced == priced
    assert rule.saved == pytest.approx(2 - (1 if priced == 5 else 0))


def test_the_command(tmp_path: Path) -> None:
    config, file = tmp_path / "pointsman.toml", tmp_path / "ledger.sqlite"
    config.write_text(CONFIG, encoding="utf-8")
    command = ["report", "agreement", "--config", str(config), "--ledger", str(file)]
    ledger = SqliteLedger(file)
    written(ledger)
    ledger.close()
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0, told.output
    text = " ".join(told.output.split())
    assert "agreement (tools): 4 requests asked of two models" in text
    assert "agreed: 50.0% (agreed 1, control 1, different 2, skipped 1)" in text
    assert "saved $2.00 (5%)" in text
    # Nothing is said of what they would have saved: the session was one in which the two differ.
    assert "skipped requests, of which the two were not asked, cost $10.00 by today's table" in text
    shown = " ".join(
        CliRunner().invoke(app, ["decisions", "show", "d1", "--ledger", str(file)]).output.split()
    )
    assert "agreement (tools): a and b: different: ; s served" in shown
    [rule] = json.loads(CliRunner().invoke(app, [*command, "--json"]).output)["rules"]
    assert rule["cost"]["saved"] == pytest.approx(2)
    assert rule["results"]["late"] == 0

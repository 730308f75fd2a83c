"""``pointsman report shadow``: every figure by hand."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from pointsman.cli import app
from pointsman.decision.decision import Decision, RequestInput
from pointsman.decision.diff import Verdict
from pointsman.reports.savings import SavingsCalculator
from pointsman.reports.shadow import shadow_report
from pointsman.stores.ledger import Attempt, Outcome, Record, ShadowAnswer, ShadowDecision, SqliteLedger
from pointsman.stores.ledger.reading import totals_of
from pointsman.stores.ledger.turns import rows_of
from pointsman.tiers import TierDecision
from pointsman.vocabulary import ModelSpec, Stage, Tier, WireFormat
from pointsman.wire.format import CompletionSummary
from support.report_lines import plain_lines

MODELS = {
    "small": ModelSpec(
        "small", "up", "small", input_per_million=1.0, output_per_million=2.0, cached_input_per_million=0.1
    ),
    "large": ModelSpec(
        "large", "up", "large", input_per_million=10.0, output_per_million=20.0, cached_input_per_million=1.0
    ),
}
M = 1_000_000
STOP = CompletionSummary("stop")


def a_turn(number: int, tier: Tier, model: str, *shadows: Any, cached: int = 0) -> Record:
    decision = Decision(
        id=f"d{number}",
        input=RequestInput(
            session="s",
            format=WireFormat.CHAT,
            model_asked="auto",
            arrived_at=float(number),
        ),
        policy="live",
        tier=TierDecision(tier, 0.0, 0.9, (), Stage.RULES, needs_verification=False, reasons=()),
        chain=(model,),
    )
    attempt = Attempt(
        decision=decision.id,
        number=1,
        model=model,
        upstream="up",
        status=200,
        started_at=0.0,
        total_ms=400.0,
        input_tokens=M,
        cached_tokens=cached,
        output_tokens=M,
    )
    return Record(decision, (attempt,), (), None, shadows)


def policy(number: int, tier: Tier, model: str, *changed: str, **given: Any) -> ShadowDecision:
    said = Verdict(tier=tier, model=model)
    return ShadowDecision(
        decision=f"d{number}", at=0.0, policy="other", verdict=said, changed=changed, **given
    )


def answer(
    number: int, said: CompletionSummary = STOP, beside: CompletionSummary | None = STOP, **given: Any
) -> ShadowAnswer:
    spent = {"status": 200, "total_ms": 100.0, "input_tokens": M, "output_tokens": M // 2}
    return ShadowAnswer(
        decision=f"d{number}",
        at=0.0,
        model="small",
        upstream="up",
        said=said,
        beside=beside,
        **{**spent, **given},
    )


RECORDS = [
    a_turn(1, Tier.COMPLEX, "large", policy(1, Tier.SIMPLE, "small", "tier", "model"), answer(1)),
    a_turn(
        2,
        Tier.COMPLEX,
        "large",
        policy(2, Tier.COMPLEX, "large"),
        answer(
            2,
            CompletionSummary("tool_calls", ("edit",)),
            CompletionSummary("tool_calls", ("edit",)),
            total_ms=300.0,
        ),
        cached=M // 2,
    ),
    a_turn(3, Tier.SIMPLE, "small", policy(3, Tier.MEDIUM, "small", "tier")),
    a_turn(
        4,
        Tier.COMPLEX,
        "large",
        ShadowDecision(decision="d4", at=0.0, policy="other", error="UnknownModel"),
        answer(4, STOP, CompletionSummary("stop", ("edit",)), total_ms=200.0),
        answer(4, status=0, error="timeout", input_tokens=None, output_tokens=None),
    ),
    a_turn(5, Tier.SIMPLE, "small"),
]


def test_how_the_policy_differs_and_what_it_would_cost() -> None:
    found = shadow_report(RECORDS, MODELS)
    summary = found.policies["other"].to_json()
    assert (found.turns, summary["turns"], summary["replayed"]) == (5, 4, 3)
    assert summary["refused"] == {"UnknownModel": 1}
    assert summary["changed"] == {"any": 2, "tier": 2, "model": 1}
    assert (summary["up"], summary["down"]) == (1, 1)
    said = (
        "Not known yet: the one request that changes lacks labels of both models; “small” beside “large” "
        "needs about 960 more pairs (0 of the 30 that the first look takes). "
        '[shadow] model = "small" asks it beside “large”.'
    )
    assert summary["models"] == [{"then": "large", "now": "small", "turns": 1, "quality": said}]
    # Then: 10 + 20, 5 + .5 + 20, 1 + 2. Now: 1 + 2 on small; then the change to large loses the cache; 1 + 2.
    assert summary["cost"] == {"turns": 3, "lacking_data": 0, "then": 58.5, "now": 36.0}
    assert summary["cache"] == {"lost": 1}


def test_requests_of_one_session_count_among_those_with_labels_of_both_models() -> None:
    records = []
    for number in (1, 2):
        moved = policy(number, Tier.SIMPLE, "small", "tier", "model")
        scores = tuple(Outcome(decision=f"d{number}", score=1.0, model=model) for model in ("", "small"))
        records.append(msgspec.structs.replace(a_turn(number, Tier.COMPLEX, "large", moved), outcomes=scores))
    said = (
        "Not known yet: 2 of the 2 requests that change have labels of both models; “small” beside “large” "
        "needs about 959 more pairs (1 of the 30 that the first look takes)."
    )
    summary = shadow_report(records, MODELS).policies["other"]
    assert summary.to_json()["models"] == [{"then": "large", "now": "small", "turns": 2, "quality": said}]


def test_without_prices_no_model_is_called_the_cheaper_one() -> None:
    free = {**MODELS, "small": ModelSpec("small", "up", "small")}
    summary = shadow_report(RECORDS, free).policies["other"]
    said = "Not known: without the prices of both, nothing says which model is the cheaper one."
    assert summary.to_json()["models"] == [{"then": "large", "now": "small", "turns": 1, "quality": said}]
    assert f"    good enough? {said}" in list(summary.differences())


def test_how_the_model_does() -> None:
    trial = shadow_report(RECORDS, MODELS).models["small"].to_json()
    assert trial["asked"] == 4
    assert trial["failed"] == {"timeout": 1}
    assert trial["finishes"] == {"stop": 2, "tool_calls": 1}
    assert trial["tools"] == {"compared": 3, "same": 2}
    assert trial["median_ms"] == (200.0, 400.0)
    assert trial["median_output_tokens"] == (M // 2, M)
    assert trial["cost"] == {"answers": 3, "this": 6.0, "beside": 85.5, "spent": 6.0}


def test_what_it_costs_is_taken_from_what_was_saved() -> None:
    alone = [Record(r.decision, r.attempts, (), None) for r in RECORDS]
    without, with_it = (
        SavingsCalculator(MODELS, "large").total(totals_of(rows_of(alone))),
        SavingsCalculator(MODELS, "large").total(totals_of(rows_of(RECORDS))),
    )
    assert (with_it.trials, with_it.shadow) == (4, 6.0)
    assert with_it.net == without.net - 6.0
    assert any("4 answers" in line and "-$6.00" in line for line in plain_lines(with_it.blocks()))


def test_a_model_without_a_price_has_spent_an_unknown_amount() -> None:
    free = {name: ModelSpec(name, "up", name) for name in MODELS}
    trial = shadow_report([a_turn(1, Tier.SIMPLE, "large", answer(1))], free).models["small"]
    assert trial.to_json()["cost"] == {"answers": 0, "this": None, "beside": None, "spent": None}
    assert list(trial.lines(1))[-1] == "  spent on it: unknown; 1 answers of a model without a price"


def test_without_usage_or_prices_the_rest_is_told() -> None:
    unknown = answer(1, input_tokens=None, output_tokens=None)
    trial = shadow_report([a_turn(1, Tier.SIMPLE, "large", unknown)], {}).models["small"]
    assert trial.to_json()["cost"] == {"answers": 0, "this": None, "beside": None, "spent": 0.0}
    assert list(trial.lines(1)) == [
        'model "small" was asked too: 1 of 1 requests; nobody got its answers',
        "  ended with stop 1",
        "  the same tools called as in the caller's answer: 1 (100.0%)",
        "  median time 100 ms, the caller's answers 400 ms",
        "  spent on it: $0",
    ]


CONFIG = """
[upstreams.up]
base_url = "https://llm.example.com/v1"
api_key = "${A_KEY_THAT_IS_NOT_SET}"
[models.small]
upstream = "up"
id = "small"
input_per_million = 1.0
output_per_million = 2.0
cached_input_per_million = 0.1
[models.large]
upstream = "up"
id = "large"
input_per_million = 10.0
output_per_million = 20.0
cached_input_per_million = 1.0
[tiers]
simple = "small"
[ledger]
path = "ledger.sqlite"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "pointsman.toml"
    file.write_text(CONFIG, encoding="utf-8")
    return file


def report(config: Path, records: list[Record], *arguments: str) -> str:
    ledger = SqliteLedger(config.parent / "ledger.sqlite")
    for record in records:
        for entry in (record.decision, *record.attempts, *record.shadows):
            ledger.append(entry)
    ledger.close()
    result = CliRunner().invoke(app, ["report", "shadow", "--config", str(config), *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_command(config: Path) -> None:
    output = report(config, RECORDS)
    for part in (
        "policy other decided 3 of 5 requests beside the one that serves\n",
        "  could not decide 1: UnknownModel\n",
        "changed: 2 (66.7%)\n",
        "tiers: up 1 (33.3%), down 1 (33.3%)\n",
        "cost of answers: $58.50 then, $36.00 now (-38.5%)\n",
        'model "small" was asked too: 4 of 5 requests; nobody got its answers\n',
        "  the others: before it was configured, outside of the share, or skipped (busy, rate, money, unfit",
        "\n  failed: timeout 1\n",
        "  cost $6.00 where the caller's answers cost $85.50 (3 answers)\n",
    ):
        assert part in output
    data = json.loads(report(config, [], "--json"))
    assert data == json.loads(json.dumps(shadow_report(RECORDS, MODELS).to_json()))


def test_where_nothing_was_tried_it_says_so(config: Path) -> None:
    output = report(config, [a_turn(1, Tier.SIMPLE, "small")])
    assert "no shadow ran for these 1 requests" in output
    assert "or skipped (busy, rate, money, unfit …): pointsman_shadow_answers_total" in output

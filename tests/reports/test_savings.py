"""Net savings: every part by hand, and what lacks data is left out and counted."""

from collections import Counter
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from pointsman.cli import app
from pointsman.decision.decision import Decision, Injection, RequestInput
from pointsman.errors import PointsmanError
from pointsman.factory import default_policy
from pointsman.model_calls import question_price
from pointsman.prices import dollars
from pointsman.reports.savings import Savings, SavingsCalculator
from pointsman.reports.usage import USAGE_ASKED
from pointsman.stores.ledger import (
    Attempt,
    Outcome,
    Owner,
    Record,
    Retention,
    ShadowAnswer,
    SqliteLedger,
    Totals,
)
from pointsman.stores.ledger.port import COMPARED
from pointsman.stores.ledger.reading import tokens_of, totals_of
from pointsman.stores.ledger.turns import rows_of
from pointsman.testing import a_decision
from pointsman.testing.ledger_summaries import an_answer
from pointsman.tiers import TierDecision, Verification
from pointsman.vocabulary import DAY, ModelSpec, Reason, Stage, Tier, WireFormat
from support.report_lines import plain_lines

MODELS = {
    "small": ModelSpec(
        "small", "up", "small", input_per_million=1.0, output_per_million=2.0, cached_input_per_million=0.1
    ),
    "large": ModelSpec(
        "large", "up", "large", input_per_million=10.0, output_per_million=20.0, cached_input_per_million=1.0
    ),
    "local": ModelSpec("local", "up", "local"),
    "free": ModelSpec("free", "up", "free", input_per_million=0.0, output_per_million=0.0),
}
M = 1_000_000


def a_try(model: str, tokens: tuple[int, int | None, int] | None, *, status: int = 200) -> dict[str, Any]:
    used = (
        dict(zip(("input_tokens", "cached_tokens", "output_tokens"), tokens, strict=True)) if tokens else {}
    )
    return {"model": model, "status": status, **used}


def turns(*tries: list[dict[str, Any]], message: int | None = None, **given: Any) -> list[Record]:
    return [
        Record(
            Decision(
                id=f"d{n}",
                input=RequestInput(
                    session="s",
                    format=WireFormat.CHAT,
                    model_asked="auto",
                    arrived_at=float(n),
                    user_message=n if message is None else message,
                ),
                policy="p",
                chain=("small",),
                **{"tier": None, **given},
            ),
            tuple(
                Attempt(decision=f"d{n}", number=k, upstream="up", started_at=0.0, total_ms=1.0, **each)
                for k, each in enumerate(attempts, start=1)
            ),
            (),
            None,
        )
        for n, attempts in enumerate(tries)
    ]


def totals(*tries: list[dict[str, Any]]) -> Totals:
    return totals_of(rows_of(turns(*tries)))


def total(records: list[Record], question: float | None = 0.0) -> Savings:
    return SavingsCalculator(MODELS, "large", question=question, verifier="local").total(
        totals_of(rows_of(records))
    )


def test_a_cheaper_answer_saves_the_difference() -> None:
    found = total(turns([a_try("small", (M, None, M))]))
    assert (found.at_baseline, found.answers) == (30.0, 3.0)
    assert found.net == 27.0
    assert found.share == pytest.approx(0.9)


def test_cached_input_has_its_own_price() -> None:
    found = total(turns([a_try("small", (M, M, 0))]))
    assert (found.at_baseline, found.answers) == (1.0, 0.1)


def test_a_switch_costs_the_cache_that_the_baseline_would_have_had() -> None:
    found = total(turns([a_try("large", (M, 0, 0))], [a_try("small", (2 * M, 0, 0))]))
    assert found.switches == 1
    assert found.baseline_cache == pytest.approx(9.0)
    assert found.net == pytest.approx(30.0 - 9.0 - 12.0)


@pytest.mark.parametrize(
    ("first", "second", "saved"),
    [
        (a_try("small", (M, 0, 0)), a_try("small", (2 * M, 0, 0)), 9.0),  # its own cache expired sooner
        (a_try("small", (M, None, 0)), a_try("small", (2 * M, None, 0)), 9.0),  # or nothing is said of one
        (a_try("small", (M, 0, 0)), a_try("small", (2 * M, M, 0)), 0.0),  # it read as much
        (a_try("small", (M, 0, 0)), a_try("small", (2 * M, 3 * M // 2, 0)), 0.0),  # it read more
        (a_try("small", (2 * M, 0, 0)), a_try("small", (M, 0, 0)), 9.0),  # no more than is sent
        (a_try("large", (M, None, 0)), a_try("small", (2 * M, None, 0)), 9.0),
        (a_try("large", (M, None, 0)), a_try("large", (2 * M, None, 0)), 0.0),  # the baseline itself: known
        (a_try("small", None), a_try("small", (2 * M, 0, 0)), 18.0),  # anything may have been sent before
        (a_try("small", None, status=500), a_try("large", (2 * M, 0, 0)), 18.0),
    ],
)
def test_the_baseline_is_given_the_most_that_its_cache_could_hold(
    first: dict[str, Any], second: dict[str, Any], saved: float
) -> None:
    found = total(turns([first], [second]))
    assert found.baseline_cache == pytest.approx(saved)
    assert found.assumed == (saved > 0)
    assert ("assumed: in 1 turns" in "\n".join(plain_lines(found.blocks()))) == (saved > 0)


def test_the_baseline_that_answers_after_nothing_was_tried_is_taken_as_it_reports() -> None:
    found = total(turns([], [a_try("large", (2 * M, 0, 0))]))
    assert (found.baseline_cache, found.assumed, found.switches, found.net) == (0.0, 0, 0, 0.0)


def test_a_session_on_an_upstream_without_a_cache_does_not_save_what_the_baseline_would_have_cached() -> None:
    """Twenty turns that send their history again: the baseline pays for it once."""
    history = [10_000 + 2_000 * n for n in range(20)]
    found = total(turns(*([a_try("small", (size, None, 0))] for size in history)))
    fresh = history[0] + 2_000 * 19
    baseline = (fresh * 10.0 + (sum(history) - fresh) * 1.0) / M
    assert found.at_baseline - found.baseline_cache == pytest.approx(baseline)
    assert found.net == pytest.approx(baseline - sum(history) / M)


@pytest.mark.parametrize(("kept", "saved"), [(None, 9.0), (300.0, 9.0), (60.0, 0.0)])
def test_a_cache_that_has_expired_anyway_is_not_lost_to_a_switch(kept: float | None, saved: float) -> None:
    """The two turns are 300 seconds apart."""
    models = {**MODELS, "large": msgspec.structs.replace(MODELS["large"], cache_seconds=kept)}
    first, second = turns([a_try("large", (M, 0, 0))], [a_try("small", (2 * M, 0, 0))])
    asked = msgspec.structs.replace(second.decision.input, arrived_at=300.0)
    second = msgspec.structs.replace(second, decision=msgspec.structs.replace(second.decision, input=asked))
    found = SavingsCalculator(models, "large").total(totals_of(rows_of((first, second))))
    assert found.baseline_cache == pytest.approx(saved)


@pytest.mark.parametrize("middle", [[], [a_try("small", None)], [a_try("large", (M, M, 0), status=500)]])
def test_a_turn_without_usage_keeps_the_cache_of_the_baseline_alive(middle: list[dict[str, Any]]) -> None:
    """Its lifetime is counted from the last request, not from the last one with usage: here 2 seconds."""
    models = {**MODELS, "large": msgspec.structs.replace(MODELS["large"], cache_seconds=1.0)}
    records = turns([a_try("large", (M, 0, 0))], middle, [a_try("small", (M, 0, 0))])
    assert SavingsCalculator(models, "large").total(
        totals_of(rows_of(records))
    ).baseline_cache == pytest.approx(9.0)


def test_a_baseline_without_a_price_of_cached_input_is_named() -> None:
    found = SavingsCalculator(MODELS, "free").total(totals([a_try("small", (M, 0, 0))]))
    assert found.to_json()["baseline_caches"] is False
    assert 'unknown: "free" has no cached_input_per_million' in "\n".join(plain_lines(found.blocks()))
    later = totals([a_try("small", (M, None, 0))], [a_try("small", (2 * M, None, 0))])
    found = SavingsCalculator(MODELS, "free").total(later)
    assert (found.at_baseline, found.baseline_cache) == (0.0, 0.0)
    assert found.assumed == 1  # in JSON; but no cache counts, so that nothing is taken to be in one
    assert "assumed:" not in "\n".join(plain_lines(found.blocks()))
    assert "unknown" not in "\n".join(plain_lines(total([]).blocks()))


#: Both models with prices of writing to a cache, as of Anthropic: a quarter over input.
WRITING = {
    **MODELS,
    **{
        name: msgspec.structs.replace(
            MODELS[name], cache_write_per_million=1.25 * (MODELS[name].input_per_million or 0.0)
        )
        for name in ("small", "large")
    },
}


def wrote(attempt: dict[str, Any], written: int, written_1h: int = 0) -> dict[str, Any]:
    return {**attempt, "written_tokens": written, "written_1h_tokens": written_1h}


def test_what_was_written_to_a_cache_is_paid_for() -> None:
    tried = [
        wrote(a_try("small", (M, 0, 0), status=500), M),
        wrote(a_try("small", (2 * M, M, 0)), M, M // 2),  # half of it for an hour, at twice the input
    ]
    found = SavingsCalculator(WRITING, "large").total(totals(tried))
    assert found.retries == pytest.approx(1.25)
    assert found.answers == pytest.approx(0.1 + 0.5 * 1.25 + 0.5 * 2.0)
    assert found.at_baseline == pytest.approx(10 * found.answers)  # it would have written the same
    assert SavingsCalculator(MODELS, "large").total(totals(tried)).answers == pytest.approx(1.1)


def test_a_baseline_does_not_write_what_its_own_cache_has() -> None:
    """After a change of model all of the context is written: the baseline would have read it."""
    first, second = a_try("large", (M, 0, 0)), wrote(a_try("small", (2 * M, 0, 0)), 2 * M)
    found = SavingsCalculator(WRITING, "large").total(totals([wrote(first, M)], [second]))
    assert found.answers == pytest.approx(12.5 + 2.5)
    assert found.expected == pytest.approx(12.5 + 12.5 + 1.0)  # the second: half written, half read
    second = a_try("small", (2 * M, 0, 0))
    plain = SavingsCalculator(WRITING, "large").total(totals([wrote(first, M)], [second]))
    assert plain.expected == pytest.approx(12.5 + 10.0 + 1.0)  # nothing was written: nothing is


@given(
    st.lists(
        st.tuples(st.sampled_from(("small", "large")), *[st.integers(0, 4 * M)] * 4), min_size=1, max_size=6
    )
)
def test_what_the_baseline_writes_is_added_up_turn_by_turn(
    tried: list[tuple[str, int, int, int, int]],
) -> None:
    """Turns that have sums in common cost the baseline what each of them does: all reports agree."""
    attempts = [
        [wrote(a_try(model, (sent, min(cached, sent), 0)), written, written_1h)]
        for model, sent, cached, written, written_1h in tried
    ]
    rows = list(rows_of(turns(*attempts)))
    found = SavingsCalculator(WRITING, "large").total(totals_of(rows))
    large, exact = WRITING["large"], 0.0
    for row in rows:
        if row.own == "large" or row.gap < 0:
            exact += large.cost(*tokens_of(row)) or 0.0
            continue
        written, written_1h = (
            max(each - row.reused + row.cached, 0) for each in (row.written, row.written_1h)
        )
        exact += large.cost(row.input, row.reused, row.output, written, written_1h) or 0.0
    assert found.expected == pytest.approx(exact)


def test_a_turn_that_wrote_nothing_takes_no_writes_from_another() -> None:
    """The second read all of the first at the baseline; the third wrote what was new to any cache."""
    said = turns(
        [wrote(a_try("small", (M, 0, 0)), M)],
        [a_try("small", (M, 0, 0))],
        [wrote(a_try("small", (2 * M, M, 0)), M)],
    )
    found = SavingsCalculator(WRITING, "large").total(totals_of(rows_of(said)))
    assert found.expected == pytest.approx(12.5 + 1.0 + 1.0 + 12.5)


def test_attempts_that_did_not_answer_are_paid_for() -> None:
    tries = [a_try("large", (M, None, 0), status=500), a_try("large", None, status=500)]
    found = total(turns([*tries, a_try("small", (M, None, 0))]))
    assert (found.retries, found.net) == (10.0, 10.0 - 1.0 - 10.0)
    assert total(turns([a_try("free", (M, 0, M), status=500), a_try("small", (M, 0, 0))])).retries == 0.0


def test_calls_that_ended_before_their_usage_came_are_counted() -> None:
    cut, late = ({**a_try("large", None, status=0), "error": error} for error in ("cut", "timeout"))
    free = [{**a_try("large", None, status=0), "error": "connect"}, a_try("large", None, status=500)]
    found = total(turns([cut, late, *free, a_try("small", (M, None, 0))], [cut]))
    assert (found.unmetered, found.retries, found.counted, found.no_answer) == (3, 0.0, 1, 1)
    assert found.to_json()["unmetered"] == 3
    assert "not counted: 3 calls that ended before their usage came" in plain_lines(found.blocks())


def verified(stage: Stage, *codes: str) -> TierDecision:
    reasons = tuple(Reason(code, "") for code in codes)
    return TierDecision(Tier.MEDIUM, 0.0, 0.5, (), stage, needs_verification=True, reasons=reasons)


@pytest.mark.parametrize(
    ("tier", "message", "questions"),
    [
        (verified(Stage.VERIFIED), None, 2),
        (verified(Stage.VERIFIED), 1, 1),  # one message, two requests: its answer was remembered
        (verified(Stage.FALLBACK, "tiers.abstained.llm-failed"), 1, 2),  # a failure is asked again
        (verified(Stage.FALLBACK, "tiers.abstained.llm-skipped"), None, 0),
        (verified(Stage.RULES), None, 0),
    ],
)
def test_questions_are_paid_for(tier: TierDecision, message: int | None, questions: int) -> None:
    tries = [a_try("small", None)], [a_try("small", None)]
    found = total(turns(*tries, tier=tier, message=message), question=0.5)
    assert (found.questions, found.verification) == (questions, 0.5 * questions)


def test_the_policy_names_the_price_of_a_question_and_who_is_asked() -> None:
    found = totals_of(rows_of(turns([a_try("small", (M, 0, M))], tier=verified(Stage.VERIFIED))))
    policy = replace(default_policy(), models=MODELS, verify=Verification(model="small", margin=1.0))
    money = SavingsCalculator.of(policy).total(found)
    assert (money.baseline, money.questions, money.verification) == ("large", 1, question_price(policy))
    assert money.verification > 0
    unknown = replace(policy, verify=Verification(model="local", margin=1.0))
    assert SavingsCalculator.of(unknown).total(found).unpriced == {"local": 1}
    nobody = SavingsCalculator.of(replace(policy, verify=None)).total(found)
    assert (nobody.questions, nobody.verification) == (1, 0.0)


def test_what_lacks_data_is_left_out_and_counted() -> None:
    found = total(turns([], [a_try("small", None)], [a_try("gone", (M, 0, M))], [a_try("small", (M, 0, M))]))
    assert (found.turns, found.counted) == (4, 1)
    assert (found.no_answer, found.no_usage, found.no_price) == (1, 1, 1)
    lacking = {"no_answer": 1, "no_usage": 1, "no_price": 1, "models": {"gone": 1}, "share": 0.75}
    assert found.to_json()["lacking"] == lacking
    lines = list(plain_lines(found.blocks()))
    assert any("left out: 3 turns (75.0%)" in line for line in lines)
    assert lines[-2].endswith("stream_options.include_usage, or [server] report_usage = true")
    assert lines[-1].startswith('without a price: "gone" 1; set input_per_million')


@pytest.mark.parametrize(
    ("model", "counts"),
    [
        ("local", (0, 1)),  # no price: not "+100 % saved"
        ("free", (1, 0)),  # a price of zero is a price
    ],
)
def test_an_unknown_price_is_not_a_price_of_zero(model: str, counts: tuple[int, int]) -> None:
    found = total(turns([a_try(model, (M, 0, M))]))
    assert (found.counted, found.no_price) == counts
    assert found.net == 30.0 * counts[0]


def test_a_turn_is_left_out_whole_where_any_part_has_no_price() -> None:
    tried = [a_try("local", (M, None, 0), status=500), a_try("small", (M, None, 0))]
    found = total(turns(tried))
    assert (found.counted, found.at_baseline, found.net) == (0, 0.0, 0.0)
    asked = total(turns([a_try("small", (M, 0, M))], tier=verified(Stage.VERIFIED)), question=None)
    assert (asked.counted, asked.questions, asked.unpriced) == (0, 0, {"local": 1})


def test_a_cache_is_lost_to_a_model_without_a_price_too() -> None:
    """The baseline would have read what the second turn has of the first from its cache."""
    found = total(turns([a_try("local", (M, 0, 0))], [a_try("small", (2 * M, 0, 0))]))
    assert (found.counted, found.switches) == (1, 1)
    assert found.baseline_cache == pytest.approx(9.0)


def test_the_baseline_must_have_a_price() -> None:
    with pytest.raises(PointsmanError, match='price of "local" is unknown'):
        SavingsCalculator(MODELS, "local").total(totals_of([]))


def test_an_empty_ledger_saves_nothing() -> None:
    found = total([])
    assert (found.net, found.share) == (0.0, 0.0)
    assert list(plain_lines(found.blocks()))[1] == "over 0 of 0 turns"


def test_the_baseline_must_be_known() -> None:
    with pytest.raises(PointsmanError, match='no model "huge"'):
        SavingsCalculator(MODELS, "huge").total(totals_of([]))


def test_savings_are_divided_and_their_parts_are_the_whole() -> None:
    found = totals(
        [a_try("small", (M, None, 0))], [a_try("large", (M, 0, 0), status=500)], [a_try("gone", (1, 0, 1))]
    )
    whole = SavingsCalculator(MODELS, "large").total(found)
    for by, keys in (("day", {"1970-01-01"}), ("tier", {""}), ("model", {"", "small", "gone"})):
        parts = SavingsCalculator(MODELS, "large").by(found, by)  # type: ignore[arg-type]
        assert set(parts) == keys
        assert sum(each.net for each in parts.values()) == pytest.approx(whole.net)
        assert sum(each.turns for each in parts.values()) == whole.turns == 3


def test_what_groups_of_turns_spent_adds_up() -> None:
    """The turns differ in the models that answered, failed and answered beside, so that each is a group."""
    models = {
        name: msgspec.structs.replace(model, cache_write_per_million=model.input_per_million * 1.25)
        for name, model in MODELS.items()
        if model.input_per_million is not None
    }
    records = turns(
        [a_try("large", (M, 0, 0))],
        [a_try("large", (M, 0, 0), status=500), a_try("small", (2 * M, None, 0))],
        [a_try("small", (M, M, 0), status=500), a_try("free", (3 * M, None, 0))],
        injections=(Injection("guidance", "x" * 400_000),),
    )
    beside = [
        ShadowAnswer(
            decision="", at=0.0, model=name, upstream="up", status=200, input_tokens=M, output_tokens=M
        )
        for name in ("small", "large")
    ]
    for number, trial in enumerate(beside, start=1):
        judges = (Outcome(decision="", score=0.0, model="m", source="judge:large", cost=0.25),) * 2
        records[number] = Record(records[number].decision, records[number].attempts, judges, None, (trial,))
    found = SavingsCalculator(models, "large").total(totals_of(rows_of(records)))
    assert (found.at_baseline, found.answers) == (60.0, 12.0)
    assert (found.switches, found.trials, found.assumed) == (2, 2, 2)
    assert found.baseline_cache == pytest.approx(9.0 + 18.0)  # what the turn before had sent
    assert (found.hints, found.shadow, found.judging) == pytest.approx((3.0, 33.0, 1.0))
    assert found.retries == pytest.approx(10.0 + 0.1)


def test_every_amount_of_several_groups_is_added_up() -> None:
    """A group's amount that were left out would make the saving of all a larger or a smaller one."""
    amounts: dict[str, Any] = {
        each.name: Counter(small=number) if each.name == "unpriced" else number
        for number, each in enumerate(fields(Savings))
        if each.name not in {"baseline", "baseline_caches"}
    }
    whole = Savings("large", baseline_caches=False, **amounts)
    whole.add(Savings("large", baseline_caches=False, **amounts))
    assert whole == Savings(
        "large", baseline_caches=False, **{name: amount + amount for name, amount in amounts.items()}
    )


def test_a_day_begins_at_midnight_of_its_zone() -> None:
    rows = list(rows_of(turns([a_try("small", (M, 0, 0))])))  # at the epoch
    days = dict.fromkeys((0, 2), "1970-01-01") | {-5: "1969-12-31"}
    for zone, day in days.items():
        assert list(SavingsCalculator(MODELS, "large").by(totals_of(rows, zone=zone), "day", zone)) == [day]


@pytest.mark.parametrize(("error", "is_lower"), [("status", True), (COMPARED, False)])
def test_a_cheap_answer_that_was_compared_with_another_is_no_downgrade(error: str, is_lower: bool) -> None:
    first = {**a_try("large", (M, 0, 0)), "error": error}
    (row,) = rows_of(turns([first, a_try("free", (M, 0, 0))]))
    assert row.downgraded is is_lower


def test_the_score_of_a_turn_is_that_of_the_answer_which_the_caller_got() -> None:
    (record,) = turns([a_try("small", (M, 0, 0))])
    others = tuple(
        Outcome(decision="d0", score=0.0, model=model, source=source)
        for model, source in (("large", "api"), ("", "implicit:retry"), ("", "judge:large"))
    )
    for known, score in (((), None), ((Outcome(decision="d0", score=1.0),), 1.0)):
        (row,) = rows_of([msgspec.structs.replace(record, outcomes=(*known, *others))])
        assert (row.score, row.labelled) == (score, bool(known))


def test_text_that_was_added_is_charged() -> None:
    """The baseline would not have read it."""
    records = turns([a_try("small", (M, None, 0))], injections=(Injection("guidance", "x" * 400_000),))
    found = total(records)
    assert (found.at_baseline, found.hints, found.answers) == (10.0, 1.0, 1.0)
    assert found.net == 8.0


@pytest.mark.parametrize(
    ("amount", "text"),
    [(212.4, "$212.40"), (1234.5, "$1,234.50"), (1.0, "$1.00"), (0.14, "$0.14"), (0.0071, "$0.0071"),
     (0.996, "$1.00"), (0.00012, "$0.00012"), (0, "$0"), (1e-12, "$0"), (-0.02, "-$0.020"), (None, "-")],
)  # fmt: skip
def test_money_is_written_in_dollars(amount: float | None, text: str) -> None:
    assert dollars(amount) == text


def test_each_amount_has_its_name_and_its_line() -> None:
    found = Savings(
        "large", turns=40, counted=10, no_answer=5, no_usage=12, no_price=13, unpriced=Counter(b=6, a=7),
        at_baseline=64.0, answers=16.25, baseline_cache=8.0, assumed=3, switches=4, retries=2.125,
        unmetered=2, questions=9, verification=0.5, trials=8, shadow=1.0, hints=4.0, judging=0.25,
    )  # fmt: skip
    assert found.to_json() == {
        "baseline": "large", "currency": "USD", "turns": 40, "counted": 10,
        "lacking": {
            "no_answer": 5, "no_usage": 12, "no_price": 13, "models": {"a": 7, "b": 6}, "share": 0.75,
        },
        "baseline_caches": True, "assumed": 3, "switches": 4, "questions": 9, "trials": 8, "unmetered": 2,
        "at_baseline": 64.0, "baseline_cache": 8.0, "answers": 16.25, "retries": 2.125, "verification": 0.5,
        "shadow": 1.0, "judging": 0.25, "hints": 4.0, "expected": 52.0, "paid": 20.125, "net": 31.875,
        "net_share": 0.612981,
    }  # fmt: skip
    assert [" ".join(line.split()) for line in plain_lines(found.blocks())][3:] == [
        'the same tokens by "large" $64.00',
        "less what its prompt cache saves, at most -$8.00",
        "less text that was added -$4.00",
        "= baseline $52.00",
        "answers -$16.25 4 changes of model",
        "attempts that did not answer -$2.12",
        "verification, at most -$0.50 9 questions, without those of guidance and capabilities",
        "answers of a shadow model -$1.00 8 answers",
        "judges of two answers -$0.25",
        "= saved, at least $31.88",
        'taken as fact: "large" would have read and written the same tokens',
        "not counted: 2 calls that ended before their usage came",
        "assumed: in 3 turns its cache held all that the turn before had sent",
        "left out: 30 turns (75.0%): 5 without an answer, 12 without usage, 13 by a model without a price",
        f"without usage: {USAGE_ASKED}",
        'without a price: "a" 7, "b" 6; set input_per_million and output_per_million of each',
    ]
    assert Savings("large").to_json()["lacking"]["share"] == 0.0  # type: ignore[index]


def test_a_baseline_that_would_have_cost_less_is_no_negative_share() -> None:
    found = Savings("large", turns=1, counted=1, at_baseline=0.0027, baseline_cache=0.0023, answers=0.0027)
    assert found.headline() == '$0.0023 more than the $0.00040 of always "large", at most'
    assert "%" not in found.headline()


def test_where_all_models_are_free_there_is_nothing_to_save() -> None:
    assert Savings("large", turns=1, counted=1).headline().startswith("nothing to save: ")


def test_the_headline_says_what_was_saved_without_a_shadow_model() -> None:
    found = Savings("large", turns=1, counted=1, at_baseline=1.0, answers=0.25, shadow=1.0)
    dear = '$0.25 more than the $1.00 of always "large", at most'
    assert found.headline() == f"{dear}; saved $0.75 without the shadow model"
    found.shadow = 0.25
    assert found.headline().endswith('against always "large"; saved $0.75 without the shadow model')


def test_the_command_needs_no_option(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        f'[upstreams.u]\nbase_url = "http://127.0.0.1:9/v1"\n[ledger]\npath = "{tmp_path}/l.sqlite"\n'
        '[models]\nsmall = { upstream = "u", id = "s", input_per_million = 1, output_per_million = 1 }\n'
        'large = { upstream = "u", id = "l", input_per_million = 9, output_per_million = 9 }\n'
    )
    with closing(SqliteLedger(tmp_path / "l.sqlite", retention=Retention(None, None))) as ledger:
        ledger.append(a_decision("d1"))
    found = CliRunner().invoke(app, ["report", "savings", "--config", str(file)])
    assert 'against always "large"' in found.output


def test_the_command_shows_months_whose_entries_retention_removed(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        f'[upstreams.u]\nbase_url = "http://127.0.0.1:9/v1"\n[ledger]\npath = "{tmp_path}/l.sqlite"\n'
        '[models]\nsmall = { upstream = "u", id = "s", input_per_million = 1, output_per_million = 1 }\n'
        'large = { upstream = "u", id = "l", input_per_million = 9, output_per_million = 9 }\n'
    )
    with closing(SqliteLedger(tmp_path / "l.sqlite", retention=Retention(None, None))) as ledger:
        for day in range(60):
            ledger.append(a_decision(f"d{day}", at=day * DAY))
            ledger.append(an_answer(f"d{day}", model="small", input_tokens=1_000_000))

    def report() -> str:
        return CliRunner().invoke(app, ["report", "savings", "--config", str(file)]).output

    before, last = report(), 59.5 * DAY
    for _ in range(60):  # each start removes a day
        with closing(
            SqliteLedger(tmp_path / "l.sqlite", retention=Retention(30), clock=lambda: last)
        ) as ledger:
            ledger.append(Owner(object="o", caller="", at=last))
    with closing(SqliteLedger(tmp_path / "l.sqlite", retention=Retention(None, None))) as ledger:
        assert ledger.count() == 30
    assert report() == before
    assert "over 60 of 60 turns" in before

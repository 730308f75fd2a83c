"""A decision and an answer for tests, and contract checks of reads without the bodies of decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from pointsman.capabilities import AskedCapability, CapabilityDecision, OfferedTool, Strategy, ToolDecision
from pointsman.decision.decision import Decision, Injection, RequestInput
from pointsman.guidance import Arm, Firing, GuidanceDecision, Rung
from pointsman.prices import Prices
from pointsman.stores.ledger import (
    Attempt,
    DecisionFilter,
    Ledger,
    Outcome,
    ShadowAnswer,
)
from pointsman.stores.ledger.reading import Part, Spender, spenders_of, totals_of
from pointsman.tiers import TierDecision
from pointsman.vocabulary import AgentRole, Mode, Parameters, Reason, Stage, Tier, WireFormat

__all__ = ["SUMMARY_CHECKS", "a_decision", "an_answer"]

_HOUR = 3_600.0
_MODELS = {
    "large": Prices(
        input_per_million=1e6,
        output_per_million=2e6,
        cached_input_per_million=5e5,
        cache_write_per_million=1.25e6,
    )
}


def a_decision(decision_id: str, *, at: float = 0.0, session: str = "s", caller: str = "") -> Decision:
    """Return a decision with something in every field that has to survive storage."""
    return Decision(
        id=decision_id,
        input=RequestInput(
            session=session,
            format=WireFormat.RESPONSES,
            model_asked="auto",
            arrived_at=at,
            signals=("default/code/function",),
            characters=3,
            caller=caller,
        ),
        policy="p1",
        tier=TierDecision(
            tier=Tier.COMPLEX,
            score=0.25,
            confidence=0.9,
            signals=("code (déjà)",),
            stage=Stage.LEARNED,
            needs_verification=True,
            reasons=(Reason("tiers.learned", "0.25"),),
        ),
        chain=("large", "largest"),
        injections=(Injection("guidance", "Try another tool."),),
        reasons=(Reason("tiers.rules", "score 0.25"),),
        abstained=(Reason("domains.failed", "unavailable"),),
        elapsed_us=12.5,
        guidance=GuidanceDecision(mode=Mode.ON, arm=Arm.TREATED, injection="Try another tool."),
        refused=(Reason("routing.skipped.feature", '"small" has no vision'),),
        parameters={"large": Parameters(effort="high", max_tokens=4_096)},
        capabilities=CapabilityDecision(
            strategy=Strategy.HYBRID,
            selected=("mail", "run"),
            offered=(OfferedTool("run", "0a1b2c3d"),),
            scores={"mail": 0.4, "run": 0.91},
            asked_model=(AskedCapability("mail", needed=True),),
            tools=ToolDecision(2, ("run",)),
        ),
    )


def an_answer(decision_id: str, *, model: str = "large", number: int = 1, **given: object) -> Attempt:
    """Return an attempt that answered with 100 tokens, 40 of them cached, and 10 of output."""
    known: dict[str, object] = {
        "upstream": "main", "status": 200, "started_at": 1.0, "total_ms": 2.0, "input_tokens": 100,
        "cached_tokens": 40, "output_tokens": 10,
    }  # fmt: skip
    return Attempt(decision=decision_id, number=number, model=model, **{**known, **given})  # type: ignore[arg-type]


def _nothing_is_found_at_first(ledger: Ledger) -> None:
    assert ledger.search(DecisionFilter()) == ((), None)
    assert ledger.session("s") == ()
    assert ledger.totals() == ((), ())
    assert ledger.unsummarized() == 0


def _a_row_says_what_became_of_a_decision(ledger: Ledger) -> None:
    failed = an_answer(
        "d", status=500, error="status", model="first", written_tokens=50, written_1h_tokens=20
    )
    shadow = ShadowAnswer(
        decision="d", at=2.0, model="other", upstream="main", input_tokens=7, cached_tokens=1, output_tokens=2
    )
    cut = an_answer("d", number=2, status=0, error="cut", model="second", input_tokens=None)
    # No more is written than was not read.
    answer = an_answer("d", number=3, written_tokens=70, written_1h_tokens=20)
    for entry in (a_decision("d", at=5.0, caller="ann"), failed, cut, answer, shadow):
        ledger.append(entry)
    for model, error in (("late", "timeout"), ("never", "connect")):
        ledger.append(ShadowAnswer(decision="d", at=3.0, model=model, upstream="main", error=error))
    ledger.append(Outcome(decision="d", score=0.5, label="meh"))
    ledger.append(Outcome(decision="d", score=0.0, source="implicit:retry"))
    [row], more = ledger.search(DecisionFilter())
    assert more is None
    assert (row.id, row.at, row.session, row.caller, row.tier) == ("d", 5.0, "s", "ann", "COMPLEX")
    assert (row.model, row.result, row.status, row.attempts) == ("large", "counted", 200, 3)
    assert (row.input, row.cached, row.output, row.trials) == (100, 40, 10, 3)
    assert (row.written, row.written_1h) == (60, 20)
    retry, lost = Part("retry", "first", 100, 40, 10, 50, 20), Part("unmetered", "second", 0, 0, 0)
    late = Part("unmetered", "late", 0, 0, 0)  # "never" was not reached
    assert row.parts == (retry, lost, Part("shadow", "other", 7, 1, 2), late)
    totals = sorted((each.kind, each.part_model, each.parts) for each in ledger.totals().parts)
    assert totals == [
        ("retry", "first", 1),
        ("shadow", "other", 1),
        ("unmetered", "late", 1),
        ("unmetered", "second", 1),
    ]
    assert (row.label, row.score, row.labelled) == ("meh", 0.5, True)
    assert (row.stuck, row.downgraded, row.abstained) == (False, False, True)
    assert (row.gap, row.own, row.switched, row.asked) == (-1, "", False, False)
    assert row.signals == ("default/code/function", "selected:mail")  # "run" is a tool of the request


def _a_row_follows_what_comes_later(ledger: Ledger) -> None:
    ledger.append(a_decision("d"))
    [row], _ = ledger.search(DecisionFilter())
    assert (row.result, row.model, row.labelled) == ("no_answer", "large", False)
    ledger.append(an_answer("d", output_tokens=None))
    [row], _ = ledger.search(DecisionFilter())
    assert (row.result, row.status, row.input) == ("no_usage", 200, 0)
    ledger.append(an_answer("d", number=2, model="largest"))
    [row], _ = ledger.search(DecisionFilter())
    assert (row.result, row.model, row.attempts, row.downgraded) == ("counted", "largest", 2, True)
    ledger.add_outcome(Outcome(decision="d", score=1.0))
    ledger.flush()
    [row], _ = ledger.search(DecisionFilter(labelled=True))
    assert (row.score, row.result) == (1.0, "counted")


def _each_filter_finds_what_it_names(ledger: Ledger) -> None:
    plain = replace(a_decision("plain", at=1.0), abstained=())
    asked = plain.input
    firing = Firing(1, 0, Rung.HINT, "loop-breaker", "doom-loop", 0.9, "twice", delivered=False)
    stuck = GuidanceDecision(mode=Mode.ON, arm=Arm.CONTROL, firing=firing)
    chosen = CapabilityDecision(
        strategy=Strategy.LOCAL,
        selected=("send_mail", "current_weather", "a_tool"),
        offered=(OfferedTool("a_tool", "0a1b2c3d"),),
    )
    others = {
        "of": replace(plain, input=replace(asked, session="t")),
        "called": replace(plain, input=replace(asked, caller="ann")),
        "tierless": replace(plain, tier=None),
        "served": replace(plain, chain=("small",)),
        "helping": replace(plain, input=replace(asked, role=AgentRole.HELPER)),
        "signed": replace(plain, input=replace(asked, signals=("a/b/c d", "a/b/e"))),
        "stuck": replace(plain, guidance=stuck),
        "chosen": replace(plain, capabilities=chosen),
        "going on": replace(plain, capabilities=replace(chosen, continued=True)),
        "all": replace(plain, capabilities=replace(chosen, bypass=True)),
        "lower": replace(plain, reasons=(Reason("routing.lower-tier", "small"),)),
        "failed": replace(plain, abstained=(Reason("domains.failed", "x"),)),
        "late": replace(plain, input=replace(asked, arrived_at=9.0)),
    }
    for name, made in others.items():
        ledger.append(replace(made, id=name))
    ledger.append(plain)
    ledger.append(Outcome(decision="plain", score=1.0, label="good_one"))
    ledger.append(an_answer("served", model="small", status=429, error="busy", output_tokens=None))
    ledger.append(an_answer("stuck"))
    ledger.append(an_answer("late", written_tokens=60, written_1h_tokens=20))
    everything = {"plain", *others}
    for wanted, found in (
        (DecisionFilter(), everything),
        (DecisionFilter(session="t"), {"of"}),
        (DecisionFilter(caller="ann"), {"called"}),
        (DecisionFilter(tier="COMPLEX"), everything - {"tierless"}),
        (DecisionFilter(model="small"), {"served"}),
        (DecisionFilter(role="helper"), {"helping"}),
        (DecisionFilter(signal="a/b/c d"), {"signed"}),
        (DecisionFilter(signal="a/b/c"), set()),
        (DecisionFilter(classifier="doom-loop"), {"stuck"}),
        (DecisionFilter(classifier="doom"), set()),
        (DecisionFilter(classifier="doom-loop", signal="a/b/e"), set()),
        (DecisionFilter(capability="send_mail"), {"chosen"}),
        (DecisionFilter(capability="send_mail", tier="COMPLEX"), {"chosen"}),
        (DecisionFilter(capability="a_tool"), set()),  # the caller's word
        (DecisionFilter(stuck=True), {"stuck"}),
        (DecisionFilter(stuck=False), everything - {"stuck"}),
        (DecisionFilter(downgraded=True), {"lower"}),
        (DecisionFilter(abstained=True), {"failed"}),
        (DecisionFilter(labelled=True), {"plain"}),
        (DecisionFilter(label="good_one"), {"plain"}),
        (DecisionFilter(label="good%one"), set()),
        (DecisionFilter(status=429), {"served"}),
        (DecisionFilter(status=0), everything - {"served", "stuck", "late"}),
        (DecisionFilter(since=9.0), {"late"}),
        (DecisionFilter(until=9.0), everything - {"late"}),
        (DecisionFilter(text="anything"), set()),
        (DecisionFilter(cost_at_least=100.0), {"stuck", "late"}),  # 60 + 40 / 2 + 10 * 2
        (DecisionFilter(cost_at_least=100.1), {"late"}),
        (DecisionFilter(cost_at_least=130.0), {"late"}),  # and 40 / 4 + 20
        (DecisionFilter(cost_at_least=130.1), set()),
        (DecisionFilter(stuck=True, model="small"), set()),
    ):
        rows, _ = ledger.search(wanted, models=_MODELS)
        assert {row.id for row in rows} == found, wanted
    assert ledger.search(DecisionFilter(cost_at_least=0.0)).rows == ()  # no price is known


def _pages_hold_every_row_once(ledger: Ledger) -> None:
    ids = [f"d{number:03}" for number in range(250)]
    for number, decision_id in enumerate(ids):
        ledger.append(a_decision(decision_id, at=float(number // 7)))
    found: list[str] = []
    before, pages = None, 0
    while True:
        rows, before = ledger.search(DecisionFilter(), before=before, limit=50)
        found += [row.id for row in rows]
        pages += 1
        if before is None:
            break
    assert (found, pages) == (ids[::-1], 5)
    assert ledger.search(DecisionFilter(), limit=0) == ((), None)


def _a_session_is_read_in_order(ledger: Ledger) -> None:
    for number, session in enumerate(("s", "t", "s:one", "s;", "s")):
        made = a_decision(f"d{number}", at=float(number), session=session)
        role = AgentRole.SUBAGENT if ":" in session else None
        ledger.append(replace(made, input=replace(made.input, role=role)))
    assert [row.id for row in ledger.session("s")] == ["d0", "d2", "d4"]
    assert [record.decision.id for record in ledger.records(since=2.0)] == ["d2", "d3", "d4"]
    assert [record.decision.id for record in ledger.records(since=2.5, session="s")] == ["d4"]


def _a_turn_knows_the_one_before_it(ledger: Ledger) -> None:
    for number, (at, model) in enumerate(
        ((0.0, "large"), (300.0, "large"), (601.0, "small"), (601.0, "small"))
    ):
        ledger.append(a_decision(f"d{number}", at=at))
        ledger.append(an_answer(f"d{number}", model=model, input_tokens=100 + number))
        ledger.flush()
    rows = ledger.session("s")
    assert [row.gap for row in rows] == [-1, 4, 5, 0]
    assert [row.reused for row in rows] == [40, 100, 101, 102]
    assert [row.own for row in rows] == ["large", "large", "", "small"]
    assert [row.switched for row in rows] == [False, False, True, False]


def _totals_are_those_of_the_rows(ledger: Ledger) -> None:
    for number in range(60):
        made = f"d{number:02}"
        ledger.append(a_decision(made, at=number * _HOUR, session=f"s{number % 3}"))
        if number % 5:
            writes = {"written_tokens": number, "written_1h_tokens": number // 2}
            ledger.append(an_answer(made, status=500, error="status", model="first", **writes))
            grown = {"input_tokens": 100 + 10 * number}  # with some written that the turn before did not send
            grown |= {"written_tokens": 50 + 10 * number, "written_1h_tokens": 35 + 10 * number}
            ledger.append(an_answer(made, number=2, model=("large", "small")[number % 2], **grown))
    for since, until, zone in ((float("-inf"), float("inf"), 0), (10 * _HOUR, 40.5 * _HOUR, 2)):
        found = ledger.totals(since=since, until=until, zone=zone)
        rows, _ = ledger.search(DecisionFilter())
        expected = totals_of(rows, since=since, until=until, zone=zone)
        assert sorted(map(repr, found.turns)) == sorted(map(repr, expected.turns))
        assert sorted(map(repr, found.parts)) == sorted(map(repr, expected.parts))
    assert sum(each.turns for each in ledger.totals().turns) == 60
    assert {each.hour for each in ledger.totals(zone=2).turns} == {-2, 22, 46}


def _spenders_are_those_of_the_rows(ledger: Ledger) -> None:
    for number in range(40):
        made = a_decision(f"d{number:02}", at=number * _HOUR, session=f"s{number % 3}")
        whose = {"project": f"p-{number % 4}", "project_name": f"shop {number % 4}", "client": "codex"}
        ledger.append(replace(made, input=replace(made.input, **whose, caller=("", "ana")[number % 2])))
        if number % 5:
            ledger.append(an_answer(made.id, status=500, error="status", model="first"))
            wrote = {"written_tokens": number, "written_1h_tokens": number // 2}
            ledger.append(an_answer(made.id, number=2, model=("large", "small")[number % 2], **wrote))
    rows, _ = ledger.search(DecisionFilter())
    for since, until in ((0.0, 40 * _HOUR), (10 * _HOUR, 20.5 * _HOUR)):
        found = ledger.spenders(since=since, until=until)
        expected = spenders_of(rows, since, until)
        assert found.keys() == expected.keys()
        for spender, sums in found.items():
            assert sorted(map(repr, sums.turns)) == sorted(map(repr, expected[spender].turns))
            assert sorted(map(repr, sums.parts)) == sorted(map(repr, expected[spender].parts))
    [shop] = {each for each in found if each.project == "p-3"}
    assert shop == Spender("p-3", "shop 3", "codex", "ana", "")
    of_one, _ = ledger.search(DecisionFilter(project="p-3", client="codex"))
    assert {row.id for row in of_one} == {f"d{number:02}" for number in range(3, 40, 4)}


def _a_decision_said_again_has_one_row(ledger: Ledger) -> None:
    ledger.append(a_decision("d", at=1.0, session="first"))
    ledger.append(an_answer("d"))
    ledger.flush()
    ledger.append(a_decision("d", at=2.0, session="last"))
    rows, _ = ledger.search(DecisionFilter())
    assert [(row.session, row.at, row.result) for row in rows] == [("last", 2.0, "counted")]
    assert sum(each.turns for each in ledger.totals().turns) == 1


#: Each wants a new, empty ledger.
SUMMARY_CHECKS: Final[tuple[Callable[[Ledger], None], ...]] = (
    _nothing_is_found_at_first,
    _a_row_says_what_became_of_a_decision,
    _a_row_follows_what_comes_later,
    _each_filter_finds_what_it_names,
    _pages_hold_every_row_once,
    _a_session_is_read_in_order,
    _a_turn_knows_the_one_before_it,
    _totals_are_those_of_the_rows,
    _spenders_are_those_of_the_rows,
    _a_decision_said_again_has_one_row,
)

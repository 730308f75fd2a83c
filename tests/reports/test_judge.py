"""A judge of two answers: planted verdicts, position bias, and agreement that must be shown."""

import asyncio
import random
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from pointsman.cli import outcomes as outcomes_judge
from pointsman.cli.outcomes import judge_all
from pointsman.config import Config
from pointsman.decision.decision import Decision, RequestInput
from pointsman.errors import PointsmanError, UpstreamError
from pointsman.reports.judge import (
    ENOUGH_PAIRS,
    Judgement,
    Pair,
    combine,
    judged_in,
    labels,
    pairs_in,
    question,
    refusal,
    summarise,
    tries_in,
)
from pointsman.reports.outcomes import scores_of
from pointsman.stores.ledger import Attempt, Outcome, Record, ShadowAnswer
from pointsman.upstreams import ModelAnswer, chat_model
from pointsman.vocabulary import ModelSpec, Prompt, WireFormat
from pointsman.wire.conversation import Usage

SPEC = ModelSpec("judge", "u", "j", input_per_million=1.0, output_per_million=1.0)


class Planted:
    """A judge whose verdicts are planted; it sees nothing but the prompt."""

    def __init__(self, verdict: Callable[[str, str], str]) -> None:
        self.verdict = verdict
        self.asked: list[Prompt] = []

    async def complete(self, prompt: Prompt, *, timeout: float) -> str:
        return (await self.ask(prompt, timeout=timeout)).text

    async def ask(self, prompt: Prompt, *, timeout: float) -> ModelAnswer:
        del timeout
        self.asked.append(prompt)
        first, second = (
            prompt.text.split(f"<{name}>\n")[1].split(f"\n</{name}>")[0] for name in ("first", "second")
        )
        return ModelAnswer(self.verdict(first, second), Usage(input=1_000, cached=0, output=1))


def honest(first: str, second: str) -> str:
    return "tie" if first == second else "first" if "good" in first else "second"


def backwards(first: str, second: str) -> str:
    return "second" if "good" in first else "first"


def biased(first: str, second: str) -> str:
    del first, second
    return "first"


def pairs(count: int = ENOUGH_PAIRS) -> list[Pair]:
    """Every second time the shadow's answer is the better one, and people say so."""
    return [
        Pair(
            f"d{n}", "task", "bad" if n % 2 else "good", "good" if n % 2 else "bad", "large", "small",
            1.0 if n % 2 else -1.0,
        )
        for n in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("verdict", "agreement", "by_position", "counts"),
    [(honest, 1.0, 0, True), (backwards, 0.0, 0, False), (biased, 0.5, ENOUGH_PAIRS, False)],
)
def test_planted_verdicts(
    verdict: Callable[[str, str], str], agreement: float, by_position: int, counts: bool
) -> None:
    found = summarise(asyncio.run(judge_all(Planted(verdict), SPEC, pairs())))
    assert (found.agreement, found.by_position, found.counts) == (agreement, by_position, counts)
    assert found.ties == by_position
    assert found.cost == pytest.approx(ENOUGH_PAIRS * 2 * 1_001 / 1e6)


@pytest.mark.parametrize(("preferred", "right", "counts"), [
    (30, 30, False),  # always the caller's: interval .60 to .86, and people prefer it in 30 of 40
    (30, 40, True),
    (10, 10, False),  # people prefer the shadow's in 30 of 40
    (20, 33, True),
])  # fmt: skip
def test_a_judge_must_be_better_than_one_who_always_prefers_the_same_side(
    preferred: int, right: int, counts: bool
) -> None:
    """Of 40 pairs people prefer the caller's answer in the first ``preferred``; the judge agrees with them in
    the first ``right``, and beyond them says the opposite."""
    said = []
    for n in range(40):
        theirs = -1 if n < preferred else 1
        pair = pairs(1)[0]._replace(preference=float(theirs))
        said.append((pair, Judgement(theirs if n < right else -theirs, by_position=False)))
    found = summarise(said)
    assert found.constant == max(preferred, 40 - preferred) / 40
    assert found.counts is counts


def test_each_refused_try_asks_more_of_the_next() -> None:
    said = [
        (pair, Judgement((1 if n % 2 else -1) * (1 if n < 21 else -1), by_position=False))
        for n, pair in enumerate(pairs())
    ]
    assert summarise(said).counts  # 21 of 30
    assert not summarise(said, refused=1).counts
    assert "97.5 % interval" in "\n".join(summarise(said, refused=1).lines())


def test_a_refused_judge_leaves_its_cost_and_no_label() -> None:
    pair = pairs(1)[0]._replace(decision="d")
    kept = record(refusal(pair, Judgement(-1, by_position=False, cost=0.25), "judge", at=1.0))
    assert dict(scores_of(kept)) == {}
    assert list(pairs_in([kept], "judge")) == []  # another try needs other pairs
    assert len(list(pairs_in([kept], "another"))) == 1
    assert tries_in([kept, kept]) == 1
    found = judged_in([kept])["judge"]
    assert (found.pairs, found.refused, found.cost, found.tries) == (0, 1, 0.25, 2)
    assert list(found.lines()) == [
        "0 pairs judged, 0 ties, cost $0.25",
        "1 more were judged and refused; the cost holds them",
    ]


def test_tries_after_the_first_labels_take_nothing_back() -> None:
    pair = pairs(1)[0]._replace(decision="d")
    said = Judgement(-1, by_position=False, cost=0.5)
    kept = record(*labels(pair, said, "judge", at=2.0), refusal(pair, said, "another", at=3.0))
    assert judged_in([kept])["judge"].tries == 1
    before = record(*labels(pair, said, "judge", at=2.0), refusal(pair, said, "another", at=1.0))
    assert judged_in([before])["judge"].tries == 2
    assert judged_in([before])["judge"].cost == 0.5


def test_too_few_pairs_count_for_nothing() -> None:
    found = summarise(asyncio.run(judge_all(Planted(honest), SPEC, pairs(ENOUGH_PAIRS - 1))))
    assert not found.counts
    assert "1 more are needed" in "\n".join(found.lines())


def test_a_bias_that_is_not_total_leaves_what_both_orders_say() -> None:
    def half(first: str, second: str) -> str:
        return honest(first, second) if "good" in first else "first"  # the second place wins too rarely

    found = summarise(asyncio.run(judge_all(Planted(half), SPEC, pairs())))
    assert found.by_position == ENOUGH_PAIRS
    assert not found.counts


@pytest.mark.parametrize(
    ("plain", "swapped", "expected"),
    [
        ("first", "second", (-1, False)),
        ("second", "first", (1, False)),
        ("first", "first", (0, True)),
        ("second", "second", (0, True)),
        ("tie", "first", (0, False)),
        ("tie", "tie", (0, False)),
        ("I like both", "first", (0, False)),
        (" First ", "SECOND", (-1, False)),
    ],
)
def test_both_orders_must_agree(plain: str, swapped: str, expected: tuple[int, bool]) -> None:
    assert combine(plain, swapped) == expected


def test_the_judge_is_blind_and_the_order_is_swapped() -> None:
    pair = pairs(1)[0]
    plain, swapped = question(pair, swapped=False), question(pair, swapped=True)
    assert plain.text.index("good") < plain.text.index("bad")
    assert swapped.text.index("bad") < swapped.text.index("good")
    assert not {"large", "small", "shadow"} & set(f"{plain.system} {plain.text}".split())
    assert plain.labels == ("first", "second", "tie")


def test_a_pair_that_cannot_be_judged_is_left_out() -> None:
    def fails(first: str, second: str) -> str:
        raise UpstreamError("down")

    assert asyncio.run(judge_all(Planted(fails), SPEC, pairs(2))) == []


def record(
    *outcomes: Outcome, text: str | None = "the task", answer: str | None = "good", session: str = "s"
) -> Record:
    asked = RequestInput(format=WireFormat.CHAT, model_asked="auto", session=session, arrived_at=0.0)
    attempt = Attempt(
        decision="d", number=1, model="large", upstream="u", status=200, started_at=0.0, total_ms=1.0
    )
    shadow = ShadowAnswer(decision="d", at=0.0, model="small", upstream="u", text="bad", beside_text=answer)
    decision = Decision(id="d", input=asked, policy="p", tier=None, chain=("large",))
    return Record(decision, (attempt,), outcomes, text, (shadow,))


def test_pairs_are_those_of_which_both_texts_were_kept() -> None:
    said = (Outcome(decision="d", score=1.0), Outcome(decision="d", score=0.0, model="small"))
    assert [pair.preference for pair in pairs_in([record(*said)], "judge")] == [-1.0]
    assert [pair.preference for pair in pairs_in([record(said[0])], "judge")] == [None]
    another = Outcome(decision="d", score=0.0, source="b")  # of the caller's answer, which two people scored
    assert [pair.preference for pair in pairs_in([record(*said, another)], "judge")] == [-0.5]
    for kept in (record(text=None), record(text="sha256:0"), record(answer=None)):
        assert list(pairs_in([kept], "judge")) == []
    judged = record(Outcome(decision="d", score=1.0, source="judge:judge"))
    assert list(pairs_in([judged], "judge")) == []
    assert len(list(pairs_in([judged], "another"))) == 1


@pytest.mark.parametrize("name", ["large", "small"])
def test_nobody_judges_its_own_answers(name: str) -> None:
    with pytest.raises(PointsmanError, match="cannot judge answers that it gave"):
        list(pairs_in([record()], name))


def test_labels_say_who_judged_and_what_it_cost_and_give_way_to_people() -> None:
    pair, said = asyncio.run(judge_all(Planted(honest), SPEC, pairs(1)))[0]
    first, second = labels(pair, said, "judge", at=1.0)
    assert (first.score, second.score, second.model, first.source) == (1.0, 0.0, "small", "judge:judge")
    assert first.cost > 0
    assert second.cost == 0
    kept = record(first, second)
    assert dict(scores_of(kept)) == {"large": 1.0, "small": 0.0}
    assert dict(scores_of(kept, judged=False)) == {}
    people = record(first, second, Outcome(decision="d", score=0.3))
    assert dict(scores_of(people))["large"] == 0.3
    found = judged_in([kept])["judge"]
    assert (found.pairs, found.ties, found.compared) == (1, 0, 0)
    assert found.cost == first.cost


class Store:
    """A ledger in memory, of pairs in which people prefer the caller's answer."""

    fault = ""
    lost = 0

    def __init__(self, count: int, sessions: int) -> None:
        said = (Outcome(decision="d", score=1.0), Outcome(decision="d", score=0.0, model="small"))
        self.kept = [record(*said, session=f"s{n % sessions}") for n in range(count)]
        self.added: list[Outcome] = []

    def records(self) -> list[Record]:
        return self.kept

    def append(self, entry: Outcome) -> None:
        self.added.append(entry)

    def flush(self) -> None:
        """Nothing waits."""


def patched(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    monkeypatch.setattr(outcomes_judge, "opened", lambda *_: nullcontext(store))
    monkeypatch.setattr(outcomes_judge, "load", lambda *_: Config(models={"judge": SPEC}))
    monkeypatch.setattr(chat_model, "chat_models", lambda *_: {"judge": Planted(honest)})


def test_the_command_keeps_the_cost_of_a_refused_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(ENOUGH_PAIRS, ENOUGH_PAIRS)
    patched(monkeypatch, store)
    with pytest.raises(PointsmanError, match="not better than always the same side; no label was written"):
        outcomes_judge.judge_outcomes(judge="judge", config=tmp_path / "pointsman.toml")
    assert {(each.label, each.score, each.source) for each in store.added} == {
        ("refused", None, "judge:judge")
    }
    assert sum(each.cost for each in store.added) == pytest.approx(ENOUGH_PAIRS * 2 * 1_001 / 1e6)


def test_pairs_of_one_session_are_one_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of one are alike: a judge without merit passed in up to 19 % with ten sessions of many pairs."""
    patched(monkeypatch, Store(10 * ENOUGH_PAIRS, ENOUGH_PAIRS - 1))
    with pytest.raises(PointsmanError, match="29 sessions have outcomes of people"):
        outcomes_judge.judge_outcomes(judge="judge", config=tmp_path / "pointsman.toml")

    draw, passed = random.Random(3), 0
    for _ in range(200):
        said = []
        for session in range(30):
            theirs, own = (draw.choice((-1, 1)) for _ in range(2))
            pair = pairs(1)[0]._replace(preference=float(theirs), session=f"s{session}")
            said += 10 * [(pair, Judgement(own, by_position=False))]
        found = summarise(said)
        assert (found.pairs, found.compared) == (300, 30)
        passed += found.counts
    assert passed <= 5


def test_the_judge_of_a_ledger_is_compared_once_a_session() -> None:
    verdict = labels(pairs(1)[0]._replace(decision="d"), Judgement(-1, by_position=False), "judge", at=1.0)
    people = (Outcome(decision="d", score=1.0), Outcome(decision="d", score=0.0, model="small"))
    kept = [record(*verdict, *people, session=name) for name in "aab"]
    assert (judged_in(kept)["judge"].pairs, judged_in(kept)["judge"].compared) == (3, 2)

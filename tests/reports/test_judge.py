"""A judge of two answers: planted verdicts, position bias, and agreement that must be shown."""

import asyncio
from collections.abc import Callable

import pytest

from pointsman.cli.outcomes_judge import judge_all
from pointsman.decision.decision import Decision
from pointsman.decision.input import RequestInput
from pointsman.errors import PointsmanError, UpstreamError
from pointsman.reports.judge import (
    ENOUGH_PAIRS,
    Pair,
    combine,
    judged_in,
    labels,
    pairs_in,
    question,
    summarise,
)
from pointsman.reports.outcomes import scores_of
from pointsman.stores.ledger import Attempt, Outcome, Record, ShadowAnswer
from pointsman.upstreams.chat_model_port import ModelAnswer
from pointsman.vocabulary import ModelSpec, Prompt, WireFormat
from pointsman.wire.base import Usage

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
    assert question(pair._replace(kind="code"), swapped=False).system != plain.system


def test_a_pair_that_cannot_be_judged_is_left_out() -> None:
    def fails(first: str, second: str) -> str:
        raise UpstreamError("down")

    assert asyncio.run(judge_all(Planted(fails), SPEC, pairs(2))) == []


def record(*outcomes: Outcome, text: str | None = "the task", answer: str | None = "good") -> Record:
    asked = RequestInput(format=WireFormat.CHAT, model_asked="auto", session="s", arrived_at=0.0)
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
    for kept in (record(text=None), record(text="sha256:0"), record(answer=None)):
        assert list(pairs_in([kept], "judge")) == []
    judged = record(Outcome(decision="d", score=1.0, source="judge:judge"))
    assert list(pairs_in([judged], "judge")) == []
    assert len(list(pairs_in([judged], "another"))) == 1


@pytest.mark.parametrize("name", ["large", "small"])
def test_nobody_judges_its_own_answers(name: str) -> None:
    with pytest.raises(PointsmanError, match="cannot judge its own answers"):
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

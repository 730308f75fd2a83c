"""Live prompts like the training data are stable; others have left it, and too few say nothing."""

import json
import random
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from pointsman.cli import app
from pointsman.decision.decision import Decision, RequestInput
from pointsman.reports.quality import drift
from pointsman.stores.ledger import Record, SqliteLedger
from pointsman.tiers import LearnedScore, TierDecision
from pointsman.tiers.learned_router import LearnedRouter, ScoreSource
from pointsman.vocabulary import Stage, Tier, WireFormat
from support.learned_routers import blank
from support.report_lines import plain_lines

#: Trained on lengths of e**3 to e**6 characters, evenly, and similarities of .1 to .6.
HEAD = blank(
    rows=1_000,
    lengths=tuple(3 + 0.3 * step for step in range(11)),
    similarities=tuple(0.1 + 0.05 * step for step in range(11)),
)
DIGEST = HEAD.digest()


def record(
    number: int,
    length: float,
    similarity: float,
    *,
    learned_router: LearnedRouter | None = HEAD,
    message: int = 1,
    session: str = "",
) -> Record:
    said = LearnedScore(0.0, 0.5, 0.5, similarity, ScoreSource.NGRAMS)
    digest = "" if learned_router is None else DIGEST if learned_router is HEAD else learned_router.digest()
    tier = TierDecision(
        Tier.SIMPLE,
        0.0,
        0.9,
        (),
        Stage.LEARNED,
        needs_verification=False,
        reasons=(),
        learned_router=said if learned_router else None,
        learned_router_version=digest,
    )
    decision = Decision(
        id=f"d{number}",
        input=RequestInput(
            session=session or f"s{number}",
            format=WireFormat.CHAT,
            model_asked="auto",
            arrived_at=float(number),
            characters=round(2.718281828**length),
            user_message=message,
        ),
        policy="p",
        tier=tier,
        chain=("m",),
    )
    return Record(decision, (), (), None)


def live(count: int, *, longer: float = 0.0, stranger: float = 0.0) -> list[Record]:
    draw = random.Random(0)
    return [
        record(n, draw.uniform(3, 6) + longer, max(draw.uniform(0.1, 0.6) - stranger, 0.0))
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("records", "verdicts", "words"),
    [
        (live(600), ["stable", "stable"], "look like those"),
        (live(600, longer=0.25), ["shifted", "stable"], "begin to differ"),
        (live(600, longer=1.5), ["left", "stable"], "have left"),
        (live(600, stranger=0.3), ["stable", "left"], "have left"),
        (live(120, longer=0.1), ["stable", "stable"], "look like those"),  # may be chance
    ],
)
def test_the_verdict(records: list[Record], verdicts: list[str], words: str) -> None:
    found = drift(records, HEAD)
    assert [shift.verdict for shift in found.shifts] == verdicts
    assert words in list(plain_lines(found.blocks()))[-1]
    assert found.sources[ScoreSource.NGRAMS] == found.prompts == len(records)


def test_similarities_of_a_small_router_vary_by_themselves() -> None:
    """A router of 100 labels: chi squared (nine degrees, 95 %) times 1/live + 1/trained, trained halved."""
    small = blank(rows=100, lengths=HEAD.lengths, similarities=HEAD.similarities)
    shifted = [record(n, 3 + n / 100, 0.1 + 0.5 * (n / 300) ** 1.9, learned_router=small) for n in range(300)]
    length, similarity = drift(shifted, small).shifts
    assert length.chance == pytest.approx(16.92 * (1 / 300 + 1 / 100))
    assert similarity.chance == pytest.approx(16.92 * (1 / 300 + 2 / 100))
    assert length.chance < similarity.index < similarity.chance
    assert similarity.verdict == "stable"


def test_what_lies_outside_the_training_range_is_counted() -> None:
    length, _ = drift(live(600, longer=1.5), HEAD).shifts
    assert length.outside == pytest.approx(0.5, abs=0.05)
    assert length.median == pytest.approx(length.trained_median + 1.5, abs=0.15)


def test_below_a_hundred_prompts_nothing_is_said() -> None:
    found = drift(live(99, longer=3), HEAD)
    assert found.shifts == ()
    assert list(plain_lines(found.blocks()))[-1] == "too few to tell: 100 are needed"


def test_other_heads_are_left_out_and_counted() -> None:
    other = blank(rows=7)
    records = [
        *live(200),
        *(record(1_000 + n, 9, 0.0, learned_router=other) for n in range(50)),
        record(2_000, 9, 0, learned_router=None),
    ]
    found = drift(records, HEAD)
    assert (found.prompts, found.other_routers) == (200, 51)
    assert [shift.verdict for shift in found.shifts] == ["stable", "stable"]


def test_a_user_message_counts_once() -> None:
    first = record(0, 4, 0.3)
    assert drift([first, first, first], HEAD).prompts == 1
    assert drift([first, record(0, 4, 0.3, message=2)], HEAD).prompts == 2


def test_equal_deciles_are_one_bin() -> None:
    half = (3.0,) * 6 + (4.0, 4.3, 4.6, 5.0, 5.5)  # half of the training prompts are equally long
    learned_router = blank(rows=1_000, lengths=half, similarities=HEAD.similarities)
    draw = random.Random(0)
    records = [
        record(
            n,
            2.9 if n % 2 else draw.choice((3.5, 4.2, 4.4, 4.8, 5.2)),
            draw.uniform(0.1, 0.6),
            learned_router=learned_router,
        )
        for n in range(500)
    ]
    assert drift(records, learned_router).shifts[0].index < 0.05


def test_on_the_command_line(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    for kept in live(300, stranger=0.3):
        ledger.append(kept.decision)
    ledger.close()
    (tmp_path / "mine.json").write_bytes(msgspec.json.encode(HEAD))
    named = [
        "report",
        "drift",
        "--learned-router",
        str(tmp_path / "mine.json"),
        "--ledger",
        str(tmp_path / "ledger.sqlite"),
    ]
    told = CliRunner().invoke(app, named)
    assert "have left what the learned router was trained on" in told.stdout
    printed = json.loads(CliRunner().invoke(app, [*named, "--json"]).stdout)
    assert [shift["verdict"] for shift in printed["shifts"]] == ["stable", "left"]
    assert printed["sources"] == {"n-grams": 300, "blend": 0, "length and rules": 0}


def test_prompts_of_few_sessions_are_no_shift() -> None:
    """Twenty sessions of ten alike prompts, as the training data are: chance alone moves their index."""
    said, alone = 0, 0
    for seed in range(40):
        draw = random.Random(seed)
        middles = [draw.uniform(3.2, 5.8) for _ in range(20)]
        near = [middles[n % 20] + draw.uniform(-0.2, 0.2) for n in range(200)]
        told = [record(n, near[n], 0.3, session=f"s{n % 20}", message=n) for n in range(200)]
        untold = [record(n, near[n], 0.3) for n in range(200)]
        for records, is_told in ((told, True), (untold, False)):
            length, _ = drift(records, HEAD).shifts
            said += is_told and length.verdict != "stable"
            alone += not is_told and length.verdict != "stable"
    assert said <= 2 < 20 <= alone
    longer = [record(n, 7.5, 0.3, session=f"s{n % 20}", message=n) for n in range(200)]
    assert drift(longer, HEAD).shifts[0].verdict == "left"


def test_one_session_tells_nothing() -> None:
    """Its prompts are all much longer, and it was said that they look like the training data."""
    found = drift([record(n, 7.5, 0.3, session="s", message=n) for n in range(200)], HEAD)
    assert found.shifts[0].index > 1
    assert list(plain_lines(found.blocks()))[-1].endswith("too few sessions or training prompts to tell")

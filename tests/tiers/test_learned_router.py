"""The learned router file: what is refused, and that reading one needs no numerical library."""

import math
import os
import struct
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.errors import ConfigError
from pointsman.tiers.learned_router import (
    Calibration,
    Centre,
    Claim,
    Dense,
    LearnedScorer,
    read_learned_router,
)
from pointsman.tiers.ngrams import BUCKETS, ngrams
from support.learned_routers import blank


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"format": "other"}',
        msgspec.json.encode(blank()).replace(b'"version":1', b'"version":2'),
    ],
)
def test_what_is_not_a_head_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(ConfigError, match=r"^mine\.json: not a learned router this version can read"):
        read_learned_router(data, "mine.json")


@pytest.mark.parametrize("field", ["rarity", "weak", "strong"])
def test_a_damaged_array_is_refused(field: str) -> None:
    with pytest.raises(ConfigError, match="damaged"):
        LearnedScorer(blank(**{field: b"\x00\x00"}))


def test_a_head_with_a_vector_needs_its_encoder() -> None:
    learned_router = blank(dense=Dense("table-1", "static", b"\x00\x00", b"\x00\x00"))
    with pytest.raises(ConfigError, match='needs the encoder "table-1"'):
        LearnedScorer(learned_router)


SCORER = LearnedScorer(blank())


@given(st.text())
def test_every_text_has_a_score(text: str) -> None:
    said = SCORER.score(text)
    assert 0.0 < said.p_weak < 1.0
    assert 0.0 <= said.similarity <= 1.0


@given(st.text())
def test_buckets_stay_in_the_tables(text: str) -> None:
    assert all(0 <= bucket < BUCKETS for bucket in ngrams(text))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Prove it", "prove IT", True),
        ("add 17 and 25", "add 99 and 10", True),  # digits count by how many there are
        ("add 17 and 25", "add 170 and 25", False),
        ("größe", "groesse", False),
        ("first then", "then first", False),  # order, through pairs
        ("量子", "子量", False),
    ],
)
def test_which_texts_are_alike(one: str, other: str, same: bool) -> None:
    assert (ngrams(one) == ngrams(other)) is same


def test_a_hash_is_the_same_everywhere() -> None:
    assert ngrams("Prove 量") == {10185, 39741, 56520}


def test_a_character_without_letters_around_it_stands_alone() -> None:
    assert len(ngrams("量子场, größe 😀")) == 5 + 4


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Well, then: go on!", "well then go on", True),  # the punctuation of prose says nothing
        ("x=0", "x = 0", True),
        ("x=0", "x 0", False),  # a symbol is a word
        ("größe, alle", "größe alle", True),  # beyond ASCII as within
        ("größe=0", "größe 0", False),
    ],
)
def test_what_is_read_of_symbols(one: str, other: str, same: bool) -> None:
    assert (ngrams(one) == ngrams(other)) is same


def test_nearness_to_the_nearest_centre_is_similarity() -> None:
    words = sorted(ngrams("prove that it holds"))
    near = Centre(struct.pack("<4H", *words[:4]), struct.pack("<4e", *[0.5] * 4))
    far = Centre(struct.pack("<H", words[0]), struct.pack("<e", 0.25))
    scorer = LearnedScorer(blank(centres=(far, near)))
    known = 4 * 0.5 / math.sqrt(len(words))  # every rarity is 1
    assert scorer.score("prove that it holds").similarity == pytest.approx(known, abs=1e-5)
    assert scorer.score("quite another thing").similarity == 0.0


@pytest.mark.parametrize(("mean", "more"), [("weak_mean", 0.3), ("strong_mean", -0.3)])
def test_what_an_average_prompt_says_is_taken_away(mean: str, more: float) -> None:
    words = sorted(ngrams("prove that it holds"))
    known = Centre(struct.pack("<4H", *words[:4]), struct.pack("<4e", *[0.5] * 4))
    plain, moved = (LearnedScorer(blank(centres=(known,), **means)) for means in ({}, {mean: 0.3}))
    text = "prove that it holds"
    assert moved.score(text).score - plain.score(text).score == pytest.approx(more)


@pytest.mark.parametrize(
    ("buckets", "weights"),
    [
        (b"\x00", b""),
        (b"\x00\x00", b""),
        (b"\x00\x00", struct.pack("<e", 0.0)),
        (b"\x00\x00", struct.pack("<e", math.nan)),
    ],
)
def test_a_damaged_centre_is_refused(buckets: bytes, weights: bytes) -> None:
    with pytest.raises(ConfigError, match="damaged"):
        LearnedScorer(blank(centres=(Centre(buckets, weights),)))


def test_a_head_is_read_without_numerical_libraries() -> None:
    code = (
        "import sys; from pointsman.encoders.learned_routers import load_scorer;"
        "import pointsman.cli.classify;"
        "print([m for m in ('numpy', 'sklearn', 'scipy', 'torch', 'tokenizers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_a_score_is_the_same_to_the_last_bit_under_every_hash_seed(tmp_path: Path) -> None:
    weights = struct.pack(f"<{BUCKETS}e", *[math.sin(bucket) for bucket in range(BUCKETS)])
    learned_router = blank(
        weak=weights, strong=weights[200:] + weights[:200], rarity=struct.pack("<e", 0.7) * BUCKETS
    )
    (tmp_path / "mine.json").write_bytes(msgspec.json.encode(learned_router))
    code = (
        "from pathlib import Path; from pointsman.encoders.learned_routers import load_scorer;"
        "scorer = load_scorer(Path('mine.json'));"
        "print([scorer.score(text, rules=0.1) for text in ('Prove that it holds.', '量子场论的重整化群')])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1
    assert b"p_weak" in said.pop()


@pytest.mark.parametrize(
    ("offset", "slope", "raw", "probability"),
    [
        (0.0, 1.0, 0.0, 0.5),
        (-1.0, 2.0, 1.0, 0.731058579),
        (-1.0, 2.0, 0.5, 0.5),
        (1.0, -2.0, 1.0, 0.268941421),
    ],
)
def test_platt_scaling(offset: float, slope: float, raw: float, probability: float) -> None:
    assert Calibration(offset, slope, 0.0).probability(raw) == probability


def test_a_rules_score_counts_from_its_mean_over_the_training_prompts() -> None:
    scorer = LearnedScorer(blank(rules_mean=-4.0))
    said = [scorer.score("go on", rules=rules).score for rules in (-4.0, -2.0, 0.0)]
    assert said[0] == scorer.score("go on").score
    assert [more - said[0] for more in said] == pytest.approx([0.0, 0.1, 0.2])


def test_a_domain_it_has_learned_moves_both_models() -> None:
    scorer = LearnedScorer(blank(offsets={"law": (0.25, 1.0)}))
    plain, law = scorer.score("go on"), scorer.score("go on", domain="law")
    assert law.score - plain.score == pytest.approx(0.75)
    assert law.p_weak > plain.p_weak
    assert scorer.score("go on", domain="medicine") == plain


@pytest.mark.parametrize(
    ("probability", "trust", "stated"),
    [(0.7, 1.0, 0.04), (0.7, 0.0, 0.7), (0.2, 0.0, 0.8), (0.5, 0.5, 0.27), (0.0, 0.0, 1.0)],
)
def test_a_stated_error_grows_to_all_there_is_with_strangeness(
    probability: float, trust: float, stated: float
) -> None:
    assert Calibration(0.0, 1.0, 0.04).stated_error(probability, trust) == pytest.approx(stated)


@pytest.mark.parametrize(
    ("against", "signal", "beats"),
    [
        ((0.03, 0.01, 0.05), None, True),
        ((0.03, -0.01, 0.07), None, False),
        ((0.03, 0.01, 0.05), 0.03, False),
        ((0.03, -0.01, 0.07), 0.025, True),
        ((0.03, -0.01, 0.07), 0.026, False),
        ((-0.01, -0.05, 0.03), 0.001, False),  # a signal, and a ranking that is not better
    ],
)
def test_what_beats_length(against: tuple[float, float, float], signal: float | None, beats: bool) -> None:
    claim = Claim(100, 0.5, 0.4, 0.6, {"length": against}, improves=False, signal=signal)
    assert claim.beats_length is beats

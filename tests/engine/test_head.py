"""A policy with a head decides with it, alike on every machine."""

from pathlib import Path

import msgspec
import pytest

from heads import blank
from pointsman.assembly import build_engine, build_policy
from pointsman.config import Config, load
from pointsman.engine import Memory
from pointsman.runtime import drive
from pointsman.text import turn_from_text
from pointsman.types import Answer, Need, Stage, Tier

CONFIG = """
[upstreams.main]
base_url = "http://127.0.0.1:9/v1"
[models.small]
upstream = "main"
id = "s"
[models.large]
upstream = "main"
id = "l"
[tiers]
simple = "small"
complex = "large"
[tiers.head]
file = "mine.head"
boundaries = {boundaries}
"""


def nobody(need: Need) -> Answer:
    raise AssertionError(need)


def configured(folder: Path, boundaries: str = "[-inf, -inf, inf]") -> Config:
    known = blank(familiarity=(-1.0, -0.5))
    (folder / "mine.head").write_bytes(msgspec.json.encode(known))
    file = folder / "pointsman.toml"
    file.write_text(CONFIG.format(boundaries=boundaries))
    return load(file)


def test_a_configured_head_decides_and_is_part_of_the_version(tmp_path: Path) -> None:
    engine = build_engine(build_policy(configured(tmp_path)))
    other = build_engine(build_policy(configured(tmp_path, "[-inf, 9, inf]")))
    turn = turn_from_text("please summarise the minutes of the meeting")
    decision = drive(engine.decide(turn, Memory(), "d-1"), nobody).decision
    assert decision.tier is not None
    assert (decision.tier.tier, decision.tier.stage, decision.chain) == (Tier.COMPLEX, Stage.HEAD, ("large",))
    assert drive(other.decide(turn, Memory(), "d-1"), nobody).decision.tier.tier is Tier.MEDIUM
    two = build_engine(build_policy(configured(tmp_path, "[-inf, inf, inf]")))
    assert len({engine.version, other.version, two.version}) == 3
    assert engine.version == build_engine(build_policy(configured(tmp_path))).version


def test_the_offset_of_the_domain_counts(tmp_path: Path) -> None:
    text = "fix the failing unit test in the parser module of this repository"
    config = configured(tmp_path)
    plain = drive(
        build_engine(build_policy(config)).decide(turn_from_text(text), Memory(), "d"), nobody
    ).decision
    assert plain.domains is not None
    found = plain.domains.effective.domains[0]
    head = blank(familiarity=(-1.0, -0.5), offsets={found: (0.0, 0.25), "another": (0.0, 9.0)})
    (tmp_path / "mine.head").write_bytes(msgspec.json.encode(head))
    moved = drive(
        build_engine(build_policy(config)).decide(turn_from_text(text), Memory(), "d"), nobody
    ).decision
    assert plain.tier is not None
    assert moved.tier is not None
    assert moved.tier.score == pytest.approx(plain.tier.score + 0.25)
    assert moved.domains == plain.domains


def test_a_turn_without_words_is_decided_again_by_what_the_head_said(tmp_path: Path) -> None:
    engine = build_engine(build_policy(configured(tmp_path)))
    turn = turn_from_text("please summarise the minutes of the meeting")
    live = drive(engine.decide(turn, Memory(), "d-1"), nobody).decision
    assert drive(engine.again(live, Memory()), nobody).decision.tier == live.tier
    other = build_engine(build_policy(configured(tmp_path, "[-inf, 9, inf]")))
    assert drive(other.again(live, Memory()), nobody).decision.tier.tier is Tier.MEDIUM

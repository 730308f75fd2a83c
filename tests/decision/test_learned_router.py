"""A policy with a learned router decides with it, alike on every machine."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from pointsman.config import Config, load
from pointsman.decision.decision import Decision
from pointsman.decision.engine import Engine
from pointsman.decision.memory import Memory
from pointsman.drivers import drive
from pointsman.factory import build_engine, build_policy
from pointsman.tiers import TierDecision
from pointsman.vocabulary import ModelQuery, ModelReply, Stage, Tier
from pointsman.wire.request import request_from_text
from support.learned_routers import blank

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
[tiers.learned_router]
file = "mine.json"
boundaries = {boundaries}
"""


def nobody(need: ModelQuery) -> ModelReply:
    raise AssertionError(need)


def again(engine: Engine, live: Decision) -> TierDecision:
    """Decide a recorded turn again from its signals alone."""
    decided = drive(
        engine.decide(engine.reader.recall(live, Memory()), Memory(), live.id), nobody
    ).decision.tier
    assert decided
    return decided


def configured(folder: Path, boundaries: str = "[-inf, -inf, inf]") -> Config:
    known = blank(similarity=(-1.0, -0.5))
    (folder / "mine.json").write_bytes(msgspec.json.encode(known))
    file = folder / "pointsman.toml"
    file.write_text(CONFIG.format(boundaries=boundaries))
    return load(file)


def test_a_configured_head_decides_and_is_part_of_the_version(tmp_path: Path) -> None:
    engine = build_engine(build_policy(configured(tmp_path)))
    other = build_engine(build_policy(configured(tmp_path, "[-inf, 9, inf]")))
    agent_request = request_from_text("please summarise the minutes of the meeting")
    decision = drive(engine.decide(agent_request, Memory(), "d-1"), nobody).decision
    assert decision.tier is not None
    assert (decision.tier.tier, decision.tier.stage, decision.chain) == (
        Tier.COMPLEX,
        Stage.LEARNED,
        ("large",),
    )
    second = drive(other.decide(agent_request, Memory(), "d-1"), nobody).decision.tier
    assert second is not None
    assert second.tier is Tier.MEDIUM
    two = build_engine(build_policy(configured(tmp_path, "[-inf, inf, inf]")))
    assert len({engine.version, other.version, two.version}) == 3
    assert engine.version == build_engine(build_policy(configured(tmp_path))).version


def test_the_offset_of_the_domain_counts(tmp_path: Path) -> None:
    text = "fix the failing unit test in the parser module of this repository"
    config = configured(tmp_path)
    plain = drive(
        build_engine(build_policy(config)).decide(request_from_text(text), Memory(), "d"), nobody
    ).decision
    assert plain.domains is not None
    found = plain.domains.effective.domains[0]
    learned_router = blank(similarity=(-1.0, -0.5), offsets={found: (0.0, 0.25), "another": (0.0, 9.0)})
    (tmp_path / "mine.json").write_bytes(msgspec.json.encode(learned_router))
    moved = drive(
        build_engine(build_policy(config)).decide(request_from_text(text), Memory(), "d"), nobody
    ).decision
    assert plain.tier is not None
    assert moved.tier is not None
    assert moved.tier.score == pytest.approx(plain.tier.score + 0.25)
    assert moved.domains == plain.domains


def test_a_turn_without_words_is_decided_again_by_what_the_head_said(tmp_path: Path) -> None:
    engine = build_engine(build_policy(configured(tmp_path)))
    agent_request = request_from_text("please summarise the minutes of the meeting")
    live = drive(engine.decide(agent_request, Memory(), "d-1"), nobody).decision
    assert again(engine, live) == live.tier
    other = build_engine(build_policy(configured(tmp_path, "[-inf, 9, inf]")))
    assert again(other, live).tier is Tier.MEDIUM


@pytest.mark.slow
def test_deciding_and_classifying_with_a_head_load_no_numerical_library(tmp_path: Path) -> None:
    configured(tmp_path)
    (tmp_path / "lines.jsonl").write_text('{"text": "please summarise the minutes of the meeting"}\n')
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_LIBRARIES], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["n-grams", "learned", "[]"]


WITHOUT_LIBRARIES = """
import json, sys
from pathlib import Path
from typer.testing import CliRunner
from pointsman.factory import build_engine, build_policy
from pointsman.cli import app
from pointsman.config import load
from pointsman.decision.memory import Memory
from pointsman.drivers import drive
from pointsman.wire.request import request_from_text

said = CliRunner().invoke(app, ["classify", "--learned-router", "mine.json", "lines.jsonl"])
print(json.loads(said.stdout)["learned_router"]["source"])
engine = build_engine(build_policy(load(Path("pointsman.toml"))))
turn = request_from_text("please summarise the minutes of the meeting")
print(drive(engine.decide(turn, Memory(), "d"), None).decision.tier.stage)
heavy = ("numpy", "scipy", "sklearn", "torch", "tokenizers", "onnxruntime", "wordllama")
print([name for name in heavy if name in sys.modules])
"""

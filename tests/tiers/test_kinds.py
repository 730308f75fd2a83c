"""What kinds of prompts add to a score, and what is refused."""

import base64
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from pointsman.decision.policy import Policy
from pointsman.encoders import StaticEncoder
from pointsman.encoders import learned_routers as opened
from pointsman.encoders.learned_routers import load_kinds, open_kinds, table_hash
from pointsman.errors import ConfigError, MissingExtra, PointsmanError
from pointsman.factory import build_engine
from pointsman.learning.datasets import read_difficulties, read_outcomes
from pointsman.learning.kinds import fit_kinds
from pointsman.learning.rankers import decided
from pointsman.tiers import builtin_profile
from pointsman.tiers.kinds import SCALE, Kind, Kinds, PromptKinds, read_kinds


class Directions:
    """An encoder of two dimensions: the angle is the text's number of degrees."""

    name = "angles"

    def encode(self, texts: object, /) -> np.ndarray:
        angles = np.radians([float(text) for text in texts])  # type: ignore[attr-defined]
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def file(**changes: object) -> PromptKinds:
    made = PromptKinds(
        encoder="angles",
        table="t",
        mean=0.4,
        weight=2.0,
        origins=(),
        kinds=(Kind("like east", 0.9, 5), Kind("like north", 0.1, 5)),
        vectors=np.array([[SCALE, 0], [0, SCALE]]).astype(np.int8).tobytes(),
    )
    return msgspec.structs.replace(made, **changes)


def test_a_prompt_of_a_hard_kind_is_raised_and_one_of_an_easy_kind_lowered() -> None:
    kinds = Kinds(file(), Directions(), "t")
    east, north = kinds.of("0"), kinds.of("90")
    assert east is not None
    assert north is not None
    assert east.shift == pytest.approx(1.0)
    assert east.likeness == 1.0
    assert north.shift == pytest.approx(-0.6)
    assert str(east) == "like east, of which models fail 90%"


def test_only_short_prompts_are_remembered() -> None:
    kinds = Kinds(file(), Directions(), "t")
    for _ in range(2):
        kinds.of("90")
        kinds.of("90".ljust(5_000))
    assert (kinds._kept.cache_info().hits, kinds._kept.cache_info().currsize) == (1, 1)  # type: ignore[attr-defined]


def test_a_prompt_like_no_kind_is_left_to_the_rules() -> None:
    kinds = Kinds(file(), Directions(), "t")
    assert kinds.of("225") is None
    part = kinds.of("-65")  # cosine .42 to the nearest, half of the way
    assert part is not None
    assert 0.4 < part.likeness < 0.6
    assert part.shift == pytest.approx(2.0 * part.likeness * 0.5, abs=1e-5)


@pytest.mark.parametrize("changes", [{"table": "other"}, {"encoder": "other"}])
def test_kinds_of_another_encoder_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="made for the encoder"):
        Kinds(file(**changes), Directions(), "t")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vectors": b"abc"}, "do not fit"),
        ({"vectors": b""}, "do not fit"),
        ({"kinds": ()}, "do not fit"),
        ({"weight": float("1e400")}, "this version can read"),
    ],
)
def test_a_damaged_file_is_refused(changes: dict[str, object], message: str) -> None:
    data = msgspec.json.encode(file(**changes))
    with pytest.raises(ConfigError, match=message):
        read_kinds(data, "kinds.json")


def test_a_file_round_trips_and_its_digest_names_it() -> None:
    read = read_kinds(msgspec.json.encode(file()), "kinds.json")
    assert read == file()
    assert read.digest != file(weight=1.0).digest


def test_the_shipped_kinds_name_their_origins_and_hold_no_prompt() -> None:
    shipped = load_kinds("default")
    assert shipped is not None
    assert len(shipped.kinds) == 64
    assert all(origin.licence and len(origin.sha256) == 64 for origin in shipped.origins)
    assert all(len(kind.sentence) < 100 and 0 < kind.difficulty < 1 for kind in shipped.kinds)
    assert len(shipped.vectors) == 64 * 256
    assert load_kinds("off") is None
    with pytest.raises(ConfigError, match="cannot read the kinds"):
        load_kinds("/no/such/file")


def test_a_decision_names_the_kind_and_counts_it_once() -> None:
    policy = Policy(profile=builtin_profile("default"), kinds=load_kinds("default"))
    text = "Find all positive integers n such that the polynomial has an integer root modulo n."
    (with_kinds,) = decided([text], policy)
    (without,) = decided([text], Policy(profile=builtin_profile("default")))
    assert with_kinds.kind is not None
    shift = with_kinds.kind.shift * 0.325
    assert with_kinds.score == pytest.approx(without.score + shift)
    assert any(signal.startswith("kind: like prompts about") for signal in with_kinds.signals)
    assert with_kinds.kinds_version == policy.kinds.digest if policy.kinds else ""
    assert without.kind is None


def test_without_the_encoder_it_goes_on_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing() -> StaticEncoder:
        raise MissingExtra("static", needed_for="kinds")

    monkeypatch.setattr(opened, "StaticEncoder", missing)
    monkeypatch.setattr(opened, "_warned", set())
    policy = Policy(profile=builtin_profile("default"), kinds=load_kinds("default"))
    build_engine(policy)
    build_engine(policy)
    assert [record.message.split(":")[0] for record in caplog.records] == ["kinds of prompts are not used"]
    assert open_kinds(None) is None


def test_fitting_tells_hard_from_easy() -> None:
    texts = [str(angle) for angle in range(20)] + [str(90 + angle) for angle in range(20)]
    made = fit_kinds(texts, [1.0] * 20 + [0.0] * 20, Directions(), table="t", count=2)
    assert sorted(kind.prompts for kind in made.kinds) == [20, 20]
    assert {round(kind.difficulty, 2) for kind in made.kinds} == {0.25, 0.75}  # shrunk by 20 prompts
    shift = Kinds(made, Directions(), "t").of("10")
    assert shift is not None
    assert shift.shift > 0
    with pytest.raises(PointsmanError, match="at least 16"):
        fit_kinds(texts[:15], [1.0] * 15, Directions(), table="t")


def test_outcomes_that_contradict_themselves_are_refused(tmp_path: Path) -> None:
    data = tmp_path / "outcomes.jsonl"
    lines = [
        {"id": 1, "prompt": "a", "weak": 0, "strong": 1},
        {"id": 1, "prompt": "a", "weak": 1, "strong": 1},
    ]
    data.write_text("\n".join(map(json.dumps, [lines[0], *lines])))
    for read in (read_outcomes, read_difficulties):
        with pytest.raises(ConfigError, match='contradict themselves: id "1" has another score at') as error:
            read(data)
        assert "outcomes.jsonl:3" in str(error.value)
    data.write_text("\n".join(map(json.dumps, [lines[0], lines[0], {"prompt": "b", "difficulty": 0.25}])))
    assert read_difficulties(data) == [("a", 0.5), ("a", 0.5), ("b", 0.25)]
    data.write_text('{"prompt": "b", "scores": {"x": 1, "y": 0, "z": true, "w": 1}}')
    assert read_difficulties(data) == [("b", 0.25)]
    data.write_text('{"prompt": "b", "difficulty": 2}')
    with pytest.raises(ConfigError, match="outside"):
        read_difficulties(data)


def test_the_hash_of_a_table_is_that_of_the_shipped_kinds() -> None:
    shipped = load_kinds("default")
    assert shipped is not None
    assert table_hash(StaticEncoder()) == shipped.table
    assert base64.b64encode(shipped.vectors)

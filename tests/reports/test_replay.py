"""Replay: another policy on recorded turns, with reasons, costs and cache; alike on every machine."""

import json
import os
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from pointsman.cli import app
from pointsman.config.shapes import demo_ledger
from pointsman.decision.decision import Decision, without_content
from pointsman.decision.engine import Engine
from pointsman.decision.memory import Memory
from pointsman.decision.policy import Policy
from pointsman.drivers import drive
from pointsman.errors import PointsmanError
from pointsman.factory import build_engine, default_policy
from pointsman.model_choice.fitness import TOO_LONG
from pointsman.reports.replay import Cache, Replay, Replayed, Source, Summary
from pointsman.reports.replay_period import ReplayFile
from pointsman.stores.ledger import (
    Attempt,
    MemoryLedger,
    Outcome,
    PolicyText,
    PromptText,
    Record,
    SqliteLedger,
)
from pointsman.stores.ledger._bodies import decision_in
from pointsman.tiers import Verification
from pointsman.vocabulary import ModelQuery, ModelReply, ModelSpec, Tier, WireFormat
from pointsman.wire.request import read_request

pytestmark = pytest.mark.slow

MODELS = {
    "small": ModelSpec(
        "small", "up", "small", input_per_million=1.0, output_per_million=2.0, cached_input_per_million=0.1
    ),
    "large": ModelSpec(
        "large", "up", "large", input_per_million=10.0, output_per_million=20.0, cached_input_per_million=1.0
    ),
}
SPLIT = {Tier.SIMPLE: "small", Tier.MEDIUM: "small", Tier.COMPLEX: "large", Tier.REASONING: "large"}
TALK = [
    "hello",
    "design a distributed database, prove it correct step by step",
    "now prove the second design correct, step by step",
]
USED = {"input_tokens": 1_000_000, "cached_tokens": 500_000, "output_tokens": 100_000}


def a_policy(tier_models: dict[Tier, str], **given: Any) -> Policy:
    base = default_policy()
    return Policy(profile=base.profile, models=MODELS, tier_models=tier_models, domains=base.domains, **given)


RECORDED = build_engine(a_policy(SPLIT))


def recorded(
    engine: Engine = RECORDED, *, used: dict[str, int] = USED, ask: Any = None, session: str = "s"
) -> list[Record]:
    memory, messages, found = Memory(), [], []
    for number, text in enumerate(TALK):
        messages.append({"role": "user", "content": text})
        agent_request = read_request(
            WireFormat.CHAT, {"messages": list(messages)}, session=session, arrived_at=float(number)
        )
        decided = drive(engine.decide(agent_request, memory, f"d{number}"), ask or nobody)
        memory = decided.memory
        found.append(
            Record(
                without_content(decided.decision),
                (an_answer(f"d{number}", decided.decision.chain[0], **used),),
                (),
                decided.words.text,
            )
        )
    return found


def nobody(need: ModelQuery) -> ModelReply:
    return ModelReply(error="no-model")


def an_answer(decision: str, model: str, **given: Any) -> Attempt:
    return Attempt(
        decision=decision,
        number=1,
        model=model,
        upstream="up",
        status=200,
        started_at=0.0,
        total_ms=1.0,
        **given,
    )


def test_the_same_policy_changes_nothing() -> None:
    for line in Replay(RECORDED).turns(recorded()):
        assert line.changed == ()
        assert line.then == line.now
        assert (line.cache, line.source) == (Cache.AS_RECORDED, Source.WORDS)


def test_another_ladder_changes_models_costs_and_caches() -> None:
    assert [r.decision.chain[0] for r in recorded()] == ["small", "large", "large"]
    replay = Replay(build_engine(a_policy(dict.fromkeys(Tier, "small"))))
    first, second, third = replay.turns(recorded())
    assert first.changed == ()
    assert second.changed == ("model",)
    assert (second.then.model, second.now.model) == ("large", "small")
    assert second.why[-1] == f'"small" is first for {second.now.tier}, then "large"'
    # It stays where the record moved: what was cached then is cached still.
    assert second.cache is Cache.KEPT
    assert (second.then.cost, second.now.cost) == (7.5, 0.75)
    assert (third.cache, third.now.cost) == (Cache.KEPT, 0.75)


def test_moving_where_the_record_stayed_loses_the_cache() -> None:
    record = recorded(build_engine(a_policy(dict.fromkeys(Tier, "small"))))
    _, second, third = Replay(RECORDED).turns(record)
    assert (second.now.model, second.cache) == ("large", Cache.LOST)
    assert second.now.cost == 10.0 + 2.0
    assert (third.now.model, third.cache, third.now.cost) == ("large", Cache.KEPT, 7.5)


@pytest.mark.parametrize(
    ("used", "lacking"),
    [
        ({}, 3),
        ({"input_tokens": 5}, 3),
        ({"output_tokens": 5}, 3),
        ({"input_tokens": 5, "output_tokens": 0}, 0),
    ],
)
def test_without_usage_there_is_no_cost(used: dict[str, int], lacking: int) -> None:
    summary = Summary("p")
    for line in Replay(RECORDED).turns(recorded(used=used)):
        summary.add(line)
    assert summary.replayed - summary.priced == lacking
    assert any("data is lacking" in line or "are lacking" in line for line in summary.lines())


def test_without_words_the_signals_decide_and_it_is_said() -> None:
    silent = [msgspec.structs.replace(record, text=None) for record in recorded()]
    hashed = [msgspec.structs.replace(record, text="sha256:00") for record in recorded()]
    cut = [msgspec.structs.replace(record, text=(record.text or "")[:-1]) for record in recorded()]
    assert {line.source for line in Replay(RECORDED).turns(silent)} == {Source.SIGNALS}
    assert {line.source for line in Replay(RECORDED).turns(hashed)} == {Source.SIGNALS}
    assert {line.source for line in Replay(RECORDED).turns(cut)} == {Source.ALTERED}
    assert not any(line.changed for line in Replay(RECORDED).turns(silent))


def test_signals_that_the_other_policy_does_not_have_are_counted() -> None:
    silent = [msgspec.structs.replace(record, text=None) for record in recorded()]
    renamed = msgspec.structs.replace(default_policy().profile, name="mine")
    summary = Summary("p")
    lines = [summary.add(line) for line in Replay(build_engine(Policy(profile=renamed))).turns(silent)]
    assert lines[1].unknown > 0
    assert lines[1].lost
    assert "tier" in lines[1].changed
    assert summary.unknown > 0
    assert any("signals that this policy does not have" in line for line in summary.lines())


def test_a_verified_turn_is_answered_from_the_record() -> None:
    asking = build_engine(a_policy(SPLIT, verify=Verification(model="small", margin=1.0)))
    record = recorded(asking, ask=lambda need: ModelReply("REASONING"))
    assert any(r.decision.tier and r.decision.tier.stage == "verified" for r in record)
    lines = list(Replay(asking).turns(record))
    assert not any(line.changed for line in lines)
    assert {line.asks for line in lines} <= {"", "record"}
    unasked = list(Replay(asking).turns(recorded()))
    assert "no-model" in {line.asks for line in unasked}
    assert "record" not in {line.asks for line in unasked}


def asking_for(model: str, decision: Decision) -> Decision:
    asked = msgspec.structs.replace(decision.input, model_asked=model)
    return msgspec.structs.replace(decision, input=asked)


def test_a_model_that_the_other_policy_lacks_is_refused_and_counted() -> None:
    named = [msgspec.structs.replace(r, decision=asking_for("gone", r.decision)) for r in recorded()]
    summary = Summary("p")
    lines = [summary.add(line) for line in Replay(RECORDED).turns(named)]
    assert all('unknown model "gone"' in line.refused for line in lines)
    assert summary.replayed == 0
    assert any(line.startswith("  not replayed: 3") for line in summary.lines())


def test_a_request_that_the_other_policy_refuses_is_a_change_of_model() -> None:
    def needs_vision(record: Record) -> Record:
        asked = msgspec.structs.replace(record.decision.input, features=("vision",))
        return msgspec.structs.replace(record, decision=msgspec.structs.replace(record.decision, input=asked))

    records = [needs_vision(record) for record in recorded()]
    blind = {
        name: msgspec.structs.replace(model, features=frozenset[Any]()) for name, model in MODELS.items()
    }
    other = build_engine(replace(a_policy(SPLIT), models=blind))
    for line in Replay(other).turns(records):
        assert (line.changed, line.now.model, line.now.cost) == (("model",), "(refused)", None)
        assert 'routing.skipped.feature: "small" has no vision' in line.why


def test_a_request_refused_for_its_length_is_refused_again() -> None:
    """How long its texts are is not recorded; that they were too long is."""
    small = {name: msgspec.structs.replace(model, context_window=10) for name, model in MODELS.items()}
    engine = build_engine(replace(a_policy(SPLIT), models=small))
    body = {"messages": [{"role": "user", "content": "Why? " * 100}]}
    request = read_request(WireFormat.CHAT, body, session="s", arrived_at=0.0)
    then = drive(engine.decide(request, Memory(), "d0"), nobody).decision
    assert (then.chain, [reason.code for reason in then.refused]) == ((), [TOO_LONG] * 2)
    [line] = Replay(engine).turns([Record(then, (), (), None)])
    assert line.changed == ()


def test_turns_without_a_session_share_nothing() -> None:
    replay = Replay(RECORDED)
    list(replay.turns(recorded(session="")))
    assert replay.sessions == {}


def in_ledger(path: Path) -> Path:
    ledger = SqliteLedger(path, text="full")
    for session in ("a", "b", "c"):
        for record in recorded(session=session):
            new = f"{session}-{record.decision.id}"
            ledger.append(msgspec.structs.replace(record.decision, id=new))
            ledger.append(msgspec.structs.replace(record.attempts[0], decision=new))
            ledger.append(PromptText(decision=new, text=record.text or ""))
    ledger.close()
    return path


POLICY_FILE = """
[upstreams.up]
base_url = "https://example.org/v1"
api_key = "${A_KEY_NOBODY_HAS}"
[models.small]
upstream = "up"
id = "small"
input_per_million = 1.0
output_per_million = 2.0
[models.large]
upstream = "up"
id = "large"
input_per_million = 10.0
output_per_million = 20.0
[tiers]
simple = "small"
medium = "small"
complex = "small"
reasoning = "large"
"""


@pytest.fixture
def policy_file(tmp_path: Path) -> Path:
    file = tmp_path / "other.toml"
    file.write_text(POLICY_FILE, encoding="utf-8")
    return file


def command(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["replay", *map(str, arguments)])


def test_the_command_prints_what_changed_and_a_summary(tmp_path: Path, policy_file: Path) -> None:
    ledger = in_ledger(tmp_path / "l.sqlite")
    result = command(ledger, "--policy", policy_file)
    assert result.exit_code == 0, result.exception
    assert "replayed 9 of 9 turns" in result.stdout
    assert "cost of answers:" in result.stdout
    printed = [
        json.loads(line) for line in command(ledger, "--policy", policy_file, "--json").stdout.splitlines()
    ]
    assert len(printed) == 10
    assert printed[-1]["summary"]["turns"] == 9
    assert [line["id"] for line in printed[:3]] == ["a-d0", "b-d0", "c-d0"]


def test_a_change_of_model_says_whether_the_answers_are_good_enough(
    tmp_path: Path, policy_file: Path
) -> None:
    path = in_ledger(tmp_path / "l.sqlite")
    policy_file.write_text(POLICY_FILE.replace('reasoning = "large"', 'reasoning = "small"'))
    shown = command(path, "--policy", policy_file).stdout.splitlines()
    assert shown[shown.index("  large -> small: 6") + 1] == (
        "    good enough? Not known yet: 0 of the 6 requests that change have labels of both models; "
        "“small” beside “large” needs about 960 more pairs (0 of the 30 that the first look takes). "
        '[shadow] model = "small" asks it beside “large”.'
    )
    report = ["report", "quality", "--ledger", str(path), "--config", str(policy_file)]
    assert "Not known yet: no request has scored answers" in CliRunner().invoke(app, report).stdout
    ledger = SqliteLedger(path, text="full")
    for session in ("a", "b", "c"):
        for model, score in (("", 1.0), ("small", 0.5)):
            ledger.append(Outcome(decision=f"{session}-d1", model=model, score=score))
    ledger.close()
    seen = "3 of the 30 that the first look takes"
    needs = f"“small” beside “large” needs about 957 more pairs ({seen})."
    of = "Not known yet: 3 of the 6 requests that change have labels of both models; "
    moved = f'{of}{needs} [shadow] model = "small" asks it beside “large”.'
    said = f"Not known yet: {needs}"
    shown = command(path, "--policy", policy_file).stdout.splitlines()
    assert shown[shown.index("  large -> small: 6") + 1] == f"    good enough? {moved}"
    last = command(path, "--policy", policy_file, "--json").stdout.splitlines()[-1]
    assert json.loads(last)["summary"]["models"] == [
        {"then": "large", "now": "small", "turns": 6, "quality": moved}
    ]
    assert CliRunner().invoke(app, report).stdout.splitlines()[0] == said
    [row] = json.loads(CliRunner().invoke(app, [*report, "--json"]).stdout)
    assert (row["sentence"], row["cheap"], row["strong"], row["pairs"]) == (said, "small", "large", 3)
    assert (
        CliRunner().invoke(app, [*report, "--csv"]).stdout.splitlines()[0].startswith("answer,cheap,strong")
    )


def test_without_a_name_the_configured_ledger_or_the_demos_is_replayed(
    tmp_path: Path, policy_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("POINTSMAN_CONFIG", raising=False)
    (tmp_path / "pointsman.toml").write_text('[ledger]\npath = "l.sqlite"\n')
    in_ledger(tmp_path / "l.sqlite")
    assert "replayed 9 of 9 turns" in command("--policy", policy_file).stdout
    assert "no decisions yet" in command("--policy", policy_file, "--demo").stderr
    in_ledger(demo_ledger())
    (tmp_path / "l.sqlite").unlink()
    assert "replayed 9 of 9 turns" in command("--policy", policy_file, "--demo").stdout


def test_a_tier_profile_is_a_policy_too(tmp_path: Path) -> None:
    profile = Path(__file__).parents[2] / "src/pointsman/tiers/profiles/seed.toml"
    result = command(in_ledger(tmp_path / "l.sqlite"), "--policy", profile, "--json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines[0]["now"]["model"] is None
    assert lines[0]["now"]["tier"]
    assert not any("model" in line["changed"] for line in lines[:-1])


def test_two_hash_seeds_write_the_same_bytes(tmp_path: Path, policy_file: Path) -> None:
    ledger = in_ledger(tmp_path / "l.sqlite")
    written = []
    for seed in ("1", "4242"):
        out = tmp_path / f"out{seed}.jsonl"
        call = [sys.executable, "-m", "pointsman", "replay", str(ledger), "--policy", str(policy_file)]
        done = subprocess.run(
            [*call, "--out", str(out)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        )
        assert done.stderr == b""
        written.append((done.stdout, out.read_bytes()))
    assert written[0] == written[1]
    assert len(written[0][1].splitlines()) == 9


def interrupted(records: list[Record], after: int) -> Any:
    yield from records[:after]
    raise KeyboardInterrupt


@pytest.mark.parametrize("after", [1, 2, 3, 8])
@pytest.mark.parametrize("every", [1, 2, 100])
def test_an_interrupted_replay_goes_on(
    tmp_path: Path, after: int, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pointsman.reports.replay_period.EVERY", every)
    ledger = SqliteLedger(in_ledger(tmp_path / "l.sqlite"))
    records = list(ledger.records())
    ledger.close()
    other = build_engine(a_policy(dict.fromkeys(Tier, "small")))
    whole = ReplayFile(tmp_path / "whole.jsonl")
    expected = list(whole.write(Replay(other), records))
    parts = ReplayFile(tmp_path / "parts.jsonl")
    with pytest.raises(KeyboardInterrupt):
        list(parts.write(Replay(other), interrupted(records, after)))
    assert parts.checkpoint.exists()
    assert list(parts.write(Replay(other), records, resume=True)) == expected
    assert parts.path.read_bytes() == whole.path.read_bytes()
    assert not parts.checkpoint.exists()


def test_what_was_written_after_the_checkpoint_is_written_again(tmp_path: Path) -> None:
    records = recorded()
    file = ReplayFile(tmp_path / "out.jsonl")
    with pytest.raises(KeyboardInterrupt):
        list(file.write(Replay(RECORDED), interrupted(records, 2)))
    with file.path.open("ab") as out:
        out.write(b'{"half a li')
    assert len(list(file.write(Replay(RECORDED), records, resume=True))) == 3
    assert [json.loads(line)["id"] for line in file.path.read_text().splitlines()] == ["d0", "d1", "d2"]


def test_a_run_that_starts_anew_leaves_no_checkpoint_of_the_one_before(tmp_path: Path) -> None:
    records = recorded()
    file = ReplayFile(tmp_path / "out.jsonl")
    with pytest.raises(KeyboardInterrupt):
        list(file.write(Replay(RECORDED), interrupted(records, 2)))
    anew = file.write(Replay(RECORDED), records)
    next(anew)
    assert not file.checkpoint.exists()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda file: file.checkpoint.unlink(), "nothing to resume"),
        (lambda file: file.checkpoint.write_bytes(b"{"), "is not a checkpoint"),
        (
            lambda file: file.checkpoint.write_bytes(
                file.checkpoint.read_bytes().replace(RECORDED.version.encode(), b"0" * 12)
            ),
            "belongs to policy 000000000000",
        ),
        (
            lambda file: file.checkpoint.write_bytes(file.checkpoint.read_bytes().replace(b'"d1"', b'"d9"')),
            "this replay started with another ledger",
        ),
        (lambda file: file.path.write_bytes(b"{}\n"), "is shorter than"),
    ],
)
def test_what_cannot_be_resumed_is_said(tmp_path: Path, spoil: Any, message: str) -> None:
    records = recorded()
    file = ReplayFile(tmp_path / "out.jsonl")
    with pytest.raises(KeyboardInterrupt):
        list(file.write(Replay(RECORDED), interrupted(records, 2)))
    spoil(file)
    with pytest.raises(PointsmanError, match=message):
        list(file.write(Replay(RECORDED), records, resume=True))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.sqlite", "--policy", "{policy}"], "there is no ledger"),
        (["{ledger}", "--policy", "missing.toml"], "is no file, and no policy of this ledger"),
        (["{ledger}", "--policy", "{policy}", "--resume"], "--resume continues a file"),
        (["{ledger}", "--policy", "{policy}", "--out", "{policy}/x"], "cannot write"),
    ],
)
def test_wrong_usage(tmp_path: Path, policy_file: Path, arguments: list[str], message: str) -> None:
    ledger = in_ledger(tmp_path / "l.sqlite")
    result = command(*(part.format(ledger=ledger, policy=policy_file) for part in arguments))
    assert message in str(result.exception)


def test_the_versions_that_a_ledger_has_are_named(tmp_path: Path) -> None:
    with closing(SqliteLedger(tmp_path / "l.sqlite")) as ledger:
        ledger.append(PolicyText(version="5dae3314e19a", text="[domains]\n"))
        for record in recorded():
            ledger.append(msgspec.structs.replace(record.decision, policy="5dae3314e19a"))
    refused = command(str(tmp_path / "l.sqlite"), "--policy", "5dae").exception
    assert isinstance(refused, PointsmanError)
    assert refused.hint == "policies of this ledger: 5dae3314e19a"


def test_a_built_in_profile_is_no_policy_and_the_hint_says_how(tmp_path: Path) -> None:
    result = command(str(in_ledger(tmp_path / "l.sqlite")), "--policy", "seed")
    assert isinstance(result.exception, PointsmanError)
    assert result.exception.hint is not None
    assert 'a copy of pointsman.toml with profile = "seed" under [tiers]' in result.exception.hint


def test_lines_come_back_as_they_were() -> None:
    for line in Replay(RECORDED).turns(recorded()):
        assert msgspec.json.decode(msgspec.json.encode(line), type=Replayed) == line


def test_a_ledger_in_memory_can_be_replayed() -> None:
    ledger = MemoryLedger(text="full")
    for record in recorded():
        ledger.append(record.decision)
    assert [line.id for line in Replay(RECORDED).turns(ledger.records())] == ["d0", "d1", "d2"]


def test_decisions_of_an_older_version_can_be_replayed() -> None:
    """Fields that later versions added are absent."""
    old = {"id": "d", "session": "", "format": "chat", "model_asked": "auto", "arrived_at": 1.0,
           "policy": "p", "tier": None, "chain": ["small"]}  # fmt: skip
    decision = decision_in(msgspec.json.encode(old), 1)
    [line] = Replay(RECORDED).turns([Record(decision, (), (), None)])
    assert line.now.tier
    assert line.changed

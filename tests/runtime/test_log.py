"""What the log says of decisions: one line each at INFO, answers of models at DEBUG, each failure once."""

import logging

import pytest

from pointsman.decision.decision import summary
from pointsman.decision.engine import Engine
from pointsman.decision.policy import DomainPolicy, Policy
from pointsman.domains import default_domains
from pointsman.evidence import Scanner
from pointsman.factory import build_engine
from pointsman.guidance import GuidancePolicy
from pointsman.runtime import Runtime
from pointsman.stores.ledger import MemoryLedger
from pointsman.stores.sessions import MemorySessions
from pointsman.tiers import Verification, builtin_profile
from pointsman.vocabulary import Mode, ModelQuery, ModelReply, ModelSpec, Tier, WireFormat
from pointsman.wire.request import read_request, request_from_text

MODELS = {"small": ModelSpec("small", "main", "s-1")}
SECRET = "sk-hush-hush-0123456789"


def runtime(verify: Verification | None = None) -> Runtime:
    policy = Policy(
        profile=builtin_profile("default"),
        models=MODELS,
        tier_models=dict.fromkeys(Tier, "small"),
        verify=verify,
        guidance=GuidancePolicy(mode=Mode.ON, control=0.0),
        domains=DomainPolicy(domains=default_domains(), mode=Mode.ON),
    )
    return Runtime(build_engine(policy), sessions=MemorySessions(), ledger=MemoryLedger())


def stuck(calls: int) -> list[dict[str, object]]:
    messages: list[dict[str, object]] = [
        {"role": "user", "content": f"fix this bug in the login function, key {SECRET}"}
    ]
    for number in range(calls):
        function = {"name": "bash", "arguments": '{"c": "pytset"}'}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": f"Error: not found {SECRET}"},
        ]
    return messages


def test_one_line_for_each_decision_with_all_its_parts(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pointsman.decisions")
    request = read_request(WireFormat.CHAT, {"model": "auto", "messages": stuck(3)}, session="one")
    decision = runtime().decide_sync(request)
    [record] = caplog.records
    line = record.getMessage()
    assert line == summary(decision)
    found = dict(part.split("=") for part in line.split())
    assert found["decision"] == decision.id
    assert (found["session"], found["format"], found["asked"], found["model"]) == (
        "one",
        "chat",
        "auto",
        "small",
    )
    assert found["tier"].startswith(("SIMPLE(", "MEDIUM(", "COMPLEX("))
    assert "bugfix" in found["domains"]
    assert found["guidance"].endswith(",said)")
    assert found["added"] == "guidance,domains"
    assert SECRET not in line


def test_nothing_is_logged_below_the_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    runtime().decide_sync(request_from_text("hello"))
    assert not caplog.records


@pytest.mark.parametrize("session", ["a b=c", "line\nbreak", "\x1b[31mred", "é" * 300])
def test_what_a_caller_names_cannot_break_the_line(session: str) -> None:
    decision = runtime().decide_sync(request_from_text("hello", session=session))
    line = summary(decision)
    assert line.isprintable()
    assert len(line) < 600
    assert all(part.count("=") == 1 for part in line.split())


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (ModelReply("SIMPLE"), "verify_tier: the default model said 'SIMPLE' in "),
        (ModelReply(error="timeout"), "verify_tier: the default model said nothing: timeout in "),
    ],
)
def test_answers_of_judging_models_are_logged_at_debug(
    caplog: pytest.LogCaptureFixture, reply: ModelReply, said: str
) -> None:
    caplog.set_level(logging.DEBUG, "pointsman.decisions")
    running = runtime(Verification(share=1.0))

    def ask(_: ModelQuery) -> ModelReply:
        return reply

    running.questions = type(running.questions)(Verification(share=1.0))
    decision = running.decide_sync(request_from_text("Write something about the sea for her and me"), ask)
    [line] = [r.getMessage() for r in caplog.records if r.levelno == logging.DEBUG]
    assert line.startswith(f"{decision.id} {said}")


class BrokenMatcher:
    def match(self, lowered: str, /) -> int:
        raise MemoryError("no scratch space")


def test_a_part_that_fails_is_logged_once_and_counted_each_time(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    running = runtime()
    broken = Scanner(running.engine.scanner.table, BrokenMatcher())
    running = running.with_policy(Engine(running.engine.policy, broken))
    decisions = [running.decide_sync(request_from_text("anything")) for _ in range(3)]
    assert [[reason.code for reason in each.abstained] for each in decisions] == [["evidence.failed"]] * 3
    [record] = caplog.records
    assert "evidence.failed: MemoryError: no scratch space" in record.getMessage()

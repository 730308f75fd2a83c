"""What a key may use decides which model serves, and a recorded permission decides the same again."""

from __future__ import annotations

import msgspec
import pytest

from pointsman.config import Config
from pointsman.decision.decision import Decision
from pointsman.decision.engine import Engine
from pointsman.decision.memory import Memory
from pointsman.decision.permission import is_permitted
from pointsman.drivers import drive, no_model
from pointsman.factory import build_engine, build_policy
from pointsman.vocabulary import AgentRequest, Message, Permission, Role, Tier, WireFormat
from support.limited import HARD, config_of

EASY = "Thanks!"
NOT_LISTED = "routing.skipped.forbidden.models"


@pytest.fixture(scope="module")
def config() -> Config:
    return config_of("")


@pytest.fixture(scope="module")
def engine(config: Config) -> Engine:
    return build_engine(build_policy(config))


def request(text: str, model: str, permission: Permission | None) -> AgentRequest:
    history = (Message(Role.USER, (text,)),)
    return AgentRequest(
        format=WireFormat.CHAT, history=_History(history), model=model, session="s", permission=permission
    )


class _History(tuple[Message, ...]):
    __slots__ = ()

    def role(self, index: int, /) -> Role:
        return self[index].role


def decide(engine: Engine, asked: AgentRequest) -> Decision:
    return drive(engine.decide(asked, Memory(), "d-1"), no_model).decision


ONLY_SMALL = Permission(models=(("small", "back*"),))
UP_TO_SIMPLE = Permission(highest=Tier.SIMPLE)
LOW = Permission(low=Tier.SIMPLE, why_low="little is left")


@pytest.mark.parametrize(
    ("text", "model", "permission", "chain", "reasons"),
    [
        (HARD, "auto", None, ("large",), []),
        (EASY, "auto", ONLY_SMALL, ("small", "backup"), []),
        (HARD, "auto", ONLY_SMALL, ("small", "backup"), [NOT_LISTED, "routing.lower-tier"]),
        (HARD, "auto", UP_TO_SIMPLE, ("small", "backup"), ["access.tier"]),
        (HARD, "reasoning", UP_TO_SIMPLE, ("small", "backup"), ["access.tier"]),
        (HARD, "auto", LOW, ("small", "backup"), ["access.budget-low"]),
        (HARD, "large", LOW, ("large",), []),  # named: the budget decides, not the tier
        (EASY, "auto", LOW, ("small", "backup"), []),
        (EASY, "auto", Permission(models=(("*",), ("backup",))), ("backup",), [NOT_LISTED]),
        (EASY, "auto", Permission(priced=True), ("small", "backup"), []),
        (EASY, "dark", Permission(models=(("d*k",),)), ("dark",), []),
    ],
    ids=["all", "easy", "list", "tier", "named-tier", "low", "low-named", "low-easy", "levels", "priced",
         "pattern"],
)  # fmt: skip
def test_models_that_may_serve(
    engine: Engine,
    text: str,
    model: str,
    permission: Permission | None,
    chain: tuple[str, ...],
    reasons: list[str],
) -> None:
    decision = decide(engine, request(text, model, permission))
    assert decision.chain == chain
    codes = [reason.code for reason in decision.reasons if reason.code.startswith(("access.", "routing."))]
    assert list(dict.fromkeys(codes)) == reasons
    assert decision.input.permission == permission
    # A recorded row decides the same again, whatever the budget is by then.
    recorded = msgspec.json.decode(msgspec.json.encode(decision), type=Decision)
    again = drive(
        engine.decide(engine.reader.recall(recorded, Memory(), text), Memory(), "d-2"), no_model
    ).decision
    assert (again.chain, again.input.permission) == (decision.chain, permission)


@pytest.mark.parametrize(
    ("model", "permission", "code"),
    [
        ("large", ONLY_SMALL, "models"),
        ("large", UP_TO_SIMPLE, "tier"),
        ("dark", UP_TO_SIMPLE, "tier"),  # of no tier
        ("dark", Permission(priced=True), "price"),
        ("auto", Permission(models=(("nothing",),)), "models"),
    ],
)
def test_what_no_permitted_model_can_serve_is_refused(
    engine: Engine, model: str, permission: Permission, code: str
) -> None:
    decision = decide(engine, request(EASY, model, permission))
    assert decision.chain == ()
    assert {reason.code for reason in decision.refused} == {f"routing.skipped.forbidden.{code}"}


@pytest.mark.parametrize(
    ("patterns", "allowed"),
    [
        ((), True),
        ((("*",),), True),
        ((("gpt-*", "small"),), True),
        ((("small", "x"), ("s*",)), True),
        ((("small",), ("large",)), False),
        ((("mall",),), False),
        ((("Small",),), False),
        ((("small*x",),), False),
    ],
)
def test_one_pattern_of_each_level_has_to_match(patterns: tuple[tuple[str, ...], ...], allowed: bool) -> None:
    assert is_permitted("small", Permission(models=patterns)) is allowed

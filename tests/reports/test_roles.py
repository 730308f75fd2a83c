"""What each role costs, and what the tiers of roles alone save."""

import pytest

from pointsman.decision.decision import Decision, RequestInput
from pointsman.reports.roles import roles
from pointsman.stores.ledger import Attempt, Record
from pointsman.tiers import TierDecision
from pointsman.vocabulary import AgentRole, ModelSpec, Purpose, Stage, Tier, WireFormat
from support.report_lines import plain_lines

MODELS = {
    "small": ModelSpec("small", "u", "s", input_per_million=1.0, output_per_million=5.0),
    "large": ModelSpec(
        "large", "u", "l", input_per_million=10.0, output_per_million=50.0, cached_input_per_million=1.0
    ),
    "free": ModelSpec("free", "u", "f"),
}


def record(
    session: str,
    model: str,
    role: AgentRole | None,
    purpose: Purpose | None,
    *,
    stage: Stage = Stage.RULES,
    tokens: tuple[int, int, int] | None = (1_000, 0, 100),
) -> Record:
    asked = RequestInput(
        format=WireFormat.CHAT, model_asked="auto", session=session, arrived_at=0.0, size=4_000,
        role=role, purpose=purpose,
    )  # fmt: skip
    tier = TierDecision(Tier.SIMPLE, 0.0, 1.0, (), stage, needs_verification=False, reasons=())
    attempt = Attempt(
        decision="d", number=1, model=model, upstream="u", status=200, started_at=0.0, total_ms=1.0,
        input_tokens=tokens and tokens[0], cached_tokens=tokens and tokens[1],
        output_tokens=tokens and tokens[2],
    )  # fmt: skip
    return Record(Decision(id="d", input=asked, policy="p", tier=tier, chain=(model,)), (attempt,), (), None)


MAIN, HELPER, SUBAGENT = AgentRole.MAIN, AgentRole.HELPER, AgentRole.SUBAGENT
TITLE, TURN, STEP = Purpose.TITLE, Purpose.MESSAGE, Purpose.TOOL_ITERATION


def test_a_title_is_compared_with_the_model_of_its_session() -> None:
    found = roles(
        [
            record("a", "small", HELPER, TITLE, stage=Stage.ROLE),
            record("a", "large", MAIN, TURN, tokens=(10_000, 0, 500)),
            record("a", "large", MAIN, STEP, tokens=(10_000, 9_000, 500)),
            record("b", "small", HELPER, TITLE, stage=Stage.ROLE),  # of no conversation that is known
            record("a", "small", SUBAGENT, TURN),
            record("", "small", None, None),
        ],
        MODELS,
    )
    assert list(found.found) == ["title", "(none)", "message", "subagent", "tool_iteration"]
    title = found.found["title"]
    assert (title.requests, title.compared, title.counted) == (2, 1, 2)
    assert title.cost == pytest.approx(2 * 0.0015)
    assert found.saved == title.saved == pytest.approx(0.015 - 0.0015)
    assert found.found["tool_iteration"].cost == pytest.approx(0.01 + 0.009 + 0.025)
    assert found.share == pytest.approx(found.saved / (found.saved + found.cost))


def test_only_what_the_role_decided_is_claimed() -> None:
    found = roles(
        [
            record("a", "large", MAIN, TURN),
            record("a", "small", HELPER, TITLE, stage=Stage.FORCED),  # the agent asked for the small model
            record("a", "small", HELPER, TITLE, stage=Stage.ALIAS),  # so it did, by a name of that model
            record("a", "small", MAIN, STEP),  # the rules decided
            record("a", "large", HELPER, Purpose.COMPACTION, stage=Stage.ROLE),  # the same model
        ],
        MODELS,
    )
    assert found.saved == 0.0


def test_a_helper_call_of_no_known_purpose_is_one_by_its_role() -> None:
    main, helper = record("a", "large", MAIN, TURN), record("a", "small", HELPER, None, stage=Stage.ALIAS)
    assert roles([main, helper], MODELS).saved == pytest.approx(0.015 - 0.0015)


def test_roles_that_cost_more_save_no_negative_amount() -> None:
    """A title on a dearer model than that of its session: "save -$0.013"."""
    found = roles(
        [record("a", "small", MAIN, TURN), record("a", "large", HELPER, TITLE, stage=Stage.ROLE)], MODELS
    )
    last = list(plain_lines(found.blocks()))[-1]
    assert last == "the tiers of roles alone cost $0.013 more (450.00% of the cost without them)"


def test_what_has_no_price_or_no_usage_is_in_no_amount() -> None:
    found = roles(
        [record("a", "free", MAIN, TURN), record("a", "large", MAIN, TURN, tokens=None)],
        MODELS,
    )
    assert found.cost == 0.0
    assert found.share == 0.0
    assert "without usage or price, and in no amount: 2 requests" in list(plain_lines(found.blocks()))
    assert found.to_json()["requests"] == 2
    assert list(plain_lines(roles([], MODELS).blocks()))[-1].startswith("the tiers of roles alone save $0 ")

"""Which tier serves each role."""

import msgspec
import pytest

from pointsman.tiers import RoleTiers
from pointsman.tiers.projects import name_of
from pointsman.vocabulary import AgentRole, Purpose, Tier

MAIN, HELPER, SUBAGENT = AgentRole.MAIN, AgentRole.HELPER, AgentRole.SUBAGENT


@pytest.mark.parametrize(
    ("role", "purpose", "name", "default"),
    [
        (HELPER, Purpose.TITLE, "title", "simple"),
        (HELPER, Purpose.HELPER, "helper", "simple"),
        (HELPER, Purpose.COMPACTION, "compaction", "session"),
        (HELPER, Purpose.CHECK, "check", "decide"),
        (SUBAGENT, Purpose.CHECK, "check", "decide"),
        (SUBAGENT, Purpose.MESSAGE, "subagent", "decide"),
        (SUBAGENT, Purpose.TOOL_ITERATION, "subagent", "decide"),
        (SUBAGENT, None, "subagent", "decide"),
        (MAIN, Purpose.MESSAGE, "message", "decide"),
        (MAIN, Purpose.TOOL_ITERATION, "tool_iteration", "decide"),
        (MAIN, None, "main", "decide"),
        (HELPER, None, "helper", "decide"),  # a question of a program's own: nobody marked it as small
        (None, None, "", "decide"),
    ],
)
def test_defaults(role: AgentRole | None, purpose: Purpose | None, name: str, default: str) -> None:
    assert name_of(role, purpose) == name
    assert RoleTiers().of(role, purpose) == default


def test_an_operator_gives_a_tier() -> None:
    roles = RoleTiers(plan="reasoning", title="decide", subagent="medium")
    assert roles.tier(MAIN, Purpose.PLAN) is Tier.REASONING
    assert roles.tier(HELPER, Purpose.TITLE) is None
    assert roles.tier(SUBAGENT, Purpose.TOOL_ITERATION) is Tier.MEDIUM
    assert RoleTiers().tier(HELPER, Purpose.COMPACTION) is None


def test_every_role_that_can_be_configured_is_one_that_is_recognised() -> None:
    names = {name_of(role, purpose) for role in AgentRole for purpose in Purpose}
    assert {field.name for field in msgspec.structs.fields(RoleTiers)} <= names

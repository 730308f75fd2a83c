"""What falls to a lower tier is told before it happens."""

import pytest

from pointsman.model_choice.chains import TierModels, shortfalls
from pointsman.vocabulary import ModelSpec, Tier, WireFormat

CHAT_ONLY = frozenset({WireFormat.CHAT})
MODELS = {
    "any": ModelSpec("any", "main", "any"),
    "seeing": ModelSpec("seeing", "main", "seeing", features=frozenset({"tools", "vision", "structured"})),
    "blind": ModelSpec("blind", "main", "blind", features=frozenset({"tools", "structured"})),
    "chatty": ModelSpec("chatty", "main", "chatty", formats=CHAT_ONLY),
    "chatty-blind": ModelSpec(
        "chatty-blind", "main", "cb", formats=CHAT_ONLY, features=frozenset({"tools", "structured"})
    ),
}
ALL = dict.fromkeys(Tier, "any")


@pytest.mark.parametrize(
    ("tier_models", "lines"),
    [
        ({}, []),
        (ALL, []),
        ({**ALL, Tier.SIMPLE: "blind"}, []),  # a higher tier serves
        ({**ALL, Tier.REASONING: ["blind", "seeing"]}, []),
        (
            {Tier.SIMPLE: "any", Tier.COMPLEX: "blind", Tier.REASONING: "any"},
            [
                (
                    'a request of tier MEDIUM with vision falls to a lower tier: "blind" has no vision; '
                    "the tiers MEDIUM to COMPLEX cannot serve this request: SIMPLE comes next"
                )
            ],
        ),
        (
            {**ALL, Tier.REASONING: "blind"},
            [
                (
                    'a request of tier REASONING with vision falls to a lower tier: "blind" has no vision; '
                    "tier REASONING cannot serve this request: COMPLEX comes next"
                )
            ],
        ),
        (
            {**ALL, Tier.REASONING: "chatty"},
            [
                (
                    "a request of tier REASONING in format responses falls to a lower tier: "
                    '"chatty" does not speak responses; '
                    "tier REASONING cannot serve this request: COMPLEX comes next"
                ),
                (
                    "a request of tier REASONING in format messages falls to a lower tier: "
                    '"chatty" does not speak messages; '
                    "tier REASONING cannot serve this request: COMPLEX comes next"
                ),
            ],
        ),
        (
            dict.fromkeys(Tier, "blind"),
            ['no model can serve a request with vision: "blind" has no vision'],
        ),
        (
            {Tier.SIMPLE: "chatty-blind"},
            [
                'no model can serve a request with vision in format chat: "chatty-blind" has no vision',
                'no model can serve a request in format responses: "chatty-blind" does not speak responses',
                'no model can serve a request in format messages: "chatty-blind" does not speak messages',
                "no model is configured for MEDIUM, COMPLEX, REASONING: a lower tier serves",
            ],
        ),
    ],
)
def test_what_falls(tier_models: TierModels, lines: list[str]) -> None:
    assert shortfalls(tier_models, MODELS) == lines

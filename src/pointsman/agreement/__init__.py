"""Floor 3: whether the answers of two models agree: tool calls, structured output, short final answers.

Free text is never compared: that needs a judge. `pointsman eval answers` and the gateway compare with the
same code. Only ``policy`` is imported here: what compares is loaded where a policy is configured.
"""

from __future__ import annotations

from pointsman.agreement.policy import (
    COUNTED,
    AgreementPolicy,
    AgreementSessions,
    Compared,
    Result,
    policy_for,
    result_of,
    serves_first,
)

__all__ = [
    "COUNTED",
    "AgreementPolicy",
    "AgreementSessions",
    "Compared",
    "Result",
    "policy_for",
    "result_of",
    "serves_first",
]

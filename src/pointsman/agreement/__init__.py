"""Floor 3: whether the answers of two models agree: tool calls, structured output, short final answers.

Free text is never compared: that needs a judge. `pointsman eval answers` and the gateway compare with the
same code. Only the policy is here: what compares is loaded where a policy is configured.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from pointsman.remembering import Bounded

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


TierName: TypeAlias = Literal["simple", "medium", "complex", "reasoning"]
#: As roles are called under ``[tiers.roles]``; `message` is the first answer to a person in the main
#: conversation, `tool_iteration` what follows the results of tools there.
RoleName: TypeAlias = Literal[
    "message", "tool_iteration", "subagent", "plan", "edit", "title", "topic", "summary", "compaction",
    "side", "check", "probe", "helper",
]  # fmt: skip


class Compared(StrEnum):
    """What of two answers was compared."""

    CALLS = "calls"
    STRUCTURED = "structured"
    ANSWER = "answer"
    NOTHING = "nothing"  # free text, or an answer that is not whole


class Result(StrEnum):
    """What asking the two cheap models came to."""

    AGREED = "agreed"  # the first one serves
    CONTROL = "control"  # they agreed, and the strong model serves all the same: the stated share
    DIFFERENT = "different"
    INCOMPARABLE = "incomparable"  # free text, or an answer that is not whole
    FAILED = "failed"  # one of them did not answer
    LATE = "late"  # one of them did not answer in time
    SKIPPED = "skipped"  # they were not asked


#: Results after which a session counts one disagreement more. Free text disagrees with nothing.
COUNTED: Final = frozenset({Result.DIFFERENT, Result.FAILED, Result.LATE})


class AgreementPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Two cheap models are asked at once, and the strong one only where they do not agree.

    It counts where the choice is left to the gateway. The first table that fits a request counts. Compared
    are calls of tools, structured output and short final answers, never free text. Off without a table.
    """

    cheap: Annotated[
        tuple[str, str],
        Meta(description="The two models that are asked at once. Where they agree, the first one serves."),
    ]
    strong: Annotated[
        str | None,
        Meta(description="Model that serves where they do not agree; default: as the tier is decided."),
    ] = None
    tiers: Annotated[
        tuple[TierName, ...], Meta(description="Only requests of these tiers; default: all.")
    ] = ()
    roles: Annotated[
        tuple[RoleName, ...], Meta(description="Only requests of these roles; default: all.")
    ] = ()
    projects: Annotated[tuple[str, ...], Meta(description="Only these projects, by key; default: all.")] = ()
    loops: Annotated[
        bool,
        Meta(
            description="Also requests that go on after the results of tools. Nothing was measured there yet."
        ),
    ] = False
    incomparable: Annotated[
        Literal["strong", "first"],
        Meta(description="Who serves where answers cannot be compared, such as free text."),
    ] = "strong"
    timeout: Annotated[
        float,
        Meta(gt=0, description="Seconds for which both are waited for; who has not answered disagrees."),
    ] = 30.0
    disagreements: Annotated[
        int,
        Meta(
            ge=1,
            description="Disagreements in a session after which its other requests go to the strong model at "
            "once; counted by each process.",
        ),
    ] = 2
    share: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Share of requests that the strong model serves although both agree: a control "
            "group, which tells how often all three agree.",
        ),
    ] = 0.05
    seed: Annotated[int, Meta(description="Random seed of that share.")] = 0

    def fits(self, tier: str, role: str, project: str, *, in_loop: bool) -> bool:
        """Whether a request is one of those that this table is for."""
        return (
            (not self.tiers or tier.lower() in self.tiers)
            and (not self.roles or role in self.roles)
            and (not self.projects or project in self.projects)
            and (self.loops or not in_loop)
        )


class AgreementSessions:
    """How often answers disagreed in each session; carried over on reload."""

    def __init__(self, size: int = 6_000) -> None:  # as many as ``[sessions] size`` keeps by default
        """Begin to count; beyond ``size`` sessions the least recently counted is forgotten."""
        self._counts: Final = Bounded[str, int](size)

    def count(self, session: str) -> int:
        """Return how often answers disagreed in a session; 0 for a request without one."""
        return self._counts.get(session, 0)

    def add(self, session: str, result: Result) -> None:
        """Count a result of ``COUNTED``; any other, and a request without a session, changes nothing."""
        if session and result in COUNTED:
            self._counts.keep(session, self.count(session) + 1)


def policy_for(
    policies: Mapping[str, AgreementPolicy], tier: str, role: str, project: str, *, in_loop: bool
) -> str | None:
    """Return the name of the first table that fits a request; None where none does."""
    for name, policy in policies.items():
        if policy.fits(tier, role, project, in_loop=in_loop):
            return name
    return None


def result_of(compared: Compared, *, agreed: bool, is_control: bool) -> Result:
    """Return what a comparison comes to."""
    if agreed:
        return Result.CONTROL if is_control else Result.AGREED
    return Result.INCOMPARABLE if compared is Compared.NOTHING else Result.DIFFERENT


def serves_first(policy: AgreementPolicy, result: Result) -> bool:
    """Whether the answer of the first cheap model is served."""
    return result is Result.AGREED or (result is Result.INCOMPARABLE and policy.incomparable == "first")

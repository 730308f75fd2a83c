"""The decision of one request, as it is returned and recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from pointsman.capabilities import CapabilityDecision
from pointsman.decision.input import RequestInput
from pointsman.domains import DomainDecision
from pointsman.guidance import Firing, GuidanceDecision
from pointsman.tiers import TierDecision
from pointsman.vocabulary import Parameters, Reason

__all__ = [
    "Decision",
    "Injection",
    "StandingInjection",
    "TextMode",
    "role_mark_of",
    "run_mark",
    "run_of",
    "without_content",
]

#: What is kept of the user's words: nothing, their hash, themselves without keys and addresses, all.
TextMode = Literal["off", "hash", "redacted", "full"]

_OF_RUN: Final = " of run "
#: Codes of the reason that says who within an agent asked.
_ROLES: Final = "agent."


class Injection(msgspec.Struct, frozen=True, gc=False):
    """Text to add at the end of the prompt."""

    source: str  # "guidance", "domains" or "escalation"
    text: str


class StandingInjection(msgspec.Struct, frozen=True, gc=False):
    """Additions of an earlier request to a message, to be added to it again."""

    index: int  # of the message in the history
    added: tuple[Injection, ...]  # together, as one text


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Everything decided for one turn; plain values, so that it can be stored, shown and replayed."""

    id: str
    input: RequestInput  # what was read of the request
    policy: str  # version hash of the policy that decided
    tier: TierDecision | None  # None when the caller named a model, or deciding failed (see ``abstained``)
    chain: tuple[str, ...]  # configured model names, first choice first; empty: ``refused``, or no model
    injections: tuple[Injection, ...] = ()  # added to the last message
    standing: tuple[StandingInjection, ...] = ()  # added again to earlier messages, by place
    reasons: tuple[Reason, ...] = ()
    abstained: tuple[Reason, ...] = ()  # what failed open, and why
    elapsed_us: float = 0.0  # CPU-side time spent deciding, verification excluded
    domains: DomainDecision | None = None
    guidance: GuidanceDecision | None = None
    capabilities: CapabilityDecision | None = None  # None: nothing to select among, or selection is off
    refused: tuple[Reason, ...] = ()  # why each model is unable; empty: the request is served
    parameters: Mapping[str, Parameters] = {}  # by model of the chain: what its tier sets of the request


def run_mark(node: str, run: str) -> str:
    """Return the mark of a question that a node of an agent's run asks: ``AgentRequest.role_mark``.

    >>> run_mark("orchestrator", "r-1")
    'orchestrator of run r-1'
    """
    return node + _OF_RUN + run


def run_of(decision: Decision) -> tuple[str, str]:
    """Return the id of the run and the node that asked; empty for a decision outside a run."""
    node, of, run = role_mark_of(decision).rpartition(_OF_RUN)
    return (run, node) if of else ("", "")


def role_mark_of(decision: Decision) -> str:
    """Return the mark by which the role was recognised; empty if no reason has one."""
    return next((reason.detail for reason in decision.reasons if reason.code.startswith(_ROLES)), "")


def without_content(decision: Decision) -> Decision:
    """The decision as it is recorded: of its texts those alone that were added to the request, each once.

    A hint that was withheld is not recorded: it names the error it answers. One that was given is recorded
    with the decision that added it, its quotes as words are (``ledger.redact``); not again with a decision
    that repeats it.
    """
    if decision.standing:
        again = tuple(
            StandingInjection(each.index, tuple(Injection(one.source, "") for one in each.added))
            for each in decision.standing
        )
        decision = msgspec.structs.replace(decision, standing=again)
    guidance = decision.guidance
    if guidance is None or not guidance.firings:
        return decision
    firing = guidance.firing and _unquoted(guidance.firing)
    hints = tuple(map(_unquoted, guidance.hints))
    said = msgspec.structs.replace(guidance, firing=firing, hints=hints, injection="")
    return msgspec.structs.replace(decision, guidance=said)


def _unquoted(firing: Firing) -> Firing:
    return msgspec.structs.replace(firing, text="")

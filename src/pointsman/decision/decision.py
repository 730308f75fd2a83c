"""The decision of one request: what it was made from, what is returned and recorded, its line in a log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

import msgspec

from pointsman.capabilities import CapabilityDecision
from pointsman.domains import DomainDecision
from pointsman.guidance import Firing, GuidanceDecision, Seen
from pointsman.text.extract import Extracted, Searched
from pointsman.tiers import KindShift, LearnedScore, TierDecision
from pointsman.trajectory.step import Step
from pointsman.vocabulary import (
    AgentRequest,
    AgentRole,
    Evidence,
    Parameters,
    Permission,
    Purpose,
    Reason,
    Script,
    WireFormat,
)

__all__ = [
    "Decision",
    "Injection",
    "ReadRequest",
    "RequestInput",
    "StandingInjection",
    "TextMode",
    "role_mark_of",
    "run_mark",
    "run_of",
    "summary",
    "without_content",
]


# The input of a decision: the facts of one request, as it is recorded for replay.


class RequestInput(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The facts a decision was made from, without texts: enough to decide again."""

    format: WireFormat
    model_asked: str
    session: str  # begins with the caller and a slash, where there is one: no two callers share any
    arrived_at: float  # seconds since the epoch
    size: int = 0  # bytes of the request
    estimate: int = 0  # tokens in all, where images make the size say little of them; 0: a quarter of it
    features: tuple[str, ...] = ()  # what the request needs of a model, sorted
    role: AgentRole | None = None  # who within an agent asks; None in rows of before November 2026
    purpose: Purpose | None = None  # what the request is for; None where nothing tells
    project: str = ""  # key of what the agent works on: ``project_key``
    client: str = ""  # the program that sent it, as it names itself
    project_name: str = ""  # the last part of its directory; empty where none is named
    messages: int = 0  # in the history
    #: This request goes on with the agent's work on the user message before it. In rows of before 24 November
    #: 2026 it is true, and the same user message alone told.
    in_tool_loop: bool = True
    tools: int = 0  # offered
    user_message: int = 0  # of the session, to which this turn belongs, from 1; 0: nobody's words are in it
    signals: tuple[str, ...] = ()  # ids of all signals found in the user's words, in total order
    characters: int = 0
    left_out: int = 0  # characters beside them that nobody wrote: the client repeats them
    utf16_units: int = 0
    tokens: int = 0  # estimate over the user's words
    questions: int = 0  # question marks
    script: Script = Script.NONE
    thread: int = 0  # number of the conversation within the session, from 1; 0: the agent did nothing yet
    steps: tuple[Step, ...] = ()  # tool calls new in this turn, without their content
    person_spoke: bool = False  # a person has spoken since the last tool call
    event: str = ""  # of an agent's hook, where no request was seen: "PostToolUse"; empty: a request
    caller: str = ""  # name of the key that the request came with; empty: none was asked for
    traceparent: str = ""  # the caller's span, as it sent it (W3C Trace Context); empty: none
    team: str = ""  # that of the key
    permission: Permission | None = None  # which models the caller might use; None: all

    @property
    def conversation(self) -> str:
        """The session that this turn continues; empty for a helper call: it continues no conversation."""
        return "" if self.role is AgentRole.HELPER else self.session


class ReadRequest(msgspec.Struct, frozen=True, gc=False):
    """A request ready to be decided: its input, and what of it is at hand and never recorded."""

    input: RequestInput
    message: str  # identity of the user message: the same on every tool iteration; empty when there is none
    same_message: bool  # this request goes on with the work on the user message before it
    evidence: Evidence
    seen: Seen | None = None  # the agent's run; None where guidance is off, or has nothing to decide on
    words: Extracted = Extracted("", -1, ())
    searched: Searched = Searched()
    request: AgentRequest | None = None  # None for a recorded one
    learned_score: LearnedScore | None = None  # of a recorded one, by the same learned router
    abstained: tuple[Reason, ...] = ()  # what could not be read, and why
    capabilities: CapabilityDecision | None = None  # of a recorded one: what was selected from, and scores
    was_too_long: bool = False  # a recorded one was refused for its length
    role_mark: str = ""  # of a recorded one or an event: by what its role was recognised
    tier: TierDecision | None = None  # of the same words, decided at an earlier event
    words_gone: bool = (
        False  # of an event: its words were said at an earlier one, and no model is asked again
    )
    kind: KindShift | None = None  # of a recorded one, by the same file of kinds
    enriched: bool = False  # a recorded one got the text of its domains
    continues_answer: bool = False  # a recorded one had no place for a text that was due
    untold: bool = False  # a recorded one had none for guidance, whose steps are those of a later request
    of_run: bool = False  # the question of a run that has selected capabilities, now or as recorded


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


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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


def summary(decision: Decision) -> str:
    """Return the parts of a decision in one line, ``name=value`` each.

    No text of a request is in it. The names of the session and of the model asked for come from outside: they
    are cut and made plain.
    """
    return " ".join(f"{name}={_plain(value)}" for name, value in _parts(decision))


def _parts(decision: Decision) -> Iterator[tuple[str, str]]:
    yield from _asked(decision)
    if tier := decision.tier:
        yield "tier", f"{tier.tier}({tier.stage},{tier.confidence:.2f})"
        yield "score", f"{tier.score:.3f}"
        if tier.signals:
            yield "signals", ",".join(tier.signals)
    yield "model", decision.chain[0] if decision.chain else "none"
    if domains := decision.domains:
        yield "domains", domains.signature
    if (guidance := decision.guidance) and guidance.firings:
        said = "said" if guidance.injection else "withheld"
        yield "guidance", ",".join(f"{each.classifier}({each.rung},{said})" for each in guidance.firings)
    if decision.capabilities:
        yield from _capabilities(decision.capabilities)
    if decision.injections:
        yield "added", ",".join(each.source for each in decision.injections)
    if decision.refused:
        yield "refused", ",".join(dict.fromkeys(reason.code for reason in decision.reasons))
    if decision.abstained:
        yield "abstained", ",".join(dict.fromkeys(reason.code for reason in decision.abstained))
    yield "us", f"{decision.elapsed_us:.0f}"


def _asked(decision: Decision) -> Iterator[tuple[str, str]]:
    asked = decision.input
    yield "decision", decision.id
    if asked.session:
        yield "session", asked.session
    yield "format", asked.format
    if asked.role is not None:
        yield "role", f"{asked.role}({asked.purpose})" if asked.purpose else asked.role
    if asked.event:
        yield "event", asked.event
    yield "asked", asked.model_asked


def _capabilities(decided: CapabilityDecision) -> Iterator[tuple[str, str]]:
    yield "capabilities", f"{','.join(decided.selected) or 'none'}({decided.result})"
    if tools := decided.tools:
        yield "tools", f"{len(tools.kept)}/{tools.offered}"


def _plain(value: str) -> str:
    """A value that cannot end the line, nor look like another key."""
    return "".join(c if c.isprintable() and c not in ' ="' else "_" for c in value[:200])

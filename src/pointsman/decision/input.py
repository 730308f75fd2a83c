"""The input of a decision: the facts of one request, as it is recorded for replay."""

from __future__ import annotations

import msgspec

from pointsman.capabilities import CapabilityDecision
from pointsman.guidance import Seen
from pointsman.text.extract import Extracted, Searched
from pointsman.tiers import KindShift, LearnedScore, TierDecision
from pointsman.trajectory.step import Step
from pointsman.vocabulary import (
    AgentRequest,
    AgentRole,
    Evidence,
    Permission,
    Purpose,
    Reason,
    Script,
    WireFormat,
)

__all__ = ["ReadRequest", "RequestInput"]


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
    of_run: bool = False  # the question of a run that has selected capabilities, now or as recorded

"""Session memory between requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from pointsman.capabilities import CapabilityMemory
from pointsman.decision.additions import Additions, without_source
from pointsman.decision.input import RequestInput
from pointsman.domains import DomainMemory
from pointsman.guidance import GuidanceMemory
from pointsman.text.extract import Searched
from pointsman.vocabulary import Purpose

__all__ = ["MOST_SUBAGENTS", "Memory", "is_beside", "model_of_subagent", "with_subagent", "without_content"]

#: Sub-agents of a session whose model is remembered; the one that was new the longest ago is dropped first.
MOST_SUBAGENTS: Final = 8


class Memory(msgspec.Struct, frozen=True, omit_defaults=True):
    """The memory of one session between turns; plain JSON values."""

    model: str = ""  # configured name of the model in use
    used_at: float = 0.0  # arrival of the last request that went to it, seconds since the epoch; 0: unknown
    message: str = ""  # identity of the latest user message
    turns: int = 0  # user messages so far
    enriched: str = ""  # signature of the domains whose text was added last
    domains: DomainMemory = DomainMemory()
    guidance: GuidanceMemory = GuidanceMemory()
    capabilities: CapabilityMemory = CapabilityMemory()
    escalated: str = ""  # identity of the user message for which the tier is raised
    searched: Searched = Searched()  # for the user's words
    started: str = ""  # model given at the latest start, where the tier is decided at one
    messages: int = 0  # of the last request; likewise
    subagents: Mapping[int, str] = {}  # model of each sub-agent's conversation
    additions: Additions = Additions()  # texts added, and to which messages


def is_beside(memory: Memory, asked: RequestInput) -> bool:
    """Whether a sub-agent's request shares the session of the conversation that started it.

    Most clients give a sub-agent a session for itself, whose model is the session's. In a shared session the
    main conversation has a model before the sub-agent begins.
    """
    begins = asked.purpose is Purpose.MESSAGE and not asked.thread
    return bool(memory.model) and (begins or bool(memory.subagents))


def model_of_subagent(memory: Memory, asked: RequestInput) -> str:
    """The model of a sub-agent's conversation; "" at its beginning.

    A conversation has no number before its first tool call, and without guidance never: the request is then
    attributed to the sub-agent that began last.
    """
    if asked.purpose is Purpose.MESSAGE and not asked.thread:
        return ""
    latest = "" if asked.purpose is Purpose.MESSAGE else memory.subagents.get(0, "")
    return memory.subagents.get(asked.thread, latest)


def with_subagent(before: Memory, after: Memory, asked: RequestInput, chosen: str) -> Memory:
    """Return the memory after a sub-agent's request: its model is not that of the session."""
    subagents = dict(before.subagents)
    if chosen:
        subagents[asked.thread] = chosen
    if len(subagents) > MOST_SUBAGENTS:
        del subagents[next(iter(subagents))]
    return msgspec.structs.replace(after, model=before.model, used_at=before.used_at, subagents=subagents)


def without_content(memory: Memory) -> Memory:
    """The memory without any text that may quote a conversation: what may leave the process.

    A failed call has the digest of its error, by which it is recognised. A hint names the error that it
    answers: a reader of this form does not add it again.
    """
    additions = without_source(memory.additions, "guidance")
    guidance = memory.guidance.without_content()
    return msgspec.structs.replace(memory, guidance=guidance, additions=additions)

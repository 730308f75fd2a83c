"""Session memory between requests."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pointsman.capabilities import CapabilityMemory
from pointsman.decision.additions import Additions, without_source
from pointsman.domains import DomainMemory
from pointsman.guidance import GuidanceMemory
from pointsman.text.extract import Searched

__all__ = ["Memory", "without_content"]


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
    subagents: Mapping[int, str] = {}  # model of each sub-agent's conversation; likewise
    additions: Additions = Additions()  # texts added, and to which messages


def without_content(memory: Memory) -> Memory:
    """The memory without any text that may quote a conversation: what may leave the process.

    A failed call has the digest of its error, by which it is recognised. A hint names the error that it
    answers: a reader of this form does not add it again.
    """
    additions = without_source(memory.additions, "guidance")
    guidance = memory.guidance.without_content()
    return msgspec.structs.replace(memory, guidance=guidance, additions=additions)

"""Which tier serves each role of an agent's requests: a table of the configuration."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from pointsman.vocabulary import AgentRole, Purpose, Tier

__all__ = ["SESSION", "RoleTier", "RoleTiers", "name_of"]

#: What serves a role: a tier, the session's model, or whatever is decided as for any other request.
RoleTier: TypeAlias = Literal["simple", "medium", "complex", "reasoning", "session", "decide"]

#: The request stays with its session's model: the provider has its beginning in the prompt cache.
SESSION: Final = "session"

_SUBAGENT: Final = "subagent"
#: What most requests of a sub-agent are for, as those of the main conversation.
_WORK: Final = frozenset({Purpose.MESSAGE, Purpose.TOOL_ITERATION})


class RoleTiers(msgspec.Struct, frozen=True, kw_only=True):
    """Which tier serves requests that agents send beside their main conversation.

    It counts where the choice is left to the gateway: for the model `auto`, and for names that an alias maps
    to it. The default values: docs/decisions/0154.
    """

    title: Annotated[RoleTier, Meta(description="To name a session or a branch.")] = "simple"
    topic: Annotated[RoleTier, Meta(description="To tell whether a message begins a new topic.")] = "simple"
    summary: Annotated[
        RoleTier, Meta(description="Of a page, of what tools did, of changes to be committed.")
    ] = "simple"
    probe: Annotated[RoleTier, Meta(description="To see whether key, quota or model are valid.")] = "simple"
    helper: Annotated[
        RoleTier, Meta(description="Any other call without tools and with at most 1,024 tokens of output.")
    ] = "simple"
    compaction: Annotated[
        RoleTier, Meta(description="A summary that takes the place of the conversation.")
    ] = "session"
    side: Annotated[
        RoleTier, Meta(description="A question beside the conversation that repeats all of it.")
    ] = "session"
    check: Annotated[RoleTier, Meta(description="Whether a command may run.")] = "decide"
    plan: Annotated[RoleTier, Meta(description="A user message while the agent may only plan.")] = "decide"
    edit: Annotated[RoleTier, Meta(description="To write changes that another model has described.")] = (
        "decide"
    )
    subagent: Annotated[
        RoleTier, Meta(description="A sub-agent's requests, unless a role above fits them.")
    ] = "decide"

    def of(self, role: AgentRole | None, purpose: Purpose | None) -> RoleTier:
        """What serves a request of this role and purpose; "decide" where nothing is said of it."""
        if purpose is None and role is not AgentRole.SUBAGENT:
            return "decide"
        value: RoleTier = getattr(self, name_of(role, purpose), "decide")
        return value

    def tier(self, role: AgentRole | None, purpose: Purpose | None) -> Tier | None:
        """The tier that serves a request; None where none is said."""
        value = self.of(role, purpose)
        return None if value in {SESSION, "decide"} else Tier(value.upper())


def name_of(role: AgentRole | None, purpose: Purpose | None) -> str:
    """The name of a role as it is configured and reported; empty where nothing tells.

    The work of a sub-agent is ``subagent``, that of the main conversation ``message`` or ``tool_iteration``.
    """
    if role is AgentRole.SUBAGENT and (purpose is None or purpose in _WORK):
        return _SUBAGENT
    return (purpose or role or "").lower()

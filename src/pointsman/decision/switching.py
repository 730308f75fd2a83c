"""The model of a session with its tier decided at a start: of the session, a sub-agent, after a compaction.

In use where ``[tiers] switching`` is "weighed" or "session". A change of model re-writes the conversation to
the other model's prompt cache, so it is weighed against the calls that are still to come. Everything that is
read here is recorded with a decision, so that a replay decides alike.
"""

from __future__ import annotations

from typing import Final

import msgspec

from pointsman.decision.choosing import ANSWER, Draft, ModelStage
from pointsman.decision.decision import RequestInput
from pointsman.decision.memory import Memory, model_of_subagent, with_subagent
from pointsman.model_choice.choice import InUse, Load, Switching
from pointsman.vocabulary import AgentRole, Purpose, Reason

__all__ = ["StartStage", "begins", "in_use", "remembered"]

#: Share of the last request's messages below which the history was compacted, and not only its end edited.
COMPACTED: Final = 0.5
#: Messages that a call adds to an agent's history: the model's, and the results of its tools.
_PER_CALL: Final = 2


def begins(memory: Memory, asked: RequestInput) -> Reason | None:
    """Say why the tier of a request is decided as at a start; None where its conversation has a model."""
    if asked.role is AgentRole.SUBAGENT:
        return None if model_of_subagent(memory, asked) else Reason("routing.starts", "a sub-agent begins")
    if not memory.model:
        return Reason("routing.starts", "the session begins")
    if asked.messages < memory.messages * COMPACTED:
        cut = f"the history was compacted from {memory.messages:,} to {asked.messages:,} messages"
        return Reason("routing.starts", cut)
    return None


def in_use(
    memory: Memory,
    asked: RequestInput,
    load: Load,
    *,
    switching: Switching,
    stays: bool,
    same: bool,
    raised: bool,
) -> InUse | None:
    """Return the model of a conversation that a request continues; None if it begins or has no model.

    Args:
        memory: of the session.
        asked: the request.
        load: what its next calls send. The calls to come are taken to be as many as there were.
        switching: when a session leaves the tier of its start. One that trouble has raised is weighed.
        stays: the request stays with the session's model whatever is decided.
        same: it belongs to the user message of the request before.
        raised: evidence of trouble raises its tier: a higher model is then taken at once.
    """
    apart = asked.role is AgentRole.SUBAGENT
    model = (model_of_subagent(memory, asked) if apart else "") or memory.model
    if not model:
        return None
    iterates = asked.purpose is Purpose.TOOL_ITERATION or (asked.in_tool_loop and same)
    idle = max(asked.arrived_at - memory.used_at, 0.0) if memory.used_at and not apart else 0.0
    if raised:
        switching = "upward"
    elif not apart and model != memory.started:
        switching = "weighed"
    calls = max(asked.messages // _PER_CALL, load.turns)
    return InUse(
        model,
        in_tool_loop=stays or (iterates and not raised),
        load=msgspec.structs.replace(load, turns=calls),
        idle=idle,
        switching=switching,
    )


def remembered(before: Memory, after: Memory, asked: RequestInput, chosen: str) -> Memory:
    """Return the memory after a request: a sub-agent's model is not that of the session."""
    if asked.role is AgentRole.SUBAGENT:
        return with_subagent(before, after, asked, chosen)
    started = after.model if begins(before, asked) else before.started
    return msgspec.structs.replace(after, started=started, messages=asked.messages)


class StartStage(ModelStage):
    """Chooses the models of a request; a session has the tier of its start."""

    def _in_use(self, draft: Draft, tokens: int, *, raised: bool) -> InUse | None:
        asked = draft.input
        stays = (asked.role, asked.purpose) in self._tiers.stay
        if not stays and (why := begins(draft.memory, asked)):
            if why not in draft.reasons:
                draft.reasons.append(why)
            return None
        load = Load(tokens, fresh=draft.evidence.tokens, output=ANSWER)
        switching, same = self.policy.switching, draft.reading.same_message
        return in_use(draft.memory, asked, load, switching=switching, stays=stays, same=same, raised=raised)

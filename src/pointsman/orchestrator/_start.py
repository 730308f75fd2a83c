"""The first state of a turn: what the person said, less the commands they gave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pointsman.capabilities import Command, Switches, parse_commands
from pointsman.orchestrator.state import AgentState, fresh_state

__all__ = ["start_turn"]


def start_turn(
    said: str, previous: Mapping[str, Any] | None = None, configured: Switches | None = None
) -> AgentState:
    """Begin a turn: commands of this message go over those of the session, and those over the configuration.

    Args:
        said: the user's words, commands included.
        previous: the last state of the same conversation.
        configured: what the operator set; commands never change it.
    """
    commands, rest = parse_commands(said)
    kept = {command.name: command.on for command in commands if command.session}
    session: dict[str, bool] = {**((previous or {}).get("session_commands") or {}), **kept}
    lasting = Switches.of(tuple(Command(name, on) for name, on in session.items()))
    switches = Switches.of(commands).over(lasting).over(configured or Switches())
    state = fresh_state(rest, previous)
    state["session_commands"] = session
    state.update(switches.update())  # type: ignore[typeddict-item]  # keys of ``AgentState``
    return state

"""The steps of a run as a conversation, so that guidance sees when the run is stuck.

A step is a tool call and its result. The question of the orchestrator's node continues this conversation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pointsman.orchestrator.state import INFRASTRUCTURE, AgentState, current_step

__all__ = ["DECLINED", "conversation_of", "with_step"]

#: Steps kept in the state of a run: twice as many as guidance looks at.
_MOST: Final = 100
#: Characters of a name, an objective or a result in a step: guidance compares them and reads an error's line.
_LONGEST: Final = 500
#: The result of a step that a person did not allow, in words that guidance does not take for a failure.
DECLINED: Final = "declined by the user"


def with_step(state: Mapping[str, Any], node: str, result: object, *, failed: bool) -> AgentState:
    """The update that adds a step to the run; nothing for a node that is no capability."""
    if node in INFRASTRUCTURE:
        return {}
    planned = current_step(state) or {}
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    step = {
        "capability": node[:_LONGEST],
        "objective": str(planned.get("task_objective") or "")[:_LONGEST],
        "inputs": list(planned.get("inputs") or ()),
        "result": f"Error: {text}"[:_LONGEST] if failed else text[:_LONGEST],
    }
    return {"capability_steps": [*(state.get("capability_steps") or ()), step][-_MOST:]}


def conversation_of(task: str, state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The task and the steps of a run so far, as messages of chat completions."""
    return [{"role": "user", "content": task}, *_calls(state.get("capability_steps") or ())]


def _calls(steps: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for number, step in enumerate(steps, start=1):
        arguments = json.dumps({"objective": step["objective"], "inputs": step["inputs"]})
        function = {"name": step["capability"], "arguments": arguments}
        call = {"id": f"step_{number}", "type": "function", "function": function}
        yield {"role": "assistant", "content": None, "tool_calls": [call]}
        yield {"role": "tool", "tool_call_id": call["id"], "content": step["result"]}

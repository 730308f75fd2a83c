"""What an agent's own log holds of a run beyond what its events reported.

Loaded when an agent says that it is done: it needs the audit's readers of logs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pointsman.audit.session import Session
from pointsman.audit.sources.base import Log
from pointsman.audit.sources.claude_code import ClaudeCode
from pointsman.audit.sources.codex import Codex
from pointsman.integrations.hooks._events import CodexEvent, HookEvent
from pointsman.trajectory import Event, ToolInvoked, ToolResult, UserSpoke

#: Bytes of a log that is read: more than a week of work; an agent waits ten seconds for the hook.
MAX_LOG: Final = 64 * 1024 * 1024


def unreported(event: HookEvent, calls: int) -> tuple[Event, ...]:
    """Return what joined the run after its first ``calls`` tool calls, by the log that an event names.

    None where the event names no log, or one that is missing or longer than ``MAX_LOG``.

    Raises:
        PointsmanError: the log cannot be read.
    """
    name = event.agent_transcript_path or event.transcript_path
    file = Path(name)
    if not name or not file.is_file() or file.stat().st_size > MAX_LOG:
        return ()
    source = Codex() if isinstance(event, CodexEvent) else ClaudeCode()
    agent = None if event.agent_transcript_path else event.agent_id or ""
    found = [each for session in source.read(Log(source.name, (file,))) for each in _events(session, agent)]
    seen = 0
    for place, each in enumerate(found):
        if seen == calls:
            return tuple(found[place:])
        seen += isinstance(each, ToolInvoked)
    return ()


def _events(session: Session, agent: str | None) -> Iterator[Event]:
    """Events in order; ``agent``: only of this agent, by id, empty for the main one."""
    for request in session.requests:
        if agent is not None and request.agent != agent:
            continue
        if request.prompt is not None:
            yield UserSpoke(at=request.at)
        for call in request.calls:
            if call.result is not None:
                yield ToolInvoked(call.name, call.arguments, ToolResult("", call.result, call.is_error))

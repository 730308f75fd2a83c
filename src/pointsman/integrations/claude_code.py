"""Guidance inside Claude Code, through its hooks: no gateway in between.

After every tool call Claude Code runs a command, with the event on its standard input, and adds what the
command answers to the model's context. Event and answer have the fields of the hook types that the package
``@anthropic-ai/claude-agent-sdk`` 0.3 declares.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from pointsman.decoding import UNREADABLE
from pointsman.drivers import drive, no_model
from pointsman.errors import MalformedRequest, StoreUnavailable
from pointsman.guidance import (
    Arm,
    DecisionPoint,
    GuidanceDecision,
    GuidanceMemory,
    GuidancePolicy,
    Guide,
    Moment,
)
from pointsman.reports.guidance_effect import Followed
from pointsman.trajectory import (
    Event,
    ToolInvoked,
    ToolResult,
    TrajectoryAnalysis,
    UserSpoke,
)
from pointsman.vocabulary import ModelQuery, ModelReply
from pointsman.wire.insertion import mark

__all__ = ["HookEvent", "HookState", "answer_event", "read_event", "settings"]

#: Events that the hook must be installed for: what tools did, and that a person spoke.
EVENTS: Final = ("PostToolUse", "PostToolUseFailure", "UserPromptSubmit")
#: Further events, for providers of these decision points.
_EVENTS_OF: Final = {
    DecisionPoint.PRE_TOOL_EXECUTION: ("PreToolUse",),
    DecisionPoint.PRE_RESPONSE: ("Stop", "SubagentStop"),
}
#: Seconds Claude Code waits for the hook. A decision takes well under one, most of it Python's start.
TIMEOUT: Final = 10
#: Seconds a session is remembered after its last event. Sessions are resumed for days, seldom for weeks.
KEPT: Final = 14 * 86_400.0
#: Seconds to wait for another hook of the same session: parallel calls end together.
BUSY: Final = 5.0

_ABSENT: Final = msgspec.Raw()


class HookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What Claude Code tells a hook; other fields are ignored."""

    hook_event_name: str
    session_id: str
    agent_id: str | None = None  # a subagent works on a task of its own
    tool_name: str = ""
    tool_input: msgspec.Raw = _ABSENT
    tool_response: msgspec.Raw = _ABSENT
    error: str = ""
    is_interrupt: bool = False
    prompt: str = ""  # of UserPromptSubmit
    last_assistant_message: str = ""  # of Stop
    stop_hook_active: bool = False  # the agent goes on already because a hook answered its stop

    @property
    def run(self) -> str:
        """Key of the run that the event belongs to."""
        return f"{self.session_id}/{self.agent_id}" if self.agent_id else self.session_id


_decode: Final = msgspec.json.Decoder(HookEvent).decode


def read_event(data: bytes) -> HookEvent:
    """Read one event.

    Raises:
        MalformedRequest: it is not a hook's event.
    """
    try:
        return _decode(data)
    except UNREADABLE as error:
        raise MalformedRequest(f"this is not a hook event of Claude Code: {error}") from None


def answer_event(
    event: HookEvent, state: HookState, guide: Guide, ask: Callable[[ModelQuery], ModelReply] = no_model
) -> dict[str, object] | None:
    """Take an event into its run, and answer it in the hook's format; None when there is nothing to say.

    Args:
        event: What Claude Code tells.
        state: The runs so far.
        guide: What decides.
        ask: Answers the questions of model classifiers; by default nobody is asked.
    """
    happened, moment = _happened(event), _moment(event)
    if happened is None and (moment is None or not guide.reads_all):
        return None
    with state.session(event.run) as kept:
        trajectory = TrajectoryAnalysis(kept.memory.thread().trajectory.state, guide.empty.lens)
        if happened is not None:
            trajectory = trajectory.with_event(happened)
        steps = guide.decide(trajectory, kept.memory, session=event.run, moment=moment)
        decision, kept.memory = drive(steps, ask)
        kept.followed = _followed(event.run, decision)
    return _answer(event.hook_event_name, decision)


def _happened(event: HookEvent) -> Event | None:
    arguments = bytes(event.tool_input).decode("utf-8", "replace")
    match event.hook_event_name:
        case "UserPromptSubmit":
            return UserSpoke()
        case "PostToolUse":
            return ToolInvoked(event.tool_name, arguments, ToolResult.ok(_text(event.tool_response)))
        case "PostToolUseFailure":
            error = f"interrupted by the user: {event.error}" if event.is_interrupt else event.error
            return ToolInvoked(event.tool_name, arguments, ToolResult.error(error))
        case _:
            return None


def _moment(event: HookEvent) -> Moment | None:
    """Which decision points an event is, and what is at hand there."""
    call = ToolInvoked(event.tool_name, bytes(event.tool_input).decode("utf-8", "replace"))
    match event.hook_event_name:
        case "UserPromptSubmit":
            points = (DecisionPoint.PRE_RENDER, DecisionPoint.PRE_TOOL_SELECTION)
            return Moment(points, prompt=event.prompt)
        case "PreToolUse":
            return Moment((DecisionPoint.PRE_TOOL_EXECUTION,), pending=(call,))
        case "PostToolUse" | "PostToolUseFailure":
            points = (DecisionPoint.POST_TOOL_RESULT, DecisionPoint.PRE_TOOL_SELECTION)
            return Moment(points, pending=(call,))
        case "Stop" | "SubagentStop" if not event.stop_hook_active:  # else the agent would never stop
            return Moment((DecisionPoint.PRE_RESPONSE,), last_response=event.last_assistant_message)
        case _:
            return None


def _text(response: msgspec.Raw) -> str:
    text = bytes(response).decode("utf-8", "replace")
    return str(msgspec.json.decode(response)) if text.startswith('"') else text


def _followed(run: str, decision: GuidanceDecision) -> Followed | None:
    seen = decision.follow_up
    return Followed(run, decision.arm, seen.classifier, seen.continued) if seen else None


def _answer(event_name: str, decision: GuidanceDecision) -> dict[str, object] | None:
    if decision.stop and decision.firing:
        return {"continue": False, "stopReason": f"Pointsman: still stuck ({decision.firing.reason})"}
    if not decision.injection:
        return None
    text = mark("guidance", decision.injection)
    return {"hookSpecificOutput": {"hookEventName": event_name, "additionalContext": text}}


def settings(command: str, policy: GuidancePolicy | None = None) -> dict[str, object]:
    """What to add to Claude Code's ``settings.json``, for a policy's decision points."""
    hook = {"type": "command", "command": command, "timeout": TIMEOUT}
    points = {spec.point for spec in policy.providers} if policy else set()
    further = (event for point, events in _EVENTS_OF.items() if point in points for event in events)
    return {"hooks": {event: [{"matcher": "*", "hooks": [hook]}] for event in (*EVENTS, *further)}}


class Kept:
    """What is kept of one run, to be changed while its session is held."""

    def __init__(self, memory: GuidanceMemory) -> None:
        self.memory = memory
        self.followed: Followed | None = None  # what came of an intervention, for the report


class HookState:
    """Sessions between two runs of the hook: one SQLite file, since hooks of parallel calls overlap.

    Every method raises ``StoreUnavailable`` when the file cannot be used.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._path: Final = path
        self._clock: Final = clock

    @contextmanager
    def session(self, run: str) -> Iterator[Kept]:
        """Hold a run's memory; what it is when the block ends is kept."""
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            row = db.execute("SELECT memory FROM runs WHERE id = ?", (run,)).fetchone()
            kept = Kept(_memory(row[0]) if row else GuidanceMemory())
            yield kept
            now = self._clock()
            encoded = msgspec.json.encode(kept.memory)
            db.execute("INSERT OR REPLACE INTO runs (id, at, memory) VALUES (?, ?, ?)", (run, now, encoded))
            db.execute("DELETE FROM runs WHERE at < ?", (now - KEPT,))
            if kept.followed:
                values = (run, kept.followed.arm, kept.followed.classifier, kept.followed.continued)
                db.execute("INSERT INTO followed VALUES (?, ?, ?, ?)", values)
            db.execute("COMMIT")

    def followed(self) -> list[Followed]:
        """What came of every intervention, oldest first."""
        with self._connected("?mode=ro") as db:  # who asks after a file leaves it as it is
            rows = db.execute(
                "SELECT run, arm, classifier, continued FROM followed ORDER BY rowid"
            ).fetchall()
        return [Followed(run, Arm(arm), name, bool(continued)) for run, arm, name, continued in rows]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnavailable(f"cannot use {self._path}: {error}") from error
        with self._connected() as db:
            db.execute("CREATE TABLE IF NOT EXISTS runs (id PRIMARY KEY, at REAL, memory BLOB)")
            db.execute("CREATE TABLE IF NOT EXISTS followed (run, arm, classifier, continued)")
            yield db

    @contextmanager
    def _connected(self, how: str = "") -> Iterator[sqlite3.Connection]:
        uri = self._path.absolute().as_uri() + how
        try:
            with closing(sqlite3.connect(uri, uri=True, timeout=BUSY, isolation_level=None)) as db:
                yield db
        except sqlite3.Error as error:
            raise StoreUnavailable(f"cannot use {self._path}: {error}") from error


def _memory(encoded: bytes) -> GuidanceMemory:
    """A run's memory; one that another version wrote and this one cannot read starts over."""
    try:
        return msgspec.json.decode(encoded, type=GuidanceMemory)
    except msgspec.MsgspecError:
        return GuidanceMemory()

"""Events of an agent's hook, and its answers.

Codex took over the events of Claude Code and their answers, and the plugin of opencode writes the same. Where
they differ, there is a class for each agent.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import ClassVar, Final, Generic, TypeVar

import msgspec

from pointsman.decoding import UNREADABLE, without_halves
from pointsman.errors import MalformedRequest, StoreUnavailable
from pointsman.guidance import Arm, DecisionPoint, GuidanceDecision, GuidanceMemory, GuidancePolicy, Moment
from pointsman.guidance.memory import Followed
from pointsman.trajectory import Event, ToolInvoked, ToolResult, UserSpoke
from pointsman.vocabulary import DAY, OF_SUBAGENT, AgentRole, Purpose
from pointsman.wire.items import mark

#: Further events, for providers of these decision points.
_EVENTS_OF: Final = {
    DecisionPoint.PRE_TOOL_EXECUTION: ("PreToolUse",),
    DecisionPoint.PRE_RESPONSE: ("Stop", "SubagentStop"),
    DecisionPoint.DONE: ("Stop", "SubagentStop"),
}
#: Seconds the agent waits for the hook. A decision takes well under one, most of it Python's start.
TIMEOUT: Final = 10
_ABSENT: Final = msgspec.Raw()
#: Before these events an agent has ended its answer.
_STOPS: Final = ("Stop", "SubagentStop")
#: The provider whose text keeps an agent from ending.
_GATE: Final = "done_gate"


class HookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a hook; other fields are ignored."""

    agent: ClassVar[str]  # as people call it
    #: Events that the hook must be installed for: what tools did, and that a person spoke.
    events: ClassVar[tuple[str, ...]] = ()
    #: Whether a tool that failed did, by the event; None where its text alone tells.
    is_error: ClassVar[bool | None] = None
    #: Whether an answer to a stop may hold context; else the context is the reason to go on.
    takes_context_at_stop: ClassVar[bool] = False

    hook_event_name: str
    session_id: str
    agent_id: str | None = None  # a subagent works on a task of its own
    cwd: str = ""  # the agent's working directory
    permission_mode: str = ""  # "plan": it may read and plan, and change nothing
    tool_name: str = ""
    tool_input: msgspec.Raw = _ABSENT
    tool_response: msgspec.Raw = _ABSENT
    error: str = ""
    is_interrupt: bool = False
    prompt: str = ""  # of UserPromptSubmit
    last_assistant_message: str = ""  # of Stop
    transcript_path: str = ""  # the agent's own log of the session
    agent_transcript_path: str = ""  # that of a subagent, where it has one
    stop_hook_active: bool = False  # the agent goes on already because a hook answered its stop

    @property
    def run(self) -> str:
        """Key of the run that the event belongs to."""
        return self.session_id + OF_SUBAGENT + self.agent_id if self.agent_id else self.session_id

    @property
    def role(self) -> AgentRole:
        """Role within the agent."""
        return AgentRole.SUBAGENT if self.agent_id else AgentRole.MAIN

    @property
    def purpose(self) -> Purpose:
        """Purpose of the request that a gateway would see at this event."""
        if self.hook_event_name != "UserPromptSubmit":
            return Purpose.TOOL_ITERATION
        return Purpose.PLAN if self.permission_mode == "plan" else Purpose.MESSAGE


class ClaudeCodeEvent(HookEvent, frozen=True, kw_only=True):
    """An event of Claude Code, by the hook types of ``@anthropic-ai/claude-agent-sdk`` 0.3."""

    agent: ClassVar[str] = "Claude Code"
    events: ClassVar[tuple[str, ...]] = ("PostToolUse", "PostToolUseFailure", "UserPromptSubmit")
    is_error: ClassVar[bool | None] = False  # failures have an event of their own
    takes_context_at_stop: ClassVar[bool] = True


class CodexEvent(HookEvent, frozen=True, kw_only=True):
    """An event of Codex, by the JSON schemas that ``codex`` 0.169 holds.

    Neither a failure nor the exit code of a command is reported.
    """

    agent: ClassVar[str] = "Codex"
    events: ClassVar[tuple[str, ...]] = ("PostToolUse", "UserPromptSubmit")


class OpencodeEvent(HookEvent, frozen=True, kw_only=True):
    """An event of opencode, as ``opencode.js`` in this folder writes it.

    It has plugins, and no settings of hooks. Of failures only the exit code of a command is reported.
    """

    agent: ClassVar[str] = "opencode"


def read_event(data: bytes, kind: type[HookEvent] = ClaudeCodeEvent) -> HookEvent:
    """Read one event. Half a pair, and bytes that are no UTF-8, become replacement characters.

    Such text may come from any file that a tool has read: that is no reason to be silent.

    Raises:
        MalformedRequest: it is not a hook's event.
    """
    try:
        return msgspec.json.decode(without_halves(data.decode("utf-8", "replace").encode()), type=kind)
    except UNREADABLE as error:
        raise MalformedRequest(f"this is not a hook event of {kind.agent}: {error}") from None


def happened(event: HookEvent) -> Event | None:
    """Return what of an event joins the agent's run."""
    arguments = bytes(event.tool_input).decode("utf-8", "replace")
    match event.hook_event_name:
        case "UserPromptSubmit":
            return UserSpoke()
        case "PostToolUse":
            result = ToolResult("", _text(event), event.is_error)
            return ToolInvoked(event.tool_name, arguments, result)
        case "PostToolUseFailure":
            error = f"interrupted by the user: {event.error}" if event.is_interrupt else event.error
            return ToolInvoked(event.tool_name, arguments, ToolResult.error(error))
        case _:
            return None


def moment_of_event(event: HookEvent) -> Moment | None:
    """Which decision points an event is, and its available inputs."""
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
        case _ if ends(event):  # else the agent would never stop
            points = (DecisionPoint.PRE_RESPONSE, DecisionPoint.DONE)
            return Moment(points, last_response=event.last_assistant_message)
        case _:
            return None


def ends(event: HookEvent) -> bool:
    """Whether the agent is about to end, and a text may prevent it."""
    return event.hook_event_name in _STOPS and not event.stop_hook_active


def _text(event: HookEvent) -> str:
    """A result as its tool printed it, if the event has it; else the JSON text of the event."""
    text = bytes(event.tool_response).decode("utf-8", "replace")
    if text.startswith('"'):
        return str(msgspec.json.decode(event.tool_response))
    if event.is_error is not None and text.startswith("{"):  # a failure is told: no text has to tell it
        values = msgspec.json.decode(event.tool_response)
        printed = [values[key] for key in ("stdout", "stderr") if isinstance(values.get(key), str)]
        return "\n".join(filter(None, printed)) if printed else text
    return text


def answer_of(
    event: HookEvent, guidance: GuidanceDecision | None, added: Sequence[tuple[str, str]]
) -> dict[str, object] | None:
    """Return the answer of the hook: the texts to add, by source, or that the agent must stop.

    None when there is nothing to say.
    """
    if guidance and guidance.stop and guidance.firing:
        return {"continue": False, "stopReason": f"Pointsman: still stuck ({guidance.firing.reason})"}
    if not added:
        return None
    text = "\n\n".join(mark(source, text) for source, text in added)
    name = event.hook_event_name
    blocks = guidance is not None and any(each.provider == _GATE for each in guidance.hints)
    if name in _STOPS and (blocks or not event.takes_context_at_stop):
        return {"decision": "block", "reason": text}
    return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}}


def settings(
    command: str, policy: GuidancePolicy | None = None, kind: type[HookEvent] = ClaudeCodeEvent
) -> dict[str, object]:
    """What to add to the settings of the agent, for a policy's decision points."""
    hook = {"type": "command", "command": command, "timeout": TIMEOUT}
    points = {spec.point for spec in policy.providers} if policy else set()
    further = (event for point, events in _EVENTS_OF.items() if point in points for event in events)
    return {"hooks": {event: [{"matcher": "*", "hooks": [hook]}] for event in (*kind.events, *further)}}


# Sessions between two runs of the hook, and the results of its hints.


#: Seconds a session is remembered after its last event. Sessions are resumed for days, seldom for weeks.
KEPT: Final = 14 * DAY
#: Seconds to wait for another hook of the same session: parallel calls end together.
BUSY: Final = 5.0
#: Memories of guidance alone, memories where every part is decided, and what all runs share.
_TABLES: Final = ("runs", "decided", "shared")

Kind = TypeVar("Kind")
Common = TypeVar("Common")


class RunState(Generic[Kind]):
    """State of one run, changed while its session is locked."""

    def __init__(self, memory: Kind) -> None:
        self.memory = memory
        self.followed: Followed | None = None  # what came of an intervention, for the report

    def saw(self, run: str, decision: GuidanceDecision) -> None:
        """Note for the report the agent's next step after an intervention."""
        if seen := decision.follow_up:
            self.followed = Followed(run, decision.arm, seen.classifier, seen.continued)


class HookState:
    """Sessions between two runs of the hook: one SQLite file, since hooks of parallel calls overlap.

    Every method raises ``StoreUnavailable`` when the file cannot be used.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._path: Final = path
        self._clock: Final = clock

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return self._clock()

    @contextmanager
    def session(self, run: str) -> Iterator[RunState[GuidanceMemory]]:
        """Hold a run's memory of guidance alone; its value at the end of the block is stored."""
        with self._held() as db, self._kept(db, "runs", run, GuidanceMemory()) as kept:
            yield kept
            kept.memory = kept.memory.without_content()

    @contextmanager
    def decided(
        self, run: str, start: Kind, shared: Common
    ) -> Iterator[tuple[RunState[Kind], RunState[Common]]]:
        """Hold a run's memory where every part is decided, and what all runs share.

        Args:
            run: Key of the run.
            start: The memory of a new run. The stored part has no content: see
                ``pointsman.decision.memory.without_content``.
            shared: Initial state shared by all runs.
        """
        with (
            self._held() as db,
            self._kept(db, "decided", run, start) as kept,
            self._kept(db, "shared", "spending", shared) as common,
        ):
            yield kept, common

    @contextmanager
    def _held(self) -> Iterator[sqlite3.Connection]:
        with self._open() as db:
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")

    @contextmanager
    def _kept(self, db: sqlite3.Connection, table: str, run: str, start: Kind) -> Iterator[RunState[Kind]]:
        row = db.execute(f"SELECT memory FROM {table} WHERE id = ?", (run,)).fetchone()  # noqa: S608 - our own names
        kept = RunState(_decoded(row[0], start) if row else start)
        yield kept
        now, encoded = self._clock(), msgspec.json.encode(kept.memory)
        db.execute(f"INSERT OR REPLACE INTO {table} (id, at, memory) VALUES (?, ?, ?)", (run, now, encoded))  # noqa: S608
        db.execute(f"DELETE FROM {table} WHERE at < ?", (now - KEPT,))  # noqa: S608
        if kept.followed:
            values = (run, kept.followed.arm, kept.followed.classifier, kept.followed.continued)
            db.execute("INSERT INTO followed VALUES (?, ?, ?, ?)", values)

    def followed(self) -> list[Followed]:
        """Result of every intervention, oldest first."""
        with self._connected("?mode=ro") as db:  # who asks after a file leaves it as it is
            rows = db.execute(
                "SELECT run, arm, classifier, continued FROM followed ORDER BY rowid"
            ).fetchall()
        return [Followed(run, Arm(arm), name, bool(continued)) for run, arm, name, continued in rows]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._path.touch(mode=0o600)  # as every file of sessions; SQLite's side files take its mode
        except OSError as error:
            raise StoreUnavailable(f"cannot use {self._path}: {error}") from error
        with self._connected() as db:
            for table in _TABLES:
                db.execute(f"CREATE TABLE IF NOT EXISTS {table} (id PRIMARY KEY, at REAL, memory BLOB)")
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


def _decoded(encoded: bytes, start: Kind) -> Kind:
    """Stored state; an unreadable state of another version is reset."""
    try:
        return msgspec.json.decode(encoded, type=type(start))
    except msgspec.MsgspecError:
        return start

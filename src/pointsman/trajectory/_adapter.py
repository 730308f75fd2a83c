"""From the messages of any wire format to a trajectory, doing work only for new messages.

An agent resends its whole history with every request. A counted message is recognised by one message,
the last one counted, and by the ids of its calls rather than by its bytes (docs/notebook/0030).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

import msgspec

from pointsman.text.extract import digest, fingerprint, latest_words
from pointsman.trajectory._analysis import TrajectoryAnalysis
from pointsman.trajectory._events import Event, ToolInvoked, UserSpoke
from pointsman.trajectory.state import TrajectoryState, after_recommendation
from pointsman.vocabulary import Message, Role, ToolCall

#: By plain name: Python 3.11 finds a member of an enum through a descriptor, 0.15 µs each time.
_USER: Final = Role.USER
_UNKNOWN: Final[tuple[int, ToolCall | None]] = (0, None)

#: Characters of each opening message that name a conversation.
OPENING: Final = 500
#: Messages before the first answer that name it; agents send one to five.
_OPENING_MESSAGES: Final = 100
#: New messages that are read, and events taken from them, of one request. They fill the window of 50 steps
#: several times over; what stands before them could only be counted.
RECENT: Final = 400


class Conversation(Protocol):
    """Messages in order, each decoded when it is asked for. Every ``types.History`` is one."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Message: ...


class TrajectoryMemory(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Session state of a trajectory, in plain values."""

    state: TrajectoryState = TrajectoryState()
    counted: int = 0  # messages already in ``state``
    anchor: str = ""  # fingerprint of the last of them


def observe(
    history: Conversation, memory: TrajectoryMemory, empty: TrajectoryAnalysis
) -> tuple[TrajectoryAnalysis, TrajectoryMemory]:
    """Bring a session's trajectory up to date with a request.

    ``empty`` is a run without events under the session's configuration. When the request does not continue
    the counted part (edited, rewound, compacted, or another conversation under the same session id), or goes
    on by more than ``RECENT`` messages, the trajectory is built anew from the last of them.
    """
    latest = _last_counted(history, memory)
    start = max(0, len(history) - RECENT)
    if latest is None or start > memory.counted:
        memory, latest = TrajectoryMemory(), _NOTHING
    reader = _Reader(turn=memory.state.turn_count)
    analysis = TrajectoryAnalysis(memory.state, empty.lens, _result_text(latest))
    counted, waiting = max(start, memory.counted), reader.waiting
    settled: list[Event] = []
    open_batch: list[Event] = []
    messages = [history[index] for index in range(counted, len(history))]
    for index, message in enumerate(messages, counted):
        reader.read(message, open_batch)
        if not waiting:
            settled += open_batch
            open_batch, latest, counted = [], message, index + 1
    analysis = analysis.with_events(settled[-RECENT:])
    remembered = TrajectoryMemory(analysis.state, counted, fingerprint(latest))
    return analysis.with_events(open_batch[-RECENT:]), remembered


def recommended(memory: TrajectoryMemory, tool_name: str) -> TrajectoryMemory:
    """Note that the agent was instructed to use a tool."""
    return msgspec.structs.replace(memory, state=after_recommendation(memory.state, tool_name))


def events_of(messages: Iterable[Message]) -> Iterator[Event]:
    """Yield the events of a whole conversation."""
    reader = _Reader(turn=0)
    for message in messages:
        events: list[Event] = []
        reader.read(message, events)
        yield from events


_NOTHING: Final = Message(Role.SYSTEM)


def _last_counted(history: Conversation, memory: TrajectoryMemory) -> Message | None:
    """The last message already counted; None when the history does not continue the counted part."""
    if memory.counted == 0:
        return _NOTHING
    if memory.counted > len(history):
        return None
    latest = history[memory.counted - 1]
    return latest if fingerprint(latest) == memory.anchor else None


def _result_text(message: Message) -> str:
    return message.results[-1].text if message.results else ""


def opening_of(history: Conversation) -> str:
    """How a conversation began: a name for it that stays, by the user's words before the first answer.

    Of each message the end is enough, and the rest may be a megabyte of pasted files.
    """
    words: list[str] = []
    for index in range(min(len(history), _OPENING_MESSAGES)):
        message = history[index]
        if message.role is Role.ASSISTANT:
            break
        if message.role is Role.USER and not message.results:
            words.append(latest_words(message)[-OPENING:])
    return digest("\0".join(words))


def _is_persons(message: Message) -> bool:
    """True for a user's words: text of a user message without an agent's wrapper and without results."""
    if message.role is not _USER or message.results:
        return False
    return message.images > 0 or bool(latest_words(message))


class _Reader:
    """Pairs calls with results. Calls of one turn may come in one message or in several."""

    def __init__(self, turn: int) -> None:
        self._turn = turn
        #: Calls of the latest turn that have no result, by their ids; it is emptied and never replaced.
        self.waiting: dict[str, tuple[int, ToolCall | None]] = {}
        self._batch = 0
        self._answered = True

    def read(self, message: Message, events: list[Event]) -> None:
        """Append the events that a message completes."""
        waiting = self.waiting
        if message.calls:
            if self._answered:
                waiting.clear()
                self._batch, self._answered = 0, False
                self._turn += 1
            for batch, made in enumerate(message.calls, self._batch):
                waiting[made.id] = batch, made
            self._batch += len(message.calls)
        for result in message.results:
            position, call = waiting.pop(result.call_id, _UNKNOWN)
            if call is None:
                continue  # the call was cut off the history, or answered before
            self._answered = True
            events.append(ToolInvoked(call.name, call.arguments, result, self._turn, position, self._batch))
        if message.role is _USER and _is_persons(message):
            waiting.clear()  # calls that a person interrupted are never answered
            events.append(UserSpoke())

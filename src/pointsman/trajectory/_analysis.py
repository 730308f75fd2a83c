"""The analysis of a run for classifiers: counts, the latest calls, and patterns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Final, Protocol

import msgspec

from pointsman.text.extract import digest, fingerprint, latest_words
from pointsman.trajectory._events import (
    DEFAULT_INDICATORS,
    Event,
    ProgressIndicator,
    ProgressMade,
    ToolInvoked,
    ToolRecommended,
    UserSpoke,
    step_of,
)
from pointsman.trajectory.detectors import DEFAULT_DETECTORS, TrajectoryPattern
from pointsman.trajectory.step import (
    WINDOW,
    Step,
    TrajectoryState,
    after_progress,
    after_recommendation,
    after_step,
    after_user,
)
from pointsman.vocabulary import USER, Message, Role, ToolCall


class PatternDetector(Protocol):
    """Finds one pattern. Stateless: its memory is in the trajectory, so a stored one resumes."""

    @property
    def name(self) -> str:
        """Stable name."""

    def detect(self, trajectory: TrajectoryAnalysis, /) -> TrajectoryPattern | None:
        """Return the pattern if it is there after the latest event."""


@dataclass(frozen=True, slots=True)
class Lens:
    """How a run is looked at; the same for every event of it."""

    detectors: tuple[PatternDetector, ...] = DEFAULT_DETECTORS
    indicators: tuple[ProgressIndicator, ...] = DEFAULT_INDICATORS
    poll_tools: frozenset[str] = frozenset()  # beside the built-in ones
    window_size: int = WINDOW  # steps
    step_of: Callable[..., Step] = step_of  # what reduces a call to a step


class TrajectoryAnalysis:
    """A run up to its latest event. Immutable: ``with_event`` returns another."""

    __slots__ = ("_latest_result", "_patterns", "attempt", "lens", "state")

    def __init__(
        self, state: TrajectoryState | None = None, lens: Lens | None = None, latest_result: str = ""
    ) -> None:
        self.state: Final = state or TrajectoryState()
        self.lens: Final = lens or Lens()
        self._latest_result: Final = latest_result  # a text, so it is never part of the state
        #: Steps since a person last spoke, oldest first, without throttled and declined ones.
        self.attempt: Final = _attempt(self.state)
        self._patterns: Mapping[str, TrajectoryPattern] | None = None  # not looked for yet

    def _detect(self) -> Mapping[str, TrajectoryPattern]:
        if not self.attempt:
            return _NO_PATTERNS
        found = [detector.detect(self) for detector in self.lens.detectors]
        if not any(found):
            return _NO_PATTERNS
        return MappingProxyType({pattern.pattern_type: pattern for pattern in found if pattern})

    @property
    def turn_count(self) -> int:
        """Turns of the assistant that called tools."""
        return self.state.turn_count

    @property
    def tool_call_count(self) -> int:
        """Calls in the whole run."""
        return self.state.tool_call_count

    @property
    def error_count(self) -> int:
        """Failed calls in the whole run; rate limits and refusals by a person are not failures."""
        return self.state.error_count

    @property
    def consecutive_errors(self) -> int:
        """Failed calls in a row up to now; a success or a user message ends the row."""
        return self.state.consecutive_errors

    @property
    def unique_tools_used(self) -> frozenset[str]:
        """Names of the tools called in the window."""
        return frozenset(step.tool_name for step in self.state.steps)

    @property
    def duration(self) -> timedelta:
        """Time from the first to the latest event that carried one."""
        return timedelta(seconds=max(0.0, self.state.latest_at - self.state.started_at))

    def recent_tool_calls(self, n: int) -> tuple[Step, ...]:
        """The last ``n`` calls, oldest first."""
        return self.state.steps[-n:] if n > 0 else ()

    def recent_errors(self, n: int) -> tuple[Step, ...]:
        """The last ``n`` failed calls in the window, oldest first."""
        return tuple(step for step in self.state.steps if step.is_error)[-n:] if n > 0 else ()

    def tool_frequency(self) -> dict[str, int]:
        """Calls per tool in the window, most frequent first."""
        return _ranked(step.tool_name for step in self.state.steps)

    def error_frequency(self) -> dict[str, int]:
        """Failed calls per error signature in the window, most frequent first."""
        failed = [step for step in self.state.steps if step.is_error]
        if all(step.message for step in failed):
            return _ranked(step.signature for step in failed)
        # A step of another process holds a digest.
        names = {step.error_key: step.signature for step in failed if step.message}
        return _ranked(names.get(step.error_key, step.signature) for step in failed)

    def patterns(self) -> Mapping[str, TrajectoryPattern]:
        """Findings of the detectors after the latest event, by pattern type."""
        if self._patterns is None:
            self._patterns = self._detect()
        return self._patterns

    def has_pattern(self, pattern_type: str) -> bool:
        """True when a pattern of this type is there."""
        return pattern_type in self.patterns()

    def with_event(self, event: Event) -> TrajectoryAnalysis:
        """The run after one more event."""
        return self.with_events((event,))

    def with_events(self, events: Iterable[Event]) -> TrajectoryAnalysis:
        """The run after more events; the detectors look once, after the last."""
        state, result = _after_events(self.state, self._latest_result, self.lens, events)
        return self if state is self.state else TrajectoryAnalysis(state, self.lens, result)


def _after_events(
    state: TrajectoryState, result: str, lens: Lens, events: Iterable[Event]
) -> tuple[TrajectoryState, str]:
    """The state after events, and the text of the latest result."""
    for event in events:
        match event:
            case ToolInvoked():  # as nearly all are
                step = lens.step_of(
                    event,
                    turn=state.turn_count + 1,
                    before=result,
                    indicators=lens.indicators,
                    poll_tools=lens.poll_tools,
                )
                state = after_step(state, step, lens.window_size)
                result = event.result.text if event.result else ""
            case Step():
                state, result = after_step(state, event, lens.window_size), ""
            case UserSpoke(at=at):
                state = after_user(state, at)
            case ProgressMade():
                state = after_progress(state)
            case ToolRecommended(tool_name=tool_name):
                state = after_recommendation(state, tool_name)
    return state, result


_NO_PATTERNS: Final[Mapping[str, TrajectoryPattern]] = MappingProxyType({})


def _attempt(state: TrajectoryState) -> tuple[Step, ...]:
    if not state.attempt:
        return ()
    steps = state.steps[-state.attempt :]
    if state.tool_call_count - state.neutral >= len(steps):
        return steps  # no neutral one among them
    return tuple([step for step in steps if not step.is_neutral])


def _ranked(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))


# From the messages of any wire format to a trajectory, doing work only for new messages.
#
# An agent resends its whole history with every request. A counted message is recognised by one message, the
# last one counted, and by the ids of its calls rather than by its bytes (docs/notebook/0030).


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
    length, latest = len(history), _last_counted(history, memory)
    start = max(0, length - RECENT)
    if latest is None or start > memory.counted:
        memory, latest = TrajectoryMemory(), _NOTHING
    reader = _Reader(turn=memory.state.turn_count)
    state, result, lens = memory.state, latest.results[-1].text if latest.results else "", empty.lens
    counted, waiting = max(start, memory.counted), reader.waiting
    settled: list[Event] = []
    open_batch: list[Event] = []
    messages = [history[index] for index in range(counted, length)]
    for index, message in enumerate(messages, counted):
        reader.read(message, open_batch)
        if not waiting:
            settled += open_batch
            open_batch, latest, counted = [], message, index + 1
    if settled:
        state, result = _after_events(state, result, lens, settled[-RECENT:])
    remembered = TrajectoryMemory(state, counted, fingerprint(latest))
    if open_batch:
        state, result = _after_events(state, result, lens, open_batch[-RECENT:])
    return TrajectoryAnalysis(state, lens, result), remembered


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


def opening_of(history: Conversation) -> str:
    """How a conversation began: a name for it that stays, by the user's words before the first answer.

    Of each message the end is enough, and the rest may be a megabyte of pasted files.
    """
    spoken: list[Message] = []
    for index in range(min(len(history), _OPENING_MESSAGES)):
        message = history[index]
        if message.role is Role.ASSISTANT:
            break
        if message.role is Role.USER and not message.results:
            spoken.append(message)
    return digest("\0".join([latest_words(message)[-OPENING:] for message in spoken]))


def _is_persons(message: Message) -> bool:
    """True for a user's words: text of a user message without an agent's wrapper and without results."""
    if message.role is not USER or message.results:
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
        if message.role is USER and _is_persons(message):
            waiting.clear()  # calls that a person interrupted are never answered
            events.append(UserSpoke())

"""Reading: the input of a decision from a request, an agent's event or a recorded decision."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from operator import attrgetter
from typing import Final

import msgspec
from msgspec.structs import replace

from pointsman.capabilities import take_switch
from pointsman.decision.aliases import ModelNames
from pointsman.decision.decision import Decision, ReadRequest, RequestInput, role_mark_of
from pointsman.decision.memory import Memory
from pointsman.decision.policy import Policy
from pointsman.evidence import Scanner
from pointsman.guidance import GuidanceMemory, Guide, Moment, Seen, recorded_moment
from pointsman.model_choice.fitness import BYTES_PER_TOKEN, TOO_LONG, tokens_with_images
from pointsman.text.extract import NO_WORDS, UNSEARCHED, Extracted, extract, searched
from pointsman.tiers import asks_to_decide
from pointsman.trajectory import Event, ToolInvoked
from pointsman.trajectory.step import Step, TrajectoryState
from pointsman.vocabulary import (
    HELPER,
    MAIN,
    SYSTEM,
    AgentRequest,
    AgentRole,
    Evidence,
    History,
    Purpose,
    Reason,
    Role,
    Script,
    Stage,
    Tier,
    WireFormat,
)
from pointsman.wire.request import request_from_text
from pointsman.wire.tools import forbids_tools

__all__ = ["NO_PLACE", "UNSEEN", "UNTOLD", "AgentEvent", "continues_answer", "going_on", "prompt_of",
           "with_event"]  # fmt: skip


# Events that an agent reports of its run, read as the requests that it sends elsewhere.
#
# An agent with hooks reports user messages and tool results, one event at a time and without the history.
# Words are judged when they are sent; the agent's later actions belong to the same words.


#: An agent that calls tools offers them with each of its requests.
_NEEDED = frozenset({"tools"})
#: Of an event whose tier no words of a person decided; it stands with that tier.
UNSEEN: Final = Reason("evidence.unseen", "no words of a person were reported in this session")

#: Of a request to which no text can be added, where one was due.
NO_PLACE: Final = Reason(
    "additions.no-place", "the request ends with the assistant's message, which the model continues"
)


#: Of such a request where guidance was due: its steps are read again with the next one.
UNTOLD: Final = Reason("guidance.no-place", f"guidance is due and waits: {NO_PLACE.detail}")


class AgentEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of an agent's run."""

    name: str  # as the agent calls it: "PostToolUse"
    session: str
    arrived_at: float  # seconds since the epoch
    number: int  # among the events of the session, from 1
    format: WireFormat = WireFormat.MESSAGES  # that the agent speaks
    role: AgentRole = AgentRole.MAIN
    purpose: Purpose | None = None  # as the request would have that the event stands for
    project: str = ""  # key of what the agent works on
    project_name: str = ""  # of its folder
    prompt: str = ""  # what a person said
    happened: Event | None = None  # what joins the run
    before: tuple[Event, ...] = ()  # what joined it before and was not reported
    moment: Moment | None = None  # for configured providers; None: at no decision point


def prompt_of(event: AgentEvent) -> AgentRequest:
    """Return the words of an event as the request that they begin."""
    request = request_from_text(event.prompt, session=event.session, arrived_at=event.arrived_at)
    return replace(
        request,
        format=event.format,
        features=_NEEDED,
        role=event.role,
        role_mark=_mark(event),
        purpose=event.purpose,
        project=event.project,
        project_name=event.project_name,
    )


def going_on(event: AgentEvent, then: Decision, memory: Memory, evidence: Evidence) -> ReadRequest:
    """Return the reading of an event without a user message: that of the latest decision is reused.

    The words were not stored. The decisions made from them hold until the next user message.
    """
    by_role = (
        then.tier is not None and then.tier.stage is Stage.ROLE
    )  # of the prompt's purpose, not its words
    called = (event.happened.tool_name,) if isinstance(event.happened, ToolInvoked) else ()
    selected = then.capabilities and replace(then.capabilities, continued=True, command="", called=called)
    return ReadRequest(
        then.input,
        memory.message,
        bool(memory.message),
        evidence,
        searched=memory.searched,
        capabilities=selected,
        tier=None if by_role else then.tier,
        words_gone=True,
        role_mark=_mark(event),
        abstained=tuple(reason for reason in then.abstained if reason.code == UNSEEN.code),
    )


def with_event(
    reading: ReadRequest,
    event: AgentEvent,
    seen: Seen | None,
    run: tuple[int, tuple[Step, ...], bool],
    failed: tuple[Reason, ...],
) -> ReadRequest:
    """Replace a request's report of the run by that of an event.

    Args:
        reading: Of the words.
        event: The report of the agent.
        seen: The run up to the event; None where guidance is off, or failed.
        run: Number of the conversation, its new calls, and whether a person has spoken since.
        failed: What could not be read.
    """
    thread, steps, person_spoke = run
    asked = replace(
        reading.input,
        arrived_at=event.arrived_at,
        purpose=event.purpose,
        project=event.project,
        project_name=event.project_name,
        messages=event.number,
        in_tool_loop=not event.prompt,
        thread=thread,
        steps=steps,
        person_spoke=person_spoke,
        event=event.name,
    )
    unseen = (UNSEEN,) if reading.request is not None and not event.prompt else ()
    return replace(reading, input=asked, seen=seen, abstained=(*reading.abstained, *failed, *unseen))


def _mark(event: AgentEvent) -> str:
    """The mark of the role: ``AgentRequest.role_mark``."""
    return f"the hook {event.name}"


#: The tier of a helper call that an alias leaves to the policy: a title, a summary of tool use.
HELPER_TIER: Final = Tier.SIMPLE

#: By plain name: Python 3.11 finds a member of an enum through a descriptor, 0.15 µs each time.
ITERATION: Final = Purpose.TOOL_ITERATION

#: What of a step is content (``Step.without_content``): most have none.
_message_of: Final = attrgetter("message")
_signature_of: Final = attrgetter("signature")
_NO_RUN: Final = (0, (), False)
_NO_EVIDENCE: Final = Evidence("", 0, 0, 0, 0, 0, Script.NONE)


class RequestReader:
    """Reads requests, events and recorded decisions for one policy."""

    def __init__(
        self,
        policy: Policy,
        scanner: Scanner,
        guide: Guide | None,
        names: ModelNames,
        *,
        smallest_window: int | None,
        router_version: str,
        kinds_version: str,
    ) -> None:
        """Prepare for one policy.

        Args:
            policy: Configures how the user's words are found, and whether they may begin with a command.
            scanner: Its signal table holds all signals of the policy.
            guide: Reads the agent's run; None where guidance is off.
            names: The models that the policy knows.
            smallest_window: Context window of the smallest model, in tokens; None if unknown.
            router_version: Version of the learned router; empty without.
            kinds_version: Digest of the prompt kinds in use; empty without.
        """
        self._last_paragraph = policy.profile.last_paragraph
        self._commands = policy.commands
        self._router_version = router_version
        self._scanner = scanner
        self._guide = guide
        self._names = names
        self._smallest_window = smallest_window
        self._kinds_version = kinds_version

    def read(self, request: AgentRequest, memory: Memory) -> ReadRequest:
        """Read a request: the user's words, their signals, and the agent's steps since.

        What cannot be read is decided as if it were empty.
        """
        words, found, evidence, failed = NO_WORDS, UNSEARCHED, _NO_EVIDENCE, []
        message = request.message_id
        try:
            words = extract(request, memory.searched, last_paragraph=self._last_paragraph)
            if self._commands:
                request, words = _without_command(request, words)
            found = searched(request, words)
            message = message or (
                f"text {memory.turns + 1}" if request.is_text and words.index >= 0 else words.key
            )
            evidence = self._scanner.scan(words.text)
        except Exception as error:  # noqa: BLE001 - a text that cannot be read is decided as an empty one
            failed.append(failed_part("evidence", error))
        same = bool(message) and message == memory.message
        seen = None
        guide, role = self._guide, self._role(request)
        speaks_always = guide is not None and guide.reads_all and role is not HELPER
        # A summary of the conversation, or a question beside it, is no step of it: nobody is stuck there.
        beside = role is HELPER and request.purpose is not None
        if guide and not beside and (request.may_call or memory.guidance.threads or speaks_always):
            try:
                seen = (
                    _seen_at(guide, request, memory.guidance, words.text)
                    if speaks_always
                    else guide.read(request.history, memory.guidance)
                )
            except Exception as error:  # noqa: BLE001 - a request goes on without guidance
                failed.append(failed_part("guidance", error))
        thread, steps, person_spoke = _run(seen) if seen else _NO_RUN
        counts = bool(message) and role is not HELPER
        asked = RequestInput(
            format=request.format,
            model_asked=request.model,
            session=request.session,
            arrived_at=request.arrived_at,
            size=request.size,
            estimate=self._estimate(request) if "vision" in request.features else 0,
            features=tuple(sorted(request.features)),
            role=role,
            purpose=Purpose.HELPER if role is HELPER and request.role is MAIN else request.purpose,
            project=request.project,
            client=request.client,
            project_name=request.project_name,
            messages=len(request.history),
            in_tool_loop=same and (request.purpose is ITERATION or _goes_on(request.history, words.index)),
            tools=len(request.tools),
            user_message=memory.turns + (not same) if counts else 0,
            signals=self._scanner.table.ids_of(evidence.hits),
            characters=evidence.characters,
            left_out=words.left_out,
            utf16_units=evidence.utf16_units,
            tokens=evidence.tokens,
            questions=evidence.questions,
            script=evidence.script,
            thread=thread,
            steps=steps,
            person_spoke=person_spoke,
            caller=request.caller,
            traceparent=request.traceparent,
            team=request.team,
            permission=request.permission,
        )
        return ReadRequest(
            asked, message, same, evidence, seen, words, found, request, None, tuple(failed),
            of_run=request.active != (),
        )  # fmt: skip

    def read_event(self, event: AgentEvent, memory: Memory, then: Decision | None) -> ReadRequest:
        """Read an event that an agent reports, where its requests are not seen.

        Args:
            event: The report of the agent.
            memory: The memory of its session.
            then: The latest decision of the session; None without one.
        """
        seen: Seen | None = None
        failed: tuple[Reason, ...] = ()
        if self._guide:
            try:
                seen = self._guide.follow(event.happened, memory.guidance, event.moment, before=event.before)
            except Exception as error:  # noqa: BLE001 - an event goes on without guidance
                failed = (failed_part("guidance", error),)
        run = _run(seen) if seen else _NO_RUN
        if then is None or event.prompt:
            return with_event(self.read(prompt_of(event), memory), event, seen, run, failed)
        reading = going_on(event, then, memory, self._recorded_evidence(then.input))
        return with_event(reading, event, seen, run, failed)

    def recall(self, then: Decision, memory: Memory, text: str | None = None) -> ReadRequest:
        """Return the reading of a recorded turn, for this policy to decide it again.

        Args:
            then: The recorded decision.
            memory: The memory of the session under this policy.
            text: The user's words, if stored. Without them only the signals found then are
                known: a signal that this policy adds cannot be found.
        """
        asked, guide = then.input, self._guide
        message = str(asked.user_message or "")
        same_router = then.tier and then.tier.learned_router_version == self._router_version
        evidence = self._scanner.scan(text) if text else self._recorded_evidence(asked)
        return ReadRequest(
            self._found_in(asked, evidence),
            message,
            bool(message) and message == memory.message,
            evidence,
            seen=guide.recall(
                asked.steps,
                memory.guidance,
                thread=asked.thread,
                person_spoke=asked.person_spoke,
                moment=_recorded_moment(then) if guide.reads_all else None,
            )
            if guide
            else None,
            learned_score=then.tier.learned_router if same_router and then.tier else None,
            of_run=then.capabilities is not None and then.capabilities.of_run,
            enriched=any(each.source == "domains" for each in then.injections),
            continues_answer=NO_PLACE in then.reasons,
            untold=UNTOLD in then.reasons,
            kind=then.tier.kind if then.tier and then.tier.kinds_version == self._kinds_version else None,
            capabilities=then.capabilities,
            was_too_long=any(reason.code == TOO_LONG for reason in then.refused),
            role_mark=role_mark_of(then),
        )

    def _estimate(self, request: AgentRequest) -> int:
        """Tokens of a request with images; 0 if images do not matter, or the request cannot be read."""
        smallest = self._smallest_window
        if smallest is None or request.size // BYTES_PER_TOKEN <= smallest:
            return 0
        try:
            return tokens_with_images(request)
        except Exception:  # noqa: BLE001 - the size is an estimate too
            return 0

    @cached_property
    def _places(self) -> Mapping[str, int]:
        """The places of signals by id, which a record names: a bit takes 250 bytes, of thousands."""
        return {signal.id: place for place, signal in enumerate(self._scanner.table.signals)}

    def _recorded_evidence(self, asked: RequestInput) -> Evidence:
        hits = sum(1 << self._places[signal] for signal in asked.signals if signal in self._places)
        return Evidence(
            "", hits, asked.characters, asked.utf16_units, asked.tokens, asked.questions, asked.script
        )

    def _role(self, request: AgentRequest) -> AgentRole | None:
        """An agent that asks for a small model by an alias, for text alone, makes a helper call too."""
        if request.role is not MAIN or request.tools or request.may_call:
            return request.role
        named = None if asks_to_decide(request.model) else self._names.resolve(request.model, request.client)
        helps = named is not None and named.target.tier is HELPER_TIER
        return HELPER if helps else MAIN

    def _found_in(self, asked: RequestInput, evidence: Evidence) -> RequestInput:
        """The input of a recorded turn with the findings of this policy."""
        return msgspec.structs.replace(
            asked,
            signals=self._scanner.table.ids_of(evidence.hits),
            characters=evidence.characters,
            utf16_units=evidence.utf16_units,
            tokens=evidence.tokens,
            questions=evidence.questions,
            script=evidence.script,
        )


def continues_answer(reading: ReadRequest) -> bool:
    """Whether a request ends with the assistant's words, behind which only Responses takes a text."""
    request = reading.request
    if request is None:
        return reading.continues_answer
    history, last = request.history, len(request.history) - 1
    if last < 0 or request.format is WireFormat.RESPONSES or history.role(last) is not Role.ASSISTANT:
        return False
    return not history[last].calls  # before open calls an agent asks without a model


def _goes_on(history: History, index: int) -> bool:
    """Whether the agent has worked since a person spoke: a message other than settings follows the words.

    A request that ends with the words is the first of its user message, or the same once more.
    """
    return any(history.role(place) is not SYSTEM for place in range(index + 1, len(history)))


def failed_part(part: str, error: Exception) -> Reason:
    """Return the reason that a part of a decision is missing."""
    return Reason(f"{part}.failed", f"{type(error).__name__}: {error}")


def _seen_at(guide: Guide, request: AgentRequest, memory: GuidanceMemory, prompt: str) -> Seen | None:
    may_call = bool(request.tools) and not forbids_tools(request.tool_choice)
    return guide.read_moment(request.history, memory, offers_tools=may_call, prompt=prompt)


def _recorded_moment(then: Decision) -> Moment:
    asked = then.input
    return recorded_moment(
        then.guidance,
        -1 if asked.event else asked.messages,
        answered=bool(asked.steps),
        offered_tools=asked.tools > 0,
    )


def _run(seen: Seen) -> tuple[int, tuple[Step, ...], bool]:
    """The conversation's number, its new tool calls, and whether a person has spoken since the last."""
    thread, now = seen.thread, seen.memory.state
    return thread.number, _new_steps(thread.trajectory.state, now), now.user_spoke


def _new_steps(before: TrajectoryState, after: TrajectoryState) -> tuple[Step, ...]:
    """The tool calls that came since, as far as they are still in the window, without their content."""
    count = after.tool_call_count - before.tool_call_count
    new = after.steps[-count:] if count > 0 else ()
    if any(map(_message_of, new)) or any(map(_signature_of, new)):
        return tuple([step.without_content() for step in new])
    return new


def _without_command(request: AgentRequest, words: Extracted) -> tuple[AgentRequest, Extracted]:
    """Take a command off the words of a request, where no door has done so."""
    command, rest = take_switch(words.text)
    if not command:
        return request, words
    return (
        msgspec.structs.replace(request, command=request.command or command),
        msgspec.structs.replace(words, text=rest),
    )

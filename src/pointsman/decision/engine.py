"""The engine: one request and session memory in, a decision and new session memory out.

Pure and synchronous. A part that fails abstains: the decision records the failure and is made without it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple

import msgspec

from pointsman.capabilities import (
    CapabilityDecision,
    CapabilityMemory,
    CapabilityPolicy,
    CapabilityStage,
    CapabilityTurn,
    Strategy,
    take_switch,
)
from pointsman.decision.aliases import ModelNames
from pointsman.decision.choosing import Draft, ModelStage, TierStage
from pointsman.decision.decision import Decision, Injection, ReadRequest, RequestInput
from pointsman.decision.memory import (
    MOST_CHARACTERS,
    MOST_PLACES,
    Memory,
    is_beside,
    latest,
    remember,
    standing,
    with_subagent,
)
from pointsman.decision.policy import DomainPolicy, Policy
from pointsman.decision.reader import NO_PLACE, UNTOLD, RequestReader, continues_answer
from pointsman.decision.switching import StartStage, remembered
from pointsman.domains import PERMISSIVE, DomainTracker
from pointsman.evidence import Scanner
from pointsman.guidance import GuidanceDecision, Guide, OwnClasses
from pointsman.model_choice.choice import ModelChooser
from pointsman.text.extract import Extracted
from pointsman.tiers import Kinds, TierScorer
from pointsman.vocabulary import (
    HELPER,
    MAIN,
    OFF,
    SUBAGENT,
    AgentRequest,
    Encoder,
    History,
    Mode,
    ModelQuery,
    ModelReply,
    Purpose,
    Reason,
    Stage,
)
from pointsman.wire.tools import forced_tool

__all__ = ["Decided", "Engine"]


#: Stages of a call whose model is not the session's from then on: it was named for this request alone.
_LEAVES_MODEL: Final = frozenset({Stage.ALIAS, Stage.FORCED})
#: Purposes of the main conversation beside its usual work.
_MARKED: Final = frozenset({Purpose.PLAN, Purpose.EDIT})

_BY_NAME: Final = "an alias of a small model, and no tools"
_RECORDED: Final = "as recorded"
_NO_CLASSES: Final[OwnClasses] = {}
_UNGUIDED: Final = "guidance.failed"


class Decided(NamedTuple):
    """The result of deciding one turn."""

    decision: Decision
    memory: Memory
    words: Extracted  # the user's words; apart from the decision, which may be stored where they may not


class Engine:
    """A policy made ready to decide. Holds no state between turns; safe to share."""

    def __init__(
        self,
        policy: Policy,
        scanner: Scanner,
        encoder: Encoder | None = None,
        *,
        learned_router_encoder: Encoder | None = None,
        prompt_kinds: Kinds | None = None,
        capability_encoder: Encoder | None = None,
        guidance_classes: OwnClasses = _NO_CLASSES,
    ) -> None:
        """Compile the policy.

        Args:
            policy: what decides.
            scanner: its signal table must hold all signals of the policy.
            encoder: the one that ``policy.domains.examples`` names.
            learned_router_encoder: the one that ``policy.learned_router`` was trained with.
            prompt_kinds: ``policy.kinds`` made ready, where their encoder is installed.
            capability_encoder: the one that ``policy.capabilities.encoder`` names.
            guidance_classes: those that ``policy.guidance.providers`` names by entry point.
        """
        self.policy = policy
        self.version = policy.version()
        self.scanner = scanner
        self.names = ModelNames(policy.models, policy.aliases)
        self._tracker = (
            DomainTracker(policy.domains.domains, scanner.table, encoder) if policy.domains else None
        )
        self._guide = Guide(policy.guidance, own=guidance_classes) if policy.guidance else None
        models = ModelChooser(policy.tier_models, policy.models)
        self._tiers = TierStage(
            policy,
            scanner,
            self._tracker,
            models.tiers,
            kinds=prompt_kinds,
            encoder=learned_router_encoder,
        )
        switches = policy.switching == "upward"
        stage = ModelStage if switches else StartStage
        self._models = stage(policy, self._tiers, self.names, models)
        self._kept = self._remembered if switches else self._remembered_since_start
        self.reader = RequestReader(
            policy,
            scanner,
            self._guide,
            self.names,
            smallest_window=models.smallest_window,
            router_version=self._tiers.router_version,
            kinds_version=self._tiers.kinds_version,
        )
        self._capabilities = _capability_stage(policy, capability_encoder)

    def decide(
        self, request: AgentRequest | ReadRequest, memory: Memory, decision_id: str
    ) -> Generator[ModelQuery, ModelReply, Decided]:
        """Decide one turn: a request, or what ``reader`` gives for an event or a recorded turn.

        Raises:
            UnknownModel: the caller asked for a model that is neither a tier nor configured.
        """
        reading = request if isinstance(request, ReadRequest) else self.reader.read(request, memory)
        asked = reading.input
        draft = Draft(reading, asked, reading.evidence, memory, list(reading.abstained))
        if role := asked.role:
            mark = reading.request.role_mark if reading.request else reading.role_mark
            purpose = asked.purpose
            if role is not MAIN or mark or purpose in _MARKED:
                by = mark or (_BY_NAME if reading.request else _RECORDED)
                draft.reasons.append(
                    Reason(f"agent.{purpose if role is MAIN and purpose in _MARKED else role}", by)
                )
        if left_out := asked.left_out:
            shown = f"left out: {left_out:,} characters that this client repeats"
            draft.reasons.append(Reason("evidence.left-out", shown))
        guide = self._guide
        if guide and (reading.seen or reading.untold):
            yield from self._guide_agent(draft, guide)
        elif guide and not (reading.abstained and any(each.code == _UNGUIDED for each in reading.abstained)):
            draft.guidance = guide.idle(memory.guidance.arm, asked.session)
        yield from self._models.choose(draft)
        # An agent keeps what it is told at an event in its own history.
        history = reading.request.history if reading.request and not asked.event else None
        if history is not None and memory.additions.places:
            _find_standing(draft, history)
        if self.policy.domains and self._tracker:
            self._find_domains(draft, self.policy.domains, self._tracker)
        if self._capabilities or reading.of_run:
            yield from self._select_capabilities(draft)
        if history is not None and draft.injections:
            _remember_added(draft, history)
        # A helper call is no turn of the conversation whose session it names.
        kept = memory if draft.input.role is HELPER else self._kept(draft)
        return Decided(self._decision(draft, decision_id), kept, reading.words)

    @property
    def reads_ends(self) -> bool:
        """Whether providers speak where an agent ends its work."""
        return self._guide is not None and self._guide.reads_ends

    @property
    def asks_at_events(self) -> bool:
        """Whether configured providers of guidance may speak at an event without a step of the run."""
        return self._guide is not None and self._guide.reads_all

    def is_prepared(self, request: AgentRequest) -> bool:
        """Whether a request is decided at once; else an index of its tools is built first."""
        stage = self._capabilities
        return (
            stage is None or not request.tools or stage.is_prepared(request.tools, bytes(request.tool_list))
        )

    def select(self, task: str) -> Generator[ModelQuery, ModelReply, CapabilityDecision | None]:
        """Select the policy's own capabilities for a task; None without any."""
        stage = self._capabilities
        if stage is None or not stage.concerns(()):
            return None
        command, task = take_switch(task) if self.policy.commands else ("", task)
        turn = CapabilityTurn(message="task", task=task, command=command)
        decided, _ = yield from stage.decide(turn, CapabilityMemory())
        return decided

    def guide(
        self, request: AgentRequest, memory: Memory
    ) -> Generator[ModelQuery, ModelReply, tuple[GuidanceDecision | None, Memory]]:
        """Decide the guidance of a request alone; None where guidance is off."""
        if self._guide is None:
            return None, memory
        before = memory.guidance
        decided, kept = yield from self._guide.turn(request.history, before, session=request.session)
        return decided, msgspec.structs.replace(memory, guidance=kept)

    def scorer_of(self, asked: RequestInput) -> TierScorer:
        """The rules for a request: whether it offers tools may make a difference."""
        return self._tiers.scorer_of(asked)

    def _guide_agent(self, draft: Draft, guide: Guide) -> Generator[ModelQuery, ModelReply, None]:
        seen = draft.reading.seen
        if seen is None:
            draft.reasons.append(UNTOLD)
            return
        before, session = draft.memory, draft.input.session
        try:
            decided, kept = yield from guide.proceed(seen, before.guidance, session=session)
        except Exception as error:  # noqa: BLE001 - a request goes on without guidance
            draft.abstain("guidance", error)
            draft.forget_steps()
            return
        if decided.injection and continues_answer(draft.reading):
            draft.reasons.append(UNTOLD)
            draft.forget_steps()  # the text comes with them
            return
        draft.memory = msgspec.structs.replace(before, guidance=kept)
        draft.guidance = decided
        if decided.firings:
            draft.reasons.extend(decided.reasons)
        draft.abstained.extend(decided.abstained)
        if decided.injection:
            draft.injections.append(Injection("guidance", decided.injection))

    def _find_domains(self, draft: Draft, policy: DomainPolicy, tracker: DomainTracker) -> None:
        before = draft.memory
        try:
            profile = policy.profiles.get(draft.chain[0] if draft.chain else "", PERMISSIVE)
            decided, kept = tracker.decide(draft.evidence, before.domains, draft.reading.message, profile)
        except Exception as error:  # noqa: BLE001 - a request goes on without domains
            draft.abstain("domains", error)
            return
        draft.domains = decided
        enriched = before.enriched
        if policy.mode is Mode.ON and decided.enrichment and not _is_enriched(draft, decided.signature):
            if continues_answer(draft.reading):
                draft.reasons.append(NO_PLACE)
            else:
                draft.injections.append(Injection("domains", decided.enrichment))
                enriched = decided.signature
        draft.memory = msgspec.structs.replace(before, domains=kept, enriched=enriched)

    def _remembered(self, draft: Draft) -> Memory:
        memory, reading, asked = draft.memory, draft.reading, draft.input
        key = reading.message
        chosen = draft.chain[0] if draft.chain else ""
        model = chosen if draft.tier and chosen and draft.tier.stage not in _LEAVES_MODEL else memory.model
        after = msgspec.structs.replace(
            memory,
            model=model,
            used_at=asked.arrived_at if model == chosen else memory.used_at,
            message=key or memory.message,
            searched=reading.searched,
            turns=memory.turns + 1 if key and not reading.same_message else memory.turns,
        )
        if asked.role is SUBAGENT and is_beside(memory, asked):
            return with_subagent(memory, after, asked, chosen)
        return after

    def _remembered_since_start(self, draft: Draft) -> Memory:
        chosen = draft.chain[0] if draft.chain else ""
        return remembered(draft.memory, self._remembered(draft), draft.input, chosen)

    def _select_capabilities(self, draft: Draft) -> Generator[ModelQuery, ModelReply, None]:
        before, reading, stage = draft.memory, draft.reading, self._capabilities
        if reading.of_run:
            draft.capabilities = _selected_by_run(reading)
            return
        if stage is None or draft.input.role is HELPER:
            return
        memory, request, then = before.capabilities, reading.request, reading.capabilities
        try:
            if request is not None and stage.concerns(request.tools):
                turn = _capability_turn(request, reading, memory.counted)
                decided, kept = yield from stage.decide(turn, memory)
            elif request is None and then is not None:
                decided, kept = yield from stage.decide_again(then, reading.evidence.text, memory)
            else:
                return
        except Exception as error:  # noqa: BLE001 - a request goes on with all its tools
            draft.abstain("capabilities", error)
            return
        draft.capabilities = decided
        if decided.abstained:
            draft.abstained.append(Reason("capabilities.abstained", decided.abstained))
        draft.memory = msgspec.structs.replace(before, capabilities=kept)

    def _decision(self, draft: Draft, decision_id: str) -> Decision:
        return Decision(
            id=decision_id,
            input=draft.input,
            policy=self.version,
            tier=draft.tier,
            chain=draft.chain,
            injections=tuple(draft.injections),
            standing=draft.standing,
            reasons=tuple(draft.reasons),
            abstained=tuple(draft.abstained),
            domains=draft.domains,
            guidance=draft.guidance,
            capabilities=draft.capabilities,
            refused=draft.refused,
            parameters=draft.parameters,
        )


def _is_enriched(draft: Draft, signature: str) -> bool:
    """Whether the conversation already holds the text of these domains: no model needs to read it twice.

    A history that was compacted does not hold it any more. Of a recorded request no history is known: the
    recorded additions show it.
    """
    reading, memory = draft.reading, draft.memory
    if memory.enriched != signature:
        return False
    if reading.request is None or reading.input.event:
        return not reading.enriched
    last = latest(memory.additions, "domains")
    return any(last in each.added for each in draft.standing)


def _find_standing(draft: Draft, history: History) -> None:
    """Find what earlier requests added to the messages of this one, to add it again."""
    try:
        draft.standing = standing(draft.memory.additions, history)
    except Exception as error:  # noqa: BLE001 - a request goes on without what was added to earlier ones
        draft.abstain("additions", error)


def _remember_added(draft: Draft, history: History) -> None:
    """Remember the additions of this request, to add them again to the later ones."""
    # The same request sent again adds nothing to what its first sending has added.
    present = {one for each in draft.standing if each.index == len(history) - 1 for one in each.added}
    draft.injections = [each for each in draft.injections if each not in present]
    try:
        kept, dropped = remember(draft.memory.additions, history, tuple(draft.injections))
    except Exception as error:  # noqa: BLE001 - a request goes on, and later ones without these texts
        draft.abstain("additions", error)
        return
    draft.memory = msgspec.structs.replace(draft.memory, additions=kept)
    if dropped:
        bounds = f"at most {MOST_PLACES} with {MOST_CHARACTERS:,} characters are kept for a session"
        draft.abstained.append(
            Reason("additions.dropped", f"{dropped} earlier additions are not repeated any more: {bounds}")
        )


def _capability_stage(policy: Policy, encoder: Encoder | None) -> CapabilityStage | None:
    """What selects; where only the number of tools is given, the local score alone."""
    selection = policy.capabilities
    if selection is None and policy.tools:
        selection = CapabilityPolicy()
    if selection is None or selection.mode is OFF:
        return None
    return CapabilityStage(selection, at_most=policy.tools, encoder=encoder)


def _selected_by_run(reading: ReadRequest) -> CapabilityDecision | None:
    """The selection of the run that asks: one answer, for the run and for its questions."""
    request = reading.request
    if request is None:
        return reading.capabilities
    return CapabilityDecision(
        strategy=Strategy.LOCAL,
        selected=request.active,
        bypass=request.all_active,
        continued=True,
        of_run=True,
    )


def _capability_turn(request: AgentRequest, reading: ReadRequest, counted: int) -> CapabilityTurn:
    return CapabilityTurn(
        message=reading.message,
        task=reading.words.text,
        tools=request.tools,
        tool_list=bytes(request.tool_list),
        called=tuple(dict.fromkeys(_called_since(request.history, counted))),
        counted=len(request.history),
        forced=forced_tool(request.tool_choice),
        command=request.command,
    )


def _called_since(history: History, counted: int) -> list[str]:
    """Names of the tools called since the first ``counted`` messages; in all when the history is shorter."""
    start = counted if counted <= len(history) else 0
    return [call.name for index in range(start, len(history)) for call in history[index].calls]

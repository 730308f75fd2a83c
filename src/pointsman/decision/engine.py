"""The engine: one request and session memory in, a decision and new session memory out.

Pure and synchronous. A part that fails abstains: the decision says so and goes on without it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from operator import attrgetter
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
from pointsman.decision.additions import MOST_CHARACTERS, MOST_PLACES, latest, remember, standing
from pointsman.decision.aliases import LONGEST_SHOWN, ModelNames, Named
from pointsman.decision.decision import Decision, Injection, StandingInjection, role_mark_of
from pointsman.decision.events import AgentEvent, going_on, prompt_of, with_event
from pointsman.decision.input import ReadRequest, RequestInput
from pointsman.decision.memory import Memory
from pointsman.decision.permission import Permits
from pointsman.decision.policy import DomainPolicy, Policy
from pointsman.domains import PERMISSIVE, DomainDecision, DomainTracker
from pointsman.errors import UnknownModel
from pointsman.evidence import Scanner
from pointsman.guidance import (
    GuidanceDecision,
    GuidanceMemory,
    Guide,
    Moment,
    OwnClasses,
    Seen,
    recorded_moment,
)
from pointsman.model_choice.choice import Choice, InUse, Load, ModelChooser
from pointsman.model_choice.fitness import (
    BYTES_PER_TOKEN,
    TOO_LONG,
    UNABLE,
    Barred,
    Requirements,
    is_too_long,
    lacks,
    tokens_with_images,
)
from pointsman.text.extract import Extracted, Searched, extract, searched
from pointsman.tiers import Kinds, LearnedStage, TierDecision, TierScorer, asks_to_decide, forced_tier
from pointsman.tiers.escalation import EscalationPolicy, Trouble, handover, start_of, trouble_of
from pointsman.tiers.projects import ANY, SESSION, ProjectPolicy, name_of, tier_of_project
from pointsman.trajectory.state import TrajectoryState
from pointsman.trajectory.step import Step
from pointsman.vocabulary import (
    AgentRequest,
    AgentRole,
    Encoder,
    Evidence,
    History,
    Mode,
    ModelQuery,
    ModelReply,
    Parameters,
    Purpose,
    Reason,
    Role,
    Script,
    Stage,
    Tier,
)
from pointsman.wire.tools import forbids_tools, forced_tool

__all__ = ["Decided", "Engine"]

#: The tier of a request that could not be classified. Source: docs/sources/prompt-classifier.md, "Failure
#: modes".
FAILED_TIER: Final = Tier.MEDIUM

#: The tier of a helper call that an alias leaves to us: a title, a summary of tool use.
HELPER_TIER: Final = Tier.SIMPLE

#: Tokens of an answer, for weighing a change of model: what agents' answers have in the middle.
ANSWER: Final = 500

#: By plain name: Python 3.11 finds a member of an enum through a descriptor, 0.15 µs each time.
_HELPER: Final = AgentRole.HELPER
_MAIN: Final = AgentRole.MAIN
_SYSTEM: Final = Role.SYSTEM
_OFF: Final = Mode.OFF
_ALIAS: Final = Stage.ALIAS
_BY_ROLE: Final = Stage.ROLE

#: Stages at which the tier does not follow from the prompt: such a call leaves the session's model.
_SAYS_TIER: Final = frozenset({Stage.ALIAS, Stage.ROLE})
#: Stages of a call whose model is not the session's from then on: it was named for this request alone.
_LEAVES_MODEL: Final = frozenset({Stage.ALIAS, Stage.FORCED})
_MESSAGE: Final = Purpose.MESSAGE
_ITERATION: Final = Purpose.TOOL_ITERATION
#: What the main conversation may be for beside its usual work.
_MARKED: Final = frozenset({Purpose.PLAN, Purpose.EDIT})

#: What of a step is content (``Step.without_content``): most have none.
_message_of: Final = attrgetter("message")
_signature_of: Final = attrgetter("signature")
_ANY_NAME: Final = '"*" = "auto" under [aliases] serves every other name'
_BY_NAME: Final = "an alias of a small model, and no tools"
_RECORDED: Final = "as recorded"
_NO_WORDS: Final = Extracted("", -1, ())
_NEVER: Final = Searched()
_NO_RUN: Final = (0, (), False)
_NO_CLASSES: Final[OwnClasses] = {}
_NO_PARAMETERS: Final[Mapping[str, Parameters]] = {}
_UNGUIDED: Final = "guidance.failed"
_NO_EVIDENCE: Final = Evidence("", 0, 0, 0, 0, 0, Script.NONE)


class Decided(NamedTuple):
    """What deciding one turn gave."""

    decision: Decision
    memory: Memory
    words: Extracted  # the user's words; apart from the decision, which may be kept where they may not


class _Draft:
    """A decision being made: each part reads what the parts before it left here."""

    tier: TierDecision | None = None
    chain: tuple[str, ...] = ()
    refused: tuple[Reason, ...] = ()
    parameters: Mapping[str, Parameters] = _NO_PARAMETERS
    domains: DomainDecision | None = None
    guidance: GuidanceDecision | None = None
    capabilities: CapabilityDecision | None = None
    standing: tuple[StandingInjection, ...] = ()

    def __init__(self, reading: ReadRequest, memory: Memory) -> None:
        self.reading = reading
        self.input = reading.input
        self.evidence = reading.evidence
        self.memory = memory
        self.reasons: list[Reason] = []
        self.injections: list[Injection] = []
        self.abstained: list[Reason] = list(reading.abstained)

    def abstain(self, part: str, error: Exception) -> None:
        self.abstained.append(_failed(part, error))


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
        self._bits = {signal: 1 << place for place, signal in enumerate(scanner.table.ids)}
        self.scorer = TierScorer(policy.profile, scanner.table, policy.verify)
        self._tools_scorer = self.scorer.for_tools(scanner.table, policy.verify)
        self._learned_router = (
            LearnedStage(policy.learned_router, self.scorer.profile, learned_router_encoder)
            if policy.learned_router
            else None
        )
        self._prompt_kinds = prompt_kinds
        self._kinds_version = prompt_kinds.file.digest if prompt_kinds else ""
        self._tracker = (
            DomainTracker(policy.domains.domains, scanner.table, encoder) if policy.domains else None
        )
        router = policy.learned_router
        self._reads_domain = bool(policy.profile.domain_scores or (router and router.learned_router.offsets))
        self._guide = Guide(policy.guidance, own=guidance_classes) if policy.guidance else None
        self.names = ModelNames(policy.models, policy.aliases)
        self._models = ModelChooser(policy.tier_models, policy.models)
        self._permits = Permits(policy.models, policy.tier_models)
        self._capabilities = _capability_stage(policy, capability_encoder)
        kinds = [(role, purpose) for role in (None, *AgentRole) for purpose in (None, *Purpose)]
        self._role_tiers = {kind: tier for kind in kinds if (tier := policy.roles.tier(*kind))}
        self._stay = frozenset(kind for kind in kinds if policy.roles.of(*kind) == SESSION)

    def decide(
        self, request: AgentRequest | ReadRequest, memory: Memory, decision_id: str
    ) -> Generator[ModelQuery, ModelReply, Decided]:
        """Decide one turn: a request, or what ``recall`` gives for a recorded one.

        Raises:
            UnknownModel: the caller asked for a model that is neither a tier nor configured.
        """
        reading = request if isinstance(request, ReadRequest) else self.read(request, memory)
        draft = _Draft(reading, memory)
        if role := reading.input.role:
            mark = reading.request.role_mark if reading.request else reading.role_mark
            purpose = reading.input.purpose
            if role is not _MAIN or mark or purpose in _MARKED:
                by = mark or (_BY_NAME if reading.request else _RECORDED)
                draft.reasons.append(
                    Reason(f"agent.{purpose if role is _MAIN and purpose in _MARKED else role}", by)
                )
        if left_out := reading.input.left_out:
            shown = f"left out: {left_out:,} characters that this client repeats"
            draft.reasons.append(Reason("evidence.left-out", shown))
        guide, seen = self._guide, reading.seen
        if guide and seen:
            yield from self._guide_agent(draft, guide, seen)
        elif guide and not (reading.abstained and _is_unguided(reading)):
            draft.guidance = guide.idle(memory.guidance.arm, reading.input.session)
        yield from self._choose_model(draft)
        # An agent keeps what it is told at an event in its own history.
        history = reading.request.history if reading.request and not reading.input.event else None
        if history is not None and memory.additions.places:
            _find_standing(draft, history)
        if self.policy.domains and self._tracker:
            self._find_domains(draft, self.policy.domains, self._tracker)
        if self._capabilities or reading.of_run:
            yield from self._select_capabilities(draft)
        if history is not None and draft.injections:
            _remember_added(draft, history)
        # A helper call is no turn of the conversation whose session it names.
        kept = memory if draft.input.role is _HELPER else self._remembered(draft)
        return Decided(self._decision(draft, decision_id), kept, reading.words)

    @property
    def reads_ends(self) -> bool:
        """Whether providers speak where an agent ends its work."""
        return self._guide is not None and self._guide.reads_ends

    @property
    def asks_at_events(self) -> bool:
        """Whether configured providers of guidance may speak where nothing joins an agent's run."""
        return self._guide is not None and self._guide.reads_all

    def is_prepared(self, request: AgentRequest) -> bool:
        """Whether a request is decided at once; else an index of its tools is built first."""
        stage = self._capabilities
        return (
            stage is None or not request.tools or stage.is_prepared(request.tools, bytes(request.tool_list))
        )

    def select(self, task: str) -> Generator[ModelQuery, ModelReply, CapabilityDecision | None]:
        """Select the policy's own capabilities for a task; None where it has none."""
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

    def read(self, request: AgentRequest, memory: Memory) -> ReadRequest:
        """Read a request: the user's words, what is found in them, and what the agent did since.

        What cannot be read is decided as if it were empty.
        """
        words, found, evidence, failed = _NO_WORDS, _NEVER, _NO_EVIDENCE, []
        message = request.message_id
        try:
            words = extract(request, memory.searched, last_paragraph=self.policy.profile.last_paragraph)
            if self.policy.commands:
                request, words = _without_command(request, words)
            found = searched(request, words)
            message = message or (f"text {memory.turns + 1}" if request.is_text and words.key else words.key)
            evidence = self.scanner.scan(words.text)
        except Exception as error:  # noqa: BLE001 - a text that cannot be read is decided as an empty one
            failed.append(_failed("evidence", error))
        same = bool(message) and message == memory.message
        seen = None
        guide, role = self._guide, self._role(request)
        speaks_always = guide is not None and guide.reads_all and role is not _HELPER
        # A summary of the conversation, or a question beside it, is no step of it: nobody is stuck there.
        beside = role is _HELPER and request.purpose is not None
        if guide and not beside and (request.may_call or memory.guidance.threads or speaks_always):
            try:
                seen = (
                    _seen_at(guide, request, memory.guidance, words.text)
                    if speaks_always
                    else guide.read(request.history, memory.guidance)
                )
            except Exception as error:  # noqa: BLE001 - a request goes on without guidance
                failed.append(_failed("guidance", error))
        thread, steps, person_spoke = _run(seen, memory.guidance) if seen else _NO_RUN
        counts = bool(message) and role is not _HELPER
        asked = RequestInput(
            format=request.format,
            model_asked=request.model,
            session=request.session,
            arrived_at=request.arrived_at,
            size=request.size,
            estimate=self._estimate(request) if "vision" in request.features else 0,
            features=tuple(sorted(request.features)),
            role=role,
            purpose=Purpose.HELPER if role is _HELPER and request.role is _MAIN else request.purpose,
            project=request.project,
            client=request.client,
            project_name=request.project_name,
            messages=len(request.history),
            in_tool_loop=same and (request.purpose is _ITERATION or _goes_on(request.history, words.index)),
            tools=len(request.tools),
            user_message=memory.turns + (not same) if counts else 0,
            signals=self.scanner.table.ids_of(evidence.hits),
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
        """Read an event that an agent reports, for who sees no requests.

        Args:
            event: What the agent reports.
            memory: What its session remembers.
            then: The latest decision of the session; None where there is none.
        """
        seen: Seen | None = None
        failed: tuple[Reason, ...] = ()
        if self._guide:
            try:
                seen = self._guide.follow(event.happened, memory.guidance, event.moment, before=event.before)
            except Exception as error:  # noqa: BLE001 - an event goes on without guidance
                failed = (_failed("guidance", error),)
        run = _run(seen, memory.guidance) if seen else _NO_RUN
        if then is None or event.prompt:
            return with_event(self.read(prompt_of(event), memory), event, seen, run, failed)
        reading = going_on(event, then, memory, self._recorded_evidence(then.input))
        return with_event(reading, event, seen, run, failed)

    def _estimate(self, request: AgentRequest) -> int:
        """Tokens of a request with images; 0 where they do not matter, or it cannot be read."""
        smallest = self._models.smallest_window
        if smallest is None or request.size // BYTES_PER_TOKEN <= smallest:
            return 0
        try:
            return tokens_with_images(request)
        except Exception:  # noqa: BLE001 - the size is an estimate too
            return 0

    def recall(self, then: Decision, memory: Memory, text: str | None = None) -> ReadRequest:
        """Return what was read of a recorded turn, for this policy to decide it again.

        Args:
            then: What was recorded.
            memory: What this session remembers under this policy.
            text: The user's words, where they were kept. Without them only the signals found then are
                known: a signal that this policy adds cannot be found.
        """
        asked, guide, router = then.input, self._guide, self._learned_router
        message = str(asked.user_message or "")
        same_router = router and then.tier and then.tier.learned_router_version == router.version
        evidence = self.scanner.scan(text) if text else self._recorded_evidence(asked)
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
            kind=then.tier.kind if then.tier and then.tier.kinds_version == self._kinds_version else None,
            capabilities=then.capabilities,
            was_too_long=any(reason.code == TOO_LONG for reason in then.refused),
            role_mark=role_mark_of(then),
        )

    def _recorded_evidence(self, asked: RequestInput) -> Evidence:
        hits = sum(self._bits.get(signal, 0) for signal in asked.signals)
        return Evidence(
            "", hits, asked.characters, asked.utf16_units, asked.tokens, asked.questions, asked.script
        )

    def _role(self, request: AgentRequest) -> AgentRole | None:
        """An agent that asks for a small model by an alias, for text alone, makes a helper call too."""
        if request.role is not _MAIN or request.tools or request.may_call:
            return request.role
        named = None if asks_to_decide(request.model) else self.names.resolve(request.model, request.client)
        helps = named is not None and named.target.tier is HELPER_TIER
        return _HELPER if helps else _MAIN

    def _guide_agent(
        self, draft: _Draft, guide: Guide, seen: Seen
    ) -> Generator[ModelQuery, ModelReply, None]:
        before, session = draft.memory, draft.input.session
        try:
            decided, kept = yield from guide.proceed(seen, before.guidance, session=session)
        except Exception as error:  # noqa: BLE001 - a request goes on without guidance
            draft.abstain("guidance", error)
            # Nothing of these steps is remembered: they are new again in the next turn.
            draft.input = msgspec.structs.replace(draft.input, thread=0, steps=(), person_spoke=False)
            return
        draft.memory = msgspec.structs.replace(before, guidance=kept)
        draft.guidance = decided
        draft.reasons.extend(decided.reasons)
        draft.abstained.extend(decided.abstained)
        if decided.injection:
            draft.injections.append(Injection("guidance", decided.injection))

    def _choose_model(self, draft: _Draft) -> Generator[ModelQuery, ModelReply, None]:
        asked = draft.input.model_asked
        forced = forced_tier(asked)
        if forced:
            draft.tier = _without_rules(forced, 1.0, "forced by the model id", Stage.FORCED)
        elif asks_to_decide(asked):
            draft.tier = self._said_tier(draft) or (yield from self._decide_tier(draft))
        elif (model := (yield from self._choose_by_name(draft, asked))) or draft.tier is None:
            self._use_model(draft, model)
            return
        self._choose_chain(draft, draft.tier.tier, free=not forced)

    def _choose_by_name(self, draft: _Draft, asked: str) -> Generator[ModelQuery, ModelReply, str]:
        """Decide the tier of a name that is no tier of ours, or return the model that it means.

        A helper call decides for itself only where an alias gave its name to us: it gets the cheapest tier.
        """
        named = self.names.resolve(asked, draft.input.client)
        if named is None or named.target.is_refused:
            raise _unknown_model(asked, self.names, self.policy, named)
        if named.reason:
            draft.reasons.append(named.reason)
        target = named.target
        if target.tier:
            draft.tier = _without_rules(target.tier, 1.0, f'alias "{named.pattern}"', _ALIAS)
        elif not target.model and (said := self._said_tier(draft)):
            draft.tier = said
        elif not target.model and draft.input.role is _HELPER and draft.input.purpose is None:
            draft.tier = _without_rules(HELPER_TIER, 1.0, f'helper call, alias "{named.pattern}"', _ALIAS)
        elif not target.model:
            draft.tier = yield from self._decide_tier(draft)
        return target.model

    def _said_tier(self, draft: _Draft) -> TierDecision | None:
        """The tier that the operator gives to a request's role, or outcomes to its project; else None."""
        role, purpose = draft.input.role, draft.input.purpose
        if tier := self._role_tiers.get((role, purpose)):
            return _without_rules(tier, 1.0, f"[tiers.roles] {name_of(role, purpose)}", _BY_ROLE)
        if role is _HELPER:
            return None
        projects, escalation, project = self.policy.projects, self.policy.escalation, draft.input.project
        if projects and project and (tier_decision := self._tier_of_project(draft, projects)):
            return tier_decision
        if escalation and (tier := start_of(escalation, project)):
            return _without_rules(tier, 1.0, "cheap first", Stage.CHEAP_FIRST)
        return None

    def _tier_of_project(self, draft: _Draft, policy: ProjectPolicy) -> TierDecision | None:
        """The cheapest tier that is good enough for the project; None: none is known, or observed alone."""
        asked = draft.input
        purpose = _MESSAGE if asked.purpose is _ITERATION else asked.purpose
        message = f"{asked.session}#{asked.user_message}"
        role = name_of(asked.role, purpose)
        found = tier_of_project(policy, asked.project, role, ANY, message=message, tiers=self._models.tiers)
        if found is None:
            return None
        by = "observe" if policy.mode is Mode.OBSERVE else "explore" if found.explores else "tier"
        draft.reasons.append(Reason(f"projects.{by}", found.why))
        return None if by == "observe" else _without_rules(found.tier, 1.0, found.why, Stage.PROJECT)

    def _use_model(self, draft: _Draft, name: str) -> None:
        """Use the model that the caller named, unless it is known to be unable."""
        barred = self._permits.barred(draft.input.permission, chosen=False)
        missing = tuple(lacks(self.policy.models[name], _needed(draft, barred)))
        if missing and (missing[-1].code != TOO_LONG or self._is_too_long(draft, (name,))):
            draft.refused = missing
        else:
            draft.chain = (name,)

    def _choose_chain(self, draft: _Draft, decided: Tier, *, free: bool) -> None:
        raised = free and self._is_raised(draft, decided)
        choice = self._choice(draft, decided, raised=raised, free=free)
        if free and self.policy.escalation and (trouble := self._trouble(draft, self.policy.escalation)):
            choice = self._escalated(draft, self.policy.escalation, trouble, decided, choice)
        if choice.refused or (choice.doubtful and self._is_too_long(draft, choice.models)):
            draft.refused = tuple(reason for reason in choice.reasons if reason.code.startswith(UNABLE))
            return
        draft.chain, draft.parameters = choice.models, choice.parameters
        draft.reasons.extend(choice.reasons)

    def _choice(self, draft: _Draft, decided: Tier, *, raised: bool, free: bool = True) -> Choice:
        """The models for a tier, or for the next one where it is raised, that the caller may use."""
        tier = self._models.next_up(decided) if raised else decided
        permission = draft.input.permission
        if permission is None:
            return self._chosen(draft, tier, None, raised=raised, free=free)
        capped, why = self._permits.capped(tier, permission)
        choice = self._chosen(draft, capped, self._permits.barred(permission), raised=raised, free=free)
        if choice.refused and permission.low is not None:
            # A budget nearly spent lowers the tier where that can serve, and refuses nothing.
            permission = msgspec.structs.replace(permission, low=None)
            capped, why = self._permits.capped(tier, permission)
            choice = self._chosen(draft, capped, self._permits.barred(permission), raised=raised, free=free)
        return choice if why is None else msgspec.structs.replace(choice, reasons=(why, *choice.reasons))

    def _chosen(
        self, draft: _Draft, tier: Tier, barred: Barred | None, *, raised: bool, free: bool
    ) -> Choice:
        needed = _needed(draft, barred)
        sticky = free and draft.tier is not None and draft.tier.stage not in _SAYS_TIER
        in_use = self._in_use(draft, needed.tokens, raised=raised) if sticky else None
        # Without a session, one message always draws the same of several models.
        session = draft.input.session or draft.reading.message
        begins = not draft.memory.model
        return self._models.choose(tier, needed, in_use, session, forced=not free, begins=begins)

    def _is_raised(self, draft: _Draft, decided: Tier) -> bool:
        """Whether guidance raises the tier, or trouble at an earlier request of this user message did."""
        if draft.input.role is _HELPER:
            return False
        by_guidance = draft.guidance is not None and draft.guidance.raise_tier
        if by_guidance:
            tier = self._models.next_up(decided)
            draft.reasons.append(Reason("guidance.raise-tier", f"stuck: {tier} instead of {decided}"))
        stays = self.policy.escalation is not None and _is_escalated(draft)
        if stays:
            draft.reasons.append(Reason("escalation.stays", "the tier is raised until the user speaks"))
        return by_guidance or stays

    def _trouble(self, draft: _Draft, policy: EscalationPolicy) -> Trouble | None:
        """Why the tier of this user message is to be raised now; None where it is not, or is already."""
        asked = draft.input
        if not asked.user_message or asked.role is _HELPER or _is_escalated(draft):
            return None
        firing = draft.guidance.firing if draft.guidance else None
        return trouble_of(
            policy,
            calls=_calls_and_errors(draft)[0],
            stuck=firing.reason or firing.classifier if firing else "",
            project=asked.project,
            model=draft.memory.model,
            message=f"{asked.session}#{asked.user_message}",
        )

    def _escalated(
        self, draft: _Draft, policy: EscalationPolicy, trouble: Trouble, decided: Tier, choice: Choice
    ) -> Choice:
        """Raise the tier of this user message, until its end, and tell the model that takes over.

        Not where the request is served the same without it: both sides of the comparison would then hold
        user messages for which nothing is raised. Nor at an event, whose agent goes on with its own model.
        """
        plain, higher = (self._choice(draft, decided, raised=raised) for raised in (False, True))
        if not self._models.is_higher(higher, plain):
            draft.reasons.append(Reason("escalation.none-higher", trouble.why))
            return choice
        observes = policy.mode is Mode.OBSERVE or bool(draft.input.event)
        by = "observe" if observes else "withheld" if trouble.is_control else trouble.kind
        draft.reasons.append(Reason(f"escalation.{by}", trouble.why))
        if by != trouble.kind:
            return choice
        draft.memory = msgspec.structs.replace(draft.memory, escalated=draft.reading.message)
        if higher.models[0] != plain.models[0]:
            draft.injections.append(Injection("escalation", handover(*_calls_and_errors(draft))))
        return higher

    def _is_too_long(self, draft: _Draft, names: tuple[str, ...]) -> bool:
        """Whether the request is certainly longer than every window; the usual estimate may be wrong."""
        request = draft.reading.request
        if request is None:
            return draft.reading.was_too_long
        try:
            return is_too_long(request, [self.policy.models[name] for name in names])
        except Exception as error:  # noqa: BLE001 - the provider says what is wrong with such a conversation
            draft.abstain("model_choice", error)
            return False

    def _in_use(self, draft: _Draft, tokens: int, *, raised: bool) -> InUse | None:
        memory = draft.memory
        if not memory.model:
            return None
        # A conversation is expected to go on for as long as it has: nothing else is known of it.
        load = Load(tokens, fresh=draft.evidence.tokens, output=ANSWER, turns=max(memory.turns, 1))
        stays = (draft.input.role, draft.input.purpose) in self._stay
        in_tool_loop = stays or (draft.input.in_tool_loop and draft.reading.same_message and not raised)
        idle = max(draft.input.arrived_at - memory.used_at, 0.0) if memory.used_at else 0.0
        return InUse(memory.model, in_tool_loop=in_tool_loop, load=load, idle=idle)

    def _decide_tier(self, draft: _Draft) -> Generator[ModelQuery, ModelReply, TierDecision]:
        if draft.reading.tier is not None:
            return draft.reading.tier
        try:
            domain = self._domain_for_tier(draft)
            near, text = self._prompt_kinds, draft.evidence.text
            kind = (near.of(text) if text else draft.reading.kind) if near else None
            scorer = self.scorer_of(draft.input)
            version = self._kinds_version if kind else ""
            tier = scorer.by_rules(draft.evidence, domain, kind, version)
            if self._learned_router:
                rules = tier if scorer is self.scorer else self.scorer.by_rules(draft.evidence, domain)
                tier = self._learned_router.after(
                    tier, draft.evidence, domain, rules=rules.score, recorded=draft.reading.learned_score
                )
            stays = (draft.input.role, draft.input.purpose) in self._stay
            if self.policy.verify and not stays and not draft.reading.words_gone:
                tier = yield from scorer.verify(tier, draft.evidence)
            else:
                tier = scorer.unverified(tier)
        except Exception as error:  # noqa: BLE001 - fails open to FAILED_TIER
            draft.abstain("tiers", error)
            tier = _without_rules(FAILED_TIER, 0.5, "deciding failed", Stage.FALLBACK)
        for reason in tier.reasons:
            if reason.code.startswith("tiers.abstained"):
                draft.abstained.append(reason)
        return tier

    def scorer_of(self, asked: RequestInput) -> TierScorer:
        """The rules that hold for a request: whether it offers tools may make a difference."""
        return self._tools_scorer if "tools" in asked.features else self.scorer

    def _domain_for_tier(self, draft: _Draft) -> str:
        """The domain that counts for the tier; looked for only where the profile or the router uses it."""
        if not self._reads_domain or self._tracker is None:
            return ""
        return self._tracker.primary(draft.evidence, draft.memory.domains, draft.reading.message)

    def _find_domains(self, draft: _Draft, policy: DomainPolicy, tracker: DomainTracker) -> None:
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
            draft.injections.append(Injection("domains", decided.enrichment))
            enriched = decided.signature
        draft.memory = msgspec.structs.replace(before, domains=kept, enriched=enriched)

    def _remembered(self, draft: _Draft) -> Memory:
        memory, reading = draft.memory, draft.reading
        key = reading.message
        chosen = draft.chain[0] if draft.chain else ""
        model = chosen if draft.tier and chosen and draft.tier.stage not in _LEAVES_MODEL else memory.model
        return msgspec.structs.replace(
            memory,
            model=model,
            used_at=draft.input.arrived_at if model == chosen else memory.used_at,
            message=key or memory.message,
            searched=reading.searched,
            turns=memory.turns + (bool(key) and not reading.same_message),
        )

    def _select_capabilities(self, draft: _Draft) -> Generator[ModelQuery, ModelReply, None]:
        before, reading, stage = draft.memory, draft.reading, self._capabilities
        if reading.of_run:
            draft.capabilities = _selected_by_run(reading)
            return
        if stage is None or draft.input.role is _HELPER:
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

    def _decision(self, draft: _Draft, decision_id: str) -> Decision:
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

    def _found_in(self, asked: RequestInput, evidence: Evidence) -> RequestInput:
        """The input of a recorded turn with what this policy finds in it."""
        return msgspec.structs.replace(
            asked,
            signals=self.scanner.table.ids_of(evidence.hits),
            characters=evidence.characters,
            utf16_units=evidence.utf16_units,
            tokens=evidence.tokens,
            questions=evidence.questions,
            script=evidence.script,
        )


def _goes_on(history: History, index: int) -> bool:
    """Whether the agent has worked since a person spoke: something but its settings stands behind the words.

    A request that ends with the words is the first of its user message, or the same once more.
    """
    return any(history.role(place) is not _SYSTEM for place in range(index + 1, len(history)))


def _is_enriched(draft: _Draft, signature: str) -> bool:
    """Whether the conversation already holds the text of these domains: no model needs to read it twice.

    A history that was compacted does not hold it any more. Of a recorded request no history is known: what
    was added then says it.
    """
    reading, memory = draft.reading, draft.memory
    if memory.enriched != signature:
        return False
    if reading.request is None or reading.input.event:
        return not reading.enriched
    last = latest(memory.additions, "domains")
    return any(last in each.added for each in draft.standing)


def _find_standing(draft: _Draft, history: History) -> None:
    """Find what earlier requests added to the messages of this one, to add it again."""
    try:
        draft.standing = standing(draft.memory.additions, history)
    except Exception as error:  # noqa: BLE001 - a request goes on without what was added to earlier ones
        draft.abstain("additions", error)


def _remember_added(draft: _Draft, history: History) -> None:
    """Remember what this request adds, to add it again to the later ones."""
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


def _failed(part: str, error: Exception) -> Reason:
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


def _is_unguided(reading: ReadRequest) -> bool:
    """Whether the agent's run could not be read."""
    return any(reason.code == _UNGUIDED for reason in reading.abstained)


def _run(seen: Seen, memory: GuidanceMemory) -> tuple[int, tuple[Step, ...], bool]:
    """The conversation's number, its new tool calls, and whether a person has spoken since the last."""
    thread, now = memory.thread(seen.opening), seen.memory.state
    return thread.number, _new_steps(thread.trajectory.state, now), now.user_spoke


def _new_steps(before: TrajectoryState, after: TrajectoryState) -> tuple[Step, ...]:
    """The tool calls that came since, as far as they are still in the window, without their content."""
    count = after.tool_call_count - before.tool_call_count
    new = after.steps[-count:] if count > 0 else ()
    if any(map(_message_of, new)) or any(map(_signature_of, new)):
        return tuple([step.without_content() for step in new])
    return new


def _capability_stage(policy: Policy, encoder: Encoder | None) -> CapabilityStage | None:
    """What selects; where only the number of tools is given, the local score alone."""
    selection = policy.capabilities
    if selection is None and policy.tools:
        selection = CapabilityPolicy()
    if selection is None or selection.mode is _OFF:
        return None
    return CapabilityStage(selection, at_most=policy.tools, encoder=encoder)


def _without_command(request: AgentRequest, words: Extracted) -> tuple[AgentRequest, Extracted]:
    """Take a command off the words of a request, where no door has done so."""
    command, rest = take_switch(words.text)
    if not command:
        return request, words
    return (
        msgspec.structs.replace(request, command=request.command or command),
        msgspec.structs.replace(words, text=rest),
    )


def _selected_by_run(reading: ReadRequest) -> CapabilityDecision | None:
    """What the run whose question this is has selected: one answer, for the run and for its questions."""
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


def _needed(draft: _Draft, barred: Barred | None) -> Requirements:
    asked, request = draft.input, draft.reading.request
    features = request.features if request else frozenset(asked.features)
    return Requirements(asked.estimate or asked.size // BYTES_PER_TOKEN, features, asked.format, barred)


def _without_rules(tier: Tier, confidence: float, why: str, stage: Stage) -> TierDecision:
    return TierDecision(
        tier=tier,
        score=0.0,
        confidence=confidence,
        signals=(why,),
        stage=stage,
        needs_verification=False,
        reasons=(),
    )


def _is_escalated(draft: _Draft) -> bool:
    """Whether trouble has raised the tier of this user message."""
    return bool(draft.input.user_message) and draft.memory.escalated == draft.reading.message


def _calls_and_errors(draft: _Draft) -> tuple[int, int]:
    """Tool calls since the user message, and how many of them, as far as they are remembered, failed."""
    if draft.reading.seen is None:
        return 0, 0
    state = draft.reading.seen.trajectory.state
    calls = state.attempt
    return calls, sum(step.is_error for step in state.steps[-calls:]) if calls else 0


def _unknown_model(model: str, names: ModelNames, policy: Policy, refused: Named | None) -> UnknownModel:
    by = f'; the alias "{refused.pattern}" refuses it' if refused else ""
    known = ", ".join(("auto", *(tier.lower() for tier in Tier), *policy.models, *names.exact))
    hint = f"known: {known}" if refused else f"known: {known}; {_ANY_NAME}"
    return UnknownModel(f'unknown model "{model[:LONGEST_SHOWN]}"{by}', hint=hint, param="model")

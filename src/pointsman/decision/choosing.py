"""Choosing: the tier of a request, and the models that may serve it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Final

import msgspec

from pointsman.capabilities import CapabilityDecision
from pointsman.decision.aliases import LONGEST_SHOWN, ModelNames, Named
from pointsman.decision.decision import Injection, ReadRequest, RequestInput, StandingInjection
from pointsman.decision.memory import Memory, is_beside, model_of_subagent
from pointsman.decision.permission import Permits
from pointsman.decision.policy import Policy
from pointsman.decision.reader import HELPER_TIER, ITERATION, failed_part
from pointsman.domains import DomainDecision, DomainTracker
from pointsman.errors import UnknownModel
from pointsman.evidence import Scanner
from pointsman.guidance import GuidanceDecision
from pointsman.model_choice.choice import Choice, InUse, Load, ModelChooser
from pointsman.model_choice.fitness import (
    BYTES_PER_TOKEN,
    TOO_LONG,
    UNABLE,
    Barred,
    Requirements,
    is_too_long,
    lacks,
)
from pointsman.tiers import Kinds, LearnedStage, TierDecision, TierScorer, asks_to_decide, forced_tier
from pointsman.tiers.escalation import EscalationPolicy, Trouble, handover, start_of, trouble_of
from pointsman.tiers.projects import ANY, SESSION, ProjectPolicy, name_of, tier_of_project
from pointsman.vocabulary import (
    HELPER,
    SUBAGENT,
    AgentRole,
    Encoder,
    Evidence,
    Mode,
    ModelQuery,
    ModelReply,
    Parameters,
    Purpose,
    Reason,
    Stage,
    Tier,
)

#: The tier of a request that could not be classified. Source: docs/sources/prompt-classifier.md, "Failure
#: modes".
FAILED_TIER: Final = Tier.MEDIUM

#: Tokens of an answer, for weighing a change of model: what agents' answers have in the middle.
ANSWER: Final = 500

#: By plain name: Python 3.11 finds a member of an enum through a descriptor, 0.15 µs each time.
_ALIAS: Final = Stage.ALIAS
_BY_ROLE: Final = Stage.ROLE
_MESSAGE: Final = Purpose.MESSAGE

#: Stages at which the tier does not follow from the prompt: such a call leaves the session's model.
_SAYS_TIER: Final = frozenset({Stage.ALIAS, Stage.ROLE})
_ANY_NAME: Final = '"*" = "auto" under [aliases] serves every other name'
_NO_PARAMETERS: Final[Mapping[str, Parameters]] = {}


class Draft(msgspec.Struct):
    """A decision being made: each part reads the results of the parts before it."""

    reading: ReadRequest
    input: RequestInput
    evidence: Evidence
    memory: Memory
    abstained: list[Reason]
    reasons: list[Reason] = []
    injections: list[Injection] = []
    tier: TierDecision | None = None
    chain: tuple[str, ...] = ()
    refused: tuple[Reason, ...] = ()
    parameters: Mapping[str, Parameters] = _NO_PARAMETERS
    domains: DomainDecision | None = None
    guidance: GuidanceDecision | None = None
    capabilities: CapabilityDecision | None = None
    standing: tuple[StandingInjection, ...] = ()

    def abstain(self, part: str, error: Exception) -> None:
        """Record that a part failed; the request is decided without it."""
        self.abstained.append(failed_part(part, error))

    def forget_steps(self) -> None:
        """Remember nothing of the agent's new steps: they are new again in the next turn."""
        self.input = msgspec.structs.replace(self.input, thread=0, steps=(), person_spoke=False)


class TierStage:
    """Decides the tier of a request by rules, a learned router, and a model that verifies."""

    def __init__(
        self,
        policy: Policy,
        scanner: Scanner,
        tracker: DomainTracker | None,
        tiers: tuple[Tier, ...],
        *,
        kinds: Kinds | None,
        encoder: Encoder | None,
    ) -> None:
        """Compile the tier profile.

        Args:
            policy: What decides.
            scanner: Its signal table holds all signals of the profile.
            tracker: Finds the domain, where the profile or the router reads it.
            tiers: Those that have a model.
            kinds: The prompt kinds made ready; None without.
            encoder: The one that the learned router was trained with.
        """
        self.policy = policy
        self.scorer = TierScorer(policy.profile, scanner.table, policy.verify)
        self._tools_scorer = self.scorer.for_tools(scanner.table, policy.verify)
        router = policy.learned_router
        self._learned_router = LearnedStage(router, self.scorer.profile, encoder) if router else None
        self.router_version = self._learned_router.version if self._learned_router else ""
        self._kinds = kinds
        self.kinds_version = kinds.file.digest if kinds else ""
        reads_domain = policy.profile.domain_scores or (router and router.learned_router.offsets)
        #: Finds the domain that counts for the tier, where the profile or the router uses it.
        self._tracker = tracker if reads_domain else None
        self._tiers = tiers
        asking = [(role, purpose) for role in (None, *AgentRole) for purpose in (None, *Purpose)]
        self._role_tiers = {each: tier for each in asking if (tier := policy.roles.tier(*each))}
        #: Role and purpose of the requests that stay on the session's model.
        self.stay = frozenset(each for each in asking if policy.roles.of(*each) == SESSION)

    def decide(self, draft: Draft) -> Generator[ModelQuery, ModelReply, TierDecision]:
        """Decide the tier; ``FAILED_TIER`` where deciding fails."""
        if draft.reading.tier is not None:
            return draft.reading.tier
        try:
            evidence, tracker, near, kind, domain = draft.evidence, self._tracker, self._kinds, None, ""
            if tracker:
                domain = tracker.primary(evidence, draft.memory.domains, draft.reading.message)
            if near:
                kind = near.of(evidence.text) if evidence.text else draft.reading.kind
            scorer = self.scorer_of(draft.input)
            tier = scorer.by_rules(evidence, domain, kind, self.kinds_version if kind else "")
            if self._learned_router:
                rules = tier if scorer is self.scorer else self.scorer.by_rules(evidence, domain)
                tier = self._learned_router.after(
                    tier, evidence, domain, rules=rules.score, recorded=draft.reading.learned_score
                )
            if tier.needs_verification:
                stays = (draft.input.role, draft.input.purpose) in self.stay
                if self.policy.verify and not stays and not draft.reading.words_gone:
                    tier = yield from scorer.verify(tier, evidence)
                else:
                    tier = scorer.unverified(tier)
        except Exception as error:  # noqa: BLE001 - fails open to FAILED_TIER
            draft.abstain("tiers", error)
            tier = _without_rules(FAILED_TIER, 0.5, "deciding failed", Stage.FALLBACK)
        for reason in tier.reasons:
            if reason.code.startswith("tiers.abstained"):
                draft.abstained.append(reason)
        return tier

    def assigned(self, draft: Draft) -> TierDecision | None:
        """The tier that the operator gives to a request's role, or outcomes to its project; else None."""
        role, purpose = draft.input.role, draft.input.purpose
        if tier := self._role_tiers.get((role, purpose)):
            return _without_rules(tier, 1.0, f"[tiers.roles] {name_of(role, purpose)}", _BY_ROLE)
        if role is HELPER:
            return None
        projects, escalation, project = self.policy.projects, self.policy.escalation, draft.input.project
        if projects and project and (tier_decision := self._tier_of_project(draft, projects)):
            return tier_decision
        if escalation and (tier := start_of(escalation, project)):
            return _without_rules(tier, 1.0, "cheap first", Stage.CHEAP_FIRST)
        return None

    def _tier_of_project(self, draft: Draft, policy: ProjectPolicy) -> TierDecision | None:
        """The cheapest tier that is good enough for the project; None: none is known, or observed alone."""
        asked = draft.input
        purpose = _MESSAGE if asked.purpose is ITERATION else asked.purpose
        message = f"{asked.session}#{asked.user_message}"
        role = name_of(asked.role, purpose)
        found = tier_of_project(policy, asked.project, role, ANY, message=message, tiers=self._tiers)
        if found is None:
            return None
        by = "observe" if policy.mode is Mode.OBSERVE else "explore" if found.explores else "tier"
        draft.reasons.append(Reason(f"projects.{by}", found.why))
        return None if by == "observe" else _without_rules(found.tier, 1.0, found.why, Stage.PROJECT)

    def scorer_of(self, asked: RequestInput) -> TierScorer:
        """The rules that hold for a request: whether it offers tools may make a difference."""
        return self._tools_scorer if "tools" in asked.features else self.scorer


class ModelStage:
    """Chooses the models of a request: by tier, by alias, or as the caller named it."""

    def __init__(self, policy: Policy, tiers: TierStage, names: ModelNames, models: ModelChooser) -> None:
        self.policy = policy
        self._tiers = tiers
        self._names = names
        self._models = models
        self._permits = Permits(policy.models, policy.tier_models)

    def choose(self, draft: Draft) -> Generator[ModelQuery, ModelReply, None]:
        """Put the tier and the chain of models, or why each is refused, into the draft.

        Raises:
            UnknownModel: the caller asked for a model that is neither a tier nor configured.
        """
        asked = draft.input.model_asked
        forced = forced_tier(asked)
        if forced:
            draft.tier = _without_rules(forced, 1.0, "forced by the model id", Stage.FORCED)
        elif asks_to_decide(asked):
            draft.tier = self._tiers.assigned(draft) or (yield from self._tiers.decide(draft))
        elif (model := (yield from self._choose_by_name(draft, asked))) or draft.tier is None:
            self._use_model(draft, model)
            return
        self._choose_chain(draft, draft.tier.tier, free=not forced)

    def _choose_by_name(self, draft: Draft, asked: str) -> Generator[ModelQuery, ModelReply, str]:
        """Decide the tier of a name that is no tier, or return the model that it means.

        A helper call decides for itself only where an alias gave its name to us: it gets the cheapest tier.
        """
        named = self._names.resolve(asked, draft.input.client)
        if named is None or named.target.is_refused:
            raise _unknown_model(asked, self._names, self.policy, named)
        if named.reason:
            draft.reasons.append(named.reason)
        target = named.target
        if target.tier:
            draft.tier = _without_rules(target.tier, 1.0, f'alias "{named.pattern}"', _ALIAS)
        elif not target.model and (said := self._tiers.assigned(draft)):
            draft.tier = said
        elif not target.model and draft.input.role is HELPER and draft.input.purpose is None:
            draft.tier = _without_rules(HELPER_TIER, 1.0, f'helper call, alias "{named.pattern}"', _ALIAS)
        elif not target.model:
            draft.tier = yield from self._tiers.decide(draft)
        return target.model

    def _use_model(self, draft: Draft, name: str) -> None:
        """Use the model that the caller named, unless it is known to be unable."""
        barred = self._permits.barred(draft.input.permission, chosen=False)
        missing = tuple(lacks(self.policy.models[name], _needed(draft, barred)))
        if missing and (missing[-1].code != TOO_LONG or self._is_too_long(draft, (name,))):
            draft.refused = missing
        else:
            draft.chain = (name,)

    def _choose_chain(self, draft: Draft, decided: Tier, *, free: bool) -> None:
        raised = free and self._is_raised(draft, decided)
        choice = self._choice(draft, decided, raised=raised, free=free)
        if free and self.policy.escalation and (trouble := self._trouble(draft, self.policy.escalation)):
            choice = self._escalated(draft, self.policy.escalation, trouble, decided, choice)
        if choice.refused or (choice.doubtful and self._is_too_long(draft, choice.models)):
            draft.refused = tuple(reason for reason in choice.reasons if reason.code.startswith(UNABLE))
            return
        draft.chain, draft.parameters = choice.models, choice.parameters
        draft.reasons.extend(choice.reasons)

    def _choice(self, draft: Draft, decided: Tier, *, raised: bool, free: bool = True) -> Choice:
        """The models for a tier, or for the next higher tier if raised, that the caller may use."""
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

    def _chosen(self, draft: Draft, tier: Tier, barred: Barred | None, *, raised: bool, free: bool) -> Choice:
        needed = _needed(draft, barred)
        sticky = free and draft.tier is not None and draft.tier.stage not in _SAYS_TIER
        in_use = self._in_use(draft, needed.tokens, raised=raised) if sticky else None
        # Without a session, one message always draws the same of several models.
        session = draft.input.session or draft.reading.message
        begins = not draft.memory.model
        return self._models.choose(tier, needed, in_use, session, forced=not free, begins=begins)

    def _is_raised(self, draft: Draft, decided: Tier) -> bool:
        """Whether guidance raises the tier, or trouble at an earlier request of this user message did."""
        guidance, escalation = draft.guidance, self.policy.escalation
        by_guidance = guidance is not None and guidance.raise_tier
        if (not by_guidance and escalation is None) or draft.input.role is HELPER:
            return False
        stays = escalation is not None and _is_escalated(draft)
        if by_guidance:
            tier = self._models.next_up(decided)
            draft.reasons.append(Reason("guidance.raise-tier", f"stuck: {tier} instead of {decided}"))
        if stays:
            draft.reasons.append(Reason("escalation.stays", "the tier is raised until the user speaks"))
        return by_guidance or stays

    def _trouble(self, draft: Draft, policy: EscalationPolicy) -> Trouble | None:
        """The reason to raise the tier of this user message; None without one, or if it is raised."""
        asked = draft.input
        if not asked.user_message or asked.role is HELPER or _is_escalated(draft):
            return None
        firing = draft.guidance.trouble if draft.guidance else None
        if firing is None and not policy.longest:
            return None
        return trouble_of(
            policy,
            calls=_calls_and_errors(draft)[0],
            stuck=firing.reason or firing.classifier if firing else "",
            project=asked.project,
            model=draft.memory.model,
            message=f"{asked.session}#{asked.user_message}",
        )

    def _escalated(
        self, draft: Draft, policy: EscalationPolicy, trouble: Trouble, decided: Tier, choice: Choice
    ) -> Choice:
        """Raise the tier of this user message, until its end, and tell the model that takes over.

        Not where the request is served the same without it: both sides of the comparison would then hold
        user messages for which nothing is raised. Nor at an event: the agent's model is fixed then.
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

    def _is_too_long(self, draft: Draft, names: tuple[str, ...]) -> bool:
        """Whether the request is certainly longer than every window; the usual estimate may be wrong."""
        request = draft.reading.request
        if request is None:
            return draft.reading.was_too_long
        try:
            return is_too_long(request, [self.policy.models[name] for name in names])
        except Exception as error:  # noqa: BLE001 - the provider says what is wrong with such a conversation
            draft.abstain("model_choice", error)
            return False

    def _in_use(self, draft: Draft, tokens: int, *, raised: bool) -> InUse | None:
        memory = draft.memory
        if not memory.model:
            return None
        asked, model, used_at = draft.input, memory.model, memory.used_at
        role = asked.role
        stays = (role, asked.purpose) in self._tiers.stay
        if role is SUBAGENT and is_beside(memory, asked):
            model, used_at = model_of_subagent(memory, asked) or (model if stays else ""), 0.0
            if not model:
                return None
        # A conversation is expected to go on for as long as it has: nothing else is known of it.
        load = Load(tokens, fresh=draft.evidence.tokens, output=ANSWER, turns=max(memory.turns, 1))
        in_tool_loop = stays or (asked.in_tool_loop and draft.reading.same_message and not raised)
        idle = max(asked.arrived_at - used_at, 0.0) if used_at else 0.0
        return InUse(model, in_tool_loop=in_tool_loop, load=load, idle=idle)


def _needed(draft: Draft, barred: Barred | None) -> Requirements:
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


def _is_escalated(draft: Draft) -> bool:
    """Whether trouble has raised the tier of this user message."""
    return bool(draft.input.user_message) and draft.memory.escalated == draft.reading.message


def _calls_and_errors(draft: Draft) -> tuple[int, int]:
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

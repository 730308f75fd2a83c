"""Decides the requests of logged sessions again, under another policy, and computes its cost.

The engine sees the messages as the log has them, cut to ``session.KEPT`` characters each, and asks no model.
A client is taken to ask for the model ``auto``. The same tokens are priced at the models that the policy
chooses, with a simulated prompt cache for each of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, TypeAlias

import msgspec

from pointsman.audit.caches import Call, calls, paid, reads
from pointsman.audit.figures import SessionFigures, role_of
from pointsman.audit.money import Pricing, price_order, spread
from pointsman.audit.savings import Saved, is_work
from pointsman.audit.session import HOUSEKEEPING, WORK, Request, Session
from pointsman.catalogue import CatalogueEntry
from pointsman.decision.engine import Decided, Engine
from pointsman.decision.memory import Memory
from pointsman.decision.policy import Policy
from pointsman.drivers import drive, no_model
from pointsman.factory import build_engine
from pointsman.guidance import Rung
from pointsman.vocabulary import (
    OF_SUBAGENT,
    AgentRequest,
    AgentRole,
    Message,
    ModelSpec,
    Role,
    Tier,
    ToolCall,
    ToolResult,
    WireFormat,
)
from pointsman.wire.project import folder_name, named_project

__all__ = ["Conversations", "Moves", "PolicyReplay", "Replayed", "tiers_of"]

#: Bytes of a token, as the engine estimates a request's length from its size.
_BYTES: Final = 4
_FORMATS: Final[Mapping[str, WireFormat]] = {
    "claude-code": WireFormat.MESSAGES,
    "codex": WireFormat.RESPONSES,
}


class _Messages(list[Message]):
    """The messages of a conversation so far."""

    def role(self, index: int, /) -> Role:
        return self[index].role


class Conversations:
    """Puts the requests of one session to the engine, as its client would have sent them.

    Args:
        engine: What decides. No model is asked.
        session: Messages are cut to ``session.KEPT`` characters each.
        new_id: Makes the ids of decisions; by default numbers.
        unspoken: Whether also those are decided without known user messages before them.
    """

    def __init__(
        self,
        engine: Engine,
        session: Session,
        *,
        new_id: Callable[[], str] | None = None,
        unspoken: bool = False,
    ) -> None:
        self._engine = engine
        self._session = session
        self._project = named_project(session.project)
        self._folder = folder_name(session.project) if self._project != session.project else ""
        self._format = _FORMATS.get(session.client, WireFormat.CHAT)
        has_tools = bool(session.tools_offered) or any(each.calls for each in session.requests)
        self._features = frozenset({"tools"}) if has_tools else frozenset()
        self._messages: dict[str, _Messages] = {}
        self._memories: dict[str, Memory] = {}
        self._spoken: set[str] = set()  # agents to whom somebody said something
        numbers = count()
        self._new_id = new_id or (lambda: str(next(numbers)))
        self._unspoken = unspoken

    def next(self, request: Request) -> Decided | None:
        """Decide the next request. None: no user message is known."""
        said = Message(Role.USER, (request.prompt or "",))
        if request.purpose not in WORK:
            return self._decide(request, _Messages([said]))
        messages = self._messages.setdefault(request.agent, _Messages())
        if request.prompt is not None:
            messages.append(said)
            self._spoken.add(request.agent)
        decided = self._decide(request, messages) if self._unspoken or request.agent in self._spoken else None
        messages.extend(_answer(request))
        return decided

    def _decide(self, request: Request, messages: _Messages) -> Decided:
        main = AgentRole.SUBAGENT if request.agent else AgentRole.MAIN
        role = main if request.purpose in WORK else AgentRole.HELPER
        memory = self._memories.get(request.agent, Memory())
        asked = AgentRequest(
            format=self._format,
            history=messages,
            session=(self._session.id + OF_SUBAGENT + request.agent if request.agent else self._session.id),
            arrived_at=request.at,
            size=_BYTES * request.usage.input_tokens,
            features=self._features,
            role=role,
            purpose=request.purpose,
            project=self._project,
            project_name=self._folder,
            client=self._session.client,
        )
        found = drive(self._engine.decide(asked, memory, self._new_id()), no_model)
        self._memories[request.agent] = found.memory
        return found


def _answer(request: Request) -> Iterator[Message]:
    """Addition of a request to the conversation: the answer, and the results of its calls."""
    if request.text or request.calls:
        texts = (request.text,) if request.text else ()
        made = tuple(ToolCall(call.id, call.name, call.arguments) for call in request.calls)
        yield Message(Role.ASSISTANT, texts, made)
    results = tuple(
        ToolResult(call.id, call.result, call.is_error) for call in request.calls if call.result is not None
    )
    if results:
        yield Message(Role.TOOL, results=results)


#: Requests that move, by both models.
Moves: TypeAlias = dict[tuple[str, str], Saved]


def tiers_of(models: Iterable[tuple[str, str]], pricing: Pricing) -> dict[str, dict[Tier, ModelSpec]]:
    """Give the tiers models of logs, by provider: the cheapest is SIMPLE, the dearest REASONING.

    Args:
        models: Provider and id of every model in the logs; those without a price serve no tier.
        pricing: Their prices.
    """
    found: dict[str, list[ModelSpec]] = {}
    for provider, id_ in sorted(set(models)):
        prices = pricing.prices(provider, id_)
        if isinstance(prices, CatalogueEntry):
            found.setdefault(provider, []).append(
                ModelSpec(
                    name=id_,
                    upstream=provider,
                    id=id_,
                    input_per_million=prices.input_per_million,
                    output_per_million=prices.output_per_million,
                    cached_input_per_million=prices.cached_input_per_million,
                    cache_write_per_million=prices.cache_write_per_million,
                    context_window=prices.context_window,
                    cache_seconds=prices.cache_seconds,
                )
            )
    return {
        provider: spread(sorted(specs, key=lambda spec: (*price_order(spec), spec.id)))
        for provider, specs in found.items()
    }


@dataclass(slots=True)
class Replayed:
    """What a policy does to the requests of the logs, added up."""

    requests: int = 0  # decided, and priced before and after
    undecided: int = 0  # without a text of the person, so that nothing is known of what they ask
    refused: int = 0  # that no model of the policy can serve
    unpriced: Counter[str] = field(default_factory=Counter)  # requests by logged model without a price
    unpriced_instead: Counter[str] = field(default_factory=Counter)  # by the policy's model without one
    before: float = 0.0  # dollars of what is decided, at list prices
    after: float = 0.0
    decided: Counter[Tier] = field(default_factory=Counter)
    roles: Saved = field(default_factory=Saved)  # titles, topics, summaries, probes
    whole: Moves = field(default_factory=dict)  # sessions that one model answers whole
    part: Moves = field(default_factory=dict)  # other sessions
    dearer: Moves = field(default_factory=dict)  # to a model that is no cheaper
    sent: dict[str, str] = field(default_factory=dict)  # model by session, where one answers all its work


class PolicyReplay:
    """One policy over all sessions of an audit, one at a time; it stores sums alone.

    Args:
        name: Of the policy, for a person.
        policy: The policy. If it names no models, its tiers are those of the logs (``tiers_of``).
        sessions: The figures of all sessions, for the models that are in the logs.
        pricing: Prices of the logged models.
    """

    def __init__(
        self, name: str, policy: Policy, sessions: Iterable[SessionFigures], pricing: Pricing
    ) -> None:
        self.name: Final = name
        self.version: Final = policy.version()
        self.asks: Final = policy.verify is not None  # a model would be asked, and nobody is
        self._policy: Final = _deciding(policy)
        self._pricing: Final = pricing
        used = {(part.split.provider, part.split.model) for of in sessions for part in of.parts}
        #: Models by provider and tier, where the policy names none.
        self.tiers: Final = {} if policy.tier_models else tiers_of(used, pricing)
        self._engines: dict[str, Engine] = {}
        self.sums: Final = Replayed()

    def add(self, session: Session) -> None:
        """Decide the requests of a session again."""
        chosen = self._chosen(session)
        work = [
            (spec.id if spec else each.model)
            for each, spec in zip(session.requests, chosen, strict=True)
            if is_work(role_of(each))
        ]
        one = len(set(work)) == 1
        if one:
            self.sums.sent[session.id] = work[0]
        self._count(
            session, chosen, self.sums.whole if one and len(_models(session)) == 1 else self.sums.part
        )

    def _chosen(self, session: Session) -> list[ModelSpec | None]:
        """The model of every request; None: the logged one stays, or nothing could be decided."""
        engine = self._engine(session)
        if engine is None:
            return [None] * len(session.requests)
        decide = Conversations(engine, session)
        chosen: list[ModelSpec | None] = []
        for request in session.requests:
            decided = decide.next(request)
            found = decided.decision if decided else None
            if found is None:
                self.sums.undecided += 1
            else:
                self.sums.refused += not found.chain
                if found.tier:
                    self.sums.decided[found.tier.tier] += 1
            spec = engine.policy.models[found.chain[0]] if found and found.chain else None
            same = spec is None or self._pricing.same(request.provider, request.model, spec.id)
            chosen.append(None if same else spec)
        return chosen

    def _engine(self, session: Session) -> Engine | None:
        """What decides for a session: of the provider that it used most, or by the policy's own models."""
        providers = Counter(each.provider for each in session.requests)
        provider = "" if self._policy.tier_models else providers.most_common(1)[0][0]
        if not self._policy.tier_models and provider not in self.tiers:
            return None
        if provider not in self._engines:
            self._engines[provider] = build_engine(self._with_models(provider), read_only=True)
        return self._engines[provider]

    def _with_models(self, provider: str) -> Policy:
        if self._policy.tier_models:
            return self._policy
        tiers = self.tiers[provider]
        models = {spec.name: spec for spec in tiers.values()}
        return replace(
            self._policy, models=models, tier_models={tier: spec.name for tier, spec in tiers.items()}
        )

    def _count(
        self,
        session: Session,
        chosen: Sequence[ModelSpec | None],
        moved: Moves,
    ) -> None:
        """Add up the cost of requests, in the log and under the policy."""
        made = calls(session.requests)
        # A conversation's first request reads as much as then: sessions of one client share their beginning.
        now = [
            msgspec.structs.replace(call, provider=spec.upstream, model=spec.id) if spec else call
            for call, spec in zip(made, chosen, strict=True)
        ]
        lifetimes = self._pricing.lifetimes(made)
        own = {(spec.upstream, spec.id): spec.cache_seconds for spec in chosen if spec}
        read = reads(made, now, {**lifetimes, **own})
        latest: dict[str, tuple[Moves, tuple[str, str]]] = {}  # what moved last in each conversation
        for request, call, spec, cached in zip(session.requests, made, chosen, read, strict=True):
            found = self._amounts(request, call, spec, cached)
            if found is None:
                continue
            paid_then, paid_now = found
            saved = paid_then - paid_now
            subscribed = self._pricing.subscribed(session.client, logged=request.subscription)
            worth = saved if subscribed else 0.0
            self.sums.requests += 1
            self.sums.before += paid_then
            self.sums.after += paid_now
            if spec is None:
                if call.agent in latest and saved:  # a cache is colder, or warmer, because others moved
                    into, pair = latest[call.agent]
                    into[pair] += Saved(0, saved, worth)
                continue
            if role_of(request) in HOUSEKEEPING:
                self.sums.roles = self.sums.roles + Saved(1, saved, worth)
                continue
            into = self.sums.dearer if self._is_dearer(request, spec) else moved
            pair = request.model, spec.id
            latest[call.agent] = into, pair
            into[pair] = into.get(pair, Saved()) + Saved(1, saved, worth)

    def _amounts(
        self, request: Request, call: Call, spec: ModelSpec | None, cached: int
    ) -> tuple[float, float] | None:
        prices = self._pricing.prices(call.provider, call.model)
        then = paid(call, prices) if prices else None
        if prices is None or then is None:
            self.sums.unpriced[call.model or "(not named)"] += 1
            return None
        if spec is None:
            same = cached == call.cached_tokens
            return then, then if same else paid(call, prices, cached) or 0.0
        if role_of(request) in HOUSEKEEPING:  # each has its own prompt; output may be under-counted
            most = max(call.output_tokens, request.usage.output_at_most)
            now = spec.cost(call.input_tokens, 0, most)
        else:
            now = paid(call, spec, cached)
        if now is None:
            self.sums.unpriced_instead[spec.id] += 1
            return None
        return then, now

    def _is_dearer(self, request: Request, spec: ModelSpec) -> bool:
        """Whether neither input nor output costs less."""
        prices = self._pricing.prices(request.provider, request.model)
        return prices is not None and not (
            (spec.input_per_million or 0.0) < (prices.input_per_million or 0.0)
            or (spec.output_per_million or 0.0) < (prices.output_per_million or 0.0)
        )


def _models(session: Session) -> set[str]:
    """The models that did a session's work."""
    return {each.model for each in session.requests if is_work(role_of(each))}


def _deciding(policy: Policy) -> Policy:
    """What of a policy the choice of a model depends on: the rest is not worth its time."""
    guidance, router = policy.guidance, policy.learned_router
    raises = guidance is not None and Rung.RAISE_TIER in guidance.escalate
    reads_domain = bool(policy.profile.domain_scores or (router and router.learned_router.offsets))
    return replace(
        policy,
        domains=policy.domains if reads_domain else None,
        guidance=guidance if raises or policy.escalation else None,
        capabilities=None,
        tools=None,
    )

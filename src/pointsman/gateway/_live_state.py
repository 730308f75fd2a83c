"""The live state: everything the gateway serves with, replaced as a whole by a hot reload.

``build_live_state`` lists the parts that a reload carries over. A request uses the state it began with
(docs/notebook/0104).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from pointsman.access import Access, Ownership
from pointsman.agreement import AgreementPolicy, AgreementSessions
from pointsman.config import Config, ShadowSpec
from pointsman.decision.aliases import ModelNames
from pointsman.errors import MalformedRequest
from pointsman.gateway._attempts import first_answer
from pointsman.gateway._inbound import InboundRequest, Send, named_keys
from pointsman.gateway._relay import Ask, Relay, relay
from pointsman.gateway._request import DecidedRequest
from pointsman.gateway._shadow_model import ShadowModel, ShadowUsage
from pointsman.gateway.upstream import Target, Upstream, connected, targets
from pointsman.model_choice.chains import Pool
from pointsman.runtime import Runtime
from pointsman.shadow_policy import ShadowPolicy
from pointsman.upstreams.connections import Connections
from pointsman.upstreams.port import ServerSpec
from pointsman.vocabulary import ModelQuery, ModelSpec, Tier

if TYPE_CHECKING:
    from pointsman.gateway._agreement import AskByAgreement

__all__ = ["AskedModel", "Family", "LiveState", "Peers", "Published", "RouterCommand",
           "build_live_state", "open_circuits", "relaying"]  # fmt: skip

#: Answers the text after "/router" of a caller without calling a model.
RouterCommand = Callable[[str, str], str]

#: Returns the models of a decision's chain with their upstreams; raises ``MalformedRequest`` where none is.
#: Whether they can serve the request was judged by the decision (``model_choice.fitness.lacks``).
Candidates = Callable[[tuple[str, ...]], list[Target]]

#: Chains whose candidates are remembered. A configuration has a few dozen.
_KEPT_CHAINS: Final = 1_024


#: Returns the model that a question of a decision goes to; None where there is none.
AskedModel = Callable[[ModelQuery], ModelSpec | None]


@dataclass(frozen=True, slots=True)
class LiveState:
    """One configuration, ready to serve."""

    runtime: Runtime
    targets: Mapping[str, Target]  # every configured model and its upstream, by the model's name
    server: ServerSpec
    connections: Connections
    shadow_policy: ShadowPolicy | None  # another policy, decided beside the runtime's
    shadow_model: ShadowModel | None  # another model, which gets a share of the requests too
    command: RouterCommand | None  # None: "/router" is a message like any other
    candidates: Candidates
    names: ModelNames  # what a model name means; of ``auto`` and the tiers it is always the same
    pools: Mapping[Tier, Pool]  # the models of each tier, for the list of models
    body_bytes: int  # of all requests in progress together, at most
    upstreams: Mapping[str, Upstream]  # by name, those without a model too
    ownership: Ownership  # whose what is that upstreams keep
    relay: Relay  # answers a decided request
    config: Config  # what it was built from
    callers: Mapping[bytes, str]  # names of keys by digest
    has_several_upstreams: bool = False
    has_several_callers: bool = False  # who must not see what is another's
    access: Access | None = None  # what keys may do; None: every key may do everything
    asked_model: AskedModel | None = None  # which model a question goes to; None: decisions ask nobody
    agreement: AskByAgreement | None = None  # cheap models that are compared; None: no table says so

    @property
    def faults(self) -> dict[str, str]:
        """Current error per failing store: ``ledger``, ``sessions``, ``budgets``."""
        found = dict(self.runtime.faults)
        if self.access is not None and (fault := self.access.budgets.fault):
            found["budgets"] = fault
        return found

    def retire(self, successor: LiveState) -> None:
        """Close what ``successor`` has not taken over. Requests in progress still finish with this state."""
        self.connections.close(but=successor.connections)
        if self.shadow_model is not None and successor.shadow_model is None:
            self.shadow_model.stop()
        if self.shadow_policy is not None and successor.shadow_policy is None:
            self.shadow_policy.close()

    def close(self) -> None:
        """Close the resources this state opened; the code that opened the stores closes them."""
        self.connections.close()
        if self.shadow_policy is not None:
            self.shadow_policy.close()


#: Name, help, type, and samples: name, labels, value.
Family = tuple[str, str, str, list[tuple[str, dict[str, str], float]]]


class Published(msgspec.Struct, frozen=True):
    """The published state of one of several processes: a file, written every second and on request."""

    metrics: list[Family] = []
    active: int = 0  # requests in progress
    open_circuits: tuple[str, ...] = ()  # names of upstreams
    faults: dict[str, str] = {}  # current error per failing store
    overhead: tuple[int, ...] = ()  # requests by bucket of ``overhead_seconds``
    asked_at: float | None = None  # when readiness was last asked for, in seconds of ``time.monotonic``


class Peers(Protocol):
    """The other processes of this gateway, and the state that they hold."""

    @property
    def answering(self) -> int:
        """Requests in progress that came to this process and that others answer."""

    def note(self, name: str) -> None:
        """Register this process as the holder of state under a name."""

    async def answer_kept(self, inbound: InboundRequest, names: Sequence[str], send: Send) -> bool:
        """Let the process that holds state under one of these names answer; False if none does."""

    async def take_over(self, state: LiveState, session: str) -> None:
        """Fetch the memory of a session from the process that has served it last."""

    def others(self) -> Iterable[Published]:
        """Return the published states of the others."""


def build_live_state(
    runtime: Runtime,
    config: Config,
    *,
    connections: Connections | None = None,
    shadow_policy: ShadowPolicy | None = None,
    shadow_model: ShadowSpec | None = None,
    command: RouterCommand | None = None,
    names: ModelNames | None = None,
    access: Access | None = None,
    asked_model: AskedModel | None = None,
    previous: LiveState | None = None,
) -> LiveState:
    """Build the state of a configuration; the one in effect is not touched.

    Of ``previous`` it carries over: the connections and the circuit breaker of every upstream whose
    configuration did not change, the spending and the requests in progress of the shadow model, and how often
    answers disagreed in each session. The runtime that is
    passed in shares the ledger, the sessions and today's spending (``Runtime.with_policy``); the shadow
    policy its sessions and counts (``ShadowPolicy.with_engine``). Metrics, stored conversations and the
    count of body bytes belong to the gateway, and no reload touches them.
    """
    if connections is None:
        specs = config.upstreams.values()
        connections = previous.connections.carried_over(specs) if previous else Connections()
    reached = connected(config.upstreams, connections, previous.upstreams if previous else {})
    found = targets(config.models, reached)
    server = config.server
    by_agreement = _by_agreement(config.agreement, found, previous)
    for upstream in reached.values():
        upstream.has_several_callers = server.has_several_callers
    return LiveState(
        runtime,
        found,
        server,
        connections,
        shadow_policy,
        _shadow_model(shadow_model or config.shadow, found, previous),
        command,
        lru_cache(_KEPT_CHAINS)(partial(_candidates, found)),
        names or ModelNames(config.models),
        config.tiers.pools,
        server.limits.total,
        reached,
        Ownership(runtime.ledger),
        relaying(server, by_agreement or first_answer),
        config,
        named_keys(server),
        len({target.upstream for target in found.values()}) > 1,
        server.has_several_callers,
        access,
        asked_model,
        by_agreement,
    )


def relaying(server: ServerSpec, ask: Ask = first_answer) -> Relay:
    """Return what answers decided requests; ``ask`` gets each answer."""
    answering = partial(relay, ask, server.keep_alive)
    return partial(_reporting, answering) if server.report_usage else answering


def _reporting(
    answering: Relay, request: DecidedRequest, targets: Sequence[Target], send: Send
) -> Awaitable[int]:
    """Answer a request; its stream reports its usage."""
    request.hides_usage = request.report_usage()
    return answering(request, targets, send)


def open_circuits(state: LiveState) -> list[str]:
    """Return the names of the models' upstreams with an open circuit breaker."""
    upstreams = {target.upstream for target in state.targets.values()}
    return sorted(upstream.spec.name for upstream in upstreams if upstream.breaker.is_open)


def _shadow_model(
    spec: ShadowSpec, known: Mapping[str, Target], previous: LiveState | None
) -> ShadowModel | None:
    if spec.model is None:
        return None
    before = previous.shadow_model if previous else None
    return ShadowModel(spec, known[spec.model], before.usage if before else ShadowUsage())


def _by_agreement(
    policies: Mapping[str, AgreementPolicy], known: Mapping[str, Target], previous: LiveState | None
) -> AskByAgreement | None:
    if not policies:
        return None
    from pointsman.gateway._agreement import AskByAgreement

    before = previous.agreement if previous else None
    return AskByAgreement(policies, known, before.sessions if before else AgreementSessions())


def _candidates(models: Mapping[str, Target], chain: tuple[str, ...]) -> list[Target]:
    configured = [models[name] for name in chain if name in models]
    if not configured:
        names = ", ".join(chain) or "no tier has one"
        raise MalformedRequest(
            f"no model is configured for this request ({names})",
            hint="name a model, or configure [tiers]",
            param="model",
        )
    return configured

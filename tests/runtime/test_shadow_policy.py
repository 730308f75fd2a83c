"""A policy on trial decides every turn beside the one that serves, and changes nothing."""

import asyncio
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from pointsman.decision.decision import Decision, ReadRequest
from pointsman.decision.engine import Decided, Engine
from pointsman.decision.memory import Memory
from pointsman.decision.policy import Policy
from pointsman.factory import build_engine, default_policy
from pointsman.runtime import Runtime
from pointsman.shadow_policy import ShadowPolicy
from pointsman.stores.ledger import MemoryLedger, ShadowDecision
from pointsman.stores.sessions import MemorySessions
from pointsman.tiers import Verification, builtin_profile
from pointsman.vocabulary import AgentRequest, ModelQuery, ModelReply, ModelSpec, Tier, WireFormat
from pointsman.wire.request import read_request, request_from_text

MODELS = {name: ModelSpec(name, "main", name) for name in ("small", "large")}
UNSURE = "let us see about that"
HARD = "prove step by step that the algorithm terminates, design a distributed architecture for it"


def a_policy(strong: str, **given: Any) -> Policy:
    tier_models = dict.fromkeys(Tier, "small") | {Tier.REASONING: strong, Tier.COMPLEX: strong}
    return Policy(profile=builtin_profile("seed"), models=MODELS, tier_models=tier_models, **given)


LIVE = build_engine(a_policy("large"))
OTHER = build_engine(a_policy("small"))


class Trial:
    """A runtime with a shadow policy, and what both wrote down."""

    def __init__(self, engine: Engine, live: Engine = LIVE, **given: Any) -> None:
        self.ledger = MemoryLedger()
        self.shadow = ShadowPolicy(engine, self.ledger)
        self.runtime = Runtime(
            live, sessions=MemorySessions(), ledger=self.ledger, observe=self.shadow, **given
        )

    def decide(self, *turns: AgentRequest) -> list[Decision]:
        async def run() -> list[Decision]:
            return [await self.runtime.decide(agent_request) for agent_request in turns]

        return asyncio.run(run())

    def said(self, decision: Decision) -> ShadowDecision:
        self.shadow.flush()
        [found] = self.ledger.shadows(decision.id)
        assert isinstance(found, ShadowDecision)
        return found

    @property
    def counts(self) -> dict[str, int]:
        self.shadow.flush()
        return {result: count for result, count in self.shadow.counts.items() if count}


@pytest.fixture
def trial() -> Iterator[Any]:
    made: list[Trial] = []

    def start(engine: Engine, live: Engine = LIVE, **given: Any) -> Trial:
        made.append(Trial(engine, live, **given))
        return made[-1]

    yield start
    for each in made:
        each.shadow.close()


def test_how_it_differs_is_written_down(trial: Any) -> None:
    running = trial(OTHER)
    [hard, easy] = running.decide(request_from_text(HARD), request_from_text("Hello!"))
    said = running.said(hard)
    assert said.changed == ("model",)
    assert (said.verdict.tier, said.verdict.model) == (Tier.REASONING, "small")
    assert said.policy == OTHER.version != hard.policy
    assert said.why == ('"small" is first for REASONING, then "large"',)
    assert running.said(easy).changed == ()
    assert running.counts == {"differs": 1, "same": 1}


def test_the_decision_that_serves_is_the_same_without_it(trial: Any) -> None:
    turns = [request_from_text(HARD, session="s"), request_from_text("Hello!", session="s")]
    with_it = trial(OTHER).decide(*turns)
    alone = Runtime(LIVE, sessions=MemorySessions(), ledger=MemoryLedger())

    async def run() -> list[Decision]:
        return [await alone.decide(agent_request) for agent_request in turns]

    def told(decision: Decision) -> dict[str, Any]:
        own = {"id", "elapsed_us"}
        return {name: getattr(decision, name) for name in Decision.__struct_fields__ if name not in own}

    assert list(map(told, with_it)) == list(map(told, asyncio.run(run())))


def test_it_remembers_sessions_by_itself(trial: Any) -> None:
    engine = build_engine(default_policy())
    seen: list[int] = []

    class Watching(Engine):
        def decide(
            self, request: AgentRequest | ReadRequest, memory: Memory, decision_id: str
        ) -> Generator[ModelQuery, ModelReply, Decided]:
            seen.append(memory.turns)
            return engine.decide(request, memory, decision_id)

    running = trial(Watching(engine.policy, engine.scanner))
    said: list[dict[str, str]] = []
    for text in ("fix the parser", "now add a test", "and document it"):
        said.append({"role": "user", "content": text})
        running.decide(read_request(WireFormat.CHAT, {"messages": list(said)}, session="s"))
    running.decide(request_from_text("another conversation", session="t"), request_from_text("no session"))
    running.shadow.flush()
    assert seen == [0, 1, 2, 0, 0]


def test_nothing_is_asked_for_it(trial: Any) -> None:
    verifying = a_policy("large", verify=Verification(model="small"))
    asked: list[ModelQuery] = []

    async def ask(need: ModelQuery) -> ModelReply:
        asked.append(need)
        return ModelReply("COMPLEX")

    running = trial(build_engine(verifying), LIVE, ask=ask)
    [decision] = running.decide(request_from_text(UNSURE))
    assert running.said(decision).asks == "no-model"
    assert asked == []


def test_a_caller_who_names_a_model_that_it_lacks(trial: Any) -> None:
    lacking = Policy(profile=builtin_profile("seed"), tier_models=dict.fromkeys(Tier, "small"))
    running = trial(build_engine(lacking))
    body = {"model": "large", "messages": [{"role": "user", "content": "Hello!"}]}
    [decision] = running.decide(read_request(WireFormat.CHAT, body))
    assert decision.chain == ("large",)
    assert running.said(decision).error == "UnknownModel"
    assert running.counts == {"refused": 1}


def test_a_broken_policy_is_counted_and_the_next_turn_is_decided(trial: Any, caplog: Any) -> None:
    class Broken(Engine):
        def decide(
            self, request: AgentRequest | ReadRequest, memory: Memory, decision_id: str
        ) -> Generator[ModelQuery, ModelReply, Decided]:
            if isinstance(request, AgentRequest) and request.session == "broken":
                raise ZeroDivisionError(HARD)
            return super().decide(request, memory, decision_id)

    running = trial(Broken(OTHER.policy, OTHER.scanner))
    [broken, fine] = running.decide(request_from_text(HARD, session="broken"), request_from_text("Hello!"))
    assert broken.chain == ("large",)
    assert running.said(broken).error == "ZeroDivisionError"
    assert running.said(fine).error == ""
    assert running.counts == {"failed": 1, "same": 1}


def test_what_waits_is_bounded_and_counted(trial: Any) -> None:
    running = trial(OTHER)
    running.shadow.close()
    [decision] = running.decide(request_from_text(HARD))
    assert decision.chain == ("large",)
    assert running.counts == {"lost": 1}


def test_another_policy_on_trial_goes_on_with_counts_and_sessions(trial: Any) -> None:
    running = trial(OTHER)
    [first] = running.decide(request_from_text(HARD, session="s", arrived_at=1.0))
    after = running.shadow.with_engine(LIVE)
    running.runtime = running.runtime.with_policy(LIVE, observe=after)
    [second] = running.decide(request_from_text(HARD, session="s", arrived_at=2.0))
    assert (running.said(first).policy, running.said(second).policy) == (OTHER.version, LIVE.version)
    assert sum(after.counts.values()) == sum(running.shadow.counts.values()) == 2

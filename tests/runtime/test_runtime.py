"""Effects around a decision: memory, questions, the ledger, and what happens when one of them fails."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from pointsman.capabilities import CapabilityPolicy
from pointsman.decision.decision import Decision
from pointsman.decision.policy import Policy
from pointsman.errors import UnknownModel, UpstreamTimeout
from pointsman.factory import build_engine, default_policy
from pointsman.guidance import GuidancePolicy
from pointsman.model_calls import Questions, ask_models, build_questions
from pointsman.runtime import Runtime, new_ids
from pointsman.stores.ledger import MemoryLedger, SqliteLedger
from pointsman.stores.sessions import MemorySessions, SqliteSessions
from pointsman.tiers import Verification, builtin_profile
from pointsman.vocabulary import LARGE, AgentRequest, ModelQuery, ModelReply, ModelSpec, Prompt, Stage, Tier
from pointsman.wire.request import request_from_text
from support.waiting import until

UNSURE = "let us see about that"
SURE = "Hello!"
MODELS = {"small": ModelSpec("small", "main", "s-1")}
POLICY = Policy(
    profile=builtin_profile("seed"),
    models=MODELS,
    tier_models=dict.fromkeys(Tier, "small"),
    verify=Verification(model="small"),
)


class Model:
    """A ``ChatModel`` that gives its answers in turn; an exception is raised."""

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[Prompt] = []

    async def complete(self, prompt: Prompt, *, timeout: float) -> str:
        self.asked.append(prompt)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def runtime(
    model: Model | None = None, *, share: float = 1.0, sessions: MemorySessions | None = None
) -> Runtime:
    return Runtime(
        build_engine(POLICY),
        sessions=MemorySessions() if sessions is None else sessions,
        ledger=MemoryLedger(text="full"),
        ask=ask_models({"small": model} if model else {}, default="small"),
        questions=Questions(Verification(model="small", share=share)),
    )


def decide(running: Runtime, texts: Sequence[str]) -> list[tuple[Tier, Stage]]:
    async def run() -> list[tuple[Tier, Stage]]:
        found = []
        for text in texts:
            decision = await running.decide(request_from_text(text, session="s", arrived_at=1.0))
            assert decision.tier
            found.append((decision.tier.tier, decision.tier.stage))
        return found

    return asyncio.run(run())


def test_an_unsure_tier_is_verified_once_and_remembered() -> None:
    model = Model("COMPLEX")
    assert decide(runtime(model), [UNSURE, UNSURE]) == [(Tier.COMPLEX, Stage.VERIFIED)] * 2
    assert len(model.asked) == 1
    assert UNSURE in model.asked[0].text
    assert UNSURE not in model.asked[0].system


def test_a_failure_is_not_remembered() -> None:
    model = Model(UpstreamTimeout("no answer in 0.5 s"), "SIMPLE")
    assert decide(runtime(model), [UNSURE, UNSURE]) == [
        (Tier.MEDIUM, Stage.FALLBACK),
        (Tier.SIMPLE, Stage.VERIFIED),
    ]


def test_without_a_model_the_seed_says_medium_and_the_decision_says_why() -> None:
    running = runtime()
    assert decide(running, [UNSURE]) == [(Tier.MEDIUM, Stage.FALLBACK)]
    [kept] = running.ledger.decisions()
    assert [reason.code for reason in kept.abstained] == ["tiers.abstained.llm-skipped"]


def test_the_budget_is_a_share_of_all_requests() -> None:
    model = Model("COMPLEX", "COMPLEX", "COMPLEX")
    unsure = [f"let us see about {n}" for n in range(4)]
    stages = [stage for _, stage in decide(runtime(model, share=0.25), [SURE, *unsure[:2], SURE, unsure[2]])]
    assert stages == [Stage.RULES, Stage.VERIFIED, Stage.FALLBACK, Stage.RULES, Stage.VERIFIED]


def test_both_drivers_give_the_same_decision() -> None:
    answers: list[Callable[[ModelQuery], ModelReply]] = [lambda _: ModelReply("COMPLEX")]
    running = runtime(Model("COMPLEX"))
    by_thread = running.decide_sync(request_from_text(UNSURE), answers[0])
    [by_loop] = decide(running, [UNSURE])
    assert by_thread.tier
    assert (by_thread.tier.tier, by_thread.tier.stage) == by_loop


@pytest.mark.parametrize("said", ["COMPLEX", UpstreamTimeout("no answer in 0.5 s")])
def test_a_large_turn_is_decided_alike_and_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, said: str | Exception
) -> None:
    def seen_by(agent_request: AgentRequest) -> tuple[Decision, list[str], bytes | None]:
        running, threads = runtime(Model(said)), []
        decide = running.engine.decide

        def deciding(*given: Any) -> Any:
            threads.append(threading.current_thread().name)
            answer = yield from decide(*given)
            threads.append(threading.current_thread().name)
            return answer

        monkeypatch.setattr(running.engine, "decide", deciding)
        decision = asyncio.run(running.decide(agent_request))
        assert running.ledger.text(decision.id) == UNSURE
        return decision, threads, running.sessions.get("s")

    small = request_from_text(UNSURE, session="s", arrived_at=1.0)
    here, by_loop, kept = seen_by(small)
    there, by_thread, kept_too = seen_by(structs.replace(small, size=LARGE + 1))
    assert by_thread == ["large_0"] * 2
    assert "large_0" not in by_loop
    assert kept == kept_too
    assert (here.tier, here.chain, here.abstained) == (there.tier, there.chain, there.abstained)
    assert there.elapsed_us > 0


def test_a_large_turn_may_be_refused() -> None:
    agent_request = structs.replace(request_from_text(SURE), size=LARGE + 1, model="nobody-has-this")
    with pytest.raises(UnknownModel):
        asyncio.run(runtime().decide(agent_request))


def test_what_was_decided_is_in_the_ledger_with_the_words_apart() -> None:
    running = runtime()
    decide(running, [SURE])
    [kept] = running.ledger.decisions()
    assert (kept.input.session, kept.elapsed_us > 0) == ("s", True)
    assert running.ledger.text(kept.id) == SURE


class BrokenSessions(MemorySessions):
    def get(self, session: str, /) -> bytes | None:
        raise OSError("disk gone")

    def put(self, session: str, memory: bytes, /) -> None:
        raise OSError("disk gone")


def test_a_failing_store_costs_memory_and_never_the_request(caplog: pytest.LogCaptureFixture) -> None:
    running = runtime(sessions=BrokenSessions())
    assert decide(running, [SURE, SURE]) == [(Tier.SIMPLE, Stage.RULES)] * 2
    assert running.failures == 4
    assert running.faults == {"sessions": "disk gone"}
    running.memories.store = MemorySessions()
    decide(running, [SURE])
    assert running.faults == {}
    assert [record.getMessage() for record in caplog.records] == [
        "the memory of a session could not be read: disk gone"
    ]


def test_stores_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    (blocked := tmp_path / "file").write_text("")
    running = runtime(sessions=SqliteSessions(blocked / "sessions"))
    running.ledger = SqliteLedger(blocked / "ledger")
    assert running.faults == {}
    decide(running, [SURE])
    until(lambda: len(running.faults) == 2)
    assert set(running.faults) == {"ledger", "sessions"}
    assert running.failures == 0
    running.close()
    assert (running.failures, running.ledger.lost) == (1, 1)


def test_memory_that_cannot_be_read_starts_anew() -> None:
    sessions = MemorySessions()
    sessions.put("s", b"{not json")
    running = runtime(sessions=sessions)
    assert decide(running, [SURE]) == [(Tier.SIMPLE, Stage.RULES)]
    assert running.failures == 1


def test_ids_are_unique_across_sources() -> None:
    one, other = new_ids(), new_ids()
    assert len({one(), one(), other(), other()}) == 4


def test_a_turn_under_way_keeps_the_policy_it_began_with() -> None:
    class Replacing(MemorySessions):
        waits = True  # another policy comes while the store is waited for

        def get(self, session: str, /) -> bytes | None:
            live.append(live[-1].with_policy(other, ask=ask_models({})))
            return super().get(session)

    first, other = build_engine(POLICY), build_engine(replace(POLICY, tier_models={}))
    live = [runtime(sessions=Replacing())]
    kept = [asyncio.run(live[-1].decide(request_from_text(SURE, session="s"))).policy for _ in range(2)]
    assert kept == [first.version, other.version]


def test_another_policy_shares_stores_ids_failures_and_todays_spending() -> None:
    model = Model("COMPLEX", "COMPLEX")
    running = runtime(model, share=0.5, sessions=BrokenSessions())
    assert decide(running, [UNSURE]) == [(Tier.COMPLEX, Stage.VERIFIED)]
    questions = Questions(Verification(model="small", share=0.5))
    other = running.with_policy(build_engine(POLICY), ask=running.ask, questions=questions)
    assert decide(other, ["let us see about 2"]) == [(Tier.MEDIUM, Stage.FALLBACK)]  # 1 of 2 has asked
    assert (running.questions.spending, running.failures) == (other.questions.spending, other.failures)
    assert (other.questions.spending.requests, other.failures) == (2, 4)
    decide(running, [SURE])
    assert other.questions.spending.requests == 3
    assert len({kept.id for kept in other.ledger.decisions()}) == 3


class FarAway(MemorySessions):
    """A remote store: the event loop must not wait for it."""

    waits = True

    def __init__(self) -> None:
        super().__init__()
        self.loop_goes_on = threading.Event()
        self.asked: list[str] = []

    def get(self, session: str, /) -> bytes | None:
        self._wait("get")
        return super().get(session)

    def put(self, session: str, memory: bytes, /) -> None:
        self._wait("put")
        super().put(session, memory)

    def _wait(self, what: str) -> None:
        assert threading.current_thread() is not threading.main_thread()
        assert self.loop_goes_on.wait(30), "nobody else was served meanwhile"
        self.loop_goes_on.clear()
        self.asked.append(what)


def test_the_loop_goes_on_while_a_store_elsewhere_is_asked() -> None:
    store = FarAway()
    running = runtime(sessions=store)

    async def others() -> None:
        while True:
            store.loop_goes_on.set()
            await asyncio.sleep(0)

    async def run() -> list[Decision]:
        served = asyncio.create_task(others())
        found = [await running.decide(request_from_text(SURE, session="s")) for _ in range(2)]
        served.cancel()
        return found

    first, second = asyncio.run(run())
    assert store.asked == ["get", "put", "get", "put"]
    assert (first.input.user_message, second.input.user_message) == (1, 2)
    assert running.failures == 0
    assert [decision.id for decision in running.ledger.decisions(newest_first=False)] == [first.id, second.id]


@pytest.mark.parametrize("kind", ["guidance", "judge_capability"])
def test_questions_of_a_kind_end_with_their_money_until_the_next_day(kind: str) -> None:
    model = ModelSpec("small", "up", "s", input_per_million=100_000.0, output_per_million=0.0)
    policy = replace(
        default_policy(),
        models={"small": model},
        guidance=GuidancePolicy(money_per_day=25.0),
        capabilities=CapabilityPolicy(money_per_day=25.0),
    )
    questions = build_questions(policy)
    questions.count_request(0.0)
    asked = [questions.settled(ModelQuery(kind, "", f"{n}" * 400, model="small")) for n in range(3)]
    assert asked == [None, None, ModelReply(error="budget")]  # 100 tokens are 10
    questions.count_request(90_000.0)
    assert questions.settled(ModelQuery(kind, "", "4" * 400, model="small")) is None
    other = ModelQuery("verify_tier", "", "4", model="small")
    assert questions.settled(other) == ModelReply(error="budget")  # no verification is configured


def test_a_question_of_unknown_price_is_refused_where_money_is_limited() -> None:
    policy = replace(
        default_policy(),
        models={"small": ModelSpec("small", "up", "s")},
        guidance=GuidancePolicy(money_per_day=25.0),
    )
    questions = build_questions(policy)
    assert questions.settled(ModelQuery("guidance", "", "x", model="small")) == ModelReply(error="budget")
    assert questions.settled(ModelQuery("judge_capability", "", "x", model="small")) is None

"""A scripted model and decider, and contract checks of chat models, budget stores and session stores."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterator
from enum import Enum
from typing import Any, Final, Literal

from pointsman.decision.decision import Decision, Injection, RequestInput
from pointsman.errors import UpstreamError, UpstreamTimeout
from pointsman.guidance import GuidanceContext
from pointsman.runtime import Payer
from pointsman.stores.budgets import BudgetStore, Claim, Settlement
from pointsman.stores.ledger import Ledger, MemoryLedger
from pointsman.stores.sessions import SessionStore
from pointsman.tiers import TierDecision
from pointsman.trajectory import (
    Event,
    Session,
    ToolInvoked,
    ToolResult,
    TrajectoryAnalysis,
    TrajectoryAnalysisConfig,
    TrajectoryBuilder,
)
from pointsman.upstreams import ChatModel
from pointsman.vocabulary import AgentRequest, Prompt, Stage, Tier, ToolCall

__all__ = [
    "HANG",
    "REPLY",
    "Scene",
    "ScriptedDecider",
    "ScriptedModel",
    "budget_store_checks",
    "build_context",
    "build_context_with_errors",
    "build_trajectory",
    "chat_model_checks",
    "session_store_checks",
]


class _Hang(Enum):
    HANG = "hang"


#: In a script: no answer until the caller's time is over.
HANG: Final = _Hang.HANG

Reply = str | UpstreamError | Literal[_Hang.HANG]

#: What a model of scene ``reply`` says.
REPLY: Final = "I would call it medium."

#: ``reply`` says ``REPLY``; the others give no text, fail, never answer, and break off in the middle.
Scene = Literal["reply", "empty", "fail", "hang", "break"]


class ScriptedModel:
    """Gives the answers of a script, one each time, and records the requests in ``asked``.

    >>> model = ScriptedModel("SIMPLE", UpstreamError("down"), HANG)
    """

    def __init__(self, *script: Reply | Callable[[Prompt], Reply]) -> None:
        """Take the answers: a text to return, an error to raise, or ``HANG``. The last one repeats.

        A function of the prompt gives any of the three.
        """
        self._script: Final = script
        self.asked: Final[list[Prompt]] = []

    async def complete(self, prompt: Prompt, *, timeout: float) -> str:
        """Answer according to the script."""
        self.asked.append(prompt)
        if not self._script:
            raise UpstreamError("the script is empty")
        entry = self._script[min(len(self.asked), len(self._script)) - 1]
        answer = entry(prompt) if callable(entry) else entry
        if answer is HANG:
            await asyncio.sleep(timeout)
            raise UpstreamTimeout("the scripted model hangs")
        if isinstance(answer, UpstreamError):
            raise answer
        if not answer.strip():
            raise UpstreamError("the scripted model gave no text")
        return answer


Make = Callable[[Scene], ChatModel]


def chat_model_checks() -> Iterator[Callable[[Make], Coroutine[Any, Any, None]]]:
    """Yield checks; each makes models with an upstream that follows a scene."""
    yield from (
        _a_reply_comes_back,
        _no_text_is_a_failure,
        _a_failure_is_an_upstream_error,
        _a_hanging_model_times_out,
        _a_broken_answer_is_no_answer,
        _a_model_can_be_asked_at_the_same_time,
    )


async def _a_reply_comes_back(make: Make) -> None:
    assert "medium" in (await make("reply").complete(_prompt(), timeout=30)).lower()


async def _no_text_is_a_failure(make: Make) -> None:
    assert type(await _failure(make("empty"))) is UpstreamError


async def _a_failure_is_an_upstream_error(make: Make) -> None:
    assert isinstance(await _failure(make("fail")), UpstreamError)


async def _a_hanging_model_times_out(make: Make) -> None:
    assert isinstance(await _failure(make("hang"), timeout=0.05), UpstreamTimeout)


async def _a_broken_answer_is_no_answer(make: Make) -> None:
    assert isinstance(await _failure(make("break")), UpstreamError)


async def _a_model_can_be_asked_at_the_same_time(make: Make) -> None:
    model = make("reply")
    replies = await asyncio.gather(*(model.complete(_prompt(), timeout=30) for _ in range(5)))
    assert len(replies) == 5


def _prompt() -> Prompt:
    return Prompt(system="Which tier?", text="What is 2+2?")


async def _failure(model: ChatModel, timeout: float = 30) -> UpstreamError:
    try:
        text = await model.complete(_prompt(), timeout=timeout)
    except UpstreamError as error:
        return error
    raise AssertionError(f"a failure came back as {text!r}")


# A scripted decider, for testing its callers.


class ScriptedDecider:
    """Decides every request for the same chain of models, and remembers what it was asked.

    Has the part of ``Runtime`` that the gateway uses: ``decide``, ``ledger``, ``policy_version``,
    ``failures`` and ``faults``.
    """

    def __init__(
        self, *chain: str, injections: tuple[Injection, ...] = (), ledger: Ledger | None = None
    ) -> None:
        self.chain = chain
        self.injections = injections
        self.ledger: Ledger = ledger or MemoryLedger()
        self.turns: list[AgentRequest] = []
        self.failures = 0
        self.policy_version = "scripted"
        self.faults: dict[str, str] = {}
        self._numbers = itertools.count(1)

    async def decide(self, request: AgentRequest, payer: Payer | None = None, /) -> Decision:  # noqa: ARG002 - asks nobody
        """Return the scripted decision, and write it down."""
        self.turns.append(request)
        decision = Decision(
            id=f"d-{next(self._numbers)}",
            input=RequestInput(
                session=request.session,
                format=request.format,
                model_asked=request.model,
                arrived_at=request.arrived_at,
                caller=request.caller,
            ),
            policy="scripted",
            tier=TierDecision(
                tier=Tier.SIMPLE,
                score=-0.1,
                confidence=0.77,
                signals=("short (3 tokens)",),
                stage=Stage.RULES,
                needs_verification=False,
                reasons=(),
            ),
            chain=self.chain,
            injections=self.injections,
        )
        self.ledger.append(decision)
        return decision


# Builders of trajectories and of contexts, for tests of classifiers and providers.


def build_trajectory(*events: Event, config: TrajectoryAnalysisConfig | None = None) -> TrajectoryAnalysis:
    """Return the run after some events.

    Args:
        events: What happened, oldest first: ``ToolInvoked``, ``UserSpoke``, ``ProgressMade``, ...
        config: Thresholds, detectors and indicators; by default the built-in ones.
    """
    builder = TrajectoryBuilder.from_config(config or TrajectoryAnalysisConfig())
    for event in events:
        builder.on_event(event)
    return builder.build()


def build_context(
    *events: Event,
    config: TrajectoryAnalysisConfig | None = None,
    pending: tuple[ToolCall | ToolInvoked, ...] = (),
    prompt: object = None,
    last_response: str = "",
) -> GuidanceContext:
    """Return the moment after some events, in a session that has seen them.

    Args:
        events: What happened, oldest first.
        config: As for ``build_trajectory``.
        pending: Calls that the model has made and that have not run.
        prompt: What the agent is about to be sent.
        last_response: What the model said last.
    """
    return GuidanceContext(
        session=Session(events=list(events)),
        trajectory=build_trajectory(*events, config=config),
        prompt=prompt,
        pending_tool_calls=pending,
        last_response=last_response,
    )


def build_context_with_errors(count: int, *, tool: str = "test") -> GuidanceContext:
    """Return the moment after ``count`` failed calls of a tool, each with another argument and error."""
    return build_context(
        *(ToolInvoked(tool, {"attempt": n}, ToolResult.error(f"failure {n}")) for n in range(count))
    )


# Contract checks of every budget store.


def budget_store_checks() -> Iterator[Callable[[BudgetStore], None]]:
    """Yield checks; each wants a new, empty store."""
    yield from (
        _nothing_is_used_at_first,
        _what_has_room_is_reserved,
        _one_claim_without_room_reserves_nothing,
        _settling_replaces_what_was_reserved,
        _settling_nothing_gives_all_back,
        _a_settlement_may_exceed_the_limit,
        _an_unknown_reservation_held_nothing,
        _several_are_settled_at_once,
        _large_numbers_are_exact,
    )


def _claim(counter: str, amount: int, limit: int = 100) -> Claim:
    return Claim(counter, amount, limit, 600.0)


def _nothing_is_used_at_first(store: BudgetStore) -> None:
    assert store.totals(["a", "b"]) == (0, 0)
    assert store.totals([]) == ()


def _what_has_room_is_reserved(store: BudgetStore) -> None:
    first = store.reserve("r1", [_claim("a", 60), _claim("b", 1)])
    assert first.ok
    assert first.totals == (60, 1)
    assert store.reserve("r2", [_claim("a", 40)]).totals == (100,)  # exactly full
    assert store.totals(["b", "a"]) == (1, 100)


def _one_claim_without_room_reserves_nothing(store: BudgetStore) -> None:
    store.reserve("r1", [_claim("b", 95)])
    refused = store.reserve("r2", [_claim("a", 10), _claim("b", 6), _claim("c", 1_000)])
    assert not refused.ok
    assert refused.refused == 1
    assert refused.totals == (0, 95, 0)
    assert store.totals(["a", "b", "c"]) == (0, 95, 0)


def _settling_replaces_what_was_reserved(store: BudgetStore) -> None:
    store.reserve("r1", [_claim("a", 80), _claim("b", 1)])
    store.settle([Settlement("r1", {"a": 30, "b": 1})])
    assert store.totals(["a", "b"]) == (30, 1)
    assert store.reserve("r2", [_claim("a", 70)]).ok


def _settling_nothing_gives_all_back(store: BudgetStore) -> None:
    store.reserve("r1", [_claim("a", 80)])
    store.settle([Settlement("r1", {"a": 0})])
    assert store.totals(["a"]) == (0,)


def _a_settlement_may_exceed_the_limit(store: BudgetStore) -> None:
    store.reserve("r1", [_claim("a", 80)])
    store.settle([Settlement("r1", {"a": 130})])
    assert store.totals(["a"]) == (130,)
    assert not store.reserve("r2", [_claim("a", 1)]).ok


def _an_unknown_reservation_held_nothing(store: BudgetStore) -> None:
    store.reserve("r1", [_claim("a", 10)])
    store.settle([Settlement("elsewhere", {"a": 5, "unknown": 7})])
    assert store.totals(["a", "unknown"]) == (15, 0)


def _several_are_settled_at_once(store: BudgetStore) -> None:
    for number in range(3):
        store.reserve(f"r{number}", [_claim("a", 30), _claim(f"b{number}", 1)])
    store.settle([Settlement(f"r{number}", {"a": number, f"b{number}": 1}) for number in range(3)])
    assert store.totals(["a", "b0", "b1", "b2"]) == (3, 1, 1, 1)


def _large_numbers_are_exact(store: BudgetStore) -> None:
    most = 10**18  # a thousand million of a currency, in billionths
    store.reserve("r1", [_claim("a", most - 1, most)])
    store.settle([Settlement("r1", {"a": most - 3})])
    assert store.totals(["a"]) == (most - 3,)


# Contract checks of every session store.


def session_store_checks() -> Iterator[Callable[[SessionStore], None]]:
    """Yield checks; each wants a new, empty store with room for a hundred sessions."""
    yield from (
        _nothing_is_known_at_first,
        _what_was_put_last_comes_back,
        _any_bytes_and_any_name_will_do,
        _sessions_are_apart,
        _what_is_forgotten_is_unknown,
        _every_session_is_listed,
    )


def _nothing_is_known_at_first(store: SessionStore) -> None:
    assert store.get("s") is None
    assert not store.forget("s")
    assert list(store.sessions()) == []


def _what_was_put_last_comes_back(store: SessionStore) -> None:
    store.put("s", b"first")
    assert store.get("s") == b"first"
    store.put("s", b"second")
    assert store.get("s") == b"second"
    assert store.get("s") == b"second"


def _any_bytes_and_any_name_will_do(store: SessionStore) -> None:
    for name in ("a b", "ü/日本語", "x" * 512, "*", "pointsman:session:", "'; --", "nul\0"):
        memory = b"\x00\xff" + name.encode()
        store.put(name, memory)
        assert store.get(name) == memory
    store.put("empty", b"")
    assert store.get("empty") == b""


def _sessions_are_apart(store: SessionStore) -> None:
    for number in range(100):
        store.put(f"s{number}", str(number).encode())
    assert [store.get(f"s{number}") for number in range(100)] == [str(n).encode() for n in range(100)]


def _what_is_forgotten_is_unknown(store: SessionStore) -> None:
    store.put("s", b"memory")
    store.put("t", b"other")
    assert store.forget("s")
    assert store.get("s") is None
    assert not store.forget("s")
    assert store.get("t") == b"other"
    store.put("s", b"again")
    assert store.get("s") == b"again"


def _every_session_is_listed(store: SessionStore) -> None:
    for name in ("s", "t", "u"):
        store.put(name, b"memory")
    store.forget("t")
    listed = dict(store.sessions())
    assert set(listed) == {"s", "u"}
    assert all(isinstance(put_at, float) for put_at in listed.values())

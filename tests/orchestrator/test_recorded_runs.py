"""What a run leaves in the ledger: each move once and in order, the same under asyncio and LangGraph."""

import asyncio
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from pointsman.capabilities import CapabilityRegistry, SelectionPolicy, capability
from pointsman.decision.engine import Engine
from pointsman.factory import build_engine, default_policy
from pointsman.orchestrator import Agent, Application, Progress, load_application
from pointsman.orchestrator.langgraph import build_graph, new_turn
from pointsman.orchestrator.machine import ClassifiedError, ErrorSeverity, Limits
from pointsman.runtime import Runtime
from pointsman.stores.ledger import Entry, MemoryLedger, RunEntry
from pointsman.stores.sessions import MemorySessions
from pointsman.testing import ScriptedModel
from pointsman.vocabulary import Prompt
from support.examples import share

EXAMPLE = Path(__file__).parents[2] / "examples" / "assistant.py"


async def no_wait(seconds: float) -> None:
    return


async def agree(name: str, step: Any) -> bool:
    return True


async def refuse(name: str, step: Any) -> bool:
    return False


@cache
def engine() -> Engine:
    return build_engine(default_policy())


def with_ledger(application: Application, ledger: MemoryLedger) -> Application:
    return application.configured(Runtime(engine(), sessions=MemorySessions(), ledger=ledger))


def driven(
    application: Application, said: str, ledger: MemoryLedger, *, allowed: bool = True
) -> list[Progress]:
    agent = Agent(with_ledger(application, ledger), approve=agree if allowed else refuse, sleep=no_wait)

    async def follow() -> list[Progress]:
        return [progress async for progress in agent.stream(said, session="s")]

    return asyncio.run(follow())


def graphed(
    application: Application, said: str, ledger: MemoryLedger, *, allowed: bool = True
) -> dict[str, Any]:
    graph = build_graph(with_ledger(application, ledger), checkpointer=InMemorySaver(), sleep=no_wait)
    config: Any = {"configurable": {"thread_id": "s"}}

    async def follow() -> dict[str, Any]:
        state: dict[str, Any] = await graph.ainvoke(new_turn(said), config)
        while "__interrupt__" in state:
            state = await graph.ainvoke(Command(resume=allowed), config)
        return state

    return asyncio.run(follow())


def the_run(ledger: MemoryLedger) -> tuple[RunEntry, ...]:
    [run] = ledger.runs()
    return run


def comparable(run: tuple[RunEntry, ...]) -> list[dict[str, Any]]:
    """A run without what differs between two runs of the same task."""
    fields = [name for name in RunEntry.__struct_fields__ if name not in {"run", "at"}]
    return [{name: getattr(entry, name) for name in fields} for entry in run]


def scripted(*severities: ErrorSeverity | None, plan: str = "act", **options: Any) -> Application:
    """One capability ``act``, which fails in turn as given, and a model that always plans ``plan``."""
    left = list(severities)

    async def work(step: Any, results: Any) -> str:
        if left and (severity := left.pop(0)):
            raise ClassifiedError(severity, "my password is secret")
        return "done"

    def answer(prompt: Prompt) -> str:
        if "Plan how" in prompt.system:
            return json.dumps({"steps": [{"capability": plan, "context_key": "done"}]})
        return '{"is_match": true}' if "one capability" in prompt.system else "fine"

    hollow = capability("hollow", "Activate for every action")(work)
    object.__setattr__(hollow, "work", None)
    registry = CapabilityRegistry([capability("act", "Activate for every action")(work), hollow])
    policy = SelectionPolicy(strategy="llm")  # type: ignore[arg-type]
    return Application(registry, ScriptedModel(answer), policy=policy, **options)


Make = Callable[[], Application]
RETRIABLE, REPLAN, RECLASSIFY = (
    ErrorSeverity.RETRIABLE,
    ErrorSeverity.REPLANNING,
    ErrorSeverity.RECLASSIFICATION,
)

RUNS: list[tuple[Make, str, bool, set[str]]] = [
    (lambda: load_application(EXAMPLE), "What is the weather like in Oslo?", True, {"move", "selection"}),
    (
        lambda: load_application(EXAMPLE),
        "What is 100 EUR in USD?",
        True,
        {"move", "retry", "selection"},
    ),
    (lambda: load_application(EXAMPLE), "Email Ida that I am late", True, {"move", "selection"}),
    (
        lambda: load_application(EXAMPLE),
        "Email Ida that I am late",
        False,
        {"move", "selection", "refusal"},
    ),
    (lambda: load_application(EXAMPLE), "/chat good morning", True, {"move"}),
    (lambda: load_application(EXAMPLE), "/caps:off What now?", False, {"move", "retry", "selection"}),
    (lambda: scripted(RETRIABLE, REPLAN), "act", True, {"move", "retry", "selection"}),
    (lambda: scripted(RECLASSIFY, RETRIABLE), "act", True, {"move", "retry", "selection"}),
    (lambda: scripted(ErrorSeverity.FATAL), "act", True, {"move", "selection"}),
    (lambda: scripted(plan="hollow"), "act", True, {"move", "selection", "refusal"}),
    (lambda: scripted(plan="unknown"), "act", True, {"move", "selection"}),
]


@pytest.mark.parametrize(("make", "said", "allowed", "kinds"), RUNS)
def test_asyncio_and_langgraph_leave_the_same_entries(
    make: Make, said: str, allowed: bool, kinds: set[str]
) -> None:
    plain, graph = MemoryLedger(), MemoryLedger()
    moves = [progress.move for progress in driven(make(), said, plain, allowed=allowed)]
    state = graphed(make(), said, graph, allowed=allowed)
    run = the_run(plain)
    assert comparable(run) == comparable(the_run(graph))
    assert state["control_run_id"] == the_run(graph)[0].run
    assert {entry.kind for entry in run} == kinds
    assert {entry.session for entry in run} == {"s"}
    assert [entry.number for entry in run] == list(range(1, len(run) + 1))
    assert [entry.node for entry in run if entry.kind in ("move", "retry")] == [move.next for move in moves]


def test_a_selection_is_recorded_with_its_scores_and_what_a_model_was_asked() -> None:
    ledger = MemoryLedger()
    driven(scripted(), "act", ledger)
    [selection] = [entry for entry in the_run(ledger) if entry.kind == "selection"]
    assert selection.selected == ("act", "hollow")
    assert selection.asked_model == ("act", "hollow")
    assert set(selection.scores) == {"act", "hollow"}


def test_a_refusal_names_the_step_and_why() -> None:
    ledger = MemoryLedger()
    driven(load_application(EXAMPLE), "Email Ida that I am late", ledger, allowed=False)
    refusals = [entry for entry in the_run(ledger) if entry.kind == "refusal"]
    assert [(entry.node, entry.code) for entry in refusals] == [("send_mail", "routing.refused.person")] * 2


def test_what_a_failure_says_is_kept_only_as_the_text_mode_says() -> None:
    silent, redacted = MemoryLedger(), MemoryLedger(text="redacted")
    for ledger in (silent, redacted):
        driven(scripted(RETRIABLE), "act", ledger)
        [retry] = [entry for entry in the_run(ledger) if entry.kind == "retry"]
        assert retry.detail == "act, retry 1 of 3"
        assert retry.delay == 0.5
    assert "secret" not in str(the_run(silent))
    assert "my password is [key]" not in str(the_run(silent))
    assert "my password is secret" in str(the_run(redacted))


def test_turns_of_a_conversation_are_runs_of_one_session() -> None:
    ledger = MemoryLedger()
    agent = Agent(with_ledger(load_application(EXAMPLE), ledger))
    first = asyncio.run(agent.run("/chat hello"))
    asyncio.run(agent.run("/chat and again", first))
    [second, begun] = ledger.runs()
    assert begun[0].session == begun[0].run == second[0].session != second[0].run
    assert [entry.number for entry in second] == [1, 2]


def test_a_graph_without_new_turn_has_a_run_too() -> None:
    ledger = MemoryLedger()
    graph = build_graph(with_ledger(scripted(), ledger))
    state = asyncio.run(graph.ainvoke({"messages": [{"role": "user", "content": "act"}]}))
    run = the_run(ledger)
    assert run[0].session == run[0].run == state["control_run_id"]
    assert run[-1].code == "routing.finished"


def test_a_step_that_is_done_again_after_a_crash_is_recorded_once() -> None:
    """The process dies in a step: the checkpoint is the one before it, and the run goes on from there."""
    ledger, left = MemoryLedger(), [True]

    class Killed(BaseException):
        """What ``except Exception`` does not catch."""

    async def dies_once(step: Any, results: Any) -> str:
        if left:
            left.pop()
            raise Killed
        return "done"

    app = scripted()
    dying = capability("act", "Activate for every action")(dies_once)
    app = Application(CapabilityRegistry([dying]), app.model, policy=app.policy)
    graph = build_graph(with_ledger(app, ledger), checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "s"}}

    async def follow() -> dict[str, Any]:
        with pytest.raises(Killed):
            await graph.ainvoke(new_turn("act"), config)
        state: dict[str, Any] = await graph.ainvoke(None, config)
        return state

    assert asyncio.run(follow())["control_outcome"] == "respond"
    plain = MemoryLedger()
    driven(app, "act", plain)
    assert comparable(the_run(ledger)) == comparable(the_run(plain))


def test_every_entry_is_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "pointsman.runs")
    ledger = MemoryLedger()
    driven(scripted(RETRIABLE), "act", ledger)
    run = the_run(ledger)
    assert [record.message.split()[:3] for record in caplog.records] == [
        [entry.run, f"{entry.number}:", entry.kind] for entry in run
    ]
    assert "secret" not in caplog.text


def test_without_a_runtime_nothing_is_recorded_and_the_run_is_the_same() -> None:
    ledger = MemoryLedger()
    recorded = driven(scripted(RETRIABLE), "act", ledger)[-1].state
    alone = asyncio.run(Agent(scripted(RETRIABLE), sleep=no_wait).run("act", session="s"))
    differ = {"control_run_id", "control_elapsed_seconds"}
    assert {key for key in alone if alone[key] != recorded[key]} <= differ


class Failing(MemoryLedger):
    """Raises, which no ledger may, where the pattern says so."""

    def __init__(self, pattern: list[bool]) -> None:
        super().__init__()
        self._pattern: Iterator[bool] = iter(pattern)

    def append(self, entry: Entry, /) -> None:
        if next(self._pattern, False):
            raise OSError("no space left on device")
        super().append(entry)


SEVERITIES = st.sampled_from([None, *ErrorSeverity])
LIMITS = st.builds(
    Limits,
    max_steps=st.integers(1, 12),
    max_planning_attempts=st.integers(1, 3),
    max_reclassifications=st.integers(0, 2),
    max_step_retries=st.integers(0, 2),
)


@given(
    severities=st.lists(SEVERITIES, max_size=8),
    plan=st.sampled_from(["act", "hollow", "unknown", "respond"]),
    limits=LIMITS,
    failing=st.lists(st.booleans(), max_size=12),
)
def test_every_move_of_a_random_run_is_recorded_once_and_in_order(
    severities: list[ErrorSeverity | None], plan: str, limits: Limits, failing: list[bool]
) -> None:
    """Where the ledger fails its entries are missing, and nothing else is: the run goes on as it would."""
    whole, ledger = MemoryLedger(), Failing(failing)
    app = with_ledger(scripted(*severities, plan=plan, limits=limits), whole)
    agent = Agent(app, sleep=no_wait)
    moves = [progress.move for progress in _stream(agent)]
    run = the_run(whole)
    taken = [entry for entry in run if entry.kind in ("move", "retry")]
    assert [(entry.node, entry.code, entry.delay) for entry in taken] == [
        (move.next, move.reason.code, move.delay) for move in moves
    ]
    assert [entry.number for entry in run] == list(range(1, len(run) + 1))

    broken = Agent(with_ledger(scripted(*severities, plan=plan, limits=limits), ledger), sleep=no_wait)
    assert [progress.move.next for progress in _stream(broken)] == [move.next for move in moves]
    lost = [at for at in range(len(run)) if at < len(failing) and failing[at]]
    expected = [entry for at, entry in enumerate(comparable(run)) if at not in lost]
    kept = [comparable(found) for found in ledger.runs()]
    assert kept == ([expected] if expected else [])
    assert broken.recorder.failures == len(lost)


@settings(max_examples=share(0.3))
@given(
    severities=st.lists(SEVERITIES, max_size=8),
    plan=st.sampled_from(["act", "hollow", "unknown", "respond"]),
    limits=LIMITS,
)
def test_a_random_run_leaves_the_same_entries_under_langgraph(
    severities: list[ErrorSeverity | None], plan: str, limits: Limits
) -> None:
    plain, graph = MemoryLedger(), MemoryLedger()
    driven(scripted(*severities, plan=plan, limits=limits), "act", plain)
    graphed(scripted(*severities, plan=plan, limits=limits), "act", graph)
    assert comparable(the_run(plain)) == comparable(the_run(graph))


def _stream(agent: Agent) -> list[Progress]:
    async def follow() -> list[Progress]:
        return [progress async for progress in agent.stream("act", session="s")]

    return asyncio.run(follow())

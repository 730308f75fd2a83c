"""Reasoning in a conversation that changes its provider: never sent to another one, and back at its own."""

from __future__ import annotations

import itertools
import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from pointsman.decision.decision import Injection, StandingInjection
from pointsman.stores.ledger import MemoryLedger
from pointsman.vocabulary import WireFormat
from support.strict_upstreams import CALLERS, CHAT, MESSAGES, RESPONSES, Caller, StrictUpstream
from support.switching import Switching, switching
from support.waiting import until

pytestmark = pytest.mark.integration

#: Which provider answers which request: each is left in the middle of a turn, and between two.
ORDER = (0, 0, 0, 1, 1, 0, 0, 1, 0, 0)
FORMATS = (CHAT, RESPONSES, MESSAGES)
WAYS = [way for way in itertools.product(FORMATS, repeat=3) if way[1:] != (CHAT, CHAT)]


def written(provider: StrictUpstream) -> int:
    """How many pieces of reasoning one answer of a provider holds."""
    return {MESSAGES: 2, RESPONSES: 1, CHAT: 0}[provider.wire]


@pytest.mark.parametrize(("caller", "first", "second"), WAYS)
def test_each_provider_gets_its_own_reasoning_back(
    caller: WireFormat, first: WireFormat, second: WireFormat
) -> None:
    with switching(first, second) as running:
        for words, stream in itertools.product((True, False), repeat=2):
            for provider in running.providers:
                provider.words = words
            run(running, CALLERS[caller](), f"{words}-{stream}", stream=stream)


def run(running: Switching, agent: Caller, session: str, *, stream: bool) -> None:
    """Let the providers answer in turn; each request must hold all reasoning of its own, and no other."""
    thought = [0, 0]  # answers that hold reasoning
    for number in ORDER:
        provider = running.providers[number]
        running.ask(agent, number, stream=stream, **{"x-session-id": session})
        back = provider.returned[-1]
        assert len(back) == len(set(back)) == thought[number] * written(provider), (number, session)
        thought[number] += provider.thought[-1]
    assert max(thought) >= 3, "it goes on thinking"


@pytest.mark.parametrize("provider", [MESSAGES, RESPONSES])
def test_a_conversation_at_one_provider_keeps_its_bytes(provider: WireFormat) -> None:
    """Also in front of others, and with reasoning that nobody signed."""
    agent = CALLERS[provider]()
    with switching(provider, CHAT) as running:
        for _ in range(4):
            got = running.ask(agent, 0, stream=False)
            sent = running.providers[0].server.asked[-1].body
            assert sent == running.sent.replace(b'"m0"', b'"model-0"', 1)
            assert "x-pointsman-translated" not in got.headers


def test_what_is_left_out_is_reported() -> None:
    agent = CALLERS[MESSAGES]()
    with switching(MESSAGES, MESSAGES) as running:
        running.ask(agent, 0, stream=False)
        got = running.ask(agent, 1, stream=False)
        changed = "messages->messages; changed=thinking_history,thinking_off"
        assert got.headers["x-pointsman-translated"] == changed
        ledger = running.decider.ledger
        assert isinstance(ledger, MemoryLedger)
        until(lambda: ledger.attempts("d-2"))
        assert ledger.attempts("d-2")[0].translated == changed
        assert running.providers[1].thought == [False]
        got = running.ask(agent, 0, stream=False)
        assert "x-pointsman-translated" not in got.headers, "its own turns alone"


def test_a_text_of_an_answer_that_the_caller_began_leaves_the_request_whole() -> None:
    """Such a message takes no text, and another edit takes its reasoning out."""
    agent = CALLERS[MESSAGES]()
    with switching(MESSAGES, MESSAGES) as running:
        running.ask(agent, 0, stream=False)
        running.decider.standing = (StandingInjection(1, (Injection("domains", "Run the tests."),)),)
        running.ask(agent, 1, stream=False)
        arrived = json.loads(running.providers[1].server.asked[-1].body)["messages"]
    sent = json.loads(running.sent)["messages"]
    assert {block["type"] for block in sent[1]["content"]} & {"thinking", "redacted_thinking"}
    left = [each for each in sent[1]["content"] if each["type"] not in {"thinking", "redacted_thinking"}]
    assert arrived == [sent[0], {**sent[1], "content": left}, *sent[2:]]


def test_a_text_behind_reasoning_that_is_left_out_goes_with_it() -> None:
    """Both edits were applied, and the request was no JSON."""
    agent = CALLERS[RESPONSES]()
    with switching(RESPONSES, RESPONSES) as running:
        running.ask(agent, 0, stream=False)
        running.decider.standing = (StandingInjection(1, (Injection("domains", "Run the tests."),)),)
        running.ask(agent, 1, stream=False)
        arrived = json.loads(running.providers[1].server.asked[-1].body)["input"]
    sent = json.loads(running.sent)["input"]
    assert sent[1]["type"] == "reasoning"
    assert arrived == [each for each in sent if each.get("type") != "reasoning"]


@pytest.mark.parametrize("provider", [MESSAGES, RESPONSES])
def test_translated_reasoning_is_left_out_also_after_a_restart(provider: WireFormat) -> None:
    """Beside signed reasoning what nobody signed is another provider's."""
    agent = CALLERS[provider]()
    with switching(provider, CHAT if provider is RESPONSES else RESPONSES) as running:
        for number in (0, 0, 1, 1):
            running.ask(agent, number, stream=False)
        with running.served():
            for _ in range(3):
                running.ask(agent, 0, stream=False)


@pytest.mark.parametrize("caller", FORMATS)
def test_a_model_that_thinks_once_a_turn_keeps_thinking(caller: WireFormat) -> None:
    agent = CALLERS[caller]()
    with switching(MESSAGES, CHAT) as running:
        provider = running.providers[0]
        provider.rounds, provider.thinks_once = 3, True
        for number in range(8):
            running.ask(agent, 0, stream=bool(number % 2))
            assert len(provider.returned[-1]) == 2 * ((number + 3) // 4)
        assert all(provider.thought)


def test_a_caller_may_go_on_as_soon_as_it_has_the_closing_mark() -> None:
    """The provider's connection may end later than the answer."""
    agent = CALLERS[CHAT]()
    with switching(MESSAGES) as running:
        provider = running.providers[0]
        provider.lingers = True
        url = running.url + agent.path
        headers = {"content-type": "application/json"}
        body = agent.body("m0", stream=True)
        with httpx.stream("POST", url, content=body, headers=headers, trust_env=False) as first:
            received, pieces = b"", first.iter_bytes()
            while b"[DONE]" not in received:
                received += next(pieces)
            agent.take(received, stream=True)
            provider.lingers = False
            running.ask(agent, 0, stream=False)
            assert len(provider.returned[-1]) == 2


def test_sessions_side_by_side_keep_apart() -> None:
    agents = [CALLERS[caller]() for caller in FORMATS for _ in range(3)]
    with switching(MESSAGES, RESPONSES) as running, ThreadPoolExecutor(len(agents)) as pool:

        def go(number: int) -> None:
            for turn in range(6):
                headers = {"x-session-id": str(number)}
                running.ask(agents[number], (turn // 2 + number) % 2, stream=bool(turn % 2), **headers)

        for done in [pool.submit(go, number) for number in range(len(agents))]:
            done.result()

"""Reasoning in a conversation that changes its provider: never sent to another one, and back at its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial

import httpx
import pytest

from pointsman.decision.decision import Decision
from pointsman.gateway._live_state import LiveState, build_live_state
from pointsman.stores.ledger import MemoryLedger
from pointsman.testing import ScriptedDecider
from pointsman.upstreams.port import ServerSpec, Timeouts, UpstreamSpec
from pointsman.vocabulary import AgentRequest, ModelSpec, WireFormat
from pointsman.wire.translate import translated_formats
from support.servers import gateway
from support.strict_upstreams import CALLERS, CHAT, MESSAGES, RESPONSES, Caller, StrictUpstream
from support.waiting import until

pytestmark = pytest.mark.integration

#: Which provider answers which request: each is left in the middle of a turn, and between two.
ORDER = (0, 0, 0, 1, 1, 0, 0, 1, 0, 0)
FORMATS = (CHAT, RESPONSES, MESSAGES)
WAYS = [way for way in itertools.product(FORMATS, repeat=3) if way[1:] != (CHAT, CHAT)]


class Named(ScriptedDecider):
    """Lets the model answer that a request names."""

    async def decide(self, request: AgentRequest) -> Decision:
        self.chain = (request.model,)
        return await super().decide(request)


class Switching:
    """A gateway in front of strict providers, and an agent in front of it."""

    def __init__(
        self, build: Callable[[], LiveState], decider: Named, providers: list[StrictUpstream]
    ) -> None:
        self.url = ""
        self.decider = decider
        self.providers = providers
        self.sent = b""  # the last request
        self._build = build

    @contextmanager
    def served(self) -> Iterator[Switching]:
        """Start a gateway that knows of nothing yet."""
        with gateway(self._build()) as running:
            self.url = running.url
            yield self

    def ask(self, caller: Caller, provider: int, *, stream: bool, **headers: str) -> httpx.Response:
        """Let a provider answer the next request of an agent."""
        sent = {"content-type": "application/json", **headers}
        body = self.sent = caller.body(f"m{provider}", stream=stream)
        got = httpx.post(self.url + caller.path, content=body, headers=sent, trust_env=False)
        assert got.status_code == 200, got.text
        caller.take(got.content, stream=stream)
        return got


@contextmanager
def switching(*formats: WireFormat) -> Iterator[Switching]:
    """One strict provider of each format: m0, m1, …"""
    providers = [StrictUpstream(f"p{n}", wire) for n, wire in enumerate(formats)]
    times = Timeouts(connect=30.0, first_byte=60.0, total=60.0)
    with ExitStack() as stack:
        specs, models = {}, {}
        for n, provider in enumerate(providers):
            url = stack.enter_context(provider.server.running())
            spoken = frozenset({provider.wire})
            specs[f"up{n}"] = UpstreamSpec(f"up{n}", f"{url}/v1", timeouts=times, retries=0, formats=spoken)
            models[f"m{n}"] = ModelSpec(
                f"m{n}", f"up{n}", f"model-{n}", formats=spoken, translated=translated_formats(spoken)
            )
        decider = Named()
        build = partial(build_live_state, decider, models, specs, ServerSpec(port=0))
        yield stack.enter_context(Switching(build, decider, providers).served())


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


def test_sessions_side_by_side_keep_apart() -> None:
    agents = [CALLERS[caller]() for caller in FORMATS for _ in range(3)]
    with switching(MESSAGES, RESPONSES) as running, ThreadPoolExecutor(len(agents)) as pool:

        def go(number: int) -> None:
            for turn in range(6):
                headers = {"x-session-id": str(number)}
                running.ask(agents[number], (turn // 2 + number) % 2, stream=bool(turn % 2), **headers)

        for done in [pool.submit(go, number) for number in range(len(agents))]:
            done.result()

"""Reasoning in a conversation that changes its provider: never sent to another one, and back at its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from pointsman.gateway._live_state import build_live_state
from pointsman.testing import ScriptedDecider
from pointsman.upstreams.port import ServerSpec, Timeouts, UpstreamSpec
from pointsman.vocabulary import ModelSpec, WireFormat
from pointsman.wire.translate import translated_formats
from support.servers import gateway
from support.strict_upstreams import CALLERS, CHAT, MESSAGES, RESPONSES, Caller, StrictUpstream

pytestmark = pytest.mark.integration

#: Which provider answers which request: each is left in the middle of a turn, and between two.
ORDER = (0, 0, 0, 1, 1, 0, 0, 1, 0, 0)
FORMATS = (CHAT, RESPONSES, MESSAGES)
WAYS = [
    (caller, *pair)
    for caller in FORMATS
    for pair in itertools.product(FORMATS, repeat=2)
    if caller not in pair and pair != (CHAT, CHAT)
]


class Switching:
    """A gateway in front of strict providers, and an agent in front of it."""

    def __init__(self, url: str, decider: ScriptedDecider, providers: list[StrictUpstream]) -> None:
        self.url = url
        self.decider = decider
        self.providers = providers

    def ask(self, caller: Caller, provider: int, *, stream: bool, **headers: str) -> httpx.Response:
        """Let a provider answer the next request of an agent."""
        self.decider.chain = (f"m{provider}",)
        sent = {"content-type": "application/json", **headers}
        got = httpx.post(
            self.url + caller.path, content=caller.body(stream=stream), headers=sent, trust_env=False
        )
        assert got.status_code == 200, got.text
        caller.take(got.content, stream=stream)
        return got


@contextmanager
def switching(*formats: WireFormat, words: bool = True) -> Iterator[Switching]:
    """One strict provider of each format: m0, m1, …"""
    providers = [StrictUpstream(f"p{n}", wire, words=words) for n, wire in enumerate(formats)]
    times = Timeouts(connect=30.0, first_byte=60.0, total=60.0)
    with ExitStack() as stack:
        specs, models = {}, {}
        for n, provider in enumerate(providers):
            url = stack.enter_context(provider.server.running())
            spoken = frozenset({provider.wire})
            specs[f"up{n}"] = UpstreamSpec(
                name=f"up{n}", base_url=f"{url}/v1", timeouts=times, retries=0, formats=spoken
            )
            models[f"m{n}"] = ModelSpec(
                f"m{n}", f"up{n}", f"model-{n}", formats=spoken, translated=translated_formats(spoken)
            )
        decider = ScriptedDecider("m0")
        state = build_live_state(decider, models, specs, ServerSpec(port=0))
        running = stack.enter_context(gateway(state))
        yield Switching(running.url, decider, providers)


def written(provider: StrictUpstream) -> int:
    """How many pieces of reasoning one answer of a provider holds."""
    return {MESSAGES: 2, RESPONSES: 1, CHAT: 0}[provider.wire]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("words", [False, True], ids=["hidden", "shown"])
@pytest.mark.parametrize(("caller", "first", "second"), WAYS)
def test_each_provider_gets_its_own_reasoning_back(
    caller: WireFormat, first: WireFormat, second: WireFormat, words: bool, stream: bool
) -> None:
    agent = CALLERS[caller]()
    with switching(first, second, words=words) as running:
        thought = [0, 0]  # answers that hold reasoning
        for number in ORDER:
            provider = running.providers[number]
            running.ask(agent, number, stream=stream)
            back = provider.returned[-1]
            assert len(back) == len(set(back)) == thought[number] * written(provider), (number, back)
            thought[number] += provider.thought[-1]
    assert max(thought) >= 3, "it goes on thinking"

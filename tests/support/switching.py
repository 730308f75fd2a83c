"""A gateway in front of strict providers, each asked by the name of its model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import httpx

from pointsman.access import PaidQuestions
from pointsman.config import Config
from pointsman.decision.decision import Decision
from pointsman.gateway._live_state import LiveState, build_live_state
from pointsman.upstreams.port import ServerSpec, Timeouts, UpstreamSpec
from pointsman.vocabulary import AgentRequest, ModelSpec, WireFormat
from pointsman.wire.translate import translated_formats
from support.deciders import ScriptedDecider
from support.servers import gateway
from support.strict_upstreams import Caller, StrictUpstream

__all__ = ["Switching", "switching"]


class Named(ScriptedDecider):
    """Lets the model answer that a request names."""

    async def decide(self, request: AgentRequest, payer: PaidQuestions | None = None, /) -> Decision:
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
        config = Config(models=models, upstreams=specs, server=ServerSpec(port=0))
        build = partial(build_live_state, decider, config)
        yield stack.enter_context(Switching(build, decider, providers).served())

"""What the OpenAI and Anthropic SDKs make of errors, and that leaving them ends the upstream's work."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import anthropic
import openai
import pytest

from pointsman.decision.policy import Policy
from pointsman.factory import build_engine
from pointsman.gateway import _circuit_breaker as circuit_breaker
from pointsman.gateway import _failures as retry
from pointsman.runtime import Runtime
from pointsman.stores.ledger import MemoryLedger
from pointsman.stores.sessions import MemorySessions
from pointsman.tiers import builtin_profile
from pointsman.upstreams.port import ServerSpec, hash_key
from pointsman.vocabulary import Tier
from support.requests_by_format import start_stream
from support.scripted_formats import SPOKEN, Spoken
from support.servers import Answering, Asked, ScriptedUpstream, gateway, reply, state_for
from support.waiting import until

pytestmark = pytest.mark.integration

WORDS: Any = [{"role": "user", "content": "What is the capital of France?"}]


class Sdk(NamedTuple):
    """One format as its SDK speaks it. ``ask`` works with the synchronous and the asynchronous client."""

    errors: Any  # the module with the exceptions
    client: Callable[..., Any]
    client_async: Callable[..., Any]
    version: str  # what the base URL ends in
    ask: Callable[..., Any]
    wrong: dict[str, Any]  # a field of the wrong type, as the SDK lets it pass

    def at(self, url: str, **more: Any) -> Any:
        """A client that leaves retrying to the gateway."""
        return self.client(base_url=url + self.version, **{"api_key": "unused", "max_retries": 0, **more})

    def at_async(self, url: str, **more: Any) -> Any:
        """The same, asynchronous."""
        return self.client_async(base_url=url + self.version, api_key="unused", max_retries=0, **more)


def ask_chat(client: Any, **more: Any) -> Any:
    return client.chat.completions.create(**{"model": "auto", "messages": WORDS, **more})


def ask_responses(client: Any, **more: Any) -> Any:
    return client.responses.create(**{"model": "auto", "input": WORDS, **more})


def ask_messages(client: Any, **more: Any) -> Any:
    return client.messages.create(**{"model": "auto", "max_tokens": 9, "messages": WORDS, **more})


OPENAI = (openai, openai.OpenAI, openai.AsyncOpenAI, "/v1")
SDKS = {
    "chat": Sdk(*OPENAI, ask_chat, {"messages": "hello"}),
    "responses": Sdk(*OPENAI, ask_responses, {"input": 5}),
    "messages": Sdk(
        anthropic, anthropic.Anthropic, anthropic.AsyncAnthropic, "", ask_messages, {"messages": "hello"}
    ),
}


@pytest.fixture(params=SDKS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def sdk(name: str) -> Sdk:
    return SDKS[name]


@pytest.fixture
def spoken(name: str) -> Spoken:
    return SPOKEN[name]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_FIRST", 0.001)


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    """A gateway that decides for itself and asks for a key, before the demo upstream."""
    state = state_for(server=ServerSpec(port=0, keys=(hash_key("right"),)))
    models = {name: target.model for name, target in state.targets.items()}
    policy = Policy(profile=builtin_profile("default"), models=models, tier_models=dict.fromkeys(Tier, "m0"))
    runtime = Runtime(build_engine(policy), sessions=MemorySessions(), ledger=MemoryLedger())
    with gateway(replace(state, runtime=runtime)) as running:
        yield running.url


def test_a_wrong_key(sdk: Sdk, guarded: str) -> None:
    with sdk.at(guarded, api_key="wrong") as client, pytest.raises(sdk.errors.AuthenticationError) as raised:
        sdk.ask(client)
    assert "unknown API key" in str(raised.value)
    with sdk.at(guarded, api_key="right") as client:
        assert sdk.ask(client).usage


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_unknown_model_names_the_known_ones(sdk: Sdk, guarded: str, stream: bool) -> None:
    with sdk.at(guarded, api_key="right") as client, pytest.raises(sdk.errors.NotFoundError) as raised:
        sdk.ask(client, model="gpt-7", stream=stream)
    assert 'unknown model "gpt-7"; known: auto, simple, medium, complex, reasoning, m0' in str(raised.value)
    if sdk.errors is openai:
        assert (raised.value.code, raised.value.param) == ("model_not_found", "model")


def test_a_field_of_the_wrong_type(sdk: Sdk, guarded: str) -> None:
    with sdk.at(guarded, api_key="right") as client, pytest.raises(sdk.errors.BadRequestError) as raised:
        sdk.ask(client, **sdk.wrong)
    [field] = sdk.wrong
    assert f"`$.{field}` of the request body" in str(raised.value)
    if sdk.errors is openai:
        assert raised.value.param == field


@contextmanager
def through(sdk: Sdk, answering: Answering, **client: Any) -> Iterator[tuple[Any, ScriptedUpstream]]:
    """A client, and the upstream that a gateway between them asks up to three times."""
    upstream = ScriptedUpstream(answering)
    with (
        upstream.running() as url,
        gateway(state_for(f"{url}/v1", retries=2)) as running,
        sdk.at(running.url, **client) as made,
    ):
        yield made, upstream


def test_too_many_requests_say_when_to_come_back(sdk: Sdk) -> None:
    """A wait longer than anybody's patience is passed on: with the time, and for the SDK to retry or not."""

    async def busy(asked: Asked, send: Any) -> None:
        said = b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}'
        json_type = ("content-type", "application/json")
        await reply(send, 429, said, json_type, ("retry-after", "61"))

    with through(sdk, busy) as (client, upstream), pytest.raises(sdk.errors.RateLimitError) as raised:
        sdk.ask(client)
    assert "slow down" in str(raised.value)
    assert raised.value.response.headers["retry-after"] == "61"
    assert len(upstream.asked) == 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_gateway_has_retried_and_the_sdk_does_not_again(sdk: Sdk, stream: bool) -> None:
    async def broken(asked: Asked, send: Any) -> None:
        await reply(send, 500, b"oops")

    with (
        through(sdk, broken, max_retries=2) as (client, upstream),
        pytest.raises(sdk.errors.InternalServerError) as raised,
    ):
        sdk.ask(client, stream=stream)
    assert len(upstream.asked) == 3
    assert raised.value.response.headers["x-pointsman-attempts"] == "3"
    assert 'upstream "up0" answered with status 500' in str(raised.value)


def pieces(spoken: Spoken) -> Iterator[bytes]:
    """A stream cut after each of its events but the last, and in the middle of each but the first."""
    events = spoken.events
    last = next(place for place, event in enumerate(events) if spoken.closing in event)
    for kept in range(1, last + 1):
        whole = b"".join(events[:kept])
        yield whole
        if kept < len(events):
            yield whole + events[kept][: len(events[kept]) // 2]


def test_a_cut_stream_never_looks_complete(sdk: Sdk, spoken: Spoken, monkeypatch: pytest.MonkeyPatch) -> None:
    """After whatever event the upstream dies, reading the stream to its end raises."""
    monkeypatch.setattr(circuit_breaker, "_LEAST", 1_000)
    cuts = list(pieces(spoken))
    left = iter(cuts)

    async def dying(asked: Asked, send: Any) -> None:
        await start_stream(send, next(left))
        raise ConnectionError

    with through(sdk, dying) as (client, _):
        for _ in cuts:
            with pytest.raises(sdk.errors.APIError, match="broke off"):
                list(sdk.ask(client, stream=True))


STREAMING: dict[str, Callable[[Any], Any]] = {
    "chat": lambda client: client.chat.completions.stream(model="auto", messages=WORDS),
    "responses": lambda client: client.responses.stream(model="auto", input=WORDS),
    "messages": lambda client: client.messages.stream(model="auto", max_tokens=9, messages=WORDS),
}
FINAL = {"chat": "get_final_completion", "responses": "get_final_response", "messages": "get_final_message"}


def test_no_final_answer_is_put_together_from_a_cut_stream(name: str, sdk: Sdk, spoken: Spoken) -> None:
    """The helpers that collect a stream: nothing is returned for half of one."""

    async def dying(asked: Asked, send: Any) -> None:
        await start_stream(send, *spoken.events[:-1])
        raise ConnectionError

    async def collect(url: str) -> None:
        async with sdk.at_async(url) as client, STREAMING[name](client) as stream:
            await getattr(stream, FINAL[name])()

    with through(sdk, dying) as (client, _):
        with pytest.raises(sdk.errors.APIError, match="broke off"), STREAMING[name](client) as stream:
            getattr(stream, FINAL[name])()
        with pytest.raises(sdk.errors.APIError, match="broke off"):
            asyncio.run(collect(str(client.base_url).removesuffix("/").removesuffix("/v1")))


def endless(spoken: Spoken) -> ScriptedUpstream:
    """An upstream that thinks for ever; when streaming, after some events."""

    async def think(asked: Asked, send: Any) -> None:
        if json.loads(asked.body).get("stream"):
            await start_stream(send, *spoken.events[:3])
        await asked.disconnected.wait()

    return ScriptedUpstream(think)


def leave_a_stream(sdk: Sdk, url: str, upstream: ScriptedUpstream) -> None:
    with sdk.at(url) as client:
        stream = sdk.ask(client, stream=True)
        next(iter(stream))
        stream.close()
        assert upstream.closed.wait(60), "while the client itself stays open"


def leave_an_answer(sdk: Sdk, url: str, upstream: ScriptedUpstream) -> None:
    """The only way out of a call that blocks is its timeout."""
    with sdk.at(url, timeout=3) as client:
        with pytest.raises(sdk.errors.APITimeoutError):
            sdk.ask(client)
        assert upstream.closed.wait(60)


def leave_a_stream_async(sdk: Sdk, url: str, upstream: ScriptedUpstream) -> None:
    async def leave() -> None:
        async with sdk.at_async(url) as client:
            stream = await sdk.ask(client, stream=True)
            await anext(aiter(stream))
            await stream.close()
            assert await asyncio.to_thread(upstream.closed.wait, 60)

    asyncio.run(leave())


def cancel_an_answer_async(sdk: Sdk, url: str, upstream: ScriptedUpstream) -> None:
    async def leave() -> None:
        async with sdk.at_async(url) as client:
            asking = asyncio.create_task(sdk.ask(client))
            await asyncio.to_thread(until, lambda: upstream.asked)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            assert await asyncio.to_thread(upstream.closed.wait, 60)

    asyncio.run(leave())


@pytest.mark.parametrize(
    "leave", [leave_a_stream, leave_an_answer, leave_a_stream_async, cancel_an_answer_async]
)
def test_leaving_ends_the_upstreams_work(
    sdk: Sdk, spoken: Spoken, leave: Callable[[Sdk, str, ScriptedUpstream], None]
) -> None:
    upstream = endless(spoken)
    with upstream.running() as url, gateway(state_for(f"{url}/v1", retries=2)) as running:
        leave(sdk, running.url, upstream)
    assert len(upstream.asked) == 1

"""A conversation continued by ``previous_response_id`` is decided as one that is sent whole each time."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from pointsman.config import Config
from pointsman.decision.policy import Policy
from pointsman.factory import build_engine, default_policy
from pointsman.gateway._conversation_memory import ConversationMemory
from pointsman.gateway._live_state import build_live_state
from pointsman.gateway.upstream import Target, Upstream
from pointsman.guidance import GuidancePolicy
from pointsman.runtime import Runtime
from pointsman.stores.ledger import MemoryLedger
from pointsman.stores.sessions import MemorySessions
from pointsman.tiers import builtin_profile
from pointsman.upstreams.connections import Connections
from pointsman.upstreams.port import DEMO_URL, ServerSpec, UpstreamSpec
from pointsman.vocabulary import Mode, ModelSpec, Tier, WireFormat
from pointsman.wire import FORMATS, Body, sse
from pointsman.wire.request import read_request
from support.requests_by_format import start_stream
from support.servers import Asked, Running, ScriptedUpstream, gateway, reply

wire = pytest.mark.integration

FAILED = "Error: command not found: pytset"
WORDS = "run the tests"
TOOL = {"type": "function", "name": "bash", "parameters": {"type": "object"}}
HINT = "<pointsman"
RESPONSES = FORMATS[WireFormat.RESPONSES]


def call(number: int) -> dict[str, Any]:
    """What the model answers each time: the same command again."""
    return {
        "type": "function_call",
        "id": f"fc_{number}",
        "call_id": f"c{number}",
        "name": "bash",
        "arguments": '{"c": "pytset"}',
        "status": "completed",
    }


def output(number: int) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": f"c{number}", "output": FAILED}


def said(words: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}]}


class Stuck:
    """An upstream whose model thinks, and then calls the same tool again and again."""

    def __init__(self) -> None:
        self.number = 0

    async def __call__(self, asked: Asked, send: Any) -> None:
        number, self.number = self.number, self.number + 1
        thought = {"type": "reasoning", "id": f"rs_{number}", "summary": []}
        whole = {"id": f"resp_{number}", "object": "response", "output": [thought, call(number)]}
        if not json.loads(asked.body).get("stream"):
            await reply(send, 200, json.dumps(whole).encode())
            return
        first: dict[str, Any] = {"type": "response.created", "response": {**whole, "output": []}}
        last: dict[str, Any] = {"type": "response.completed", "response": whole}
        await start_stream(send, *(sse.event(json.dumps(e).encode(), e["type"]) for e in (first, last)))
        await send({"type": "http.response.body", "body": b": thank you\n\n"})


@contextmanager
def served(
    *urls: str, models: dict[str, str] | None = None, **tier_models: str
) -> Iterator[tuple[Running, MemoryLedger]]:
    """A gateway that guides, with an upstream for each address, and models by the upstream they are at."""
    upstreams = {f"up{n}": UpstreamSpec(f"up{n}", url, retries=0) for n, url in enumerate(urls)}
    placed = {name: ModelSpec(name, up, name) for name, up in (models or {"small": "up0"}).items()}
    policy = Policy(
        profile=builtin_profile("default"),
        models=placed,
        tier_models={tier: tier_models.get(tier.lower(), "small") for tier in Tier},
        domains=default_policy().domains,
        guidance=GuidancePolicy(mode=Mode.ON, control=0.0, escalate=()),
    )
    ledger = MemoryLedger()
    runtime = Runtime(build_engine(policy), sessions=MemorySessions(), ledger=ledger)
    config = Config(models=placed, upstreams=upstreams, server=ServerSpec(port=0))
    with gateway(build_live_state(runtime, config)) as running:
        yield running, ledger


def post(running: Running, stream: bool = False, **body: Any) -> httpx.Response:
    asked = {"model": "auto", "tools": [TOOL], "stream": stream, **body}
    got = httpx.post(f"{running.url}/v1/responses", json=asked, trust_env=False)
    assert got.status_code == 200, got.text
    return got


def chained(running: Running, number: int, stream: bool) -> httpx.Response:
    if not number:
        return post(running, stream, input=WORDS)
    return post(running, stream, input=[output(number - 1)], previous_response_id=f"resp_{number - 1}")


def resent(running: Running, number: int, stream: bool) -> httpx.Response:
    items: list[Any] = [said(WORDS)]
    for done in range(number):
        items += [{"type": "reasoning", "id": f"rs_{done}", "summary": []}, call(done), output(done)]
    return post(running, stream, input=items)


def conversing(running: Running, number: int, stream: bool) -> httpx.Response:
    asked = [output(number - 1)] if number else WORDS
    return post(running, stream, input=asked, conversation={"id": "conv_1"})


def decided(how: Callable[..., httpx.Response], *, stream: bool) -> tuple[list[Any], list[str]]:
    """Six requests of a stuck agent: what was decided of each, and the bodies that went up."""
    upstream = ScriptedUpstream(Stuck())
    with upstream.running() as url, served(f"{url}/v1") as (running, ledger):
        ids = [how(running, number, stream).headers["x-pointsman-decision-id"] for number in range(6)]
        found = [ledger.get(wanted) for wanted in ids]
    return found, [asked.body.decode() for asked in upstream.asked]


@wire
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("how", [chained, conversing])
def test_decided_as_if_sent_whole(how: Callable[..., httpx.Response], stream: bool) -> None:
    here, sent = decided(how, stream=stream)
    there, _ = decided(resent, stream=stream)
    assert [HINT in body for body in sent] == [False, False, False, True, False, False], "once, at the third"
    assert len({decision.input.session for decision in here}) == 1
    for one, other in zip(here, there, strict=True):
        assert one.tier == other.tier
        assert one.input.signals == other.input.signals
        assert one.input.user_message == other.input.user_message == 1
        assert one.domains == other.domains
        assert one.input.steps == other.input.steps
        assert bool(one.guidance.firing) == bool(other.guidance.firing)
        assert [a.source for a in one.injections] == [a.source for a in other.injections]


@wire
def test_a_new_question_in_the_chain_is_one(tmp_path: Any) -> None:
    upstream = ScriptedUpstream(Stuck())
    with upstream.running() as url, served(f"{url}/v1") as (running, ledger):
        for number in range(3):
            chained(running, number, stream=False)
        got = post(running, input=[output(2), said("Stop.")], previous_response_id="resp_2")
        found = ledger.get(got.headers["x-pointsman-decision-id"])
    assert found is not None
    assert found.input.user_message == 2
    assert found.input.person_spoke
    assert HINT not in upstream.asked[-1].body.decode(), "a person took over"


@wire
def test_two_who_use_one_agent_share_no_session() -> None:
    """Unknown responses, as after a restart: tools and instructions are alike, nothing is shared."""
    with served(DEMO_URL) as (running, ledger):
        ids = [
            post(running, input=[output(0)], previous_response_id=f"resp_{name}").headers[
                "x-pointsman-decision-id"
            ]
            for name in ("mine", "yours", "mine")
        ]
        sessions = [found.input.session for wanted in ids if (found := ledger.get(wanted))]
        metrics = httpx.get(f"{running.url}/metrics", trust_env=False).text
    assert sessions[0] != sessions[1]
    assert sessions[0] == sessions[2]
    assert 'pointsman_continued_total{before="unknown"} 3' in metrics


@wire
def test_a_named_session_stays_the_callers() -> None:
    upstream = ScriptedUpstream(Stuck())
    with upstream.running() as url, served(f"{url}/v1") as (running, ledger):
        post(running, input=WORDS)
        got = httpx.post(
            f"{running.url}/v1/responses",
            json={"model": "auto", "input": [output(0)], "previous_response_id": "resp_0"},
            headers={"x-session-id": "mine"},
            trust_env=False,
        )
        found = ledger.get(got.headers["x-pointsman-decision-id"])
    assert found is not None
    assert found.input.session == "mine"


LONG = "infinitely many primes " * 60  # an agent's request is judged by its length


@wire
@pytest.mark.parametrize("asked", ["auto", "large"])
def test_a_chain_stays_where_it_is_kept(asked: str) -> None:
    """Another upstream has never seen the response: only a caller who names a model of it is sent there."""
    here, there = ScriptedUpstream(Stuck()), ScriptedUpstream(Stuck())
    with here.running() as one, there.running() as two:
        models = {"small": "up0", "large": "up1"}
        with served(f"{one}/v1", f"{two}/v1", models=models, complex="large") as (running, _):
            assert post(running, input="Hello!").headers["x-pointsman-model"] == "small"
            got = post(running, model=asked, input=LONG, previous_response_id="resp_0")
            alone = post(running, input=LONG)
    assert alone.headers["x-pointsman-model"] == "large"
    assert got.headers["x-pointsman-model"] == ("large" if asked == "large" else "small")


def kept(conversations: ConversationMemory, name: str, words: str, **body: Any) -> None:
    """Remember a response as the gateway does."""
    raw = json.dumps({"model": "auto", "input": words, **body}).encode()
    agent_request = read_request(WireFormat.RESPONSES, raw, session=f"s-{name}", arrived_at=1_000.0)
    spec = UpstreamSpec("up", DEMO_URL)
    target = Target(ModelSpec("m", "up", "m"), Upstream(spec, Connections()(spec)), b'"m"', b"m")
    conversations.keep_response(
        agent_request, Body(RESPONSES, raw), target, [json.dumps({"id": name, "output": []}).encode()]
    )


def session_of(conversations: ConversationMemory, name: str, now: float = 1_000.0) -> str:
    raw = json.dumps({"input": "x", "previous_response_id": name}).encode()
    link = conversations.continued(Body(RESPONSES, raw), now)
    assert link is not None
    return link.session


def test_what_is_not_stored_upstream_is_not_kept_here() -> None:
    conversations = ConversationMemory()
    kept(conversations, "one", "x", store=False)
    kept(conversations, "two", "x", store=True, conversation=None)
    assert len(conversations) == 1


def test_the_one_unused_longest_makes_room() -> None:
    conversations = ConversationMemory(size=20_000)
    for name in ("one", "two", "three", "four"):
        kept(conversations, name, "x" * 2_000)
    assert session_of(conversations, "one") == "s-one"
    kept(conversations, "five", "x" * 2_000)
    assert session_of(conversations, "two").startswith("r-")
    rest = ("one", "three", "four", "five")
    assert {session_of(conversations, name) for name in rest} == {f"s-{name}" for name in rest}
    held = conversations.held
    kept(conversations, "five", "x" * 20_000)
    assert session_of(conversations, "five").startswith("r-"), "one that is larger than its room is not kept"
    assert session_of(conversations, "one") == "s-one"
    assert conversations.held < held


def test_a_response_is_forgotten_after_a_day() -> None:
    conversations = ConversationMemory()
    kept(conversations, "one", "x")
    assert session_of(conversations, "one", now=1_000.0 + 86_000) == "s-one"
    assert session_of(conversations, "one", now=1_000.0 + 87_000).startswith("r-")


@pytest.mark.parametrize("named", ["null", '""', "7", '["resp_1"]', '{"id": 7}'])
def test_a_name_that_is_none_continues_nothing(named: str) -> None:
    raw = f'{{"input": "x", "previous_response_id": {named}}}'.encode()
    assert ConversationMemory().continued(Body(RESPONSES, raw), 0.0) is None


@pytest.mark.parametrize("answer", [b"", b"{}", b'{"id": 7, "output": []}', b"[]", b"data: {}\n\n", b"\xff"])
def test_an_answer_of_another_shape_is_passed_over(answer: bytes) -> None:
    raw = b'{"model": "auto", "input": "x"}'
    spec = UpstreamSpec("up", DEMO_URL)
    target = Target(ModelSpec("m", "up", "m"), Upstream(spec, Connections()(spec)), b'"m"', b"m")
    conversations = ConversationMemory()
    conversations.keep_response(
        read_request(WireFormat.RESPONSES, raw), Body(RESPONSES, raw), target, [answer]
    )
    assert len(conversations) == 0

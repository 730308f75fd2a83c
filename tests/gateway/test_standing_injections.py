"""What was added to a message is added again, at the same place and byte for byte, while it is sent."""

import json
from itertools import pairwise
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.config import Config
from pointsman.decision.engine import Engine
from pointsman.decision.memory import Memory
from pointsman.decision.policy import DomainPolicy, Policy
from pointsman.domains import default_domains
from pointsman.drivers import drive, no_model
from pointsman.factory import build_engine
from pointsman.gateway._injections import injections
from pointsman.gateway._live_state import LiveState, build_live_state
from pointsman.guidance import GuidancePolicy
from pointsman.runtime import Runtime
from pointsman.stores.ledger import MemoryLedger
from pointsman.stores.sessions import MemorySessions
from pointsman.tiers import builtin_profile
from pointsman.upstreams.port import ServerSpec, UpstreamSpec
from pointsman.vocabulary import Mode, ModelSpec, Tier, WireFormat
from pointsman.wire import FORMATS, Body
from pointsman.wire.request import read_request
from support.requests_by_format import PATHS
from support.servers import Asked, ScriptedUpstream, gateway, reply

MODELS = {"small": ModelSpec("small", "up", "small")}
SAID = (
    "investigate Acme Corporation",
    "now fix this bug in the login function",
    "plan the release",
    "thanks",
)
FAILED = "Error: command not found: pytset"


def policy(mode: Mode = Mode.ON) -> Policy:
    return Policy(
        profile=builtin_profile("default"),
        models=MODELS,
        tier_models=dict.fromkeys(Tier, "small"),
        guidance=GuidancePolicy(mode=mode, control=0.0),
        domains=DomainPolicy(domains=default_domains(), mode=mode),
    )


ENGINE = build_engine(policy())


def user(wire: WireFormat, text: str, *, as_blocks: bool) -> list[Any]:
    kind = "input_text" if wire is WireFormat.RESPONSES else "text"
    return [{"role": "user", "content": [{"type": kind, "text": text}] if as_blocks else text}]


def call(wire: WireFormat, number: int, result: str) -> list[Any]:
    """A call of a tool and its result."""
    name, arguments = f"c{number}", '{"c": "pytset"}'
    if wire is WireFormat.CHAT:
        function = {"id": name, "type": "function", "function": {"name": "bash", "arguments": arguments}}
        return [
            {"role": "assistant", "content": None, "tool_calls": [function]},
            {"role": "tool", "tool_call_id": name, "content": result},
        ]
    if wire is WireFormat.RESPONSES:
        return [
            {"type": "function_call", "call_id": name, "name": "bash", "arguments": arguments},
            {"type": "function_call_output", "call_id": name, "output": result},
        ]
    use = {"type": "tool_use", "id": name, "name": "bash", "input": json.loads(arguments)}
    back = {"type": "tool_result", "tool_use_id": name, "content": result, "is_error": result == FAILED}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [back]}]


def said(wire: WireFormat, text: str) -> list[Any]:
    return (
        [{"role": "assistant", "content": text}]
        if wire is not WireFormat.RESPONSES
        else [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]
    )


Step = tuple[str, int]

STEPS = st.lists(
    st.tuples(st.sampled_from(["user", "blocks", "failed", "worked"]), st.integers(0, len(SAID) - 1)),
    min_size=1,
    max_size=12,
)


def histories(wire: WireFormat, steps: list[Step]) -> list[list[Any]]:
    """The conversation as it is sent with each request of it."""
    items: list[Any] = []
    sent = []
    for number, (kind, words) in enumerate([("user", 0), *steps]):
        if kind in {"user", "blocks"}:
            items = items + (said(wire, "done") if items else [])
            items = items + user(wire, SAID[words], as_blocks=kind == "blocks")
        else:
            items = items + call(wire, number, FAILED if kind == "failed" else f"line {number}")
        sent.append(items)
    return sent


def request(wire: WireFormat, items: list[Any], **dumps: Any) -> bytes:
    return json.dumps({"model": "auto", FORMATS[wire].items: items, "max_tokens": 9}, **dumps).encode()


def arrives(wire: WireFormat, engine: Engine, sent: list[bytes]) -> list[bytes]:
    """The conversation of each request as the upstream gets it, without its closing bracket."""
    memory, arrived = Memory(), []
    for raw in sent:
        body = Body(FORMATS[wire], raw)
        decided = drive(engine.decide(read_request(wire, body, session="s"), memory, "d"), no_model)
        memory = msgspec.json.decode(msgspec.json.encode(decided.memory), type=Memory)
        changed = Body(FORMATS[wire], body.edited(injections(FORMATS[wire], body, decided.decision)))
        span = changed.span(FORMATS[wire].items)
        assert span is not None
        arrived.append(changed.raw[slice(*span)].removesuffix(b"]"))
    return arrived


@pytest.mark.parametrize("wire", WireFormat)
@pytest.mark.parametrize("separators", [None, (",", ":")])
@given(steps=STEPS)
def test_every_request_begins_with_the_one_before(
    wire: WireFormat, separators: tuple[str, str] | None, steps: list[Step]
) -> None:
    sent = [request(wire, items, separators=separators) for items in histories(wire, steps)]
    arrived = arrives(wire, ENGINE, sent)
    assert b"<pointsman" in arrived[0]
    for before, now in pairwise(arrived):
        assert now.startswith(before)


@pytest.mark.parametrize("wire", WireFormat)
@given(steps=STEPS, number=st.integers(0, 100))
def test_a_request_that_is_sent_again_arrives_as_before(
    wire: WireFormat, steps: list[Step], number: int
) -> None:
    sent = [request(wire, items) for items in histories(wire, steps)]
    again = number % len(sent)
    arrived = arrives(wire, ENGINE, [*sent[: again + 1], *sent[again:]])
    assert arrived[again] == arrived[again + 1]
    assert arrived[-1].startswith(arrived[again])


def test_words_stay_the_same_to_the_model_when_a_cache_marker_goes() -> None:
    """Claude Code sends its latest message as a block with a marker, and later as a string."""
    marked = {"type": "text", "text": SAID[0], "cache_control": {"type": "ephemeral"}}
    first = [{"role": "user", "content": [marked]}]
    later = [
        {"role": "user", "content": SAID[0]},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": [{**marked, "text": SAID[3]}]},
    ]
    wire = WireFormat.MESSAGES
    one, two = arrives(wire, ENGINE, [request(wire, first), request(wire, later)])
    before, now = json.loads(one + b"]")[0]["content"], json.loads(two + b"]")[0]["content"]
    assert before[0].pop("cache_control")
    assert len(now) == 2
    assert before == now


def test_a_compacted_history_gets_nothing_of_what_it_no_longer_holds() -> None:
    wire = WireFormat.CHAT
    long, short = histories(wire, [("failed", 0)] * 5)[-1], user(wire, "thanks", as_blocks=False)
    _, compacted = arrives(wire, ENGINE, [request(wire, long), request(wire, short)])
    assert FAILED.encode() not in compacted
    assert compacted.count(b"guidance") == 0


def test_a_body_with_an_unknown_member_is_served_alike() -> None:
    wire = WireFormat.CHAT
    sent = [
        json.dumps({"model": "auto", "x_of_a_router": 1, "messages": items}).encode()
        for items in histories(wire, [("failed", 0)] * 4)
    ]
    arrived = arrives(wire, ENGINE, sent)
    for before, now in pairwise(arrived):
        assert now.startswith(before)


@pytest.mark.parametrize("wire", WireFormat)
@pytest.mark.parametrize("spread", [{"indent": 1}, {"separators": (" ,\n", ":")}])
def test_a_body_written_otherwise_gets_its_texts_at_the_same_places(
    wire: WireFormat, spread: dict[str, Any]
) -> None:
    sent = histories(wire, [("failed", 0)] * 4 + [("user", 1)])
    plain = arrives(wire, ENGINE, [request(wire, items) for items in sent])
    otherwise = arrives(wire, ENGINE, [request(wire, items, **spread) for items in sent])
    assert json.loads(otherwise[-1] + b"]") == json.loads(plain[-1] + b"]")


# Through the gateway, at an upstream that charges by prefix


def a_state(url: str, mode: Mode) -> LiveState:
    upstream = UpstreamSpec(name="up", base_url=url, formats=frozenset(WireFormat), retries=0)
    runtime = Runtime(build_engine(policy(mode)), sessions=MemorySessions(), ledger=MemoryLedger())
    return build_live_state(
        runtime, Config(models=MODELS, upstreams={"up": upstream}, server=ServerSpec(port=0))
    )


class CachingUpstream:
    """Charges bytes of the conversation that are not the beginning of an earlier request's."""

    def __init__(self, wire: WireFormat) -> None:
        self._wire = FORMATS[wire]
        self._seen: list[bytes] = []
        self.read, self.charged = [], []  # type: ignore[var-annotated]

    async def __call__(self, asked: Asked, send: Any) -> None:
        body = Body(self._wire, asked.body)
        span = body.span(self._wire.items)
        assert span is not None
        said = asked.body[slice(*span)].removesuffix(b"]")
        cached = max((len(each) for each in self._seen if said.startswith(each)), default=0)
        self._seen.append(said)
        self.read.append(len(said))
        self.charged.append(len(said) - cached)
        await reply(send, 200, b'{"object": "whatever", "choices": [], "content": [], "output": []}')


def run(wire: WireFormat, mode: Mode) -> CachingUpstream:
    steps = [("failed", 0)] * 6 + [("user", 1)] + [("worked", 0), ("failed", 0)] * 6
    caching = CachingUpstream(wire)
    upstream = ScriptedUpstream(caching)
    headers = {"content-type": "application/json", "x-session-id": "one"}
    with upstream.running() as url, gateway(a_state(f"{url}/v1", mode)) as served, httpx.Client() as client:
        for items in histories(wire, steps):
            sent = client.post(served.url + PATHS[wire], content=request(wire, items), headers=headers)
            assert sent.status_code == 200
    return caching


@pytest.mark.parametrize("wire", WireFormat)
def test_the_cache_is_read_as_much_with_additions_as_without(wire: WireFormat) -> None:
    with_, without = run(wire, Mode.ON), run(wire, Mode.OBSERVE)
    assert len(with_.read) == 20
    assert with_.read[-1] > without.read[-1] + 200  # two additions at least
    # Every byte is charged once: what was sent before is read from the cache.
    for each in (with_, without):
        assert sum(each.charged) == each.read[-1]


def test_a_conversation_that_the_provider_stores_goes_on_with_a_text() -> None:
    """The SDK's ``responses.create(input="…", previous_response_id=…)``: earlier messages are not resent."""
    wire, arrived = WireFormat.RESPONSES, list[Any]()

    async def stores(asked: Asked, send: Any) -> None:
        arrived.append(json.loads(asked.body)["input"])
        answer = {"id": f"resp_{len(arrived)}", "object": "response", "status": "completed", "output": []}
        await reply(send, 200, json.dumps(answer).encode())

    said = [SAID[0], SAID[1], SAID[1], SAID[3]]  # the third is the second, sent again
    before = ["", "resp_1", "resp_1", "resp_3"]
    upstream = ScriptedUpstream(stores)
    with (
        upstream.running() as url,
        gateway(a_state(f"{url}/v1", Mode.ON)) as served,
        httpx.Client() as client,
    ):
        for text, previous in zip(said, before, strict=True):
            body = {"model": "auto", "input": text, "previous_response_id": previous or None}
            sent = client.post(served.url + PATHS[wire], json=body)
            assert sent.status_code == 200, sent.text
    first, second, again, last = arrived
    assert first.startswith(SAID[0] + "\n\n<pointsman")
    assert second.startswith(SAID[1] + "\n\n<pointsman")
    assert again == second
    assert last.startswith(SAID[3])


@pytest.mark.parametrize("wire", [WireFormat.CHAT, WireFormat.MESSAGES])
def test_a_text_without_a_place_waits_for_the_next_request(
    wire: WireFormat, caplog: pytest.LogCaptureFixture
) -> None:
    """A request that ends with the assistant's words takes no text: none is counted or remembered."""
    began = said(wire, "The command fails because")
    first, *_, stuck = histories(wire, [("failed", 0)] * 3)
    arrived = []

    async def answer(asked: Asked, send: Any) -> None:
        arrived.append(asked.body)
        await reply(send, 200, b'{"object": "whatever", "choices": [], "content": []}')

    upstream = ScriptedUpstream(answer)
    headers = {"content-type": "application/json", "x-session-id": "one"}
    with upstream.running() as url:
        state = a_state(f"{url}/v1", Mode.ON)
        ledger = state.runtime.ledger
        assert isinstance(ledger, MemoryLedger)
        with gateway(state) as served, httpx.Client() as client:
            for items in (first + began, stuck + began, stuck):
                sent = client.post(served.url + PATHS[wire], content=request(wire, items), headers=headers)
                assert sent.status_code == 200
        kept = [record.decision for record in ledger.records()]
    assert [b"<pointsman" in body for body in arrived] == [False, False, True]
    assert [[each.source for each in one.injections] for one in kept] == [[], [], ["guidance", "domains"]]
    assert [bool(one.guidance and one.guidance.firings) for one in kept] == [False, False, True]
    no_place = {"additions.no-place", "guidance.no-place"}
    found = [no_place & {reason.code for reason in one.reasons} for one in kept]
    assert found == [{"additions.no-place"}, no_place, set()]
    assert not caplog.records

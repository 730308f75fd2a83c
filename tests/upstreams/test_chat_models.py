"""Models that can be asked: the same checks for each, and what goes on the wire to servers on loopback."""

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from pointsman.errors import ConfigError, MissingKey, UpstreamError, UpstreamTimeout, UpstreamUnavailable
from pointsman.model_calls import ask_models
from pointsman.testing import HANG, REPLY, Scene, ScriptedModel, chat_model_checks
from pointsman.upstreams import ChatModel, ModelAnswer, ask_metered
from pointsman.upstreams.chat_model import HttpModel, chat_models
from pointsman.upstreams.connections import Connections
from pointsman.upstreams.port import DEMO_URL, Secret, UpstreamSpec
from pointsman.vocabulary import ModelQuery, ModelSpec, Prompt, WireFormat
from pointsman.wire.conversation import Usage
from support.servers import Asked, ScriptedUpstream, reply

Result = TypeVar("Result")
KEY = "sk-canary"
BODIES: dict[WireFormat, Callable[[str], dict[str, object]]] = {
    WireFormat.CHAT: lambda text: {"choices": [{"message": {"role": "assistant", "content": text}}]},
    WireFormat.MESSAGES: lambda text: {
        "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}]
    },
}
SCRIPTS: dict[Scene, tuple[Any, ...]] = {
    "reply": (REPLY,),
    "empty": (" ",),
    "fail": (UpstreamError("down"),),
    "hang": (HANG,),
    "break": (UpstreamError("broke off"),),
}


CONNECTIONS = Connections()


def run(asking: Coroutine[Any, Any, Result]) -> Result:
    """Run to the end and leave no connection open: each run has a loop of its own."""

    async def closing() -> Result:
        try:
            return await asking
        finally:
            CONNECTIONS.close()

    return asyncio.run(closing())


#: As the two formats report them, and what is read of it: input with the cached part, cached, output.
USAGES: dict[WireFormat, tuple[tuple[object, Usage], ...]] = {
    WireFormat.CHAT: (
        ({"prompt_tokens": 9, "completion_tokens": 2}, Usage(9, None, 2)),
        ("free", Usage()),
    ),
    WireFormat.MESSAGES: (
        ({"input_tokens": 9, "cache_read_input_tokens": 3, "output_tokens": 2}, Usage(12, 3, 2)),
        ([1], Usage()),
    ),
}


class Provider:
    """An upstream of one format, behaving as a scene says."""

    def __init__(self, wire: WireFormat) -> None:
        self.wire = wire
        self.scene: Scene = "reply"
        self.text = REPLY
        self.more: dict[str, object] = {}
        self.status = 500
        self.upstream = ScriptedUpstream(self._answer)
        self.url = ""

    async def _answer(self, asked: Asked, send: Any) -> None:
        match self.scene:
            case "reply":
                await reply(send, 200, json.dumps({**BODIES[self.wire](self.text), **self.more}).encode())
            case "empty":
                await reply(send, 200, json.dumps(BODIES[self.wire]("  ")).encode())
            case "fail":
                await reply(send, self.status, b'{"error": {"message": "sk-canary in a body"}}')
            case "hang":
                await asked.disconnected.wait()
            case "break":
                start = {
                    "type": "http.response.start",
                    "status": 200,
                    "headers": [(b"content-length", b"99")],
                }
                await send(start)
                await send({"type": "http.response.body", "body": b'{"choices"', "more_body": True})
                raise ConnectionError

    def model(self, scene: Scene = "reply") -> HttpModel:
        self.scene = scene
        spec = UpstreamSpec("up", self.url + "/v1", api_key=Secret(KEY), formats=frozenset({self.wire}))
        return HttpModel(ModelSpec("small", "up", "small-1"), spec, CONNECTIONS(spec))


@pytest.fixture(params=BODIES, scope="module")
def provider(request: pytest.FixtureRequest) -> Iterator[Provider]:
    made = Provider(request.param)
    with made.upstream.running() as made.url:
        yield made


@pytest.fixture(autouse=True)
def _fresh(request: pytest.FixtureRequest) -> None:
    if "provider" in request.fixturenames:
        made = request.getfixturevalue("provider")
        made.upstream.asked.clear()
        made.text, made.status, made.more = REPLY, 500, {}


CHECKS = pytest.mark.parametrize(
    "check", list(chat_model_checks()), ids=lambda check: check.__name__.strip("_")
)
Check = Callable[[Callable[[Scene], ChatModel]], Coroutine[Any, Any, None]]


@CHECKS
def test_contract_over_http(check: Check, provider: Provider) -> None:
    run(check(provider.model))


@CHECKS
def test_contract_scripted(check: Check) -> None:
    run(check(lambda scene: ScriptedModel(*SCRIPTS[scene])))


def ask(model: ChatModel, *labels: str, timeout: float = 30) -> str:
    prompt = Prompt(system="Which tier?", text="What is 2+2?", max_tokens=7, labels=labels)
    return run(model.complete(prompt, timeout=timeout))


@pytest.mark.parametrize("number", [0, 1])
def test_usage_is_what_the_upstream_reports_and_an_odd_one_costs_no_answer(
    provider: Provider, number: int
) -> None:
    reported, expected = USAGES[provider.wire][number]
    provider.more = {"usage": reported}
    answer = run(ask_metered(provider.model(), Prompt("Which tier?", "What is 2+2?"), timeout=30))
    assert answer == ModelAnswer(REPLY, expected)


def test_a_model_that_reports_no_usage_is_asked_all_the_same() -> None:
    asking = ask_metered(ScriptedModel(REPLY), Prompt("Which tier?", "What is 2+2?"), timeout=30)
    assert run(asking) == ModelAnswer(REPLY, None)


def test_what_goes_on_the_wire(provider: Provider) -> None:
    ask(provider.model(), "A", "B")
    [asked] = provider.upstream.asked
    body = json.loads(asked.body)
    question = {"role": "user", "content": "What is 2+2?"}
    system = "Which tier?\n\nAnswer with exactly one of these and nothing else: A, B."
    if provider.wire is WireFormat.CHAT:
        assert asked.path == "/v1/chat/completions"
        assert asked.headers["authorization"] == f"Bearer {KEY}"
        assert body["messages"] == [{"role": "system", "content": system}, question]
    else:
        assert asked.path == "/v1/messages"
        assert (asked.headers["x-api-key"], asked.headers["anthropic-version"]) == (KEY, "2023-06-01")
        assert (body["system"], body["messages"]) == (system, [question])
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("small-1", 7, 0)


@pytest.mark.parametrize(("size", "is_beside"), [(100, False), (100_000, True)])
def test_a_long_reply_is_read_beside_the_event_loop(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, size: int, is_beside: bool
) -> None:
    """One of a megabyte of empty objects kept every other request waiting for seconds."""
    loop, seen = threading.get_ident(), list[int]()
    read = HttpModel._read

    def noted(model: HttpModel, body: bytes) -> tuple[str, Usage]:
        seen.append(threading.get_ident())
        return read(model, body)

    monkeypatch.setattr(HttpModel, "_read", noted)
    provider.more = {"more": "x" * size}
    assert ask(provider.model()) == REPLY
    assert [thread != loop for thread in seen] == [is_beside]


def test_what_is_longer_than_a_reply_is_not_read(provider: Provider) -> None:
    provider.more = {"choices": [{}] * 100_000}
    with pytest.raises(UpstreamError, match="more than a reply"):
        ask(provider.model())


@pytest.mark.parametrize(
    ("said", "label"),
    [
        ("MEDIUM", "MEDIUM"),
        ("medium.", "MEDIUM"),
        ("I would call it **Medium**", "MEDIUM"),
        ("SIMPLE or MEDIUM", "SIMPLE or MEDIUM"),  # names two: left for the caller to judge
        ("mediumish", "mediumish"),
        ("no idea", "no idea"),
    ],
)
def test_a_constrained_answer_is_one_of_its_labels(provider: Provider, said: str, label: str) -> None:
    provider.text = said
    assert ask(provider.model(), "SIMPLE", "MEDIUM") == label


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        (401, UpstreamError, "refused the key"),
        (403, UpstreamError, "refused the key"),
        (429, UpstreamUnavailable, "busy"),
        (529, UpstreamUnavailable, "busy"),
        (400, UpstreamError, "status 400"),
        (302, UpstreamError, "status 302"),
        (500, UpstreamError, "status 500"),
    ],
)
def test_failures_name_the_model_and_tell_no_key_and_no_body(
    provider: Provider, status: int, error: type[UpstreamError], message: str
) -> None:
    model = provider.model("fail")
    provider.status = status
    with pytest.raises(error, match=message) as failed:
        ask(model)
    assert '"small"' in str(failed.value)
    assert "canary" not in str(failed.value)


def test_an_upstream_that_wants_a_key_and_has_none_is_not_asked_of_the_models_failure(
    provider: Provider,
) -> None:
    with ScriptedUpstream(lambda _, send: reply(send, 401, b"{}")).running() as url:
        spec = UpstreamSpec("up", url, formats=frozenset({provider.wire}))
        models = {"m": HttpModel(ModelSpec("m", "up", "m"), spec, CONNECTIONS(spec))}
        answer = run(ask_models(models)(ModelQuery("verify_tier", "", "", model="m")))
        with pytest.raises(MissingKey, match='"m" wants a key and has none'):
            ask(models["m"])
    assert answer.error == "no-key"


def test_a_reasoning_model_is_asked_plainly_from_the_second_time_on() -> None:
    async def picky(asked: Asked, send: Any) -> None:
        plain = "temperature" not in json.loads(asked.body)
        body = json.dumps(BODIES[WireFormat.CHAT]("yes")).encode()
        await reply(send, 200 if plain else 400, body)

    upstream = ScriptedUpstream(picky)
    with upstream.running() as url:
        spec = UpstreamSpec("up", url, formats=frozenset({WireFormat.CHAT}))
        model = HttpModel(ModelSpec("o", "up", "o"), spec, CONNECTIONS(spec))
        assert [ask(model), ask(model)] == ["yes", "yes"]
    bodies = [json.loads(asked.body) for asked in upstream.asked]
    assert ["temperature" in body for body in bodies] == [True, False, False]
    assert bodies[1]["max_completion_tokens"] == 7
    assert "max_tokens" not in bodies[1]


def test_a_request_that_is_wrong_either_way_is_tried_both_ways_each_time(provider: Provider) -> None:
    model = provider.model("fail")
    provider.status = 400
    for _ in range(2):
        with pytest.raises(UpstreamError, match="status 400"):
            ask(model)
    assert len(provider.upstream.asked) == 4


def test_an_endless_reply_is_cut_off() -> None:
    async def endless(asked: Asked, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not asked.disconnected.is_set():
            await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
            await asyncio.sleep(0)

    with ScriptedUpstream(endless).running() as url:
        spec = UpstreamSpec("up", url)
        with pytest.raises(UpstreamError, match="more than a reply"):
            ask(HttpModel(ModelSpec("m", "up", "m"), spec, CONNECTIONS(spec)))


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"", b'{"choices": [], "content": []}'])
def test_an_answer_of_another_shape_is_no_reply(provider: Provider, body: bytes) -> None:
    with ScriptedUpstream(lambda _, send: reply(send, 200, body)).running() as url:
        spec = UpstreamSpec("up", url, formats=frozenset({provider.wire}))
        with pytest.raises(UpstreamError, match='model "m" '):
            ask(HttpModel(ModelSpec("m", "up", "m"), spec, CONNECTIONS(spec)))


def test_an_upstream_that_is_not_there() -> None:
    spec = UpstreamSpec("up", "http://127.0.0.1:9/v1", api_key=Secret(KEY))
    with pytest.raises(UpstreamUnavailable) as failed:
        ask(HttpModel(ModelSpec("m", "up", "m"), spec, CONNECTIONS(spec)))
    assert "canary" not in str(failed.value)


def test_the_built_in_demo_can_be_asked() -> None:
    spec = UpstreamSpec("demo", DEMO_URL)
    assert ask(HttpModel(ModelSpec("m", "demo", "m"), spec, CONNECTIONS(spec)))


def test_models_of_one_upstream_share_its_client_and_those_nobody_can_ask_are_left_out() -> None:
    made: list[str] = []

    def counting(spec: UpstreamSpec) -> Any:
        made.append(spec.name)
        return CONNECTIONS(spec)

    upstreams = {
        "both": UpstreamSpec("both", DEMO_URL),
        "responses": UpstreamSpec("responses", DEMO_URL, formats=frozenset({WireFormat.RESPONSES})),
    }
    models = {name: ModelSpec(name, name.split("-")[0], "x") for name in ("both-1", "both-2", "responses-1")}
    assert set(chat_models(models, upstreams, counting)) == {"both-1", "both-2"}
    assert made == ["both"]
    with pytest.raises(ConfigError, match="speaks neither chat nor messages"):
        HttpModel(models["responses-1"], upstreams["responses"], CONNECTIONS(upstreams["responses"]))


def test_a_script_is_played_in_order_and_its_last_answer_repeats() -> None:
    model = ScriptedModel("one", UpstreamError("down"), "two")
    assert ask(model) == "one"
    with pytest.raises(UpstreamError, match="down"):
        ask(model)
    assert [ask(model), ask(model)] == ["two", "two"]
    assert [prompt.text for prompt in model.asked] == ["What is 2+2?"] * 4
    with pytest.raises(UpstreamError, match="empty"):
        ask(ScriptedModel())
    with pytest.raises(UpstreamTimeout):
        ask(ScriptedModel(HANG), timeout=0.001)

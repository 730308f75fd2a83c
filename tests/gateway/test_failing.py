"""Failing well: retries, fallback, breaker, and an error in the caller's own format when nothing helps."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx
import openai
import pytest

from pointsman.gateway import _attempts as attempts
from pointsman.gateway import _failures as retry
from pointsman.upstreams.port import Timeouts
from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS, Fault
from support.deciders import ScriptedDecider
from support.scripted_formats import SPOKEN, Spoken
from support.servers import Asked, ScriptedUpstream, gateway, reply, state_for

pytestmark = pytest.mark.integration

HEADERS = {"content-type": "application/json"}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_FIRST", 0.001)


def spoken_at(asked: Asked) -> Spoken:
    return next(s for s in SPOKEN.values() if asked.path.startswith(s.path))


async def well(asked: Asked, send: Any) -> None:
    """Answer as asked: whole, or as a stream."""
    spoken = spoken_at(asked)
    if not json.loads(asked.body).get("stream"):
        await reply(send, 200, spoken.whole)
        return
    await reply(send, 200, b"".join(spoken.events), ("content-type", "text/event-stream"))


async def error_500(asked: Asked, send: Any) -> None:
    await reply(send, 500, b'{"error":{"message":"internal","type":"server_error"}}')


async def busy_429(asked: Asked, send: Any) -> None:
    await reply(
        send,
        429,
        b'{"error":{"message":"slow down"}}',
        ("content-type", "application/json"),
        ("retry-after", "60"),
    )


async def silent(asked: Asked, send: Any) -> None:
    await asked.disconnected.wait()


async def malformed(asked: Asked, send: Any) -> None:
    await reply(send, 200, b"<html>gateway error</html>")


async def cut(asked: Asked, send: Any) -> None:
    """A body shorter than announced, or a stream without its first event."""
    whole = spoken_at(asked).whole
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(whole))]}
    )
    await send({"type": "http.response.body", "body": whole[:20], "more_body": True})
    raise ConnectionError


async def error_event(asked: Asked, send: Any) -> None:
    """A stream that begins with an error, as an overloaded provider sends it."""
    event = (
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    )
    await reply(send, 200, event, ("content-type", "text/event-stream"))


async def hang_up(asked: Asked, send: Any) -> None:
    """Close the connection without a word."""
    send.__self__.transport.abort()


BROKEN = [error_500, busy_429, silent, malformed, cut, hang_up]


class Stage:
    """Three upstreams and a gateway that stay up; each test gets a setup and breakers of its own."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self.upstreams = [ScriptedUpstream(well) for _ in range(3)]
        self.urls = [stack.enter_context(upstream.running()) + "/v1" for upstream in self.upstreams]
        self.running = stack.enter_context(gateway(state_for(*self.urls)))
        self.gateway = self.running.gateway
        self.url = self.running.url
        self.client = stack.enter_context(httpx.Client(base_url=self.url, timeout=120))
        self.setups = 0

    def set(self, *answering: Any, **given: Any) -> list[ScriptedUpstream]:
        """Put an upstream for each way of answering behind the gateway, in this order."""
        self.setups += 1  # upstreams that differ in anything are new ones, with nothing held against them
        times = [
            Timeouts(connect=30.0, first_byte=0.5 if one is silent else 60.0, total=60.0 + self.setups / 1e6)
            for one in answering
        ]
        used = self.upstreams[: len(answering)]
        for upstream, each in zip(used, answering, strict=True):
            upstream.answering = each
            upstream.asked.clear()
        state = state_for(*self.urls[: len(answering)], timeouts=times, **given)
        self.running.call(self.gateway.replace, state)  # closes the connections of the one before
        return used


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with contextlib.ExitStack() as stack:
        yield Stage(stack)


@pytest.fixture
def between(stage: Stage) -> Callable[..., Any]:
    """Put scripted upstreams behind the gateway: ``with between(bad, well) as (client, upstreams)``."""

    @contextmanager
    def put(*answering: Any, **given: Any) -> Iterator[tuple[httpx.Client, list[ScriptedUpstream]]]:
        yield stage.client, stage.set(*answering, **given)

    return put


@pytest.mark.parametrize("broken", [*BROKEN, error_event], ids=lambda each: each.__name__)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_next_model_answers(between: Callable[..., Any], broken: Any, stream: bool) -> None:
    spoken = SPOKEN["messages"]
    with between(broken, well) as (client, upstreams):
        answer = client.post(spoken.path, content=spoken.body(stream=stream), headers=HEADERS)
    assert answer.status_code == 200
    assert answer.content == (b"".join(spoken.events) if stream else spoken.whole)
    assert answer.headers["x-pointsman-model"] == "m1"
    assert answer.headers["x-pointsman-attempts"] == "2"
    assert json.loads(upstreams[1].asked[0].body)["model"] == "model-1"


@pytest.mark.parametrize("wire", WireFormat)
def test_the_next_model_answers_for_an_error_behind_keep_alives(
    between: Callable[..., Any], wire: WireFormat
) -> None:
    """OpenRouter sends comments while it waits, as a gateway behind this one does; then the error."""
    spoken = SPOKEN[wire]
    error = FORMATS[wire].error_event(Fault(503, "Overloaded"), ())

    async def waited_in_vain(asked: Asked, send: Any) -> None:
        silence = b": OPENROUTER PROCESSING\n\n" + FORMATS[wire].keep_alive
        await reply(send, 200, silence + error, ("content-type", "text/event-stream"))

    with between(waited_in_vain, well) as (client, _):
        answer = client.post(spoken.path, content=spoken.body(stream=True), headers=HEADERS)
    assert answer.content == b"".join(spoken.events)
    assert answer.headers["x-pointsman-attempts"] == "2"


def test_an_upstream_that_is_not_there(spoken: Spoken) -> None:
    upstream = ScriptedUpstream(well)
    with upstream.running() as url, gateway(state_for("http://127.0.0.1:9/v1", f"{url}/v1")) as running:
        answer = httpx.post(running.url + spoken.path, content=spoken.body(), headers=HEADERS)
    assert answer.headers["x-pointsman-model"] == "m1"


def test_the_same_model_is_tried_again_first(between: Callable[..., Any]) -> None:
    calls = []

    async def twice_bad(asked: Asked, send: Any) -> None:
        calls.append(1)
        await (error_500 if len(calls) < 3 else well)(asked, send)

    with between(twice_bad, well, retries=2) as (client, upstreams):
        answer = client.post("/v1/messages", content=SPOKEN["messages"].body(), headers=HEADERS)
    assert answer.headers["x-pointsman-model"] == "m0"
    assert answer.headers["x-pointsman-attempts"] == "3"
    assert not upstreams[1].asked


def test_tries_are_bounded_over_all_models(between: Callable[..., Any]) -> None:
    with between(error_500, error_500, error_500, retries=5) as (client, upstreams):
        answer = client.post("/v1/messages", content=SPOKEN["messages"].body(), headers=HEADERS)
        attempted = client.get(f"/v1/decisions/{answer.headers['x-pointsman-decision-id']}").json()[
            "attempts"
        ]
    assert answer.status_code == 500
    assert answer.headers["x-should-retry"] == "false"
    assert sum(len(upstream.asked) for upstream in upstreams) == 6
    assert [attempt["number"] for attempt in attempted] == [1, 2, 3, 4, 5, 6]


def test_a_client_that_retries_itself_is_not_helped(between: Callable[..., Any]) -> None:
    """One owner of retries: the SDK counts its own in a header."""
    with between(error_500, error_500, retries=2) as (client, upstreams):
        client.post(
            "/v1/messages",
            content=SPOKEN["messages"].body(),
            headers={**HEADERS, "x-stainless-retry-count": "1"},
        )
    assert [len(upstream.asked) for upstream in upstreams] == [1, 1]


def test_a_long_wait_is_the_callers_to_decide(between: Callable[..., Any], spoken: Spoken) -> None:
    with between(busy_429, retries=2) as (client, upstreams):
        answer = client.post(spoken.path, content=spoken.body(), headers=HEADERS)
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "60"
    assert "x-should-retry" not in answer.headers
    assert len(upstreams[0].asked) == 1


def test_a_short_wait_is_waited(between: Callable[..., Any]) -> None:
    times = []

    async def patient(asked: Asked, send: Any) -> None:
        times.append(time.monotonic())
        if len(times) == 1:
            await reply(send, 429, b"{}", ("content-type", "application/json"), ("retry-after-ms", "150"))
        else:
            await well(asked, send)

    with between(patient, retries=1) as (client, _):
        assert (
            client.post("/v1/messages", content=SPOKEN["messages"].body(), headers=HEADERS).status_code == 200
        )
    assert times[1] - times[0] > 0.14  # timers of the event loop count whole milliseconds


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_the_operators_trouble(
    between: Callable[..., Any], spoken: Spoken, status: int
) -> None:
    async def refuse(asked: Asked, send: Any) -> None:
        await reply(send, status, b'{"error":{"message":"Incorrect API key provided: sk-upstream"}}')

    with between(refuse, retries=2) as (client, upstreams):
        answer = client.post(spoken.path, content=spoken.body(), headers=HEADERS)
    assert answer.status_code == 403
    assert answer.headers["x-should-retry"] == "false"
    assert "refuses the key" in spoken.message(answer.json())
    assert "sk-upstream" not in answer.text
    assert len(upstreams[0].asked) == 1


def test_a_redirect_is_not_followed(between: Callable[..., Any], spoken: Spoken) -> None:
    async def redirect(asked: Asked, send: Any) -> None:
        await reply(send, 307, b"", ("location", "http://169.254.169.254/latest"))

    with between(redirect) as (client, upstreams):
        answer = client.post(spoken.path, content=spoken.body(), headers=HEADERS)
    assert answer.status_code == 502
    assert "redirects" in spoken.message(answer.json())
    assert len(upstreams[0].asked) == 1


@pytest.mark.parametrize(
    ("broken", "status", "words"),
    [
        (silent, 504, "in time"),
        (hang_up, 502, "broke off"),
        (malformed, 502, "not JSON"),
        (cut, 502, "broke off"),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_an_error_in_the_callers_own_format(
    between: Callable[..., Any], spoken: Spoken, broken: Any, status: int, words: str
) -> None:
    with between(broken) as (client, _):
        answer = client.post(spoken.path, content=spoken.body(), headers=HEADERS)
    assert answer.status_code == status
    assert words in spoken.message(answer.json())
    assert answer.json().get("type") == ("error" if spoken.path == "/v1/messages" else None)


def test_the_breaker_puts_a_failing_upstream_last_and_never_out_of_the_chain(
    between: Callable[..., Any],
) -> None:
    def post(number: int) -> httpx.Response:
        headers = {**HEADERS, "x-session-id": f"s-{number}"}
        got: httpx.Response = client.post("/v1/messages", content=SPOKEN["messages"].body(), headers=headers)
        return got

    with between(hang_up, well) as (client, upstreams):
        answers = [post(number) for number in range(12)]
        ready = client.get("/health/ready").json()
        assert [answer.status_code for answer in answers] == [200] * 12
        assert len(upstreams[0].asked) == 10
        assert ready["open_circuits"] == ["up0"]
        upstreams[1].answering, upstreams[0].answering = error_500, well
        assert post(12).headers["x-pointsman-model"] == "m0", "no other is left"
        assert client.get("/health/ready").json()["open_circuits"] == []


def test_stores_that_fail_are_named_without_a_reason_and_requests_are_served() -> None:
    decider = ScriptedDecider("m0")
    decider.faults = {"ledger": "cannot write the ledger /srv/secret/place: disk full"}
    with (
        gateway(state_for(decider=decider)) as running,
        httpx.Client(base_url=running.url, trust_env=False) as client,
    ):
        ready = client.get("/health/ready")
        metrics = client.get("/metrics").text
        answer = client.post("/v1/messages", content=SPOKEN["messages"].body(), headers=HEADERS)
    assert (ready.status_code, ready.json()["failing"]) == (200, ["ledger"])
    assert "secret" not in ready.text
    assert "pointsman_stores_failing 1.0" in metrics
    assert answer.status_code == 200


def test_sdk_errors_are_of_the_right_kind(between: Callable[..., Any]) -> None:
    with between(well) as (client, _):
        chat = openai.OpenAI(base_url=f"{client.base_url}/v1", api_key="k", max_retries=0)
        claude = anthropic.Anthropic(base_url=str(client.base_url), api_key="k", max_retries=0)
        with chat, claude:
            with pytest.raises(openai.NotFoundError):
                chat.models.retrieve("nobody")
            with pytest.raises(anthropic.NotFoundError):
                claude.models.retrieve("nobody")


def test_a_decision_without_a_model_here() -> None:
    with gateway(state_for(decider=ScriptedDecider("elsewhere"))) as running:
        answer = httpx.post(f"{running.url}/v1/messages", content=SPOKEN["messages"].body(), headers=HEADERS)
    assert answer.status_code == 400
    assert attempts._MAX_ATTEMPTS == 6

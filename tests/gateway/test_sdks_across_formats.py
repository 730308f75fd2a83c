"""Both official SDKs in front of upstreams of each other format: images, errors, and broken streams."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import anthropic
import openai
import pytest

from pointsman.gateway import _circuit_breaker as circuit_breaker
from pointsman.gateway import _failures as retry
from pointsman.vocabulary import WireFormat
from pointsman.wire.translate import translated_formats
from support.deciders import ScriptedDecider
from support.requests_by_format import start_stream
from support.servers import Answering, Asked, ScriptedUpstream, gateway, reply, state_for
from support.translation import CALLS, CHAT, MESSAGES, RESPONSES, SAMPLES, SCHEMA, TEXT

pytestmark = pytest.mark.integration

PNG = "iVBORw0KGgo="
DATA_URL = f"data:image/png;base64,{PNG}"
PAIRS = [(caller, upstream) for caller in SAMPLES for upstream in SAMPLES if caller is not upstream]
Json = dict[str, Any]


class Sdk(NamedTuple):
    """One format as its SDK speaks it."""

    errors: Any  # the module with the exceptions
    client: Callable[[str], Any]
    ask: Callable[..., Any]
    #: A turn with an image, two parallel calls, and their results.
    turn: Json
    #: Text, calls, and the reason for the end, of an answer; and the collected answer of a stream.
    read: Callable[[Any], tuple[str, list[tuple[str, str, Any]]]]
    collect: Callable[..., Any]


def openai_client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0)


def anthropic_client(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key="unused", max_retries=0)


def read_chat(completion: Any) -> tuple[str, list[tuple[str, str, Any]]]:
    message = completion.choices[0].message
    calls = [(c.id, c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls or ()]
    return message.content or "", calls


def read_responses(response: Any) -> tuple[str, list[tuple[str, str, Any]]]:
    calls = [item for item in response.output if item.type == "function_call"]
    return response.output_text, [(c.call_id, c.name, json.loads(c.arguments)) for c in calls]


def read_messages(message: Any) -> tuple[str, list[tuple[str, str, Any]]]:
    text = "".join(block.text for block in message.content if block.type == "text")
    return text, [(b.id, b.name, b.input) for b in message.content if b.type == "tool_use"]


def collect_chat(client: Any, **asked: Any) -> Any:
    with client.chat.completions.stream(model="auto", **asked) as stream:
        return stream.get_final_completion()


def collect_responses(client: Any, **asked: Any) -> Any:
    with client.responses.stream(model="auto", **asked) as stream:
        return stream.get_final_response()


def collect_messages(client: Any, **asked: Any) -> Any:
    with client.messages.stream(model="auto", max_tokens=99, **asked) as stream:
        return stream.get_final_message()


def chat_call(call: tuple[str, str, Json]) -> Json:
    return {
        "id": call[0],
        "type": "function",
        "function": {"name": call[1], "arguments": json.dumps(call[2])},
    }


SDKS = {
    CHAT: Sdk(
        openai,
        openai_client,
        lambda client, **asked: client.chat.completions.create(model="auto", **asked),
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Where is this?"},
                        {"type": "image_url", "image_url": {"url": DATA_URL}},
                    ],
                },
                {"role": "assistant", "tool_calls": [chat_call(call) for call in CALLS]},
                {"role": "tool", "tool_call_id": "call_1", "content": "sun"},
                {"role": "tool", "tool_call_id": "call_2", "content": "rain"},
            ],
            "tools": [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}],
        },
        read_chat,
        collect_chat,
    ),
    RESPONSES: Sdk(
        openai,
        openai_client,
        lambda client, **asked: client.responses.create(model="auto", **asked),
        {
            "input": [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "Where is this?"},
                        {"type": "input_image", "image_url": DATA_URL, "detail": "auto"},
                    ],
                },
                *(
                    {"type": "function_call", "call_id": id_, "name": name, "arguments": json.dumps(given)}
                    for id_, name, given in CALLS
                ),
                {"type": "function_call_output", "call_id": "call_1", "output": "sun"},
                {"type": "function_call_output", "call_id": "call_2", "output": "rain"},
            ],
            "tools": [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}],
        },
        read_responses,
        collect_responses,
    ),
    MESSAGES: Sdk(
        anthropic,
        anthropic_client,
        lambda client, **asked: client.messages.create(model="auto", max_tokens=99, **asked),
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Where is this?"},
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/png", "data": PNG},
                        },
                    ],
                },
                {
                    "role": "assistant",
                    "content": [
                        {"type": "tool_use", "id": id_, "name": name, "input": given}
                        for id_, name, given in CALLS
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "call_1", "content": "sun"},
                        {"type": "tool_result", "tool_use_id": "call_2", "content": "rain"},
                    ],
                },
            ],
            "tools": [{"name": "weather", "input_schema": SCHEMA}],
        },
        read_messages,
        collect_messages,
    ),
}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_FIRST", 0.001)
    monkeypatch.setattr(circuit_breaker, "_LEAST", 1_000)


@contextmanager
def through(
    caller: WireFormat, upstream: WireFormat, answer: Answering
) -> Iterator[tuple[Any, ScriptedUpstream]]:
    """The caller's SDK, and an upstream of another format behind a gateway."""
    spoken = frozenset({upstream})
    server = ScriptedUpstream(answer)
    with server.running() as url:
        state = state_for(
            f"{url}/v1",
            decider=ScriptedDecider("m0"),
            formats=spoken,
            translated=translated_formats(spoken),
        )
        with gateway(state) as running, SDKS[caller].client(running.url) as client:
            yield client, server


def answering(upstream: WireFormat, *, calls: bool) -> Answering:
    async def answer(asked: Asked, send: Any) -> None:
        spoken = SAMPLES[upstream]
        assert asked.path == spoken.path
        if json.loads(asked.body).get("stream"):
            await start_stream(send, *spoken.events(calls))
            await send({"type": "http.response.body", "body": b""})
        else:
            await reply(send, 200, json.dumps(spoken.answer(calls)).encode())

    return answer


@pytest.mark.parametrize(("caller", "upstream"), PAIRS)
@pytest.mark.parametrize("calls", [False, True], ids=["text", "calls"])
def test_a_turn_with_an_image_and_parallel_calls(
    caller: WireFormat, upstream: WireFormat, calls: bool
) -> None:
    sdk = SDKS[caller]
    with through(caller, upstream, answering(upstream, calls=calls)) as (client, server):
        answers = [sdk.ask(client, **sdk.turn), sdk.collect(client, **sdk.turn)]
        for asked in server.asked:
            body = json.loads(asked.body)
            assert json.dumps(body).count(PNG) == 1
            written = json.dumps(body.get("messages") or body["input"])
            assert all(written.count(word) >= 1 for word in ("Where is this?", "sun", "rain", "Oslo"))
            assert written.index("call_1") < written.index("call_2") < written.index("sun")
    for answer in answers:
        assert sdk.read(answer) == (("", list(CALLS)) if calls else (TEXT, []))


@pytest.mark.parametrize(("caller", "upstream"), PAIRS)
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, "BadRequestError"),
        (401, "PermissionDeniedError"),  # the gateway's own key is refused: nothing of the caller's
        (404, "NotFoundError"),
        (413, "APIStatusError"),
        (429, "RateLimitError"),
        (500, "InternalServerError"),
        (529, "InternalServerError"),
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_status(caller: WireFormat, upstream: WireFormat, status: int, error: str, stream: bool) -> None:
    async def refuse(_: Asked, send: Any) -> None:
        await reply(send, status, json.dumps(SAMPLES[upstream].error).encode())

    sdk = SDKS[caller]
    with (
        through(caller, upstream, refuse) as (client, _),
        pytest.raises(getattr(sdk.errors, error)) as raised,
    ):
        sdk.ask(client, **sdk.turn, stream=stream)
    assert raised.value.status_code == (403 if status == 401 else status)
    if status not in {401, 404}:
        assert "max_tokens is too large" in str(raised.value)


@pytest.mark.parametrize(("caller", "upstream"), PAIRS)
def test_an_error_in_mid_stream_raises(caller: WireFormat, upstream: WireFormat) -> None:
    async def fail(_: Asked, send: Any) -> None:
        spoken, calls = SAMPLES[upstream], False
        await start_stream(send, *spoken.events(calls)[:3], spoken.error_event)
        await send({"type": "http.response.body", "body": b""})

    sdk = SDKS[caller]
    with through(caller, upstream, fail) as (client, _):
        with pytest.raises(sdk.errors.APIError, match="the model broke down"):
            list(sdk.ask(client, **sdk.turn, stream=True))
        with pytest.raises(sdk.errors.APIError, match="the model broke down"):
            sdk.collect(client, **sdk.turn)


@pytest.mark.parametrize(("caller", "upstream"), PAIRS)
@pytest.mark.parametrize("calls", [False, True], ids=["text", "calls"])
def test_a_stream_cut_behind_any_event_raises(caller: WireFormat, upstream: WireFormat, calls: bool) -> None:
    events = SAMPLES[upstream].events(calls)
    # The usage and the closing mark of chat come behind the finish, with which the answer is whole.
    last = len(events) - (3 if upstream is CHAT else 1)
    left = iter(range(1, last + 1))

    async def die(_: Asked, send: Any) -> None:
        await start_stream(send, *events[: next(left)])
        raise ConnectionResetError

    sdk = SDKS[caller]
    with through(caller, upstream, die) as (client, _):
        for _ in range(last):
            with pytest.raises(sdk.errors.APIError, match="broke off"):
                list(sdk.ask(client, **sdk.turn, stream=True))

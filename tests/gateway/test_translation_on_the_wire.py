"""Callers of each format in front of an upstream of each other format, over loopback."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import openai
import pytest
from anthropic.types import MessageParam, TextBlock, ToolParam, ToolUseBlock
from openai.types.chat import (
    ChatCompletionFunctionToolParam,
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionMessageParam,
)
from openai.types.responses import FunctionToolParam, ResponseCompletedEvent, ResponseFunctionToolCall

from pointsman.decision.decision import Injection
from pointsman.stores.ledger import Attempt, MemoryLedger
from pointsman.vocabulary import LARGE, WireFormat
from pointsman.wire.translate import translated_formats
from support.deciders import ScriptedDecider
from support.servers import Answering, Asked, ScriptedUpstream, gateway, reply, state_for
from support.translation import CALLS, CHAT, MESSAGES, RESPONSES, SAMPLES, SCHEMA, TEXT, TOKENS, payloads
from support.waiting import until

pytestmark = pytest.mark.integration

PAIRS = [(caller, upstream) for caller in SAMPLES for upstream in SAMPLES if caller is not upstream]
USED = (TOKENS[0] + TOKENS[1], TOKENS[2])
SSE = ("content-type", "text/event-stream")
JSON = {"content-type": "application/json"}
WORDS = "What is the weather?"


def answering(upstream: WireFormat, *, calls: bool) -> Answering:
    """Answer in one format, streamed when asked to, and only to what was asked in it."""
    spoken = SAMPLES[upstream]

    async def answer(asked: Asked, send: Any) -> None:
        assert asked.path == spoken.path
        if not json.loads(asked.body).get("stream"):
            await reply(send, 200, json.dumps(spoken.answer(calls)).encode())
            return
        await begin(send)
        for event in spoken.events(calls):
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return answer


async def begin(send: Any) -> None:
    """Begin a stream."""
    headers = [tuple(part.encode() for part in SSE)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


class Translating:
    """A gateway in front of one upstream of one format."""

    def __init__(self, url: str, upstream: ScriptedUpstream, decider: ScriptedDecider) -> None:
        self.url = url
        self.upstream = upstream
        self.decider = decider

    def post(self, caller: WireFormat, **headers: str) -> httpx.Response:
        return self.send(caller, SAMPLES[caller].request(), **headers)

    def stream(self, caller: WireFormat, **more: Any) -> httpx.Response:
        return self.send(caller, {**SAMPLES[caller].request(), "stream": True, **more})

    def send(self, caller: WireFormat, body: dict[str, Any], **headers: str) -> httpx.Response:
        return httpx.post(self.url + SAMPLES[caller].path, json=body, headers=headers, timeout=60)

    def attempt(self) -> Attempt:
        """The one attempt, which is written down when the caller has all of the answer."""
        ledger = self.decider.ledger
        assert isinstance(ledger, MemoryLedger)
        until(lambda: ledger.attempts("d-1"))
        [found] = ledger.attempts("d-1")
        return found

    @property
    def sent(self) -> dict[str, Any]:
        """What the upstream was asked last."""
        found: dict[str, Any] = json.loads(self.upstream.asked[-1].body)
        return found


@pytest.fixture
def running(upstream: WireFormat) -> Iterator[Translating]:
    spoken = frozenset({upstream})
    server = ScriptedUpstream(answering(upstream, calls=False))
    decider = ScriptedDecider("m0")
    with (
        server.running() as url,
        gateway(
            state_for(f"{url}/v1", decider=decider, formats=spoken, translated=translated_formats(spoken))
        ) as gate,
    ):
        yield Translating(gate.url, server, decider)


@pytest.mark.parametrize(("caller", "upstream"), PAIRS)
@pytest.mark.parametrize("calls", [False, True], ids=["text", "calls"])
def test_a_whole_answer(running: Translating, caller: WireFormat, upstream: WireFormat, calls: bool) -> None:
    running.upstream.answering = answering(upstream, calls=calls)
    response = running.post(caller)
    assert response.status_code == 200, response.text
    spoken = SAMPLES[caller]
    answer = spoken.read(response.json())
    assert answer == (("" if calls else TEXT), list(CALLS) if calls else [], spoken.stops[calls], USED)
    assert response.headers["x-pointsman-translated"].startswith(f"{caller}->{upstream}")
    attempt = running.attempt()
    assert attempt.translated.startswith(f"{caller}->{upstream}")
    assert (attempt.input_tokens, attempt.cached_tokens, attempt.output_tokens) == (*_openai(upstream), 7)


def _openai(upstream: WireFormat) -> tuple[int, int]:
    """Input with what was cached, and what was cached: alike in every format, as the ledger counts."""
    assert upstream in SAMPLES
    return USED[0], TOKENS[1]


@pytest.mark.parametrize(("caller", "upstream"), PAIRS)
@pytest.mark.parametrize("calls", [False, True], ids=["text", "calls"])
def test_a_stream(running: Translating, caller: WireFormat, upstream: WireFormat, calls: bool) -> None:
    running.upstream.answering = answering(upstream, calls=calls)
    options = {"stream_options": {"include_usage": True}} if caller is CHAT else {}
    response = running.stream(caller, **options)
    spoken = SAMPLES[caller]
    answer = spoken.read_stream(payloads(response.content))
    assert answer == (("" if calls else TEXT), list(CALLS) if calls else [], spoken.stops[calls], USED)
    assert response.content.count(spoken.closing) == 1
    assert response.headers["content-type"].startswith("text/event-stream")
    attempt = running.attempt()
    assert (attempt.error, attempt.output_tokens) == ("", 7)


@pytest.mark.parametrize(("caller", "upstream"), PAIRS)
def test_the_request_keeps_its_turns_and_tools(
    running: Translating, caller: WireFormat, upstream: WireFormat
) -> None:
    running.post(caller)
    native, sent = SAMPLES[upstream].request(), running.sent
    assert sent["model"] == "model-0"
    assert sent["tools"][0].get("function", sent["tools"][0])["name"] == "weather"
    flat = json.dumps(sent)
    for word in ("Be brief.", "Weather in Bonn?", "rain", "And in Rome?", "call_0", "Look up the weather"):
        assert flat.count(word) == json.dumps(native).count(word), word
    asked = running.upstream.asked[-1]
    key = "x-api-key" if upstream is MESSAGES else "authorization"
    assert asked.headers[key].endswith("sk-upstream")
    assert ("anthropic-version" in asked.headers) == (upstream is MESSAGES)


@pytest.mark.parametrize(("caller", "upstream"), PAIRS)
def test_headers_of_the_callers_provider_go_no_further(
    running: Translating, caller: WireFormat, upstream: WireFormat
) -> None:
    spoken = SAMPLES[caller]
    named = {"anthropic-beta": "x-1", "openai-organization": "o", "anthropic-version": "1999-01-01"}
    url = f"{running.url}{spoken.path}?beta=true"
    assert httpx.post(url, json=spoken.request(), headers=named, timeout=60).status_code == 200
    asked = running.upstream.asked[-1]
    assert asked.path == SAMPLES[upstream].path
    assert not {"anthropic-beta", "openai-organization"} & asked.headers.keys()
    assert asked.headers.get("anthropic-version") != "1999-01-01"


@pytest.mark.parametrize(("caller", "upstream"), PAIRS)
def test_an_error_of_the_upstream(running: Translating, caller: WireFormat, upstream: WireFormat) -> None:
    async def refuse(_: Asked, send: Any) -> None:
        await reply(send, 400, json.dumps(SAMPLES[upstream].error).encode())

    running.upstream.answering = refuse
    response = running.post(caller)
    assert response.status_code == 400
    assert response.json()["error"]["message"] == "max_tokens is too large"
    assert response.json()["error"]["type"] == "invalid_request_error"
    assert response.json().get("type") == ("error" if caller is MESSAGES else None)


@pytest.mark.parametrize(("caller", "upstream"), PAIRS)
@pytest.mark.parametrize("calls", [False, True], ids=["text", "calls"])
def test_a_stream_that_is_cut_is_not_closed(
    running: Translating, caller: WireFormat, upstream: WireFormat, calls: bool
) -> None:
    events = SAMPLES[upstream].events(calls)
    middle = len(events) // 2

    async def cut(_: Asked, send: Any) -> None:
        await begin(send)
        for event in events[:middle]:
            await send({"type": "http.response.body", "body": event, "more_body": True})
        raise ConnectionResetError

    running.upstream.answering = cut
    response = running.stream(caller)
    assert SAMPLES[caller].closing not in response.content
    last = payloads(response.content)[-1]
    assert last["error"]["message"]
    attempt = running.attempt()
    assert attempt.error == "cut"


@pytest.mark.parametrize(("caller", "upstream"), PAIRS)
def test_an_error_in_mid_stream(running: Translating, caller: WireFormat, upstream: WireFormat) -> None:
    spoken, calls = SAMPLES[upstream], False

    async def fail(_: Asked, send: Any) -> None:
        await begin(send)
        for event in (*spoken.events(calls)[:3], spoken.error_event):
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    running.upstream.answering = fail
    content = running.stream(caller).content
    assert SAMPLES[caller].closing not in content
    assert content.count(b"the model broke down") >= 1
    attempt = running.attempt()
    assert attempt.error == "status"


@pytest.mark.parametrize(("caller", "upstream"), PAIRS)
def test_what_is_no_answer(running: Translating, caller: WireFormat, upstream: WireFormat) -> None:
    async def answer(_: Asked, send: Any) -> None:
        await reply(send, 200, b'{"id": 3')

    running.upstream.answering = answer
    response = running.post(caller)
    assert response.status_code == 502
    assert str(upstream) in response.json()["error"]["message"]


@pytest.mark.parametrize(("caller", "upstream"), PAIRS)
def test_injections_come_before_the_translation(
    running: Translating, caller: WireFormat, upstream: WireFormat
) -> None:
    running.decider.injections = (Injection("guidance", "Try another way."),)
    running.post(caller)
    assert upstream in SAMPLES
    assert json.dumps(running.sent).count("Try another way.") == 1


@pytest.mark.parametrize("upstream", [CHAT])
def test_an_error_with_status_200(running: Translating, upstream: WireFormat) -> None:
    async def refuse(_: Asked, send: Any) -> None:
        await reply(send, 200, json.dumps(SAMPLES[upstream].error).encode())

    running.upstream.answering = refuse
    response = running.post(MESSAGES)
    assert response.status_code == 502
    assert response.json()["error"] == {"type": "api_error", "message": "max_tokens is too large"}


@pytest.mark.parametrize("upstream", [CHAT])
def test_a_large_request_and_a_large_answer(running: Translating, upstream: WireFormat) -> None:
    text = "word " * (LARGE // 4)
    body = SAMPLES[MESSAGES].request()
    body["messages"][0]["content"] = text
    whole = SAMPLES[upstream].answer(False)  # noqa: FBT003 - a text
    whole["choices"][0]["message"]["content"] = text

    async def answer(_: Asked, send: Any) -> None:
        await reply(send, 200, json.dumps(whole).encode())

    running.upstream.answering = answer
    assert SAMPLES[MESSAGES].read(running.send(MESSAGES, body).json()).text == text
    assert running.sent["messages"][1]["content"] == text


@pytest.mark.parametrize("upstream", [CHAT, MESSAGES])
def test_a_stream_in_pieces_of_seven_bytes(running: Translating, upstream: WireFormat) -> None:
    async def drip(_: Asked, send: Any) -> None:
        await begin(send)
        stream = b"".join(SAMPLES[upstream].events(True))  # noqa: FBT003 - calls
        for at in range(0, len(stream), 7):
            await send({"type": "http.response.body", "body": stream[at : at + 7], "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    running.upstream.answering = drip
    spoken = SAMPLES[RESPONSES]
    assert spoken.read_stream(payloads(running.stream(RESPONSES).content)).calls == list(CALLS)


@pytest.mark.parametrize("upstream", [CHAT])
def test_a_change_is_reported(running: Translating, upstream: WireFormat) -> None:
    body = {**SAMPLES[MESSAGES].request(), "top_k": 5}
    response = running.send(MESSAGES, body)
    assert response.headers["x-pointsman-translated"] == f"messages->{upstream}; changed=top_k"
    assert running.attempt().translated == f"messages->{upstream}; changed=top_k"


@pytest.mark.parametrize("upstream", [MESSAGES])
def test_what_cannot_be_translated_is_refused_by_name(running: Translating, upstream: WireFormat) -> None:
    response = running.send(CHAT, {**SAMPLES[CHAT].request(), "logit_bias": {"50256": -100}})
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (400, "untranslatable", "logit_bias")
    assert f"a model that speaks {upstream}" in error["message"]
    assert running.upstream.asked == []


@pytest.mark.parametrize("upstream", [MESSAGES])
@pytest.mark.parametrize(
    ("member", "says"),
    [
        (
            b'"input":"hi","tools":[{"type":"function","name":"a","parameters":{},"x":"\xed\xa0\x80"}]',
            "not UTF-8",
        ),
        (b'"input":[{"role":"user","content":"hi","x":"\xed\xa0\x80"}]', "not UTF-8"),
        (
            b'"input":"hi","tools":[{"type":"custom","name":"a","format":{"type":{}}}]',
            r"Expected `str`, got `object` - at `\$.format.type`",
        ),
    ],
    ids=["tool", "item", "grammar"],
)
def test_a_member_that_only_a_translation_reads_is_the_callers_error(
    running: Translating, upstream: WireFormat, member: bytes, says: str
) -> None:
    body = b'{"model":"auto",' + member + b"}"
    response = httpx.post(running.url + SAMPLES[RESPONSES].path, content=body, headers=JSON, timeout=60)
    assert response.status_code == 400
    assert re.search(says, response.json()["error"]["message"])
    assert running.upstream.asked == []


def test_a_native_model_behind_serves_what_cannot_be_translated() -> None:
    servers = [ScriptedUpstream(answering(wire, calls=False)) for wire in (MESSAGES, CHAT)]
    with servers[0].running() as first, servers[1].running() as second:
        state = state_for(f"{first}/v1", f"{second}/v1", decider=ScriptedDecider("m0", "m1"))
        for name, wire in (("m0", MESSAGES), ("m1", CHAT)):
            model = state.targets[name].model
            spoken = frozenset({wire})
            changed = type(model)(
                model.name, model.upstream, model.id, formats=spoken, translated=translated_formats(spoken)
            )
            target = state.targets[name]._replace(model=changed, as_sent=spoken)
            state.targets[name] = target  # type: ignore[index]  # a dict
        with gateway(state) as gate:
            body = {**SAMPLES[CHAT].request(), "logit_bias": {"50256": -100}}
            response = httpx.post(f"{gate.url}/v1/chat/completions", json=body, timeout=60)
            plain = httpx.post(f"{gate.url}/v1/chat/completions", json=SAMPLES[CHAT].request(), timeout=60)
    assert response.status_code == 200
    assert response.headers["x-pointsman-model"] == "m1"
    assert "x-pointsman-translated" not in response.headers
    assert plain.headers["x-pointsman-model"] == "m0"  # the order of the chain is kept


@pytest.mark.parametrize("upstream", [RESPONSES, MESSAGES])
def test_a_chat_stream_reports_usage_only_when_asked(running: Translating, upstream: WireFormat) -> None:
    chunks = payloads(running.stream(CHAT).content)
    assert upstream in SAMPLES
    assert all(chunk["choices"] for chunk in chunks)


MESSAGES_TOOL: ToolParam = {"name": "weather", "input_schema": SCHEMA}
CHAT_TOOL: ChatCompletionFunctionToolParam = {
    "type": "function",
    "function": {"name": "weather", "parameters": SCHEMA},
}
RESPONSES_TOOL: FunctionToolParam = {
    "type": "function",
    "name": "weather",
    "parameters": SCHEMA,
    "strict": False,
}


@pytest.mark.parametrize("upstream", [CHAT, RESPONSES])
@pytest.mark.parametrize("calls", [False, True], ids=["text", "calls"])
def test_the_anthropic_sdk(running: Translating, upstream: WireFormat, calls: bool) -> None:
    running.upstream.answering = answering(upstream, calls=calls)
    messages: list[MessageParam] = [{"role": "user", "content": WORDS}]
    with anthropic.Anthropic(base_url=running.url, api_key="unused", max_retries=0) as client:
        whole = client.messages.create(model="auto", max_tokens=99, messages=messages, tools=[MESSAGES_TOOL])
        with client.messages.stream(
            model="auto", max_tokens=99, messages=messages, tools=[MESSAGES_TOOL]
        ) as stream:
            streamed = stream.get_final_message()
    for message in (whole, streamed):
        texts = [block.text for block in message.content if isinstance(block, TextBlock)]
        found = [(b.id, b.name, b.input) for b in message.content if isinstance(b, ToolUseBlock)]
        assert (texts, found) == (([], list(CALLS)) if calls else ([TEXT], []))
        assert message.stop_reason == ("tool_use" if calls else "end_turn")
        assert (message.usage.input_tokens, message.usage.cache_read_input_tokens) == TOKENS[:2]
        assert message.usage.output_tokens == TOKENS[2]


@pytest.mark.parametrize("upstream", [MESSAGES, RESPONSES])
@pytest.mark.parametrize("calls", [False, True], ids=["text", "calls"])
def test_the_openai_sdk_with_chat(running: Translating, upstream: WireFormat, calls: bool) -> None:
    running.upstream.answering = answering(upstream, calls=calls)
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": WORDS}]
    with openai.OpenAI(base_url=f"{running.url}/v1", api_key="unused", max_retries=0) as client:
        whole = client.chat.completions.create(model="auto", messages=messages, tools=[CHAT_TOOL])
        with client.chat.completions.stream(
            model="auto", messages=messages, tools=[CHAT_TOOL], stream_options={"include_usage": True}
        ) as stream:
            streamed = stream.get_final_completion()
    for completion in (whole, streamed):
        [choice] = completion.choices
        found = [
            (call.id, call.function.name, json.loads(call.function.arguments))
            for call in choice.message.tool_calls or ()
            if isinstance(call, ChatCompletionMessageFunctionToolCall)
        ]
        assert (choice.message.content or "", found) == (("", list(CALLS)) if calls else (TEXT, []))
        assert choice.finish_reason == ("tool_calls" if calls else "stop")
        assert completion.usage is not None
        assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == USED


@pytest.mark.parametrize("upstream", [CHAT, MESSAGES])
@pytest.mark.parametrize("calls", [False, True], ids=["text", "calls"])
def test_the_openai_sdk_with_responses(running: Translating, upstream: WireFormat, calls: bool) -> None:
    running.upstream.answering = answering(upstream, calls=calls)
    with openai.OpenAI(base_url=f"{running.url}/v1", api_key="unused", max_retries=0) as client:
        whole = client.responses.create(model="auto", input=WORDS, tools=[RESPONSES_TOOL])
        with client.responses.create(
            model="auto", input=WORDS, tools=[RESPONSES_TOOL], stream=True
        ) as stream:
            events = list(stream)
    last = events[-1]
    assert isinstance(last, ResponseCompletedEvent)
    for response in (whole, last.response):
        found = [
            (item.call_id, item.name, json.loads(item.arguments))
            for item in response.output
            if isinstance(item, ResponseFunctionToolCall)
        ]
        assert (response.output_text, found) == (("", list(CALLS)) if calls else (TEXT, []))
        assert response.usage is not None
        assert (response.usage.input_tokens, response.usage.output_tokens) == USED


@pytest.mark.parametrize(("caller", "upstream"), [(CHAT, MESSAGES), (MESSAGES, CHAT)])
def test_sdk_errors(running: Translating, caller: WireFormat, upstream: WireFormat) -> None:
    async def refuse(_: Asked, send: Any) -> None:
        await reply(send, 400, json.dumps(SAMPLES[upstream].error).encode())

    running.upstream.answering = refuse
    if caller is CHAT:
        with (
            openai.OpenAI(base_url=f"{running.url}/v1", api_key="unused", max_retries=0) as client,
            pytest.raises(openai.BadRequestError, match="max_tokens is too large"),
        ):
            client.chat.completions.create(model="auto", messages=[{"role": "user", "content": WORDS}])
        return
    with (
        anthropic.Anthropic(base_url=running.url, api_key="unused", max_retries=0) as claude,
        pytest.raises(anthropic.BadRequestError, match="max_tokens is too large"),
    ):
        claude.messages.create(model="auto", max_tokens=9, messages=[{"role": "user", "content": WORDS}])

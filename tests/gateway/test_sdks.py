"""The OpenAI and Anthropic SDKs as clients, over loopback, against the built-in demo upstream."""

from __future__ import annotations

from collections.abc import Iterator

import anthropic
import openai
import pytest
from anthropic.types import MessageParam, TextBlock, ToolChoiceToolParam, ToolParam, ToolUseBlock
from openai.types.chat import (
    ChatCompletionFunctionToolParam,
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionMessageParam,
)
from openai.types.responses import (
    EasyInputMessageParam,
    FunctionToolParam,
    ResponseCompletedEvent,
    ResponseCreatedEvent,
    ResponseFunctionToolCall,
    ResponseTextDeltaEvent,
)
from openai.types.shared_params import FunctionDefinition

from pointsman.upstreams.connections import LABEL
from support.servers import gateway, state_for

pytestmark = pytest.mark.integration

WORDS = "What is the capital of France?"
CHAT: list[ChatCompletionMessageParam] = [{"role": "user", "content": WORDS}]
CLAUDE: list[MessageParam] = [{"role": "user", "content": WORDS}]
PARAMETERS: dict[str, object] = {"type": "object", "properties": {"city": {"type": "string"}}}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with gateway(state_for()) as running:
        yield running.url


@pytest.fixture
def chat(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as client:
        yield client


@pytest.fixture
def claude(url: str) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=url, api_key="unused", max_retries=0) as client:
        yield client


def test_chat_create(chat: openai.OpenAI) -> None:
    answer = chat.chat.completions.create(model="auto", messages=CHAT)
    content, usage = answer.choices[0].message.content, answer.usage
    assert content is not None
    assert usage is not None
    assert content.startswith(LABEL)
    assert answer.choices[0].finish_reason == "stop"
    assert usage.total_tokens > 0


def test_chat_stream(chat: openai.OpenAI) -> None:
    chunks = list(
        chat.chat.completions.create(
            model="auto", messages=CHAT, stream=True, stream_options={"include_usage": True}
        )
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text.startswith(LABEL)
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.completion_tokens > 0


def test_chat_tools(chat: openai.OpenAI) -> None:
    function = FunctionDefinition(name="weather", parameters=PARAMETERS)
    tool = ChatCompletionFunctionToolParam(type="function", function=function)
    answer = chat.chat.completions.create(model="auto", messages=CHAT, tools=[tool], tool_choice="required")
    assert answer.choices[0].finish_reason == "tool_calls"
    [call] = answer.choices[0].message.tool_calls or []
    assert isinstance(call, ChatCompletionMessageFunctionToolCall)
    assert call.function.name == "weather"


def test_responses_create(chat: openai.OpenAI) -> None:
    answer = chat.responses.create(model="auto", input="hello")
    assert answer.output_text.startswith(LABEL)
    assert answer.usage is not None
    assert answer.usage.output_tokens > 0


def test_responses_stream(chat: openai.OpenAI) -> None:
    asked = EasyInputMessageParam(type="message", role="user", content=WORDS)
    events = list(chat.responses.create(model="auto", input=[asked], stream=True))
    first, *_, last = events
    assert isinstance(first, ResponseCreatedEvent)
    assert isinstance(last, ResponseCompletedEvent)
    text = "".join(event.delta for event in events if isinstance(event, ResponseTextDeltaEvent))
    assert text == last.response.output_text


def test_responses_tools(chat: openai.OpenAI) -> None:
    tool = FunctionToolParam(type="function", name="weather", parameters=PARAMETERS, strict=False)
    answer = chat.responses.create(model="auto", input="hello", tools=[tool], tool_choice="required")
    call = answer.output[0]
    assert isinstance(call, ResponseFunctionToolCall)
    assert call.name == "weather"


def test_messages_create(claude: anthropic.Anthropic) -> None:
    answer = claude.messages.create(model="auto", max_tokens=100, messages=CLAUDE)
    [block] = answer.content
    assert isinstance(block, TextBlock)
    assert block.text.startswith(LABEL)
    assert answer.stop_reason == "end_turn"
    assert answer.usage.output_tokens > 0


def test_messages_stream(claude: anthropic.Anthropic) -> None:
    with claude.messages.stream(model="auto", max_tokens=100, messages=CLAUDE) as stream:
        text = "".join(stream.text_stream)
    assert text.startswith(LABEL)


def test_messages_tools(claude: anthropic.Anthropic) -> None:
    tool = ToolParam(name="weather", input_schema=PARAMETERS)
    choice = ToolChoiceToolParam(type="tool", name="weather")
    answer = claude.messages.create(
        model="auto", max_tokens=100, messages=CLAUDE, tools=[tool], tool_choice=choice
    )
    assert answer.stop_reason == "tool_use"
    block = answer.content[0]
    assert isinstance(block, ToolUseBlock)
    assert block.name == "weather"


def test_models_are_listed_for_both(chat: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    assert {"auto", "simple", "m0"} <= {model.id for model in chat.models.list()}
    assert {"auto", "simple", "m0"} <= {model.id for model in claude.models.list()}

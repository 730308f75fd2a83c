"""The OpenAI and Anthropic SDKs as clients, over loopback, against the built-in demo upstream."""

from __future__ import annotations

from collections.abc import Iterator

import anthropic
import openai
import pytest

from pointsman.upstreams.demo import LABEL
from support.servers import gateway, setup_for

pytestmark = pytest.mark.integration

WORDS = [{"role": "user", "content": "What is the capital of France?"}]
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with gateway(setup_for()) as running:
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
    answer = chat.chat.completions.create(model="auto", messages=WORDS)
    assert answer.choices[0].message.content.startswith(LABEL)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens > 0


def test_chat_stream(chat: openai.OpenAI) -> None:
    options = {"include_usage": True}
    chunks = list(
        chat.chat.completions.create(model="auto", messages=WORDS, stream=True, stream_options=options)
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text.startswith(LABEL)
    assert chunks[-1].usage.completion_tokens > 0


def test_chat_tools(chat: openai.OpenAI) -> None:
    tool = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
    answer = chat.chat.completions.create(model="auto", messages=WORDS, tools=[tool], tool_choice="required")
    assert answer.choices[0].finish_reason == "tool_calls"
    assert answer.choices[0].message.tool_calls[0].function.name == "weather"


def test_responses_create(chat: openai.OpenAI) -> None:
    answer = chat.responses.create(model="auto", input="hello")
    assert answer.output_text.startswith(LABEL)
    assert answer.usage.output_tokens > 0


def test_responses_stream(chat: openai.OpenAI) -> None:
    events = list(chat.responses.create(model="auto", input=WORDS, stream=True))
    assert events[0].type == "response.created"
    assert events[-1].type == "response.completed"
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == events[-1].response.output_text


def test_responses_tools(chat: openai.OpenAI) -> None:
    tool = {"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": False}
    answer = chat.responses.create(model="auto", input="hello", tools=[tool], tool_choice="required")
    assert answer.output[0].type == "function_call"
    assert answer.output[0].name == "weather"


def test_messages_create(claude: anthropic.Anthropic) -> None:
    answer = claude.messages.create(model="auto", max_tokens=100, messages=WORDS)
    assert answer.content[0].text.startswith(LABEL)
    assert answer.stop_reason == "end_turn"
    assert answer.usage.output_tokens > 0


def test_messages_stream(claude: anthropic.Anthropic) -> None:
    with claude.messages.stream(model="auto", max_tokens=100, messages=WORDS) as stream:
        text = "".join(stream.text_stream)
    assert text.startswith(LABEL)


def test_messages_tools(claude: anthropic.Anthropic) -> None:
    tool = {"name": "weather", "input_schema": PARAMETERS}
    choice = {"type": "tool", "name": "weather"}
    answer = claude.messages.create(
        model="auto", max_tokens=100, messages=WORDS, tools=[tool], tool_choice=choice
    )
    assert answer.stop_reason == "tool_use"
    assert answer.content[0].name == "weather"


def test_models_are_listed_for_both(chat: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    assert {"auto", "simple", "m0"} <= {model.id for model in chat.models.list()}
    assert {"auto", "simple", "m0"} <= {model.id for model in claude.models.list()}

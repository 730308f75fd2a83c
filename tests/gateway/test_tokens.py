"""``count_tokens``: the upstream's own count, OpenAI's count of the translated request, or an estimate."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest

from pointsman.config import Config
from pointsman.gateway._live_state import build_live_state
from pointsman.upstreams.port import Secret, ServerSpec, UpstreamSpec
from pointsman.vocabulary import LARGE, ModelSpec, WireFormat
from pointsman.wire.translate import translated_formats
from support.deciders import ScriptedDecider
from support.servers import Answering, Asked, ScriptedUpstream, gateway, reply
from support.translation import CHAT, MESSAGES, RESPONSES, SCHEMA

pytestmark = pytest.mark.integration

REQUEST: dict[str, Any] = {
    "model": "m0",
    "system": "Be brief.",
    "messages": [
        {"role": "user", "content": "Weather in Bonn?"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"},
                                          {"type": "tool_use", "id": "t1", "name": "weather", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "rain"}]},
    ],
    "thinking": {"type": "enabled", "budget_tokens": 2_048},
    "tools": [{"name": "weather", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}}],
}  # fmt: skip
COUNTED = {"object": "response.input_tokens", "input_tokens": 321}


def answering(status: int, body: Any) -> Answering:
    async def answer(_: Asked, send: Any) -> None:
        await reply(send, status, json.dumps(body).encode())

    return answer


@contextmanager
def served(
    *upstreams: tuple[WireFormat, Answering], translate: bool = True
) -> Iterator[tuple[str, list[ScriptedUpstream]]]:
    """A gateway with one upstream of each format: m0, m1, …"""
    servers = [ScriptedUpstream(answer) for _, answer in upstreams]
    with ExitStack() as stack:
        specs, models = {}, {}
        for n, (wire, _) in enumerate(upstreams):
            url = stack.enter_context(servers[n].running())
            spoken = frozenset({wire})
            translated = translated_formats(spoken) if translate else frozenset[WireFormat]()
            specs[f"up{n}"] = UpstreamSpec(f"up{n}", f"{url}/v1", formats=spoken, api_key=Secret("sk-up"))
            models[f"m{n}"] = ModelSpec(
                f"m{n}", f"up{n}", f"model-{n}", formats=spoken, translated=translated
            )
        state = build_live_state(
            ScriptedDecider("m0"), Config(models=models, upstreams=specs, server=ServerSpec(port=0))
        )
        yield stack.enter_context(gateway(state)).url, servers


def count(url: str, **more: Any) -> httpx.Response:
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "b", "traceparent": "00-1"}
    asked = {**REQUEST, **more}
    got = httpx.post(
        f"{url}/v1/messages/count_tokens?beta=true", json=asked, headers=headers, trust_env=False
    )
    assert got.status_code == 200, got.text
    assert isinstance(got.json()["input_tokens"], int)
    return got


def is_estimate(got: httpx.Response) -> bool:
    assert got.json().keys() == {"input_tokens"}
    return bool(got.headers.get("x-pointsman-estimate") == "1")


def test_openai_counts_a_translated_request() -> None:
    with served((RESPONSES, answering(200, COUNTED))) as (url, [server]):
        got = count(url)
    assert got.json() == {"input_tokens": 321}
    assert not is_estimate(got)
    [asked] = server.asked
    assert asked.path == "/v1/responses/input_tokens"
    assert asked.headers["authorization"] == "Bearer sk-up"
    assert "anthropic-beta" not in asked.headers
    assert asked.headers["traceparent"] == "00-1"
    sent = json.loads(asked.body)
    assert sent.keys() == {"model", "instructions", "input", "tools", "reasoning"}
    assert sent["model"] == "model-0"
    assert [item["type"] for item in sent["input"]] == ["message", "function_call", "function_call_output"]


@pytest.mark.parametrize(
    ("status", "body"),
    [(400, {"error": {}}), (500, {}), (200, {"count": 1}), (200, {"input_tokens": "x"}), (200, None),
     (200, {"input_tokens": 5, "more": "x" * LARGE})],
)  # fmt: skip
def test_any_other_answer_is_an_estimate(status: int, body: Any) -> None:
    with served((RESPONSES, answering(status, body))) as (url, [server]):
        assert is_estimate(count(url))
        assert is_estimate(count(url))
    assert len(server.asked) == 2


@pytest.mark.parametrize("wire", [RESPONSES, MESSAGES])
def test_an_upstream_that_does_not_count_is_asked_once(wire: WireFormat) -> None:
    with served((wire, answering(404, {"error": {}}))) as (url, [server]):
        for _ in range(3):
            assert is_estimate(count(url))
    assert len(server.asked) == 1


def test_a_chat_upstream_is_not_asked() -> None:
    with served((CHAT, answering(200, COUNTED))) as (url, [server]):
        got = count(url)
    assert is_estimate(got)
    assert got.json()["input_tokens"] > 100
    assert server.asked == []


def test_a_model_that_takes_no_translated_request_is_not_asked() -> None:
    with served((RESPONSES, answering(200, COUNTED)), translate=False) as (url, [server]):
        assert is_estimate(count(url))
    assert server.asked == []


def test_what_cannot_be_translated_is_estimated() -> None:
    with served((RESPONSES, answering(200, COUNTED))) as (url, [server]):
        file = {"type": "image", "source": {"type": "file", "file_id": "f"}}
        assert is_estimate(count(url, messages=[{"role": "user", "content": [file]}]))
    assert server.asked == []


def test_the_named_models_provider_counts() -> None:
    upstreams = (RESPONSES, answering(200, COUNTED)), (MESSAGES, answering(200, {"input_tokens": 5}))
    with served(*upstreams) as (url, servers):
        assert count(url, model="m0").json() == {"input_tokens": 321}
        assert count(url, model="m1").json() == {"input_tokens": 5}
        assert count(url, model="auto").json() == {"input_tokens": 5}, "the caller's own format first"
    assert [len(server.asked) for server in servers] == [1, 2]

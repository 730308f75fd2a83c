"""The demo upstream answers as a provider does, so that a client tried with it meets no surprise later."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from pointsman.vocabulary import WireFormat
from support.requests_by_format import PATHS, request
from support.servers import gateway, state_for

pytestmark = pytest.mark.integration

CHAT, RESPONSES, MESSAGES = WireFormat.CHAT, WireFormat.RESPONSES, WireFormat.MESSAGES


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with gateway(state_for()) as running, httpx.Client(base_url=running.url, trust_env=False) as client:
        yield client


@pytest.mark.parametrize(
    ("wire", "wrong", "says"),
    [
        (MESSAGES, {"max_tokens": ...}, "max_tokens: Field required"),
        (MESSAGES, {"messages": []}, "messages: at least one item is required"),
        (CHAT, {"messages": []}, "messages: at least one item is required"),
        (RESPONSES, {"input": []}, "input: at least one item is required"),
        (CHAT, {"tool_choice": ["required"]}, "tool_choice: Expected `str | object | null`, got `array`"),
        (MESSAGES, {"tool_choice": {"type": 7}}, "tool_choice: Expected `str`, got `int` - at `$.type`"),
    ],
)
def test_what_providers_refuse_is_refused(
    client: httpx.Client, wire: WireFormat, wrong: dict[str, Any], says: str
) -> None:
    body = {name: value for name, value in (request(wire) | wrong).items() if value is not ...}
    got = client.post(PATHS[wire], json=body)
    assert got.status_code == 400
    error = got.json()["error"]
    assert error["message"] == says
    assert error["type"] == "invalid_request_error"


def test_a_response_repeats_what_it_was_asked(client: httpx.Client) -> None:
    asked = {"metadata": {"run": "7"}, "previous_response_id": "resp_1", "store": False, "temperature": 0.2}
    got = client.post("/v1/responses", json=request(RESPONSES, **asked)).json()
    assert {name: got[name] for name in asked} == asked
    assert (got["truncation"], got["top_p"], got["instructions"]) == ("disabled", 1, None)
    streamed = client.post("/v1/responses", json=request(RESPONSES, **asked, stream=True)).text
    final = json.loads(streamed.rpartition("data: ")[2])["response"]
    assert {name: final[name] for name in asked} == asked

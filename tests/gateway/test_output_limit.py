"""A request for a longer answer than the chosen model writes is sent with the model's limit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from pointsman.gateway._request import _limited
from pointsman.vocabulary import Parameters, WireFormat
from support.requests_by_format import PATHS, answer, format_of, request
from support.servers import Asked, ScriptedUpstream, gateway, reply

pytestmark = pytest.mark.integration

LIMITS = {
    WireFormat.CHAT: "max_tokens",
    WireFormat.RESPONSES: "max_output_tokens",
    WireFormat.MESSAGES: "max_tokens",
}


async def answering(asked: Asked, send: Any) -> None:
    await reply(send, 200, answer(format_of(asked.path)))


class Served:
    def __init__(self, url: str, upstream: ScriptedUpstream) -> None:
        self.url = url
        self.upstream = upstream

    def post(self, wire: WireFormat, **body: Any) -> tuple[dict[str, Any], bool]:
        """What the upstream was asked, and whether the response tells of a lower limit."""
        asked = {key: value for key, value in request(wire, **body).items() if value is not None}
        response = httpx.post(self.url + PATHS[wire], json=asked, trust_env=False)
        assert response.status_code == 200, response.text
        told = response.headers.get("x-pointsman-translated", "").partition("changed=")[2].split(",")
        return json.loads(self.upstream.asked[-1].body), "max_tokens" in told


@pytest.fixture(params=[*WireFormat], scope="module")
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    upstream = ScriptedUpstream(answering)
    with ExitStack() as stack:
        url = stack.enter_context(upstream.running())
        file = tmp_path_factory.mktemp("limit") / "pointsman.toml"
        file.write_text(
            f"""
[server]
port = 0
[ledger]
path = "ledger.sqlite"
[upstreams.up]
base_url = "{url}/v1"
formats = ["{request.param}"]
[models.small]
upstream = "up"
id = "small-1"
max_output_tokens = 8_000
[models.unknown]
upstream = "up"
id = "unknown-1"
[tiers]
simple = "small"
reasoning = {{ model = "small", max_tokens = 100 }}
""",
            encoding="utf-8",
        )
        running = stack.enter_context(gateway(file, {}))
        yield Served(running.url, upstream)


def limit_in(body: dict[str, Any]) -> Any:
    return next((body[name] for name in ("max_tokens", "max_output_tokens") if name in body), None)


@pytest.mark.parametrize("wire", WireFormat)
def test_the_limit_of_a_chosen_model_is_kept(served: Served, wire: WireFormat) -> None:
    assert served.post(wire, model="auto", **{LIMITS[wire]: 32_000})[1]
    assert limit_in(json.loads(served.upstream.asked[-1].body)) == 8_000


@pytest.mark.parametrize("wire", WireFormat)
@pytest.mark.parametrize(
    ("model", "asked", "sent", "told"),
    [
        ("auto", 8_000, 8_000, False),  # as much as it can
        ("auto", 100, 100, False),
        ("reasoning", 32_000, 100, True),  # the tier's own limit is lower
        ("unknown", 32_000, 32_000, False),  # nothing is known of it
    ],
)
def test_what_it_can_write_is_left_alone(
    served: Served, wire: WireFormat, model: str, asked: int, sent: int, told: bool
) -> None:
    body, header = served.post(wire, model=model, **{LIMITS[wire]: asked})
    assert (limit_in(body), header) == (sent, told)


def test_a_model_by_its_own_name_gets_what_was_sent(served: Served) -> None:
    for wire in WireFormat:
        body, header = served.post(wire, model="small", **{LIMITS[wire]: 32_000})
        native = format_of(served.upstream.asked[-1].path) is wire
        assert (limit_in(body), header) == ((32_000, False) if native else (8_000, True))


@pytest.mark.parametrize("odd", ["32000", 3.2e4, "9" * 5_000])
def test_what_is_no_whole_number_is_the_upstreams_to_judge(served: Served, odd: Any) -> None:
    sent = {"model": "auto", "messages": [{"role": "user", "content": "hi"}], "max_tokens": odd}
    response = httpx.post(served.url + PATHS[WireFormat.CHAT], json=sent, trust_env=False)
    assert "max_tokens" not in response.headers.get("x-pointsman-translated", "")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, Parameters(max_tokens=8_000)),
        (Parameters(effort="high"), Parameters(effort="high", max_tokens=8_000)),
        (Parameters(max_tokens=9_000), Parameters(max_tokens=8_000)),
        (Parameters(max_tokens=100), Parameters(max_tokens=100)),
        (Parameters(thinking_budget=2_000), Parameters(thinking_budget=2_000, max_tokens=8_000)),
        (Parameters(thinking_budget=8_000), Parameters(max_tokens=8_000)),  # no room for an answer
    ],
)
def test_the_parameters_of_a_tier_stay_within_the_limit(
    given: Parameters | None, expected: Parameters
) -> None:
    assert _limited(given, 8_000) == expected

"""Which models serve a request, on the wire: lists, shares, tiers that cannot serve, refusals."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from pointsman.decision.decision import Decision
from pointsman.gateway.app import Gateway
from pointsman.stores.ledger import SqliteLedger
from pointsman.vocabulary import Parameters, WireFormat
from support.requests_by_format import PATHS, answer, format_of, request
from support.servers import Asked, ScriptedUpstream, gateway, reply

pytestmark = pytest.mark.integration

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGES: dict[WireFormat, dict[str, Any]] = {
    WireFormat.CHAT: {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
    WireFormat.RESPONSES: {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
    WireFormat.MESSAGES: {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
    },
}
ITEMS = {WireFormat.CHAT: "messages", WireFormat.RESPONSES: "input", WireFormat.MESSAGES: "messages"}


async def answering(asked: Asked, send: Any) -> None:
    """Answer in the format asked."""
    await reply(send, 200, answer(format_of(asked.path)))


async def failing(asked: Asked, send: Any) -> None:
    """Fail like a provider that is down."""
    await reply(send, 503, b"{}")


class Serving:
    """A gateway with the configuration of a file, before scripted upstreams."""

    def __init__(self, url: str, gateway: Gateway) -> None:
        self.url = url
        self.gateway = gateway

    def post(self, wire: WireFormat, session: str = "s", **body: Any) -> httpx.Response:
        headers = {"x-session-id": session, "x-pointsman-debug": "1"}
        asked = request(wire, **body)
        return httpx.post(self.url + PATHS[wire], json=asked, headers=headers, trust_env=False)

    def decision(self) -> Decision:
        """The latest decision."""
        ledger = self.gateway.state.runtime.ledger
        assert isinstance(ledger, SqliteLedger)
        return next(iter(ledger.decisions(limit=1)))

    def metrics(self, name: str) -> list[str]:
        page = self.gateway.metrics.page().decode().splitlines()
        found = [line for line in page if line.startswith(f"pointsman_{name}_total{{")]
        return [line for line in found if not line.endswith(" 0.0")]


@contextmanager
def serving(
    directory: Path, models: str, tiers: str, *upstreams: ScriptedUpstream, more: str = ""
) -> Iterator[Serving]:
    with ExitStack() as stack:
        text = f'[server]\nport = 0\n[ledger]\npath = "ledger.sqlite"\n[models]\n{models}\n[tiers]\n{tiers}\n'
        for number, upstream in enumerate(upstreams):
            url = stack.enter_context(upstream.running())
            text += f'[upstreams.up{number}]\nbase_url = "{url}/v1"\nretries = 0\n{more}\n'
        file = directory / "pointsman.toml"
        file.write_text(text, encoding="utf-8")
        running = stack.enter_context(gateway(file))
        yield Serving(running.url, running.gateway)


def image(wire: WireFormat) -> dict[str, Any]:
    """The conversation of a request with an image."""
    return {ITEMS[wire]: [{"role": "user", "content": [IMAGES[wire]]}]}


TWO_DEPLOYMENTS = """
a = { upstream = "up0", id = "gpt" }
b = { upstream = "up1", id = "gpt" }
"""
SHARED = 'simple = [{ model = "a", weight = 3 }, { model = "b" }]'


def test_two_deployments_of_a_model_share_its_sessions(tmp_path: Path) -> None:
    ups = [ScriptedUpstream(answering), ScriptedUpstream(answering)]
    with serving(tmp_path, TWO_DEPLOYMENTS, SHARED, *ups) as found:
        served: dict[str, set[str]] = {}
        for number in range(240):
            session = f"s-{number % 120}"
            got = found.post(WireFormat.CHAT, session)
            assert got.status_code == 200
            served.setdefault(session, set()).add(got.headers["x-pointsman-model"])
    assert all(len(models) == 1 for models in served.values()), "a session keeps its deployment"
    shares = Counter(model for [model] in served.values())
    assert shares["a"] / shares["b"] == pytest.approx(3, rel=0.35)  # 120 draws; the exact shares: test_pools
    assert len(ups[0].asked) == 2 * shares["a"]


def test_one_deployment_is_down(tmp_path: Path) -> None:
    ups = [ScriptedUpstream(failing), ScriptedUpstream(answering)]
    with serving(tmp_path, TWO_DEPLOYMENTS, SHARED, *ups) as found:
        answers = [found.post(WireFormat.CHAT, f"s-{number}") for number in range(40)]
    assert [(got.status_code, got.headers["x-pointsman-model"]) for got in answers] == [(200, "b")] * 40
    assert len(ups[1].asked) == 40
    assert len(ups[0].asked) < 15, "its circuit breaker opens"


def test_the_first_of_a_list_that_can(tmp_path: Path) -> None:
    models = """
blind = { upstream = "up0", id = "blind", features = ["tools"] }
seeing = { upstream = "up0", id = "seeing" }
"""
    with serving(tmp_path, models, 'simple = ["blind", "seeing"]', ScriptedUpstream(answering)) as found:
        assert found.post(WireFormat.CHAT).headers["x-pointsman-model"] == "blind"
        got = found.post(WireFormat.CHAT, "other", **image(WireFormat.CHAT))
        assert got.headers["x-pointsman-model"] == "seeing"


BLIND = """
small = { upstream = "up0", id = "s", features = ["tools"], context_window = 1000 }
large = { upstream = "up0", id = "l", features = ["tools"], context_window = 2000 }
"""
LADDER = 'simple = "small"\nreasoning = "large"'


@pytest.mark.parametrize("wire", WireFormat)
@pytest.mark.parametrize(
    ("asked", "named"), [("auto", ("small", "large")), ("reasoning", ("large",)), ("small", ("small",))]
)
def test_an_image_for_models_without_eyes(
    tmp_path: Path, wire: WireFormat, asked: str, named: tuple[str, ...]
) -> None:
    upstream = ScriptedUpstream(answering)
    with serving(tmp_path, BLIND, LADDER, upstream) as found:
        got = found.post(wire, model=asked, **image(wire))
        assert (got.status_code, got.headers["x-should-retry"]) == (400, "false")
        error = got.json()["error"]
        says = "; ".join(f'"{name}" has no vision' for name in named)
        assert error["message"].startswith(f"no model can serve this request: {says}; ")
        if wire is not WireFormat.MESSAGES:
            assert (error["code"], error["param"]) == ("no_capable_model", "model")
        decision = found.decision()
        assert [reason.detail for reason in decision.refused] == [f'"{name}" has no vision' for name in named]
        assert (decision.chain, decision.id) == ((), got.headers["x-pointsman-decision-id"])
        assert len(found.metrics("refused")) == 1
    assert upstream.asked == []


@pytest.mark.parametrize("asked", ["auto", "simple", "large"])
def test_a_request_longer_than_every_window(tmp_path: Path, asked: str) -> None:
    upstream = ScriptedUpstream(answering)
    long: dict[str, Any] = {"messages": [{"role": "user", "content": "What next? " * 4_000}]}
    with serving(tmp_path, BLIND, LADDER, upstream) as found:
        got = found.post(WireFormat.CHAT, model=asked, **long)
        assert got.status_code == 400
        message = got.json()["error"]["message"]
        assert "do not fit its context window" in message
        assert "nevertheless" not in message
    assert upstream.asked == []


def test_a_request_that_may_fit_is_tried(tmp_path: Path) -> None:
    """The size of a request says little of its tokens where it holds encoded data, or JSON marks."""
    upstream = ScriptedUpstream(answering)
    slightly: dict[str, Any] = {"messages": [{"role": "user", "content": "What next? " * 800}]}
    with serving(tmp_path, BLIND, LADDER, upstream) as found:
        assert found.post(WireFormat.CHAT, **slightly).status_code == 200
        assert "routing.none-able" in [reason.code for reason in found.decision().reasons]


def test_a_forced_tier_without_a_model(tmp_path: Path) -> None:
    with serving(tmp_path, BLIND, 'simple = "small"', ScriptedUpstream(answering)) as found:
        got = found.post(WireFormat.CHAT, model="reasoning")
        assert got.status_code == 400
        assert "no tier of REASONING or above has a model" in got.json()["error"]["message"]


def test_a_lower_tier_is_never_silent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    models = """
seeing = { upstream = "up0", id = "s" }
blind = { upstream = "up0", id = "l", features = ["tools"] }
"""
    wire = WireFormat.CHAT
    content = [{"type": "text", "text": "What does this show?"}, IMAGES[wire]]
    tiers = 'simple = "seeing"\ncomplex = "blind"\nreasoning = "blind"\nboundaries = [-9, -8, -7]'
    with (
        caplog.at_level(logging.WARNING, "pointsman.gateway"),
        serving(tmp_path, models, tiers, ScriptedUpstream(answering)) as found,
    ):
        caplog.clear()
        for number in range(3):
            got = found.post(wire, f"s{number}", messages=[{"role": "user", "content": content}])
            assert got.headers["x-pointsman-model"] == "seeing"
            assert "routing.lower-tier" in got.headers["x-pointsman-reasons"]
        assert found.metrics("lower_tier") == [
            'pointsman_lower_tier_total{served="SIMPLE",tier="REASONING"} 3.0'
        ]
    [line] = [record.getMessage() for record in caplog.records if "tier" in record.getMessage()]
    assert line.startswith(
        'a request of tier REASONING in format chat with vision was answered by "seeing" of tier SIMPLE: '
        "tier REASONING cannot serve this request: SIMPLE comes next (decision "
    )


@pytest.mark.parametrize("asked", ["auto", "simple", "chatty"])
def test_a_format_that_no_model_takes(tmp_path: Path, asked: str) -> None:
    upstream = ScriptedUpstream(answering)
    models, more = 'chatty = { upstream = "up0", id = "c" }', 'formats = ["chat"]\ntranslate = false'
    with serving(tmp_path, models, 'simple = "chatty"', upstream, more=more) as found:
        got = found.post(WireFormat.MESSAGES, model=asked)
        assert got.status_code == 400
        message = got.json()["error"]["message"]
        assert message.startswith('no model can serve this request: "chatty" does not speak messages')
        assert found.post(WireFormat.CHAT, model=asked).status_code == 200
    assert [json.loads(one.body)["model"] for one in upstream.asked] == ["c"]


PARAMETERS = """
simple = { model = "small", max_tokens = 50 }
reasoning = [{ model = "large", effort = "high" }, { model = "other", temperature = 0.5 }]
"""
BOTH = """
small = { upstream = "up0", id = "s" }
large = { upstream = "up0", id = "l" }
other = { upstream = "up1", id = "o" }
"""


@pytest.mark.parametrize(
    ("asked", "model", "expected"),
    [
        ("auto", "s", {"max_tokens": 50}),
        ("simple", "s", {"max_tokens": 50}),
        ("reasoning", "l", {"reasoning_effort": "high"}),
        ("small", "s", {}),
        ("large", "l", {}),
    ],
)
def test_the_parameters_of_a_tier(tmp_path: Path, asked: str, model: str, expected: dict[str, Any]) -> None:
    ups = [ScriptedUpstream(answering), ScriptedUpstream(answering)]
    with serving(tmp_path, BOTH, PARAMETERS, *ups) as found:
        got = found.post(WireFormat.CHAT, model=asked)
        assert got.status_code == 200
        shown = got.headers.get("x-pointsman-parameters", "")
        assert all(name.removeprefix("reasoning_") in shown for name in expected)
        recorded = found.decision().parameters
    [one] = ups[0].asked
    assert json.loads(one.body) == {**request(WireFormat.CHAT), "model": model, **expected}
    assert bool(recorded) == bool(expected)


def test_a_request_without_parameters_stays_byte_for_byte(tmp_path: Path) -> None:
    ups = [ScriptedUpstream(answering), ScriptedUpstream(answering)]
    body = b'{ "messages":[ {"role":"user","content":"Hi"} ],"model":"small" , "odd": 1.0}'
    with serving(tmp_path, BOTH, PARAMETERS, *ups) as found:
        sent = {"content-type": "application/json"}
        httpx.post(found.url + PATHS[WireFormat.CHAT], content=body, headers=sent, trust_env=False)
    assert ups[0].asked[0].body == body.replace(b'"small"', b'"s"')


def test_another_model_of_the_tier_is_asked_in_its_own_way(tmp_path: Path) -> None:
    ups = [ScriptedUpstream(failing), ScriptedUpstream(answering)]
    with serving(tmp_path, BOTH, PARAMETERS, *ups) as found:
        got = found.post(WireFormat.RESPONSES, model="reasoning")
        assert got.headers["x-pointsman-model"] == "other"
        assert found.decision().parameters == {
            "large": Parameters(effort="high"),
            "other": Parameters(temperature=0.5),
        }
    first, second = json.loads(ups[0].asked[0].body), json.loads(ups[1].asked[0].body)
    assert (first["reasoning"], "temperature" in first) == ({"effort": "high"}, False)
    assert (second["temperature"], "reasoning" in second) == (0.5, False)


def test_the_start_tells_what_falls_to_a_lower_tier(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    models = BLIND.replace('features = ["tools"], ', "", 1)
    with serving(tmp_path, models, LADDER, ScriptedUpstream(answering)):
        told = [record.getMessage() for record in caplog.records if "lower tier" in record.getMessage()]
    assert told[-1] == "no model is configured for MEDIUM: a lower tier serves"
    assert any("tier REASONING with vision falls to a lower tier" in line for line in told)


@pytest.mark.parametrize("wire", WireFormat)
def test_the_bytes_of_an_image_are_no_tokens(tmp_path: Path, wire: WireFormat) -> None:
    """A screenshot of half a megabyte is read as 1,600 tokens; as text it would not fit the window."""
    models = """
seeing = { upstream = "up0", id = "s", context_window = 20_000 }
endless = { upstream = "up0", id = "e" }
"""
    body = json.dumps(image(wire)).replace(PIXEL, PIXEL + "A" * 500_000)
    with serving(tmp_path, models, 'simple = ["seeing", "endless"]', ScriptedUpstream(answering)) as found:
        got = found.post(wire, **json.loads(body))
        assert got.headers["x-pointsman-model"] == "seeing"
        assert 1_600 <= found.decision().input.estimate < 1_700
        words = {ITEMS[wire]: [{"role": "user", "content": "Why? " * 30_000}]}
        assert found.post(wire, "other", **words).headers["x-pointsman-model"] == "endless"

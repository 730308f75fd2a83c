"""``forward_auth``: the caller's own credential goes to one upstream, and nowhere else."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from pointsman.config import ShadowSpec, load
from pointsman.config.load import examine
from pointsman.gateway.build import Builder
from pointsman.stores.ledger import SqliteLedger
from pointsman.testing import MemoryLedger
from pointsman.upstreams.chat_model import chat_models
from pointsman.upstreams.connections import Connections
from pointsman.upstreams.port import UpstreamSpec
from pointsman.vocabulary import ModelSpec, WireFormat
from support.deciders import ScriptedDecider
from support.requests_by_format import PATHS, answer, format_of, request
from support.servers import Asked, Running, ScriptedUpstream, gateway, reply, state_for

pytestmark = pytest.mark.integration

TOKEN = "sk-ant-oat01-of-the-caller-0123456789"
OWN = "gateway-key-0123456789"
OTHER = "operators-key-0123456789"
ENV = {"OWN": OWN, "OTHER": OTHER}
CONFIG = """
[server]
port = 0
{keys}

[upstreams.subscription]
base_url = "{first}/v1"
formats = {formats}
forward_auth = true
retries = 0

[upstreams.other]
base_url = "{second}/v1"
api_key = "${{OTHER}}"
retries = 0

[models]
mine = {{ upstream = "subscription", id = "mine-1" }}
theirs = {{ upstream = "other", id = "theirs-1" }}

[tiers]
simple = "mine"
medium = "theirs"

[ledger]
path = "{ledger}"
text = "full"
"""


async def healthy(asked: Asked, send: Any) -> None:
    if asked.path.partition("?")[0].endswith("count_tokens"):
        await reply(send, 200, b'{"input_tokens": 7}')
    else:
        await reply(send, 200, answer(format_of(asked.path.partition("?")[0])))


class Trial:
    """A gateway before an upstream with ``forward_auth``, and another with a key."""

    def __init__(self, running: Running, first: ScriptedUpstream, second: ScriptedUpstream) -> None:
        self.running, self.first, self.second = running, first, second

    def post(self, path: str, asked: dict[str, Any], **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx.post(self.running.url + path, json=asked, headers=named, trust_env=False)

    def ask(self, wire: str = "messages", model: str = "auto", **headers: str) -> httpx.Response:
        format_ = WireFormat(wire)
        return self.post(PATHS[format_], request(format_, model=model), **headers)


@contextmanager
def trial(
    directory: Path,
    first: Any = healthy,
    *,
    keys: bool = True,
    formats: str = '["chat", "responses", "messages"]',
) -> Iterator[Trial]:
    upstreams = ScriptedUpstream(first), ScriptedUpstream(healthy)
    with upstreams[0].running() as one, upstreams[1].running() as two:
        file = directory / "pointsman.toml"
        file.write_text(
            CONFIG.format(
                first=one,
                second=two,
                formats=formats,
                keys='keys = ["${OWN}"]' if keys else "",
                ledger=directory / "ledger.sqlite",
            )
        )
        builder = Builder(lambda: load(file, ENV))
        with gateway(builder()) as running:
            yield Trial(running, *upstreams)
        builder.close()


@pytest.fixture(scope="module")
def healthy_one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    with trial(tmp_path_factory.mktemp("gateway")) as run:
        yield run


@pytest.fixture
def run(healthy_one: Trial) -> Trial:
    """A gateway with keys; both upstreams are well, and have been asked nothing yet."""
    healthy_one.first.asked.clear()
    healthy_one.second.asked.clear()
    return healthy_one


def seen(upstream: ScriptedUpstream) -> list[tuple[str, str]]:
    """Headers of the latest request that hold any of the secrets."""
    secrets = (TOKEN, OWN, OTHER)
    return [(k, v) for k, v in upstream.asked[-1].headers.items() if any(secret in v for secret in secrets)]


@pytest.mark.parametrize("wire", ["chat", "responses", "messages"])
@pytest.mark.parametrize(
    ("credential", "arrives"),
    [
        ({"authorization": f"Bearer {TOKEN}"}, ("authorization", f"Bearer {TOKEN}")),
        ({"x_api_key": TOKEN}, ("x-api-key", TOKEN)),
    ],
    ids=["bearer", "x-api-key"],
)
def test_it_is_sent_as_it_came(
    run: Trial, wire: str, credential: dict[str, str], arrives: tuple[str, str]
) -> None:
    got = run.ask(wire, x_pointsman_key=OWN, anthropic_beta="oauth-2025-04-20", **credential)
    assert got.status_code == 200, got.text
    assert seen(run.first) == [arrives]
    assert run.first.asked[0].headers["anthropic-beta"] == "oauth-2025-04-20"
    assert "x-pointsman-key" not in run.first.asked[0].headers
    assert run.second.asked == []


def test_without_keys_of_the_gateway_it_is_all_there_is(tmp_path: Path) -> None:
    with trial(tmp_path, keys=False) as run:
        assert run.ask(authorization=f"Bearer {TOKEN}").status_code == 200
        assert seen(run.first) == [("authorization", f"Bearer {TOKEN}")]


def test_the_count_of_tokens_and_a_translated_request_carry_it(tmp_path: Path) -> None:
    with trial(tmp_path, formats='["messages"]') as run:
        headers = {"authorization": f"Bearer {TOKEN}", "x_pointsman_key": OWN}
        asked = request(WireFormat.MESSAGES, model="mine")
        counted = run.post("/v1/messages/count_tokens?beta=true", asked, **headers)
        assert counted.json() == {"input_tokens": 7}
        assert seen(run.first) == [("authorization", f"Bearer {TOKEN}")]
    with trial(tmp_path, formats='["responses"]') as run:
        assert run.ask("chat", **headers).status_code == 200
        assert run.first.asked[-1].path == "/v1/responses"
        assert seen(run.first) == [("authorization", f"Bearer {TOKEN}")]
        run.post("/v1/messages/count_tokens", asked, **headers)
        assert len(run.first.asked) == 1, "the credential is for a provider of Messages"


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {OWN}"},
        {"authorization": f"bearer  {OWN}"},
        {"x_api_key": OWN},
        {"x_pointsman_key": OWN},
        {"x_pointsman_key": OWN, "authorization": f"Bearer {OWN}"},
        {"x_pointsman_key": OWN, "authorization": f"Token {OWN}", "x_api_key": f"x {OWN}"},
    ],
)
def test_a_key_of_the_gateway_never_leaves(run: Trial, headers: dict[str, str]) -> None:
    """Nor is such a request sent without any: the model has no upstream that would take it."""
    got = run.ask(model="mine", **headers)
    assert (got.status_code, got.headers["x-should-retry"]) == (401, "false")
    assert "'x-pointsman-key'" in got.json()["error"]["message"]
    assert run.first.asked == []
    fallen_back = run.ask(**headers)
    assert fallen_back.headers["x-pointsman-model"] == "theirs"
    assert [value for _, value in seen(run.second)] == [OTHER]


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"authorization": f"Bearer {TOKEN}"}, "unknown API key"),
        ({"authorization": f"Bearer {OWN}", "x_pointsman_key": "wrong"}, "unknown API key"),
        ({}, "an API key is required"),
    ],
)
def test_a_credential_is_no_key_of_the_gateway(run: Trial, headers: dict[str, str], message: str) -> None:
    got = run.ask(**headers)
    assert got.status_code == 401
    assert message in got.json()["error"]["message"]
    assert run.first.asked + run.second.asked == []


async def overloaded(asked: Asked, send: Any) -> None:
    await reply(send, 529, b'{"type":"error","error":{"type":"overloaded_error","message":"busy"}}')


def test_a_fallback_gets_the_key_of_its_own_upstream(tmp_path: Path) -> None:
    with trial(tmp_path, overloaded) as run:
        got = run.ask(authorization=f"Bearer {TOKEN}", x_pointsman_key=OWN)
        assert (got.status_code, got.headers["x-pointsman-model"]) == (200, "theirs")
        assert seen(run.first) == [("authorization", f"Bearer {TOKEN}")]
        assert seen(run.second) == [("x-api-key", OTHER)]


@pytest.mark.parametrize(("wire", "arrives"), [("chat", False), ("responses", False), ("messages", True)])
def test_a_credential_does_not_go_to_another_kind_of_provider(
    tmp_path: Path, wire: str, arrives: bool
) -> None:
    """A caller of OpenAI's formats holds no credential of a provider that speaks Messages alone."""
    with trial(tmp_path, formats='["messages"]') as run:
        got = run.ask(wire, authorization=f"Bearer {TOKEN}", x_pointsman_key=OWN)
        assert got.status_code == 200
        assert bool(run.first.asked) is arrives
        assert TOKEN not in "".join(value for asked in run.second.asked for value in asked.headers.values())


async def expired(asked: Asked, send: Any) -> None:
    error = {"type": "authentication_error", "message": "OAuth token has expired"}
    await reply(send, 401, json.dumps({"type": "error", "error": error}).encode())


def test_a_refused_credential_is_the_callers_business(tmp_path: Path) -> None:
    """It gets the upstream's 401, by which an agent renews its token; no other model is paid for instead."""
    with trial(tmp_path, expired) as run:
        got = run.ask(authorization=f"Bearer {TOKEN}", x_pointsman_key=OWN)
        assert (got.status_code, got.json()["error"]["message"]) == (401, "OAuth token has expired")
        assert "x-should-retry" not in got.headers
        assert (len(run.first.asked), len(run.second.asked)) == (1, 0)


def test_it_is_neither_logged_nor_written_down(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), trial(tmp_path, expired) as run:
        for wire in ("chat", "responses", "messages"):
            headers = {"authorization": f"Bearer {TOKEN}", "x_pointsman_key": OWN, "x_pointsman_debug": "1"}
            got = run.ask(wire, **headers)
            assert TOKEN not in str(got.headers) + got.text
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    written = b"".join(path.read_bytes() for path in tmp_path.glob("ledger.sqlite*"))
    assert ledger.count() == 3
    ledger.close()
    for secret in (TOKEN, OWN, OTHER):
        assert secret not in caplog.text
        assert secret.encode() not in written


def test_requests_that_no_caller_sent_do_not_carry_it() -> None:
    """Also where a program sets what the configuration's check refuses."""
    upstream = ScriptedUpstream(healthy)
    with upstream.running() as url:
        shadow = ShadowSpec(model="m1", share=1.0)
        decider = ScriptedDecider("m0", ledger=MemoryLedger())
        addresses = f"{url}/a", f"{url}/b"
        state = state_for(*addresses, decider=decider, shadow_model=shadow, api_key=None, forward_auth=True)
        with gateway(state) as running:
            got = httpx.post(
                running.url + PATHS[WireFormat.CHAT],
                json=request(WireFormat.CHAT),
                headers={"authorization": f"Bearer {TOKEN}"},
                trust_env=False,
            )
            assert got.status_code == 200
            page = httpx.get(f"{running.url}/metrics", trust_env=False).text
    assert 'pointsman_shadow_answers_total{model="m1",result="skipped: credential"} 1.0' in page
    assert [asked.path for asked in upstream.asked] == ["/a/chat/completions"]


def test_no_model_behind_it_can_be_asked_by_the_gateway_itself() -> None:
    spec = UpstreamSpec("up", "http://x/v1", forward_auth=True)
    assert chat_models({"m": ModelSpec("m", "up", "m-1")}, {"up": spec}, Connections()) == {}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ('api_key = "${OTHER}"', "the caller's credential is sent instead of `api_key`: set one of the two"),
        ('headers = { Authorization = "x" }', '"Authorization" would replace the credential'),
        (
            '[shadow]\nmodel = "mine"',
            '"mine" cannot serve here: its upstream takes the credential of a caller',
        ),
        ('[tiers]\nverify = { model = "mine" }', '"mine" cannot serve here'),
    ],
)
def test_settings_that_exclude_each_other(tmp_path: Path, settings: str, says: str) -> None:
    upstream = '[upstreams.main]\nbase_url = "http://x/v1"\nforward_auth = true\n'
    text = f'models.mine = {{ upstream = "main", id = "m" }}\n{upstream}{settings}\n'
    errors = examine(tmp_path / "pointsman.toml", ENV, text=text).errors
    assert len(errors) == 1, errors
    assert says in str(errors[0])

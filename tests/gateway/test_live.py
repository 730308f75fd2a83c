"""The live requests of the doctor: what is sent, to whom, and what is made of each answer."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pointsman.cli import app
from pointsman.config import Config
from pointsman.errors import ConfigError
from pointsman.gateway import live
from pointsman.gateway.live import Feature, LiveResult, plan, send_all
from pointsman.upstreams.port import Secret, UpstreamSpec
from pointsman.vocabulary import ModelSpec, WireFormat
from support.providers import Provider
from support.servers import ScriptedUpstream, reply

pytestmark = pytest.mark.integration

ALL = frozenset(WireFormat)
KEY = "sk-canary"


def configured(url: str, *formats: str, **model: Any) -> Config:
    spoken = frozenset(WireFormat(each) for each in formats)
    spec = ModelSpec("m", "up", "gpt-5-mini", formats=spoken, **{"translated": ALL - spoken, **model})
    return Config(
        upstreams={"up": UpstreamSpec("up", url, api_key=Secret(KEY), formats=spoken)}, models={"m": spec}
    )


def sent(config: Config) -> list[LiveResult]:
    told: list[LiveResult] = []
    results = asyncio.run(send_all(config, plan(config), told.append))
    assert sorted(map(str, told)) == sorted(map(str, results))
    return results


@pytest.mark.parametrize("spoken", WireFormat)
def test_each_format_is_tried_natively_or_translated(spoken: WireFormat) -> None:
    provider = Provider([spoken], ["gpt-5-mini"], key=KEY)
    with provider.running() as url:
        results = sent(configured(url, spoken))
    assert [(each.format, each.feature, each.native) for each in results] == [
        (wire, feature, wire is spoken) for wire in WireFormat for feature in Feature
    ]
    assert [each.detail for each in results if not each.ok] == []
    assert (provider.served, provider.refused) == (9, [])


def test_what_cannot_be_served_is_not_tried() -> None:
    assert {each.format for each in plan(configured("demo:", "chat", translated=frozenset()))} == {"chat"}
    features: Any = frozenset({"vision"})
    assert {each.feature for each in plan(configured("demo:", "chat", features=features))} == {
        Feature.PLAIN,
        Feature.STREAM,
    }
    assert plan(configured("demo:", "chat"), "m") == plan(configured("demo:", "chat"))
    forwarding = configured("demo:", "chat")
    forwarding.upstreams["up"] = UpstreamSpec("up", "demo:", forward_auth=True)
    assert plan(forwarding) == []
    with pytest.raises(ConfigError, match="unknown model"):
        plan(configured("demo:", "chat"), "n")


def test_a_wrong_format_a_wrong_key_and_a_model_without_tools_are_told() -> None:
    """And a failure of one request opens no circuit breaker for the next."""
    provider = Provider(["chat"], ["gpt-5-mini"], key=KEY, calls_tools=False)
    with provider.running() as url:
        results = sent(configured(url, "chat", "responses"))
        assert {(each.format, each.status) for each in results if not each.ok} == {
            ("responses", 404),
            ("chat", 200),
            ("messages", 200),
        }
        [no_call] = {each.detail for each in results if each.status == 200 and not each.ok}
        assert no_call.startswith("no tool call, but: Good day")
    provider = Provider(["chat"], ["gpt-5-mini"], key="another")
    with provider.running() as url:
        results = sent(configured(url, "chat"))
    assert {each.ok for each in results} == {False}
    assert KEY not in str(results)


def test_nothing_is_retried() -> None:
    upstream = ScriptedUpstream(lambda _, send: reply(send, 500, b"{}"))
    with upstream.running() as url:
        results = sent(configured(url, "chat", translated=frozenset()))
    assert len(upstream.asked) == len(results) == 3
    assert not any(each.ok for each in results)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'data: {"choices": [{"delta": {"content": "re"}}]}\n\n', "upstream"),
        (b'data: {"error": {"message": "out of memory"}}\n\n', "began its answer with an error"),
    ],
)
def test_a_stream_that_does_not_end_well(body: bytes, said: str) -> None:
    async def half(_: object, send: Any) -> None:
        await reply(send, 200, body, ("content-type", "text/event-stream"))

    with ScriptedUpstream(half).running() as url:
        results = sent(configured(url, "chat", translated=frozenset()))
    [stream] = [each for each in results if each.feature is Feature.STREAM]
    assert not stream.ok
    assert said in stream.detail


def test_an_answer_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PATIENCE", 0.05)

    async def never(asked: Any, _: object) -> None:
        await asked.disconnected.wait()

    with ScriptedUpstream(never).running() as url:
        results = sent(configured(url, "chat", translated=frozenset()))
    assert {each.ok for each in results} == {False}
    assert all(each.detail for each in results)


def test_no_more_is_sent_when_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "TOTAL_SECONDS", -1.0)
    results = sent(configured("demo:", "chat"))
    assert {each.status for each in results} == {0}
    assert results[0].detail.startswith("not sent")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / "pointsman.toml"
    file.write_text(
        "[upstreams.demo]\nbase_url = 'demo:'\nformats = ['chat']\n"
        "[models]\nm = { upstream = 'demo', id = 'd' }\nn = { upstream = 'demo', id = 'e' }\n"
    )
    return file


def test_the_doctor_prints_a_table(file: Path) -> None:
    result = CliRunner().invoke(app, ["router", "doctor", "--live", "--config", str(file)])
    assert result.exit_code == 0, result.output
    assert "Sending 18 requests to demo: at most 256 output tokens each" in result.stderr
    rows = [line.split() for line in result.stdout.splitlines()[-6:]]
    assert [row[0] for row in rows] == ["m"] * 3 + ["n"] * 3
    assert rows[0][:4] == ["m", "demo", "chat", "ok"]
    assert rows[1][:4] == ["m", "demo", "responses", "(translated)"]
    assert not (file.parent / "state").exists()  # no ledger was written


def test_the_doctor_prints_json_and_fails_when_a_request_does(file: Path) -> None:
    asked = ["router", "doctor", "--live", "--model", "m", "--json", "--config", str(file)]
    shown = json.loads(CliRunner().invoke(app, asked).stdout)
    assert len(shown["requests"]) == 9
    assert shown["requests"][0]["ok"]
    file.write_text(file.read_text().replace("'demo:'", "'http://127.0.0.1:9/v1'"))
    result = CliRunner().invoke(app, ["router", "doctor", "--live", "--model", "m", "--config", str(file)])
    assert result.exit_code == 1
    assert "FAIL m: the upstream cannot be reached" in result.stdout


@pytest.mark.parametrize("options", [["--model", "m"], ["--live", "--offline"], ["--live", "--model", "x"]])
def test_options_that_exclude_each_other(file: Path, options: list[str]) -> None:
    result = CliRunner().invoke(app, ["router", "doctor", "--config", str(file), *options])
    assert isinstance(result.exception, ConfigError)


def test_with_a_wrong_configuration_nothing_is_sent(file: Path) -> None:
    file.write_text("[tires]\n")
    result = CliRunner().invoke(app, ["router", "doctor", "--live", "--config", str(file)])
    assert result.exit_code == 1
    assert "Sending" not in result.stderr

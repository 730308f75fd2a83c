"""What the gateway answers itself: router commands when enabled, the end of a stuck run when configured."""

import json
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from pointsman.config import load
from pointsman.gateway.build import Builder
from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS
from support.servers import gateway

CONFIG = """
[upstreams.demo]
base_url = "demo:"
formats = ["chat", "responses", "messages"]
[models]
small = {{ upstream = "demo", id = "small-1" }}
large = {{ upstream = "demo", id = "large-1" }}
[tiers]
simple = "small"
medium = "small"
complex = "large"
reasoning = "large"
verify = {{ model = "small" }}
[server]
port = 0
router_command = {enabled}
[guidance]
mode = "on"
control = 0.0
escalate = ["stop"]
escalate_after = 1
[ledger]
path = "{folder}/ledger.sqlite"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pointsman.toml"
    path.write_text(CONFIG.format(enabled="true", folder=tmp_path), encoding="utf-8")
    return path


def ask(url: str, messages: list[object], **more: object) -> str:
    body = {"model": "auto", "messages": messages, **more}
    answer = httpx.post(f"{url}/v1/chat/completions", json=body, headers={"x-session-id": "s"})
    answer.raise_for_status()
    return answer.text


def said(answer: str) -> str:
    return str(json.loads(answer)["choices"][0]["message"]["content"])


def user(text: str) -> list[object]:
    return [{"role": "user", "content": text}]


def test_router_commands_are_answered_without_a_model(file: Path) -> None:
    builder = Builder(lambda: load(file), file)
    with gateway(builder()) as served:
        assert "large-1" in said(ask(served.url, user("/router show")))
        assert said(ask(served.url, user("/router classifier large"))) == 'classifier is now "large"'
        assert "huge" in said(ask(served.url, user("/router classifier huge")))
        assert "data: [DONE]" in ask(served.url, user("/router"), stream=True)
        assert "no model was called" in said(ask(served.url, user("/routers are devices")))
    builder.close()
    assert load(file).tiers.verify.model == "large"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("key", "status", "answer", "model"),
    [
        ("adam", 200, 'classifier is now "large"', "large"),
        ("carl", 200, "this key may not change the configuration", "small"),
        ("vera", 403, "is for the console", "small"),
    ],
)
def test_only_an_admin_changes_the_configuration_by_a_message(
    file: Path, key: str, status: int, answer: str, model: str
) -> None:
    with file.open("a") as config:
        for name, role in {"adam": "admin", "carl": "caller", "vera": "viewer"}.items():
            digest = sha256(f"key-of-{name}".encode()).hexdigest()
            config.write(f'[keys.{name}]\nsha256 = "{digest}"\nrole = "{role}"\n')
    builder = Builder(lambda: load(file), file)
    with gateway(builder()) as served:
        path, headers = f"{served.url}/v1/chat/completions", {"x-api-key": f"key-of-{key}"}
        asked = {"model": "auto", "messages": user("/router classifier large")}
        got = httpx.post(path, json=asked, headers=headers)
    builder.close()
    assert (got.status_code, answer in got.text.replace('\\"', '"')) == (status, True), got.text
    assert load(file).tiers.verify.model == model  # type: ignore[union-attr]


def test_a_key_of_the_server_is_told_how_it_may_change_the_configuration(file: Path) -> None:
    text = file.read_text().replace("[server]\n", '[server]\nkeys = ["${ONE}", "${TWO}"]\n')
    file.write_text(text)
    builder = Builder(lambda: load(file, {"ONE": "key-one", "TWO": "key-two"}), file)
    with gateway(builder()) as served:
        path, headers = f"{served.url}/v1/chat/completions", {"x-api-key": "key-two"}
        asked = [
            httpx.post(
                path, json={"model": "auto", "messages": user(f"/router {each}")}, headers=headers
            ).text
            for each in ("classifier large", "classifiers")
        ]
    builder.close()
    assert "[console] callers" in asked[0]
    assert "may not change" not in asked[1]


def test_a_router_command_is_a_message_unless_enabled(file: Path) -> None:
    file.write_text(file.read_text().replace("router_command = true", "router_command = false"))
    builder = Builder(lambda: load(file), file)
    with gateway(builder()) as served:
        assert "no model was called" in said(ask(served.url, user("/router show")))
    builder.close()


def failing(calls: int) -> list[object]:
    messages = user("run the tests")
    for n in range(calls):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": "Error: command not found"},
        ]
    return messages


def test_a_run_that_stays_stuck_is_stopped_when_configured(file: Path) -> None:
    builder = Builder(lambda: load(file), file)
    with gateway(builder()) as served:
        answers = [said(ask(served.url, failing(calls))) for calls in range(6)]
    builder.close()
    stopped = [n for n, answer in enumerate(answers) if answer.startswith("Pointsman stopped this run")]
    assert stopped
    assert stopped[0] > 3


def test_every_format_has_a_shape_for_our_own_words() -> None:
    assert set(FORMATS) == set(WireFormat)

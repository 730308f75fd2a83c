"""From the keys in an environment to an answer: ``config init``, ``serve``, and every line that it prints.

The upstreams are scripted and as strict as the providers: they have no other path, model or key than these.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from pointsman.cli import app
from pointsman.config.draft import PROVIDERS, find_local
from pointsman.diagnostics.clients import CLIENTS
from support import forked
from support.providers import SAID, Provider

pytestmark = [pytest.mark.integration, pytest.mark.slow]

KEY = "sk-canary"
SDKS = ("OpenAI SDK, chat", "OpenAI SDK", "Anthropic SDK")
RUN = SDKS if shutil.which("curl") is None else ("curl", *SDKS)


class Service(NamedTuple):
    """A provider as it stands on the web, or on this machine."""

    provider: Provider
    base_url: str = ""  # the real one; empty: on this machine
    variable: str = ""


def openai() -> Service:
    provider = Provider(["chat", "responses"], ["gpt-6-luna", "gpt-6.1-sol"], key=KEY)
    return Service(provider, "https://api.openai.com/v1", "OPENAI_API_KEY")


def anthropic() -> Service:
    models = ["claude-haiku-5-5", "claude-sonnet-5-5", "claude-haiku-4-5"]
    provider = Provider(["messages"], models, key=KEY, thinks=True)
    return Service(provider, "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY")


def gemini() -> Service:
    models = ["gemini-3.5-flash-lite", "gemini-3.8-flash", "gemini-2.5-flash-lite"]
    provider = Provider(["chat"], models, key=KEY, prefix="/v1beta/openai")
    return Service(provider, "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY")


def openrouter() -> Service:
    models = ["google/gemini-3.5-flash-lite", "anthropic/claude-sonnet-5.5", "google/gemini-2.5-flash-lite"]
    provider = Provider(["chat", "responses", "messages"], models, key=KEY, prefix="/api/v1")
    return Service(provider, "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY")


def local(*formats: str) -> Service:
    return Service(Provider(formats, ["nomic-embed-text:latest", "qwen3:30b-a3b", "llama3.2:3b"]))


ENVIRONMENTS: Mapping[str, Callable[[], list[Service]]] = {
    "openai": lambda: [openai()],
    "anthropic": lambda: [anthropic()],
    "gemini": lambda: [gemini()],
    "openrouter": lambda: [openrouter()],
    "two keys": lambda: [openai(), anthropic()],
    "a local server of chat alone": lambda: [local("chat")],
    "a local server of all formats": lambda: [local("chat", "responses", "messages")],
    "a key and a local server": lambda: [anthropic(), local("chat", "responses")],
}


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, no proxy, no configuration, and a state directory that is empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
    for name in ("POINTSMAN_CONFIG", *(each.variable for each in PROVIDERS), *proxies):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_printed_line_works(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    services = ENVIRONMENTS[name]()
    with ExitStack() as opened:
        urls = [opened.enter_context(service.provider.running()) for service in services]
        drafted(services, urls, monkeypatch)
        for service in services:
            service.provider.refused.clear()  # probes of a local server
        with serving() as lines:
            assert set(lines) == {client.name for client in CLIENTS if not client.is_remote}
            answers = run_all({client: lines[client] for client in RUN})
    assert {client: answer for client, answer in answers.items() if SAID not in answer} == {}
    assert [refusal for service in services for refusal in service.provider.refused] == []
    assert invoke("decisions", "list").count(" SIMPLE ") == len(RUN)


def test_every_request_of_the_doctor_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    services = [openai(), anthropic(), local("chat")]
    with ExitStack() as opened:
        urls = [opened.enter_context(service.provider.running()) for service in services]
        drafted(services, urls, monkeypatch)
        said = invoke("router", "doctor", "--live")
    assert "FAIL" not in said


@pytest.mark.parametrize("stopped", [0, 1])
def test_each_of_two_providers_is_the_others_fallback(stopped: int, monkeypatch: pytest.MonkeyPatch) -> None:
    services = [openai(), anthropic()]
    with ExitStack() as opened:
        urls = [opened.enter_context(service.provider.running()) for service in services]
        urls[stopped] = "http://127.0.0.1:9/v1"
        drafted(services, urls, monkeypatch)
        with serving() as lines:
            answers = run_all({client: lines[client] for client in RUN})
    assert {client: answer for client, answer in answers.items() if SAID not in answer} == {}
    assert services[stopped].provider.served == 0


def drafted(services: list[Service], urls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the file for an environment, check it, and put the scripted upstreams in the real ones' place."""
    here = [url for service, url in zip(services, urls, strict=True) if not service.base_url]
    servers = [("ollama", int(url.rpartition(":")[2].partition("/")[0])) for url in here]
    monkeypatch.setattr("pointsman.cli.config.find_local", lambda: find_local(servers))
    for service in services:
        if service.variable:
            monkeypatch.setenv(service.variable, KEY)
    has_key = any(service.variable for service in services)
    said = invoke("config", "init", *(["--local"] if here and has_key else []))
    assert "observing: [guidance], [domains] and [capabilities] record and change no request" in said
    assert 'to switch one on: mode = "on" in pointsman.toml' in said
    assert "ledger.sqlite, for all projects" in said
    file = Path("pointsman.toml")
    text = file.read_text(encoding="utf-8")
    assert KEY not in text
    assert "nomic" not in text
    for service, url in zip(services, urls, strict=True):
        text = text.replace(f'"{service.base_url}"', f'"{url}"') if service.base_url else text
    checked = invoke("config", "check")
    file.write_text(text, encoding="utf-8")
    invoke("trust")  # it was changed by hand
    assert checked.count("does not work") == 1, checked  # Cursor, which calls from its maker's servers


def invoke(*args: str) -> str:
    result = CliRunner().invoke(app, list(args))
    assert result.exit_code == 0, result.output
    return result.output


@contextmanager
def serving() -> Iterator[dict[str, str]]:
    """Run ``pointsman serve``, and give its lines by client."""
    command = [sys.executable, "-m", "pointsman", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = ""
        while "\nLedger: " not in said:
            line = process.stdout.readline()
            assert line, f"it ended: {said}"
            said += line
        shown = said.partition("Not with this configuration")[0].splitlines()
        try:
            yield {line[2:20].strip(): line[20:] for line in shown if line.startswith("  ")}
        finally:
            process.terminate()
            process.communicate(timeout=60)


def run_all(lines: Mapping[str, str]) -> dict[str, str]:
    """Run lines as they were copied, all at once: curl in a shell, the SDKs in Python."""
    programs = {client: forked.start(line) for client, line in lines.items() if client != "curl"}
    answers = {}
    if "curl" in lines:
        ran = subprocess.run(
            ["sh", "-c", lines["curl"]], capture_output=True, text=True, timeout=240, check=False
        )
        answers["curl"] = ran.stdout or ran.stderr
    for client, program in programs.items():
        out, err = program.output(240)
        answers[client] = out or err
    return answers

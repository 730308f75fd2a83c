"""The SDKs ask for the names that they and the agents ask for by default, and are served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anthropic
import httpx
import openai
import pytest

from pointsman.config import load
from pointsman.gateway.build import Builder
from support.servers import gateway

pytestmark = pytest.mark.integration

FILE = """
[upstreams.main]
base_url = "demo:"
[models]
small = { upstream = "main", id = "vendor-small" }
large = { upstream = "main", id = "vendor-large" }
[tiers]
simple = "small"
complex = "large"
[aliases]
"claude-opus-*" = "large"
"my-model" = "claude-opus-*"
"gone" = "refuse"
"gone-*" = "refuse"
[server]
port = 0
[ledger]
path = "ledger.sqlite"
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    file = tmp_path_factory.mktemp("aliases") / "pointsman.toml"
    file.write_text(FILE, encoding="utf-8")
    with gateway(file, {}) as running:
        yield running.url


@pytest.mark.parametrize(
    ("name", "model", "tier"),
    [
        ("claude-sonnet-4-6", "small", "SIMPLE"),
        ("claude-haiku-4-5-20251001", "small", "SIMPLE"),
        ("claude-opus-4-8", "large", "none"),
        ("my-model", "large", "none"),
        ("vendor-large", "large", "none"),
    ],
)
def test_the_anthropic_sdk(url: str, name: str, model: str, tier: str) -> None:
    with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0) as client:
        answer = client.messages.with_raw_response.create(
            model=name, max_tokens=99, messages=[{"role": "user", "content": "Hello!"}]
        )
        assert client.models.retrieve(name).id == name
    assert answer.headers["x-pointsman-model"] == model
    assert answer.headers["x-pointsman-tier"] == tier


@pytest.mark.parametrize(
    "name", ["gpt-4o", "gpt-5.5", "gpt-6.1-sol", "o3", "openai/gpt-5-mini", "vendor-small"]
)
def test_the_openai_sdk(url: str, name: str) -> None:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
        chat = client.chat.completions.with_raw_response.create(
            model=name, messages=[{"role": "user", "content": "Hello!"}]
        )
        responses = client.responses.with_raw_response.create(model=name, input="Hello!")
        assert client.models.retrieve(name).id == name
    assert {chat.headers["x-pointsman-model"], responses.headers["x-pointsman-model"]} == {"small"}


@pytest.mark.parametrize("name", ["gone", "gone-4", "llama3", "openai/gpt-oss-120b"])
def test_names_that_nobody_serves(url: str, name: str) -> None:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
        with pytest.raises(openai.NotFoundError, match="unknown model") as error:
            client.chat.completions.create(model=name, messages=[{"role": "user", "content": "Hi"}])
        assert error.value.code == "model_not_found"
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve(name)


def test_the_list_of_models_has_exact_aliases_and_no_patterns(url: str) -> None:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
        listed = [model.id for model in client.models.list()]
    known = ["auto", "simple", "medium", "complex", "reasoning", "small", "large", "my-model"]
    assert listed == [*known, "claude-auto"]


@pytest.mark.parametrize("name", ["claude-haiku-4-5", "my-model", "vendor-small"])
def test_tokens_are_counted_for_every_name_that_is_served(url: str, name: str) -> None:
    with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0) as client:
        counted = client.messages.count_tokens(model=name, messages=[{"role": "user", "content": "Hello!"}])
    assert counted.input_tokens > 0


#: What the three agents send with a request of the main conversation, and with one of a sub-agent of it.
CLAUDE_CODE = {"x-claude-code-session-id": "d98b0282"}
CODEX = {"session-id": "01a2", "thread-id": "01a2"}
OPENCODE = {"x-session-id": "ses_a", "x-session-affinity": "ses_a"}


@pytest.mark.parametrize(
    ("headers", "session", "role", "mark"),
    [
        (CLAUDE_CODE, "d98b0282", "main", None),
        (
            CLAUDE_CODE | {"x-claude-code-agent-id": "a57"},
            "d98b0282:a57",
            "subagent",
            "header x-claude-code-agent-id",
        ),
        (CODEX, "01a2", "main", None),
        (
            CODEX | {"thread-id": "99f0", "x-codex-parent-thread-id": "01a2"},
            "01a2:99f0",
            "subagent",
            "header x-codex-parent-thread-id",
        ),
        (OPENCODE, "ses_a", "main", None),
        (OPENCODE | {"x-parent-session-id": "ses_0"}, "ses_a", "subagent", "header x-parent-session-id"),
        ({"x-session-id": "mine"}, "mine", None, None),
    ],
)
def test_a_sub_agent_has_a_session_of_its_own(
    url: str, headers: dict[str, str], session: str, role: str | None, mark: str | None
) -> None:
    body = {"model": "gpt-6.1-sol", "messages": [{"role": "user", "content": "Hi"}]}
    answer = httpx.post(f"{url}/v1/chat/completions", json=body, headers=headers)
    decision = httpx.get(f"{url}/v1/decisions/{answer.headers['x-pointsman-decision-id']}").json()["decision"]
    assert (decision["input"]["session"], decision["input"]["role"]) == (session, role)
    marks = [reason["detail"] for reason in decision["reasons"] if reason["code"] == "agent.subagent"]
    assert marks == ([mark] if mark else [])


def test_a_reload_puts_other_aliases_in_effect(tmp_path: Path) -> None:
    file = tmp_path / "pointsman.toml"
    file.write_text(FILE, encoding="utf-8")
    build = Builder(lambda: load(file, {}), file)
    first = build()
    unchanged = build(first)
    file.write_text(FILE.replace('"my-model" = "claude-opus-*"', '"my-model" = "simple"'), encoding="utf-8")
    changed = build(unchanged)
    build.close()
    targets = [state.names.resolve("my-model") for state in (first, unchanged, changed)]
    assert targets[0] == targets[1]
    assert [str(named.target) for named in targets if named] == ["large", "large", "simple"]


def test_a_subagent_in_the_session_of_its_agent_leaves_the_model_of_the_session(tmp_path: Path) -> None:
    """Copilot states who asks and names no session: a proxy before the gateway does.

    The cache of the large model is free here: a conversation that had it once would not go back.
    """
    file = tmp_path / "pointsman.toml"
    cached = "output_per_million = 1.0, input_per_million = 3.0, cached_input_per_million ="
    priced = FILE.replace('"vendor-small" }', f'"vendor-small", {cached} 2.9 }}')
    file.write_text(priced.replace('"vendor-large" }', f'"vendor-large", {cached} 0.0 }}'), encoding="utf-8")
    hard = "Prove by induction, step by step, that the square root of 2 is irrational; derive every lemma."

    def ask(at: str, text: str, *, kind: str) -> str:
        body = {"model": "auto", "messages": [{"role": "user", "content": text}]}
        headers = {"x-session-id": "shared", "x-interaction-type": f"conversation-{kind}"}
        answer = httpx.post(f"{at}/v1/chat/completions", json=body, headers=headers)
        return answer.headers["x-pointsman-model"]

    with gateway(file, {}) as running:
        found = [
            ask(running.url, "Hi", kind="agent"),
            ask(running.url, hard, kind="subagent"),
            ask(running.url, "Thanks", kind="agent"),
        ]
    assert found == ["small", "large", "small"]

"""A real Envoy asks the real command, configured as the page on Envoy says (`make envoy`)."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from pointsman.stores.ledger import Attempt, SqliteLedger
from support.raw_http import JSON, head, talk
from support.servers import Asked, ScriptedUpstream, reply
from support.waiting import until

ENVOY = shutil.which(Path(sys.executable).with_name("envoy")) or shutil.which("envoy")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(ENVOY is None, reason="there is no Envoy: make envoy"),
]
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "envoy.md"
KEY = "pm-very-secret"
WORDS = "Prove that there are infinitely many primes, step by step, and analyse each assumption."
FILE = """
[ext_proc]
port = 0
[upstreams.main]
base_url = "http://127.0.0.1:9/v1"
[models]
small = { upstream = "main", id = "small-1" }
large = { upstream = "main", id = "large-1" }
[tiers]
simple = "small"
medium = "small"
complex = "large"
reasoning = "large"
[ledger]
path = "ledger.sqlite"
"""
#: The route is chosen by the header that the processor sets, as by Envoy AI Gateway.
PROXY = """
admin: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: 0 }} }} }}
static_resources:
  listeners:
  - address: {{ socket_address: {{ address: 127.0.0.1, port_value: 0 }} }}
    per_connection_buffer_limit_bytes: {limit}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/\
envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: ingress
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match:
                  prefix: "/"
                  headers: [{{ name: x-ai-eg-model, string_match: {{ exact: large-1 }} }}]
                route: {{ cluster: large }}
              - match: {{ prefix: "/" }}
                route: {{ cluster: small }}
          http_filters:
{filter}
          - name: envoy.filters.http.router
            typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
  clusters:
{clusters}
"""
HTTP2 = """
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: { http2_protocol_options: {} }"""
ANSWER = {
    "id": "1",
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 90, "completion_tokens": 7},
}
EVENTS = [
    b'data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n',
    b'data: {"choices":[],"usage":{"prompt_tokens":90,"completion_tokens":7}}\n\ndata: [DONE]\n\n',
]
#: Modes of the request's and the response's body.
MODES = [
    ("BUFFERED", "STREAMED"),  # as on the page
    ("BUFFERED", "BUFFERED"),
    ("BUFFERED", "NONE"),
    ("FULL_DUPLEX_STREAMED", "STREAMED"),
    ("FULL_DUPLEX_STREAMED", "FULL_DUPLEX_STREAMED"),
]


def cluster(name: str, port: int, more: str = "") -> str:
    return f"""  - name: {name}
    load_assignment:
      cluster_name: {name}
      endpoints:
      - lb_endpoints:
        - endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }} }}{more}"""


@dataclass
class Behind:
    """An Envoy, the processor that it asks, and the two providers behind it."""

    url: str
    processor: subprocess.Popen[str]
    asked: dict[str, list[Asked]]
    ledger: Path

    def ask(self, text: str = WORDS, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
        body = {"model": "auto", "messages": [{"role": "user", "content": text}], **more}
        return httpx.post(f"{self.url}/v1/chat/completions", json=body, headers=headers)

    def status(self, *, is_apart: bool) -> int:
        """Send head and body; together, Envoy reads both before it knows that nobody is there."""
        body = json.dumps({"model": "auto", "messages": [{"role": "user", "content": WORDS}]}).encode()
        port = int(self.url.rpartition(":")[2])
        parts = [head(JSON, length=len(body)), body]
        return int(talk(port, *(parts if is_apart else [b"".join(parts)]), until=b"\r\n").split()[1])

    def sent_to(self, name: str) -> Asked:
        """The one request that a provider got; the other got none."""
        assert {each: len(asked) for each, asked in self.asked.items()} == {
            each: int(each == name) for each in self.asked
        }
        return self.asked[name][0]

    def end(self) -> None:
        self.processor.send_signal(signal.SIGTERM)
        assert self.processor.wait(60) == 0

    def attempts(self, answer: httpx.Response) -> tuple[Attempt, ...]:
        """What the processor has written down, which ends here."""
        self.end()
        with closing(SqliteLedger(self.ledger)) as ledger:
            return ledger.attempts(answer.headers["x-pointsman-decision-id"])


async def answer(asked: Asked, send: Any) -> None:
    body = json.loads(asked.body or b"{}")
    if not body.get("stream"):
        await reply(send, 200, json.dumps(ANSWER).encode())
        return
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for event in EVENTS:
        await send({"type": "http.response.body", "body": event, "more_body": True})
        if body.get("n") == 2:  # it does not end
            await asked.disconnected.wait()
    await send({"type": "http.response.body", "body": b""})


@contextmanager
def started(command: list[str], log: Path) -> Iterator[subprocess.Popen[str]]:
    with log.open("w") as said, subprocess.Popen(command, stdout=said, stderr=said, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def behind(folder: Path, more: str = "", **changes: str) -> Iterator[Behind]:
    """Start all of them; ``changes`` are other values of keys of the page's filter."""
    (file := folder / "pointsman.toml").write_text(FILE + more, encoding="utf-8")
    log, admin, page = folder / "processor.log", folder / "admin", PAGE.read_text(encoding="utf-8")
    [limit] = re.findall(r"on a listener with `per_connection_buffer_limit_bytes: (\d+)`", page)
    found = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[-1]
    for side in ("request", "response"):  # as the page says
        if changes.get(f"{side}_body_mode") == "FULL_DUPLEX_STREAMED":
            found += f"      {side}_trailer_mode: SEND\n"
    for name, value in changes.items():
        found, count = re.subn(rf"(?<={name}: )\w+", value, found)
        assert count == 1, f"the page sets no {name}"
    providers = {name: ScriptedUpstream(answer) for name in ("small", "large")}
    command = [sys.executable, "-m", "pointsman", "ext-proc", "--config", str(file)]
    with (
        providers["small"].running() as small,
        providers["large"].running() as large,
        started(command, log) as processor,
    ):
        until(lambda: " listens on " in log.read_text(encoding="utf-8"))
        listens = re.findall(r"listens on \S+?:(\d+)", log.read_text(encoding="utf-8"))[0]
        clusters = [
            cluster("pointsman", int(listens), HTTP2),
            *(cluster(name, httpx.URL(url).port or 0) for name, url in (("small", small), ("large", large))),
        ]
        inside = "\n".join(" " * 10 + line for line in found.splitlines())
        (proxy := folder / "envoy.yaml").write_text(
            PROXY.format(limit=limit, filter=inside, clusters="\n".join(clusters)), encoding="utf-8"
        )
        command = [str(ENVOY), "-c", str(proxy), "--use-dynamic-base-id", "--concurrency", "1"]
        command += ["-l", "warning", "--admin-address-path", str(admin)]
        with started(command, folder / "envoy.log") as envoy:

            def listeners() -> list[Any]:
                assert envoy.poll() is None, (folder / "envoy.log").read_text(encoding="utf-8")
                with suppress(OSError, httpx.TransportError):  # it does not listen yet
                    asked = httpx.get(f"http://{admin.read_text()}/listeners?format=json").json()
                    return list(asked.get("listener_statuses", ()))
                return []

            until(listeners)
            port = listeners()[0]["local_address"]["socket_address"]["port_value"]
            asked = {name: provider.asked for name, provider in providers.items()}
            yield Behind(f"http://127.0.0.1:{port}", processor, asked, folder / "ledger.sqlite")


@pytest.mark.parametrize(("request_body", "response_body"), MODES)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_envoy_routes_by_the_decided_model(
    tmp_path: Path, request_body: str, response_body: str, stream: bool
) -> None:
    with behind(tmp_path, request_body_mode=request_body, response_body_mode=response_body) as here:
        got = here.ask(stream=stream)
        assert got.status_code == 200, got.text
        assert got.content == (b"".join(EVENTS) if stream else json.dumps(ANSWER).encode())
        assert (got.headers["x-pointsman-tier"], got.headers["x-pointsman-model"]) == ("REASONING", "large")
        sent = here.sent_to("large")
        assert json.loads(sent.body)["model"] == "large-1"
        assert sent.headers["x-ai-eg-model"] == "large-1"
        [attempt] = here.attempts(got)
        assert (attempt.status, attempt.error) == (200, "")
        usage = (attempt.input_tokens, attempt.output_tokens)
        assert usage == ((None, None) if response_body == "NONE" else (90, 7))


#: Below and above the megabyte that Envoy buffers unless its listener says otherwise.
BODIES = [("FULL_DUPLEX_STREAMED", 2_500_000), ("BUFFERED", 900_000), ("BUFFERED", 2_500_000)]


@pytest.mark.parametrize(("mode", "size"), BODIES)
def test_a_long_conversation_arrives_whole(tmp_path: Path, mode: str, size: int) -> None:
    with behind(tmp_path, request_body_mode=mode) as here:
        words = "word " * (size // 5)
        assert here.ask(words).status_code == 200
        [asked] = [*here.asked["small"], *here.asked["large"]]
        assert json.loads(asked.body)["messages"][0]["content"] == words


def test_requests_beside_each_other_keep_apart(tmp_path: Path) -> None:
    with behind(tmp_path) as here, ThreadPoolExecutor(16) as pool:
        texts = [f"{WORDS if each % 2 else 'Hello!'} {each}" for each in range(64)]
        models = [got.headers["x-pointsman-model"] for got in pool.map(here.ask, texts)]
        for name, asked in here.asked.items():
            sent = {json.loads(each.body)["messages"][0]["content"] for each in asked}
            assert sent == {text for text, model in zip(texts, models, strict=True) if model == name}
        assert all(here.asked.values())


@pytest.mark.parametrize("mode", ["FULL_DUPLEX_STREAMED", "BUFFERED"])
def test_a_key_is_asked_for_and_goes_nowhere(tmp_path: Path, mode: str) -> None:
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    with behind(tmp_path, f'[keys.team]\nsha256 = "{digest}"\n', request_body_mode=mode) as here:
        refused = here.ask(headers={"authorization": "Bearer wrong"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
        got = here.ask(headers={"authorization": f"Bearer {KEY}", "x-pointsman-tier": "SIMPLE"})
        assert got.headers["x-pointsman-tier"] == "REASONING"
        sent = here.sent_to("large").headers
        assert "authorization" not in sent
        assert sent["x-pointsman-tier"] == "REASONING"


def test_other_paths_go_on_as_they_came(tmp_path: Path) -> None:
    with behind(tmp_path) as here:
        answered = httpx.get(f"{here.url}/v1/models")
        assert "x-pointsman-model" not in answered.headers
        sent = here.sent_to("small")
        assert (sent.method, sent.path, sent.body) == ("GET", "/v1/models", b"")


@pytest.mark.parametrize(
    ("mode", "allow", "is_apart", "passed_on"),
    [
        ("BUFFERED", "true", False, True),
        ("BUFFERED", "false", False, False),
        ("FULL_DUPLEX_STREAMED", "true", False, False),
        ("FULL_DUPLEX_STREAMED", "true", True, True),
        ("FULL_DUPLEX_STREAMED", "false", True, False),
    ],
)
def test_without_the_processor_envoy_does_as_the_page_says(
    tmp_path: Path, mode: str, allow: str, is_apart: bool, passed_on: bool
) -> None:
    with behind(tmp_path, request_body_mode=mode, failure_mode_allow=allow) as here:
        here.end()
        assert here.status(is_apart=is_apart) == (200 if passed_on else 500)
        assert len(here.asked["small"]) == passed_on


def test_a_caller_that_leaves_is_written_down(tmp_path: Path) -> None:
    with behind(tmp_path) as here:
        body = {"model": "auto", "messages": [{"role": "user", "content": WORDS}], "stream": True, "n": 2}
        with httpx.stream("POST", f"{here.url}/v1/chat/completions", json=body) as got:
            next(got.iter_raw())
        until(here.asked["large"][0].disconnected.is_set)
        [attempt] = here.attempts(got)
        assert attempt.error == "disconnect"

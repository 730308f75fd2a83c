"""Headers, query parameters and body members that an upstream's configuration sets on every request."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from pointsman.config import load
from pointsman.config.edit import as_toml, plain
from pointsman.config.load import examine
from pointsman.gateway.build import Builder
from pointsman.upstreams.port import Call, Exchange, JsonTemplate, Secret, Template, UpstreamSpec
from pointsman.upstreams.relayed_headers import OwnFieldsClient, credentials, with_own_fields
from pointsman.vocabulary import WireFormat
from support.servers import ScriptedUpstream, gateway, reply

JSON = (b"content-type", b"application/json")


class Recorder:
    """An upstream client that keeps what it is to send."""

    def __init__(self) -> None:
        self.sent: list[Call] = []

    async def send(self, call: Call) -> Exchange:
        self.sent.append(call)
        raise NotImplementedError

    def close(self) -> None:
        self.sent.clear()


def sent(call: Call, **fields: Any) -> Call:
    """What leaves when an upstream has these fields."""
    recorder = Recorder()
    client = with_own_fields(UpstreamSpec("up", "http://x/v1", **fields), recorder)
    with pytest.raises(NotImplementedError):
        asyncio.run(client.send(call))
    return recorder.sent[0]


@pytest.mark.parametrize(
    ("asked", "leaves"),
    [
        (b"/responses", b"/responses?api-version=1+a"),
        (b"/responses?beta=true", b"/responses?beta=true&api-version=1+a"),
        (b"/responses?api-version=9&beta=true&", b"/responses?beta=true&api-version=1+a"),
        (b"/responses?api%2dversion=9", b"/responses?api-version=1+a"),
        (b"/responses?api-versions=9", b"/responses?api-versions=9&api-version=1+a"),
    ],
)
def test_the_query(asked: bytes, leaves: bytes) -> None:
    """The operator's parameter replaces the caller's of that name, however it is written."""
    assert sent(Call(asked, [], b"{}"), query={"api-version": Template("1 a")}).path == leaves


def test_the_headers() -> None:
    call = Call(b"/messages?beta=true", [JSON, (b"http-referer", b"caller"), (b"x-other", b"1")], b"{}")
    own = {"HTTP-Referer": Template("https://example.com"), "X-Title": Template("Agents")}
    leaves = sent(call, headers=own)
    assert leaves.headers == [
        JSON, (b"x-other", b"1"), (b"http-referer", b"https://example.com"), (b"x-title", b"Agents"),
    ]  # fmt: skip
    assert (leaves.path, leaves.body) == (call.path, call.body)


@pytest.mark.parametrize(
    ("path", "body", "leaves"),
    [
        (
            b"/chat/completions",
            b'{"model": "m",  "n":1.0}',
            b'{"model":"m","n":1.0,"provider":{"only":["a"]}}',
        ),
        (b"/messages?beta=true", b'{"provider":1,"x":2}', b'{"provider":{"only":["a"]},"x":2}'),
        (b"/responses", b"{}", b'{"provider":{"only":["a"]}}'),
        (b"/responses", b"[1]", b"[1]"),
        (b"/embeddings", b'{"model": "e"}', b'{"model": "e"}'),
        (b"/messages/count_tokens", b'{"model": "e"}', b'{"model": "e"}'),
    ],
)
def test_the_body(path: bytes, body: bytes, leaves: bytes) -> None:
    """Numbers and order of the other members stay; only what asks a model is changed."""
    assert sent(Call(path, [JSON], body), body={"provider": JsonTemplate('{"only":["a"]}')}).body == leaves


def test_an_upstream_without_any_keeps_its_client() -> None:
    recorder = Recorder()
    assert with_own_fields(UpstreamSpec("up", "http://x/v1"), recorder) is recorder
    spec = UpstreamSpec("up", "http://x/v1", query={"a": Template("b")})
    assert isinstance(with_own_fields(spec, recorder), OwnFieldsClient)
    assert {spec: 1}[UpstreamSpec("up", "http://x/v1", query={"a": Template("b")})] == 1
    assert spec != UpstreamSpec("up", "http://x/v1", query={"a": Template("c")})


def test_a_key_in_the_header_that_azure_takes() -> None:
    spec = UpstreamSpec("up", "http://x/v1", api_key=Secret("k"), auth="api-key")
    assert credentials(spec, WireFormat.CHAT) == [(b"api-key", b"k")]


CONFIG = """
[upstreams.main]
base_url = "{url}/v1"
formats = ["chat"]
headers = {{ "HTTP-Referer" = "https://example.com", "X-Gateway-Token" = "T ${{TOKEN}}" }}
query = {{ api-version = "2025-04-01" }}
body = {{ provider = {{ order = ["a", {{ b = 1.5 }}], token = "${{TOKEN}}" }}, store = false }}

[models]
one = {{ upstream = "main", id = "one-1" }}

[tiers]
simple = "one"

[server]
port = 0

[ledger]
path = "{ledger}"
"""
ENV = {"TOKEN": "s3cret-token"}


def written(directory: Path, url: str = "http://127.0.0.1:1") -> Path:
    file = directory / "pointsman.toml"
    file.write_text(CONFIG.format(url=url, ledger=directory / "ledger.sqlite"))
    return file


def test_they_are_shown_as_they_were_written(tmp_path: Path) -> None:
    """References are not resolved, and what is shown can be read again."""
    loaded = examine(written(tmp_path), ENV)
    assert loaded.file is not None, loaded.errors
    shown = as_toml(plain(loaded.file))
    assert "s3cret" not in shown
    assert '"T ${TOKEN}"' in shown.replace("'", '"')
    again = examine(tmp_path / "pointsman.toml", ENV, text=shown)
    assert again.file is not None, again.errors
    assert again.file.upstreams == loaded.file.upstreams
    assert loaded.file.upstreams["main"].secrets == (b"s3cret-token",)
    assert "s3cret" not in repr(loaded.file)


@pytest.mark.integration
def test_they_are_on_the_wire_and_no_secret_comes_back(tmp_path: Path) -> None:
    async def refuse(asked: Any, send: Any) -> None:
        echo = json.dumps({"error": {"message": f"no {asked.headers['x-gateway-token']}", "type": "x"}})
        await reply(
            send, 400, echo.encode(), ("content-type", "application/json"), ("openai-echo", "s3cret-token")
        )

    upstream = ScriptedUpstream(refuse)
    with upstream.running() as url:
        builder = Builder(lambda: load(written(tmp_path, url), ENV))
        with gateway(builder()) as running:
            asked = {"model": "one", "messages": [{"role": "user", "content": "hi"}]}
            got = httpx.post(f"{running.url}/v1/chat/completions?beta=true", json=asked, trust_env=False)
        builder.close()
    [seen] = upstream.asked
    assert seen.path == "/v1/chat/completions?beta=true&api-version=2025-04-01"
    assert seen.headers["http-referer"] == "https://example.com"
    assert json.loads(seen.body) == {
        **asked,
        "model": "one-1",
        "provider": {"order": ["a", {"b": 1.5}], "token": "s3cret-token"},
        "store": False,
    }
    assert (got.status_code, got.json()["error"]["message"]) == (400, "no T ***")
    assert "openai-echo" not in got.headers


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ('headers = { "Content-Length" = "1" }', 'the header "Content-Length" is set by the gateway'),
        ('headers = { Host = "x" }', 'the header "Host" is set by the gateway'),
        ('headers = { connection = "close" }', 'the header "connection" is set by the gateway'),
        ('headers = { Transfer-Encoding = "chunked" }', "is set by the gateway"),
        ('headers = { "X-Pointsman-Tier" = "x" }', "is set by the gateway"),
        ('pass_headers = ["x-acme", "X-Api-Key"]', 'the header "X-Api-Key" is not for a setting to relay'),
        ('return_headers = ["x acme"]', '"x acme" is neither the name of a header nor'),
        ('headers = { "x y" = "x" }', '"x y" is not a header name'),
        ('headers = { "x:" = "x" }', '"x:" is not a header name'),
        ('headers = { a = "1\\r\\nx: y" }', 'the value of "a" must be printable ASCII in one line'),
        ('headers = { a = "${BAD}" }', 'the value of "a" must be printable ASCII in one line'),
        ('headers = { a = "é" }', "must be printable ASCII"),
        ('headers = { a = "1", A = "2" }', 'the header "A" is set twice'),
        ("headers = { a = 1 }", '"a" in [upstreams.main.headers] must be a string'),
        ('headers = "x"', "[upstreams.main.headers] must be a table"),
        ('headers = { a = "${GONE}" }', "environment variable GONE is not set"),
        ('query = { "" = "x" }', "a query parameter has no name"),
        ("query = { a = 1 }", '"a" in [upstreams.main.query] must be a string'),
        ('body = { model = "x" }', '"model" in the body of a request is not for a setting to replace'),
        ("body = { messages = [] }", '"messages" in the body'),
        ("body = { a = nan }", "this is not a JSON value"),
        ("body = { a = 2025-01-01 }", "this is not a JSON value"),
    ],
)
def test_what_cannot_be_set(tmp_path: Path, setting: str, says: str) -> None:
    text = f'[upstreams.main]\nbase_url = "http://x/v1"\n{setting}\n'
    errors = examine(tmp_path / "pointsman.toml", {"BAD": "s3cret\r\nx: y"}, text=text).errors
    assert len(errors) == 1, errors
    assert says in str(errors[0])
    assert str(errors[0]).startswith(f"{tmp_path / 'pointsman.toml'}:3: ")
    assert "s3cret" not in str(errors[0])


@pytest.mark.parametrize(("key", "hidden"), [("x", ()), ("ollama", ()), ("sk-12345", (b"sk-12345",))])
def test_a_key_that_is_a_word_is_not_taken_out_of_errors(key: str, hidden: tuple[bytes, ...]) -> None:
    """With the key "x" an error read "ma***imum conte***t length"."""
    assert UpstreamSpec(name="u", base_url="http://host", api_key=Secret(key)).secrets == hidden

"""Paths asked with another method than theirs, and paths that are not there, in the caller's format."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import httpx
import pytest

from pointsman.upstreams.port import ServerSpec, hash_key
from support.servers import Running, gateway, state_for

pytestmark = pytest.mark.integration

KEY = {"authorization": "Bearer right"}
ANTHROPIC = {"anthropic-version": "2023-06-01"}


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with gateway(state_for(server=ServerSpec(port=0, keys=(hash_key("right"),)))) as running:
        yield running


def ask(running: Running, method: str, path: str, **headers: str) -> httpx.Response:
    return httpx.request(method, running.url + path, headers=headers, trust_env=False)


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/v1/chat/completions", "POST"),
        ("GET", "/chat/completions", "POST"),
        ("GET", "/v1/responses", "POST"),
        ("DELETE", "/v1/responses", "POST"),
        ("GET", "/v1/messages", "POST"),
        ("HEAD", "/v1/messages", "POST"),
        ("OPTIONS", "/v1/messages", "POST"),
        ("GET", "/v1/messages/count_tokens", "POST"),
        ("GET", "/v1/decisions/d-1/outcome", "POST"),
        ("POST", "/v1/models", "GET, HEAD"),
        ("DELETE", "/v1/models/m0", "GET, HEAD"),
        ("POST", "/v1/decisions/d-1", "GET, HEAD"),
        ("POST", "/metrics", "GET, HEAD"),
        ("POST", "/health/live", "GET, HEAD"),
    ],
)
def test_another_method(running: Running, method: str, path: str, allow: str) -> None:
    got = ask(running, method, path, **KEY)
    assert (got.status_code, got.headers["allow"]) == (405, allow)
    assert got.headers["x-should-retry"] == "false"
    if method != "HEAD":
        error = got.json()["error"]
        assert error["message"] == f"{method} is not allowed here; send {allow}"
        assert ("type" in got.json()) == ("messages" in path), "Anthropic's errors alone name their type"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models", "/v1/embeddings", "/nowhere"])
def test_who_has_no_key_learns_nothing_of_paths(
    running: Running, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    with caplog.at_level(logging.INFO, logger="pointsman"):
        refused = ask(running, "GET", path, authorization="Bearer s3cret-of-a-caller")
    assert (refused.status_code, refused.headers["x-should-retry"]) == (401, "false")
    assert "refused with status 401: unknown API key" in caplog.text
    assert "s3cret" not in caplog.text + refused.text


@pytest.mark.parametrize("path", ["/nowhere", "/v1/models/none", "/v1/decisions/none"])
def test_what_is_not_there(running: Running, caplog: pytest.LogCaptureFixture, path: str) -> None:
    with caplog.at_level(logging.INFO, logger="pointsman"):
        missing = ask(running, "GET", path, **KEY, **ANTHROPIC)
    assert (missing.status_code, missing.headers["x-should-retry"]) == (404, "false")
    assert missing.json()["type"] == "error"
    assert "refused with status 404: " in caplog.text

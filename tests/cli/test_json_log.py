"""The log in JSON: a line for each request with all its fields, and every other record."""

import asyncio
import io
import json
import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pointsman.cli._listening import REQUESTS, JsonLines, LogFormat, log_to_stderr
from pointsman.cli._served import log_requests
from pointsman.config import Config
from pointsman.config.shapes import demo_config
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from pointsman.gateway.request_feed import RequestFeed
from pointsman.gateway.request_log import RequestLog, ServedRequest
from pointsman.telemetry import request_record
from pointsman.upstreams.port import Limits, ServerSpec, hash_key
from support.in_process import ask

TRACE = "0af7651916cd43dd8448eb211c80319c"
SECRET = "sk-very-secret-key"
WORDS = "Where does the grey heron sleep?"


@pytest.fixture
def builder(tmp_path: Path) -> Iterator[Builder]:
    def config() -> Config:
        found = demo_config()
        ledger = msgspec.structs.replace(found.ledger, path=tmp_path / "demo.sqlite")
        server = ServerSpec(keys=(hash_key(SECRET),), names=("team",), limits=Limits(body_bytes=10_000))
        return msgspec.structs.replace(found, ledger=ledger, server=server)

    with closing(Builder(config)) as built:
        yield built


def chat(text: str = WORDS, model: str = "auto") -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}]}


def lines_of(builder: Builder, *requests: tuple[str, Any, dict[str, str]]) -> list[dict[str, Any]]:
    """What the log has of requests, each a path, a body and headers."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.Logger(REQUESTS)  # noqa: LOG001 - one of its own, whose handler no other test sees
    logger.addHandler(handler)
    feed = log_requests(lambda: builder.config.models, logger)
    application: Any = RequestLog(Gateway(builder()), feed.put)

    async def send_all() -> None:
        for path, body, headers in requests:
            await ask(application, path, body, headers)

    asyncio.run(send_all())
    feed.close(60)
    assert SECRET not in stream.getvalue()
    assert "heron" not in stream.getvalue()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_has_every_field(builder: Builder) -> None:
    headers = {
        "authorization": f"Bearer {SECRET}",
        "x-session-id": "s-1",
        "traceparent": f"00-{TRACE}-b7ad6b7169203331-01",
    }
    (line,) = lines_of(builder, ("/v1/chat/completions", chat(), headers))
    assert set(line) == {
        *(
            "time",
            "level",
            "logger",
            "message",
            "decision_id",
            "session",
            "caller",
            "tier",
            "model",
            "upstream",
        ),
        *(
            "status",
            "attempts",
            "first_byte_ms",
            "total_ms",
            "input_tokens",
            "cached_tokens",
            "written_tokens",
            "output_tokens",
        ),
        *("cost", "added", "error", "method", "path", "trace_id"),
    }
    assert line["time"].endswith("Z")
    assert (line["level"], line["logger"]) == ("info", "pointsman.requests")
    assert line["message"] == "POST /v1/chat/completions 200"
    assert line["decision_id"].startswith("d-")
    assert (line["session"], line["caller"], line["trace_id"]) == ("team/s-1", "team", TRACE)
    assert (line["tier"], line["model"], line["upstream"]) == ("MEDIUM", "demo-small", "demo")
    assert (line["status"], line["attempts"], line["added"], line["error"]) == (200, 1, [], None)
    assert 0 < line["first_byte_ms"] <= line["total_ms"]
    assert line["input_tokens"] > 0
    assert line["output_tokens"] > 0
    assert line["cost"] > 0


@pytest.mark.parametrize(
    ("path", "body", "key", "status", "said"),
    [
        ("/v1/chat/completions", chat(), "", 401, "an API key is required"),
        ("/v1/chat/completions", chat(), "wrong-" + SECRET, 401, "unknown API key"),
        ("/v1/messages", chat(model="gtp"), SECRET, 404, 'unknown model "gtp"'),
        ("/v1/chat/completions", chat("x" * 20_000), SECRET, 413, "the request body is larger than 10000"),
        ("/v1/chat/completions", b"{", SECRET, 400, ""),
        ("/nowhere", b"", SECRET, 404, "unknown path"),
    ],
)
def test_a_refusal_has_a_line(
    builder: Builder, path: str, body: object, key: str, status: int, said: str
) -> None:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    (line,) = lines_of(builder, (path, body, headers))
    assert (line["level"], line["status"], line["attempts"]) == ("warning", status, 0)
    assert line["error"].startswith(said)
    assert line["path"] == path
    assert line["decision_id"] is None


def test_what_a_caller_chose_cannot_act(builder: Builder) -> None:
    headers = {"authorization": f"Bearer {SECRET}"}
    raw = chat(model='\x1b[31m"}\n{"level": "info\u202e')
    (line,) = lines_of(builder, ("/v1/chat/completions", raw, headers))
    assert line["error"].isprintable()
    record = request_record(ServedRequest("G\x1bT", b"/v1/\x9b31m\n"), {})
    assert all(value.isprintable() for value in record.as_fields().values() if isinstance(value, str))


def test_every_other_record_is_a_line_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    levels = {name: logging.getLogger(name).level for name in ("pointsman", "pointsman.gateway", REQUESTS)}
    try:
        log_to_stderr("warning", LogFormat.JSON)
        logging.getLogger("pointsman.gateway._relay").warning("one\nline of %s", "two\x1b")
        try:
            int("broken\u2028")
        except ValueError:
            logging.getLogger("else").exception("failed " * 5_000)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("old", DeprecationWarning, stacklevel=1)
    finally:
        logging.captureWarnings(capture=False)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["logger"] for line in lines] == ["pointsman.gateway", "else", "py.warnings"]
    assert lines[0]["message"] == "one\nline of two\x1b"
    assert lines[1]["exception"].endswith("'broken\\u2028'")
    assert len(lines[1]["message"]) == 8_000
    assert "DeprecationWarning: old" in lines[2]["message"]


def test_a_request_that_cannot_be_told_does_not_end_the_lines(caplog: pytest.LogCaptureFixture) -> None:
    told: list[ServedRequest] = []
    began = threading.Event()

    def write(batch: Any, _: int) -> None:
        told.extend(batch)
        if not began.is_set():
            began.set()
            raise ValueError("of this one")

    feed = RequestFeed(write, name="lines")
    feed.put(ServedRequest("GET", b"/1"))
    assert began.wait(60)
    feed.put(ServedRequest("GET", b"/2"))
    feed.close(60)
    assert [served.path for served in told] == [b"/1", b"/2"]
    assert caplog.records[0].getMessage() == "lines: 1 requests are not reported"


def test_of_many_requests_at_most_512_are_handed_over_at_once() -> None:
    sizes: list[int] = []
    feed = RequestFeed(lambda batch, _: sizes.append(len(batch)), name="lines", size=2_000)
    for _ in range(1_500):
        assert feed.put(ServedRequest("GET", b"/"))
    feed.close(60)
    assert sum(sizes) == 1_500
    assert max(sizes) <= 512

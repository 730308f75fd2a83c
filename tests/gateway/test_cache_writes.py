"""Tokens written to a provider's prompt cache: what the bill has, each figure of the ledger has."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from pointsman.cli import app
from support.servers import Asked, ScriptedUpstream, gateway, reply

#: Of 1,000 tokens of input: read from the cache, written for five minutes, for an hour, neither; and output.
READ, FIVE_MINUTES, AN_HOUR, PLAIN, OUTPUT = 400, 300, 200, 100, 50
USED = {
    "input_tokens": PLAIN,
    "cache_read_input_tokens": READ,
    "cache_creation_input_tokens": FIVE_MINUTES + AN_HOUR,
    "cache_creation": {"ephemeral_5m_input_tokens": FIVE_MINUTES, "ephemeral_1h_input_tokens": AN_HOUR},
    "output_tokens": OUTPUT,
}
#: The bill by Anthropic's rules, at $1,000 a million tokens of input and $5,000 of output.
BILL = (PLAIN + 0.1 * READ + 1.25 * FIVE_MINUTES + 2 * AN_HOUR + 5 * OUTPUT) / 1_000
CONFIG = """
[upstreams.main]
base_url = "{url}"
formats = ["messages"]
[models.sonnet]
upstream = "main"
id = "sonnet"
input_per_million = 1000
cached_input_per_million = 100
cache_write_per_million = 1250
output_per_million = 5000
[tiers]
simple = "sonnet"
[ledger]
path = "ledger.sqlite"
[server]
port = 0
"""
ANSWER: dict[str, Any] = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "sonnet", "stop_reason": "end_turn",
    "stop_sequence": None,
}  # fmt: skip


def events() -> bytes:
    begun = {**ANSWER, "content": [], "stop_reason": None, "usage": {**USED, "output_tokens": 1}}
    text = {"type": "text_delta", "text": "hi"}
    said: list[dict[str, Any]] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": text},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": OUTPUT, "cache_creation_input_tokens": 0},
        },
        {"type": "message_stop"},
    ]
    return b"".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in said)


async def answer(asked: Asked, send: Any) -> None:
    if json.loads(asked.body).get("stream"):
        await reply(send, 200, events(), ("content-type", "text/event-stream"))
        return
    whole = {**ANSWER, "content": [{"type": "text", "text": "hi"}], "usage": USED}
    await reply(send, 200, json.dumps(whole).encode())


def printed(*command: str) -> str:
    told = CliRunner().invoke(app, list(command))
    assert told.exit_code == 0, told.output
    return told.stdout


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("path", ["messages", "chat/completions"])
def test_the_bill_has_what_was_written_to_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, *, is_stream: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "pointsman.toml"
    body = {
        "model": "sonnet",
        "max_tokens": 50,
        "messages": [{"role": "user", "content": "hi"}],
        "stream": is_stream,
    }
    with ScriptedUpstream(answer).running() as url:
        file.write_text(CONFIG.format(url=url))
        with gateway(file) as running:
            answered = httpx.post(f"{running.url}/v1/{path}", json=body)
            assert answered.status_code == 200, answered.text
            decision = answered.headers["x-pointsman-decision-id"]
            metrics = httpx.get(f"{running.url}/metrics").text
            home = httpx.get(f"{running.url}/console/home.json").json()
            [listed] = httpx.get(f"{running.url}/console/decisions.json").json()["decisions"]
            page = httpx.get(f"{running.url}/console/decisions/{decision}").text
    assert f'pointsman_tokens_total{{kind="written",model="sonnet"}} {FIVE_MINUTES + AN_HOUR}.0' in metrics
    assert f'pointsman_cost_total{{model="sonnet"}} {BILL}' in metrics
    assert home["total"]["paid"] == pytest.approx(BILL)
    assert (listed["written"], listed["written_1h"], listed["cost"]) == (500, 200, pytest.approx(BILL))
    assert "1,000 in (400 cached, 500 written to the cache), 50 out" in page
    where = "--config", str(file)
    money = json.loads(printed("report", "savings", *where, "--json"))
    assert (money["paid"], money["expected"]) == pytest.approx((BILL, BILL))
    shown = printed("decisions", "show", decision, *where)
    assert "1000 tokens in and 50 out (400 read from the cache, 500 written to it)" in shown
    assert f"cost ${BILL:.2f}" in shown
    [row] = printed("decisions", "export", *where, "--format", "csv").splitlines()[1:]
    names = printed("decisions", "export", *where, "--format", "csv").splitlines()[0].split(",")
    cells = dict(zip(names, row.split(","), strict=True))
    assert (cells["written_tokens"], cells["written_1h_tokens"]) == ("500", "200")
    audited = json.loads(printed("audit", "ledger.sqlite", "--json"))
    assert audited["total"]["spent"] == pytest.approx(BILL)

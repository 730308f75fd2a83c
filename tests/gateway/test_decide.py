"""``/v1/decide`` and ``/v1/explain``: the decision of a request, which goes to no upstream."""

import asyncio
import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pointsman.config import load
from pointsman.diagnostics.explained import explain_request
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from support.in_process import Received, ask

CONFIG = """
[upstreams.main]
base_url = "http://127.0.0.1:1/v1"
formats = ["chat", "responses", "messages"]

[models]
small = { upstream = "main", id = "small-1" }
large = { upstream = "main", id = "large-3" }

[tiers]
simple = "small"
complex = "large"
reasoning = "large"

[ledger]
path = "ledger.sqlite"

[sessions]
store = "memory"
"""
HARD = "Prove step by step that the square root of two is irrational."
BODIES: dict[str, dict[str, Any]] = {
    "text": {"text": HARD},
    "chat": {"model": "auto", "messages": [{"role": "user", "content": HARD}]},
    "responses": {"model": "auto", "input": HARD},
    "messages": {"model": "auto", "max_tokens": 9, "system": "Help.", "messages": [
        {"role": "user", "content": [{"type": "text", "text": HARD}]}]},
}  # fmt: skip


class Trial:
    """A gateway whose upstream cannot be reached: whoever asks it fails."""

    def __init__(self, folder: Path, more: str = "") -> None:
        (folder / "pointsman.toml").write_text(CONFIG + more, encoding="utf-8")
        self._build = Builder(lambda: load(folder / "pointsman.toml", {}))
        self.state = self._build()
        self.gateway = Gateway(self.state)

    def post(self, path: str, body: object, **headers: str) -> Received:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return asyncio.run(ask(self.gateway, path, body, sent))

    def get(self, path: str, **headers: str) -> Received:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return asyncio.run(ask(self.gateway, path, b"", sent, method="GET"))

    def recorded(self) -> int:
        ledger = self.state.runtime.ledger
        ledger.flush()
        return len(list(ledger.decisions(limit=None)))

    def close(self) -> None:
        self.state.close()
        self._build.close()


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    with closing(Trial(tmp_path)) as trial:
        yield trial


@pytest.mark.parametrize("path", ["/v1/decide", "/decide"])
@pytest.mark.parametrize("kind", BODIES)
def test_a_request_of_each_format_is_decided_and_recorded(trial: Trial, kind: str, path: str) -> None:
    answer = trial.post(path, BODIES[kind])
    assert answer.status == 200, answer.body
    page = answer.json()
    assert page["decision"]["tier"]["tier"] == "REASONING"
    assert page["decision"]["input"]["format"] == ("chat" if kind == "text" else kind)
    assert (page["served"]["model"], page["served"]["id"]) == ("large", "large-3")
    assert (page["served"]["configuration"], page["dry_run"]) == ("", False)
    assert answer.headers["x-pointsman-model"] == "large"
    assert (answer.headers["x-pointsman-tier"], answer.headers["x-pointsman-attempts"]) == ("REASONING", "0")
    kept = trial.get(f"/v1/decisions/{answer.headers['x-pointsman-decision-id']}").json()
    assert (kept["decision"]["id"], kept["attempts"]) == (page["decision"]["id"], [])


@pytest.mark.parametrize("path", ["/v1/decide", "/v1/explain"])
def test_no_character_of_a_caller_acts_in_the_answer(trial: Trial, path: str) -> None:
    body = {"text": f"Fix the \u202eparser\u202c: {HARD}", "dry_run": path == "/v1/decide"}
    hidden = "an\u202eagent/1".encode().decode("latin-1")
    answer = trial.post(path, body, x_session_id=hidden, user_agent=hidden)
    assert answer.status == 200, answer.body
    assert not re.search("[\u202c\u202e\x7f]", answer.body.decode())
    if path == "/v1/explain":
        assert "\u202eparser" in json.dumps(answer.json(), ensure_ascii=False)


@pytest.mark.parametrize("kind", BODIES)
def test_a_dry_run_decides_the_same_and_leaves_no_trace(trial: Trial, kind: str) -> None:
    page = trial.post("/v1/decide", BODIES[kind] | {"dry_run": True}, x_session_id="mine").json()
    assert (page["decision"]["tier"]["tier"], page["decision"]["id"], page["dry_run"]) == (
        "REASONING",
        "",
        True,
    )
    assert trial.recorded() == 0
    assert trial.state.runtime.sessions.get("mine") is None
    counted = re.findall(
        r"^pointsman_decisions_total\{.*\} (\S+)$", trial.get("/metrics").body.decode(), re.MULTILINE
    )
    assert set(counted) == {"0.0"}


def test_it_shares_the_session_with_the_paths_for_agents(trial: Trial) -> None:
    first = trial.post("/v1/decide", BODIES["text"], x_session_id="mine").json()
    second = trial.post("/v1/decide", {"text": "And now?"}, x_session_id="mine").json()
    assert [each["decision"]["input"]["user_message"] for each in (first, second)] == [1, 2]
    assert second["decision"]["input"]["session"] == "mine"
    dry = trial.post("/v1/decide", {"text": "More?", "dry_run": True}, x_session_id="mine").json()
    assert dry["decision"]["input"]["user_message"] == 3
    again = trial.post("/v1/decide", {"text": "More?"}, x_session_id="mine").json()
    assert again["decision"]["input"]["user_message"] == 3


@pytest.mark.parametrize("kind", BODIES)
def test_explain_says_what_pointsman_explain_prints(trial: Trial, kind: str) -> None:
    page = trial.post("/v1/explain", BODIES[kind]).json()
    assert page["text"] == HARD
    assert page["decision"]["tier"] == "REASONING"
    assert page["contributions"]
    assert page["changes"] is not None
    assert (page["served"]["model"], page["served"]["configuration"]) == ("large", "")
    assert trial.recorded() == 0


def test_a_model_is_asked_for_as_elsewhere(trial: Trial) -> None:
    forced = trial.post("/v1/decide", {"text": "Hi", "model": "complex"}).json()
    assert (forced["served"]["model"], forced["decision"]["tier"]["stage"]) == ("large", "forced")
    named = trial.post("/v1/decide", {"messages": [{"role": "user", "content": "Hi"}], "model": "small"})
    assert (named.json()["decision"]["tier"], named.headers["x-pointsman-model"]) == (None, "small")


TOOL = {"type": "tool_result", "tool_use_id": "t1", "content": "no such file"}
FORMATS: dict[str, tuple[dict[str, Any], Mapping[str, str], str]] = {
    "plain": ({"messages": []}, {}, "chat"),
    "input": ({"input": "x"}, {}, "responses"),
    "a response before": ({"previous_response_id": "r"}, {}, "responses"),
    "system": ({"messages": [], "system": "s"}, {}, "messages"),
    "a header": ({"messages": []}, {"anthropic-version": "2023-06-01"}, "messages"),
    "tools": ({"messages": [], "tools": [{"name": "t", "input_schema": {}}]}, {}, "messages"),
    "tools of chat": (
        {"messages": [], "tools": [{"type": "function", "function": {"name": "t"}}]},
        {},
        "chat",
    ),
    "a parameter of another name": (
        {
            "messages": [],
            "tools": [
                {
                    "type": "function",
                    "function": {"name": "t", "parameters": {"properties": {"input_schema": {}}}},
                }
            ],
        },
        {},
        "chat",
    ),
    "a result": ({"messages": [{"role": "user", "content": [TOOL]}]}, {}, "messages"),
    "words": ({"messages": [{"role": "user", "content": json.dumps(TOOL)}]}, {}, "chat"),
    "said": ({"messages": [], "format": "messages"}, {}, "messages"),
    "said otherwise": ({"messages": [], "system": "s", "format": "chat"}, {}, "chat"),
}


@pytest.mark.parametrize("case", FORMATS)
def test_the_format_of_a_body_is_found_by_its_members(trial: Trial, case: str) -> None:
    body, headers, wire = FORMATS[case]
    answer = asyncio.run(ask(trial.gateway, "/v1/decide", body | {"dry_run": True}, headers))
    assert answer.status == 200, answer.body
    assert answer.json()["decision"]["input"]["format"] == wire


REFUSED: dict[str, tuple[object, int, str]] = {
    "nothing": ({}, 400, '{"text": "…"}'),
    "something else": ({"prompts": []}, 400, "nothing to decide"),
    "a number": ({"text": 1}, 400, "Expected `str`, got `int` - at `$.text`"),
    "a misspelt member": ({"text": "x", "dryrun": True}, 400, "unknown field `dryrun`"),
    "no flag": ({"messages": [], "dry_run": "yes"}, 400, "`$.dry_run`"),
    "no format": ({"messages": [], "format": "grpc"}, 400, "there are chat, responses, messages"),
    "messages": ({"messages": "x"}, 400, "`$.messages`"),
    "a list": ([], 400, "Expected `object`, got `array`"),
    "no JSON": (b"{", 400, "JSON"),
    "an unknown model": ({"text": "x", "model": "gpt-nine"}, 404, "gpt-nine"),
    "nested": (b'{"messages":' + b"[" * 30_000 + b"]" * 30_000 + b"}", 413, "nested too deep"),
}


@pytest.mark.parametrize("characters", [20_000, 20_001, 3_000_000])
def test_an_explanation_quotes_a_part_of_a_long_text(trial: Trial, characters: int) -> None:
    """Once, 30 MB were answered with 30 MB, which the event loop encoded."""
    text = ("prove it " * (characters // 9 + 1))[:characters]
    page = trial.post("/v1/explain", {"text": text})
    assert len(page.body) < 40_000
    shown = page.json()
    assert shown["text"] == text[:20_000].rstrip()
    assert shown.get("text_characters") == (None if characters <= 20_000 else len(text.rstrip()))


def test_explanations_keep_no_large_request_waiting(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    may_end = threading.Event()

    def explained(*given: Any) -> Any:
        may_end.wait()
        return explain_request(*given)

    monkeypatch.setattr("pointsman.gateway._decide.explain_request", explained)

    async def asked() -> list[Received]:
        explain = [
            asyncio.create_task(ask(trial.gateway, "/v1/explain", {"text": "hi"}, {})) for _ in range(40)
        ]
        try:
            large = await ask(trial.gateway, "/v1/decide", {"text": "prove it " * 40_000}, {})
            assert not any(each.done() for each in explain)  # there are fewer threads for other work
        finally:
            may_end.set()
        return [large, *await asyncio.gather(*explain)]

    assert [each.status for each in asyncio.run(asked())] == [200] * 41


@pytest.mark.parametrize("path", ["/v1/decide", "/v1/explain"])
@pytest.mark.parametrize(
    "shape", ['"tools": %s', '"messages": [{"role": "user", "content": [{"type": "a", "x": %s}]}]']
)
def test_no_depth_of_nesting_is_a_failure_of_the_gateway(trial: Trial, path: str, shape: str) -> None:
    def status(depth: int) -> int:
        text = shape % ("[" * depth + "]" * depth)
        return trial.post(path, f'{{"model": "auto", {text}}}'.encode()).status

    taken, refused = 1, 100_000  # the limit between them differs with the version of Python
    while refused - taken > 1:
        middle = (taken + refused) // 2
        taken, refused = (taken, middle) if status(middle) == 413 else (middle, refused)
    assert {status(depth) for depth in range(max(taken - 30, 1), taken + 30)} <= {200, 400, 413}


@pytest.mark.parametrize("path", ["/v1/decide", "/v1/explain"])
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_and_named(trial: Trial, case: str, path: str) -> None:
    body, status, message = REFUSED[case]
    answer = trial.post(path, body)
    assert (answer.status, answer.headers["x-should-retry"]) == (status, "false")
    assert message in answer.json()["error"]["message"]
    assert trial.recorded() == 0


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/v1/decide", "POST"),
        ("/explain", "POST"),
        ("/v1/decisions/{id}", "GET"),
        ("/v1/decisions/{id}/outcome", "POST"),
        ("/metrics", "GET"),
        ("/openapi.json", "GET"),
    ],
)
def test_an_unknown_query_parameter_is_refused(trial: Trial, path: str, method: str) -> None:
    """Of a path that is the gateway's own: the answer would not be what was asked for."""
    decided = trial.post("/v1/decide", {"text": HARD}).json()["decision"]["id"]
    body: object = {"score": 1.0} if path.endswith("outcome") else {"text": HARD} if method == "POST" else b""
    place = path.format(id=decided)

    def asked(query: str) -> Received:
        return asyncio.run(ask(trial.gateway, f"{place}{query}", body, method=method))

    assert asked("").status in {200, 202}
    found = asked("?by=hour&x=1")
    assert found.status == 400
    message = found.json()["error"]["message"]
    assert 'unknown query parameter "by"' in message
    assert "this path has none" in message


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/auto", "/health", "/health/ready", "/"])
def test_paths_that_clients_and_load_balancers_ask_take_any_query(trial: Trial, path: str) -> None:
    got = asyncio.run(ask(trial.gateway, f"{path}?client_version=0.169.0&limit=20", b"", method="GET"))
    assert got.status == 200


def test_other_types_methods_and_sizes_are_refused(trial: Trial) -> None:
    assert trial.post("/v1/decide", BODIES["text"], content_type="text/plain").status == 415
    answer = trial.get("/v1/decide")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    declared = str(1 << 40)
    assert trial.post("/v1/explain", BODIES["text"], content_length=declared).status == 413
    faulty = trial.post("/v1/decide", {}, anthropic_version="2023-06-01").json()
    assert (faulty["type"], faulty["error"]["type"]) == ("error", "invalid_request_error")


def test_a_large_request_is_decided_too(trial: Trial) -> None:
    history = [{"role": ("user", "assistant")[at % 2], "content": "word " * 2_000} for at in range(60)]
    body = {"model": "auto", "messages": [*history, {"role": "user", "content": HARD}]}
    for path in ("/v1/decide", "/v1/explain"):
        answer = trial.post(path, body)
        assert (answer.status, b"REASONING" in answer.body) == (200, True)
    dry = trial.post("/v1/decide", body | {"dry_run": True}).json()
    assert dry["decision"]["input"]["size"] > 500_000


def test_commands_are_read_off_as_elsewhere(tmp_path: Path) -> None:
    with closing(Trial(tmp_path, "[server]\nrouter_command = true\n")) as trial:
        page = trial.post("/v1/decide", {"text": HARD}).json()
        assert page["decision"]["tier"]["tier"] == "REASONING"


def test_keys_are_asked_for_and_keep_callers_apart(tmp_path: Path) -> None:
    keys = {"alice": "key-of-alice-01", "bob": "key-of-bob-0001"}
    hashed = {name: hashlib.sha256(key.encode()).hexdigest() for name, key in keys.items()}
    tables = "".join(f'[keys.{name}]\nsha256 = "{digest}"\n' for name, digest in hashed.items())
    with closing(Trial(tmp_path, tables)) as trial:
        assert trial.post("/v1/decide", BODIES["text"]).status == 401
        assert trial.post("/v1/explain", BODIES["text"], x_api_key="another").status == 401
        assert trial.get("/openapi.json").status == 401
        decided = trial.post("/v1/decide", BODIES["text"], x_api_key="key-of-alice-01", x_session_id="one")
        given = decided.json()["decision"]["input"]
        assert (given["caller"], given["session"]) == ("alice", "alice/one")
        path = f"/v1/decisions/{decided.headers['x-pointsman-decision-id']}"
        assert trial.get(path, x_api_key="key-of-alice-01").status == 200
        assert trial.get(path, x_api_key="key-of-bob-0001").status == 404
        other = trial.post("/v1/decide", {"text": "Hi"}, x_api_key="key-of-bob-0001", x_session_id="one")
        assert other.json()["decision"]["input"]["user_message"] == 1
        continued = {"input": "Hi", "previous_response_id": "resp_of_alice", "dry_run": True}
        refused = trial.post("/v1/decide", continued, x_api_key="key-of-bob-0001")
        assert refused.status in {400, 404}

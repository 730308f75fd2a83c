"""Text that no person wrote is not scored: what clients repeat, what they state, what they send unasked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from pointsman.decision.engine import Engine
from pointsman.gateway.app import Gateway
from pointsman.reports.replay import Replay
from pointsman.runtime import Runtime
from pointsman.stores.client_texts import ClientTexts
from pointsman.stores.ledger import SqliteLedger
from pointsman.text import extract
from pointsman.vocabulary import AgentRequest, AgentRole, WireFormat
from pointsman.wire.request import read_request
from support.client_requests import ClientRequest, aider, copilot, qwen, qwen_memory
from support.keywords import keywords_profile
from support.requests_by_format import post
from support.servers import gateway

pytestmark = pytest.mark.integration

FILE = """
[upstreams.main]
base_url = "demo:"
[models]
small = { upstream = "main", id = "s", input_per_million = 0.1, output_per_million = 0.5 }
large = { upstream = "main", id = "l", input_per_million = 2, output_per_million = 10 }
[tiers]
profile = "keywords.toml"
simple = "small"
medium = "small"
complex = "large"
reasoning = "large"
[server]
port = 0
[ledger]
path = "ledger.sqlite"
text = "full"
"""
PROOF = "Prove step by step that there are infinitely many primes of the form 4k+3."
REMINDER = (
    "-- how to answer --\nYou must create, write and edit only files that exist.\n"
    "Never omit a step; always analyse the trade-offs, and design the architecture first.\n"
    "Return the format as JSON with the fields plan, code and tests, and explain step by step."
)


class Asking:
    """Sends requests to a gateway, and reads its ledger."""

    def __init__(self, url: str, gateway: Gateway) -> None:
        self.url = url
        self._gateway = gateway

    def __call__(self, sent: ClientRequest) -> httpx.Headers:
        headers = {"x-pointsman-debug": "1", **sent.headers}
        answer = post(f"{self.url}/v1/chat/completions", json=sent.body, headers=headers)
        answer.raise_for_status()
        return answer.headers

    @property
    def engine(self) -> Engine:
        runtime = self._gateway.state.runtime
        assert isinstance(runtime, Runtime)
        return runtime.engine

    @property
    def ledger(self) -> SqliteLedger:
        ledger = self._gateway.state.runtime.ledger
        assert isinstance(ledger, SqliteLedger)
        return ledger

    def left_out(self) -> list[str]:
        """The latest decision's explanation of what was left out."""
        reasons = next(iter(self.ledger.decisions(limit=1))).reasons
        return [reason.detail for reason in reasons if reason.code == "evidence.left-out"]


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Asking]:
    file = tmp_path / "pointsman.toml"
    file.write_text(FILE, encoding="utf-8")
    keywords_profile(tmp_path)
    with gateway(file, {}) as running:
        yield Asking(running.url, running.gateway)


def unknown(text: str, session: str, *, system: str = "You are an agent.", **more: Any) -> ClientRequest:
    """A message of an agent that nobody here has heard of."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    headers = {"user-agent": "newcomer/0.1", "x-session-id": session}
    return ClientRequest(headers, {"model": "auto", "messages": messages, "tools": tools, **more})


@pytest.mark.parametrize("text", ["hello", "ok thanks", "rename x to y in a.py"])
def test_aiders_reminder_is_not_scored(ask: Asking, text: str) -> None:
    found = ask(aider(text))
    assert found["x-pointsman-model"] == "small"
    count = len(aider("").body["messages"][-1]["content"]) - 2
    assert ask.left_out() == [f"left out: {count} characters that this client repeats"]


def test_what_is_hard_stays_hard(ask: Asking) -> None:
    assert [ask(sent(PROOF))["x-pointsman-model"] for sent in (aider, copilot, qwen)] == ["large"] * 3


def test_conversations_of_aider_are_not_one_session(ask: Asking) -> None:
    """Its requests begin with an example that is the same in all, and the files change from turn to turn."""
    first, second = ask(aider("hello")), ask(aider("rename x to y", "hello"))
    other = ask(aider("What is 2+2?"))
    assert first["x-pointsman-session"] == second["x-pointsman-session"] != other["x-pointsman-session"]
    assert ask(qwen("hello"))["x-pointsman-session"] != ask(qwen("bye"))["x-pointsman-session"]


def test_a_time_beside_the_words_is_not_scored(ask: Asking) -> None:
    assert ask(copilot("hello"))["x-pointsman-tier"] == "SIMPLE"


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (qwen_memory("hello"), "agent.helper"),
        (copilot(PROOF, "conversation-background"), "agent.helper"),
        (copilot(PROOF, "conversation-subagent"), "agent.subagent"),
    ],
)
def test_requests_that_nobody_typed_have_a_role(ask: Asking, sent: ClientRequest, reason: str) -> None:
    found = ask(sent)
    assert reason in found["x-pointsman-reasons"].split("; ")
    assert found["x-pointsman-model"] == ("small" if reason == "agent.helper" else "large")


def test_what_an_unknown_client_repeats_is_learned(ask: Asking) -> None:
    texts = ("hello", "ok thanks", "yes, go on", "bye", "What is 3+3?")
    tiers = [
        ask(unknown(f"{text}\n\n{REMINDER}", f"s-{place}"))["x-pointsman-tier"]
        for place, text in enumerate(texts)
    ]
    assert "SIMPLE" not in tiers[:3]
    assert tiers[3:] == ["SIMPLE", "SIMPLE"]
    assert ask.left_out() == [f"left out: {len(REMINDER) + 2} characters that this client repeats"]
    # the same client with other words, another client, and another system prompt
    assert ask(unknown(f"{PROOF}\n\n{REMINDER}", "s-8"))["x-pointsman-model"] == "large"
    others = unknown(f"hello\n\n{REMINDER}", "s-9", system="You are another agent.")
    named = others._replace(headers=others.headers | {"user-agent": "other/1"})
    assert ask(others)["x-pointsman-tier"] == ask(named)["x-pointsman-tier"] == tiers[0]


def test_what_a_person_says_often_is_not_taken_for_the_clients(ask: Asking) -> None:
    texts = ("hello", *["go on"] * 9, "thanks", *["go on"] * 9)
    for place, text in enumerate(texts):
        ask(unknown(f"{text}\n\n{REMINDER}", f"s-{place}"))
    said = [record.text or "" for record in ask.ledger.records()]
    assert [text for text in said if REMINDER not in text] == ["go on"] * 9


def test_one_message_sent_again_teaches_nothing(ask: Asking) -> None:
    sent = unknown(f"hello\n\n{REMINDER}", "s")
    assert len({ask(sent)["x-pointsman-tier"] for _ in range(6)}) == 1
    assert ask.left_out() == []


def test_a_replay_repeats_what_was_left_out(ask: Asking) -> None:
    for place, text in enumerate(("hello", "thanks", "bye", "What is 2+2?", PROOF)):
        ask(unknown(f"{text}\n\n{REMINDER}", f"s-{place}"))
        ask(aider(text))
    records = sorted(ask.ledger.records(), key=lambda record: record.decision.input.arrived_at)
    assert {record.text for record in records if record.decision.input.left_out} >= {PROOF, "hello"}
    lines = list(Replay(ask.engine).turns(records))
    assert [line.changed for line in lines] == [()] * 10


def told(text: str, number: int, system: str = "x", **more: Any) -> AgentRequest:
    body = {"messages": [{"role": "system", "content": system}, {"role": "user", "content": text}], **more}
    return read_request(WireFormat.CHAT, body, session=f"s-{number}")


def learned(*requests: AgentRequest) -> ClientTexts:
    texts = ClientTexts()
    for request in requests:
        texts.learn(request, extract(request))
    return texts


TOOLS = [{"type": "function", "function": {"name": "f"}}]
TEXT = f"hello\n\n{REMINDER}"


@pytest.mark.parametrize(
    ("requests", "knows"),
    [
        ([told(f"{number} {TEXT}", number, tools=TOOLS) for number in range(3)], True),
        ([told(f"{number} {TEXT}", number, tools=TOOLS) for number in range(2)], False),
        ([told(f"{number} {TEXT}", 1, tools=TOOLS) for number in range(9)], False),  # one, edited
        ([told(f"{number} {TEXT}", number) for number in range(9)], False),  # a template is a task
        ([told(f"{number} {TEXT}", number, system="", tools=TOOLS) for number in range(9)], False),
        ([told(TEXT.replace("e", str(number)), number, tools=TOOLS) for number in range(9)], False),
        ([told(TEXT, number, tools=TOOLS) for number in range(9)], False),  # the same words
        ([told("ok\nok", number, tools=TOOLS) for number in range(9)], False),
    ],
)  # fmt: skip
def test_what_teaches(requests: list[AgentRequest], knows: bool) -> None:
    asked = told(TEXT, 99, tools=TOOLS)
    assert bool(learned(*requests).with_repeated(asked).repeated) == knows


def test_what_is_not_repeated_any_more_is_forgotten() -> None:
    before = [told(f"{number} {TEXT}", number, tools=TOOLS) for number in range(3)]
    since = [told(f"{number}\n{str(number) * 200}", number, tools=TOOLS) for number in range(10, 17)]
    assert not learned(*before, *since).with_repeated(before[0]).repeated


def test_helpers_teach_nothing_and_clients_are_bounded() -> None:
    helper = [
        msgspec.structs.replace(told(f"{number} {TEXT}", number, tools=TOOLS), role=AgentRole.HELPER)
        for number in range(9)
    ]
    assert not learned(*helper).with_repeated(helper[0]).repeated
    many = [
        told(f"{number} {TEXT}", number, system=f"agent {client}", tools=TOOLS)
        for client in range(140)
        for number in range(3)
    ]
    texts = learned(*many)
    assert not texts.with_repeated(many[0]).repeated
    assert texts.with_repeated(many[-1]).repeated


def test_an_explanation_leaves_out_what_the_decision_leaves_out(ask: Asking) -> None:
    for place, text in enumerate(("hello", "thanks", "bye")):
        ask(unknown(f"{text}\n\n{REMINDER}", f"s-{place}"))
    sent = unknown(f"fix the typo\n\n{REMINDER}", "s-9")
    decided, explained = (
        post(f"{ask.url}/v1/{what}", json={**sent.body, **more}, headers=sent.headers).json()
        for what, more in (("decide", {"dry_run": True}), ("explain", {}))
    )
    assert explained["text"] == "fix the typo"
    assert explained["decision"]["score"] == decided["decision"]["tier"]["score"]

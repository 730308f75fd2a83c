"""Gateways in process whose keys have limits, over an upstream that says what it used."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from pointsman.access import Access, Budgets, grants
from pointsman.config import Config, examine
from pointsman.decision.engine import Engine
from pointsman.errors import UpstreamError
from pointsman.factory import build_engine, build_policy
from pointsman.gateway._live_state import LiveState, build_live_state
from pointsman.gateway.app import Gateway
from pointsman.runtime import Runtime
from pointsman.stores.budgets import BudgetStore, MemoryBudgets, ValkeyBudgets
from pointsman.stores.ledger import MemoryLedger
from pointsman.stores.sessions import MemorySessions
from pointsman.upstreams.port import Call, Exchange
from support.in_process import Received, ask

__all__ = [
    "CHAT",
    "HARD",
    "NOON",
    "Provider",
    "Reply",
    "Trial",
    "broken",
    "config_of",
    "flushed",
    "stream",
    "whole",
]

#: 2026-01-14T12:00:00Z, a Wednesday.
NOON: Final = 1_768_392_000.0
CHAT: Final = {"model": "small", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}
#: Is of tier REASONING by the rules.
HARD: Final = (
    "Prove step by step that the algorithm terminates, derive its complexity formally, "
    "and analyse the trade-offs of a distributed architecture."
)
#: An output token costs a thousandth in "small" and a hundredth in "large"; of "dark" no price is known.
_BASE: Final = """
[upstreams.main]
base_url = "http://127.0.0.1:9/v1"
retries = 0
[upstreams.other]
base_url = "http://127.0.0.1:9/v1/other"
retries = 1
[models]
small = { upstream = "main", id = "s", input_per_million = 0, output_per_million = 1000 }
large = { upstream = "main", id = "l", input_per_million = 0, output_per_million = 10000 }
backup = { upstream = "other", id = "b", input_per_million = 0, output_per_million = 1000 }
dark = { upstream = "main", id = "example-of-no-catalogue" }
[tiers]
simple = ["small", "backup"]
reasoning = "large"
[guidance]
mode = "off"
[domains]
mode = "off"
[server]
passthrough = "main"
"""


class Reply:
    """An answer that is there already (``Exchange``)."""

    def __init__(self, status: int, parts: list[bytes], kind: str = "application/json") -> None:
        self.status = status
        self.headers = [(b"content-type", kind.encode()), (b"x-ratelimit-limit-requests", b"999999")]
        self._parts = parts
        self.waits: asyncio.Event | None = None  # for more, which never comes

    async def read(self) -> bytes:
        return b"".join(self._parts)

    async def next(self) -> bytes:
        if self._parts:
            return self._parts.pop(0)
        if self.waits is not None:
            self.waits.set()
            await asyncio.Event().wait()
        return b""

    def close(self) -> None:
        pass


def whole(output: int | None = 50, status: int = 200) -> Reply:
    """An answer that tells how many tokens it has; None: it does not."""
    message = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    body: dict[str, object] = {"id": "1", "object": "chat.completion", "choices": [message]}
    if output is not None:
        body["usage"] = {"prompt_tokens": 10, "completion_tokens": output}
    return Reply(status, [json.dumps(body).encode()])


def stream(pieces: int, usage: int | None = None, *, ends: bool = True) -> Reply:
    """A stream of so many pieces of text; with what it used at its end, where it says so."""

    def event(choices: list[object], **more: object) -> bytes:
        return b"data: " + json.dumps({"id": "1", "choices": choices, **more}).encode() + b"\n\n"

    parts = [event([{"index": 0, "delta": {"content": "word "}}]) for _ in range(pieces)]
    if ends:
        parts.append(event([{"index": 0, "delta": {}, "finish_reason": "stop"}]))
        if usage is not None:
            parts.append(event([], usage={"prompt_tokens": 10, "completion_tokens": usage}))
        parts.append(b"data: [DONE]\n\n")
    return Reply(200, parts, "text/event-stream")


def broken() -> Reply:
    """No answer: the connection breaks."""
    raise UpstreamError("the connection broke")


class Provider:
    """Answers every request as a test says (``UpstreamClient``)."""

    def __init__(self) -> None:
        self.asked: list[Call] = []
        self.answers: list[Callable[[], Reply]] = []  # the next ones; then the usual one
        self.before: Callable[[], Awaitable[object]] | None = None

    async def send(self, call: Call) -> Exchange:
        self.asked.append(call)
        if self.before is not None:
            await self.before()
        return self.answers.pop(0)() if self.answers else whole()

    def close(self) -> None:
        pass


def config_of(text: str, **environment: str) -> Config:
    """The configuration of a file: two upstreams, four models, and what a test adds."""
    loaded = examine(Path("pointsman.toml"), environment, text=_BASE + text)
    assert loaded.config is not None, loaded.errors
    return loaded.config


@cache
def _engine() -> Engine:
    return build_engine(build_policy(config_of("")))


def flushed(budgets: Budgets) -> None:
    """Wait until settlements have reached the store, and spent money its durable record."""
    budgets._writer.flush(60.0)
    if isinstance(budgets.store, ValkeyBudgets):
        budgets.store._writer.flush(60.0)


class Trial:
    """One gateway. A key is called as it is: the hash of ``alice`` is put under ``[keys.alice]``."""

    def __init__(self, text: str, *, store: BudgetStore | None = None, fails_open: bool = True) -> None:
        self.now = NOON
        self.config = config_of(_with_hashes(text))
        self.provider = Provider()
        self.ledger = MemoryLedger()
        self.budgets = Budgets(store or MemoryBudgets(), fails_open=fails_open)
        runtime = Runtime(_engine(), sessions=MemorySessions(), ledger=self.ledger)
        self.gateway = Gateway(self.state(runtime))

    def state(self, runtime: Any) -> LiveState:
        """The state of the configuration."""
        config = self.config
        found = grants(config.keys, config.teams)
        access = Access(found, self.budgets, config.access.output_tokens, lambda: self.now) if found else None
        state = build_live_state(runtime, config, names=_engine().names, access=access)
        for upstream in state.upstreams.values():
            upstream.client = self.provider
        return state

    def reload(self, text: str) -> None:
        """Put another configuration in effect."""
        self.config = config_of(_with_hashes(text))
        self.gateway.replace(self.state(self.gateway.state.runtime))

    async def chat(self, key: str = "alice", **members: object) -> Received:
        """Send a chat request with a key."""
        return await self.ask("/v1/chat/completions", {**CHAT, **members}, key)

    async def ask(self, path: str, body: object, key: str = "alice", **more: Any) -> Received:
        """Send any request with a key."""
        headers: Mapping[str, str] = {"authorization": f"Bearer {key}"}
        return await ask(self.gateway, path, body, headers, **more)

    def used(self, start: str) -> int:
        """What is used and reserved of the only counter whose name begins so."""
        store = self.budgets.store
        assert isinstance(store, MemoryBudgets)
        found = [total for name, total in store._totals.items() if name.startswith(start)]
        assert len(found) == 1, store._totals
        return found[0]

    @property
    def held(self) -> int:
        """Reservations that nobody has settled."""
        assert isinstance(self.budgets.store, MemoryBudgets)
        return len(self.budgets.store._held)

    def metric(self, line: str) -> bool:
        """Whether the page of metrics has a line."""
        return line in self.gateway.metrics.page().decode().splitlines()


def _with_hashes(text: str) -> str:
    from hashlib import sha256

    lines, name = [], ""
    for line in text.splitlines():
        if line.startswith("[keys."):
            name = line[len("[keys.") : -1]
            lines += [line, f'sha256 = "{sha256(name.encode()).hexdigest()}"']
        else:
            lines.append(line)
    return "\n".join(lines)

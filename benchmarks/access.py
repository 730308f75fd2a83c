"""What limits of a key cost each request, beside the same request with a key without any.

.venv/bin/python benchmarks/access.py [--requests N] [--store memory|sqlite|valkey] [--url redis://127.0.0.1:6379/0]

Whole ASGI requests in this process, to an upstream that answers from memory, in rounds that change places;
CPU time of the process, the median of the rounds, and ratios to the key without limits. Beside a file and
Valkey the wall time is printed too: a request waits for one transaction or round trip.
"""

import argparse
import asyncio
import hashlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from pointsman.access import build_access, open_budgets
from pointsman.config import Config, examine
from pointsman.factory import build_engine, build_policy
from pointsman.gateway._live_state import build_live_state
from pointsman.gateway.app import Gateway
from pointsman.runtime import Runtime
from pointsman.stores.ledger import MemoryLedger
from pointsman.stores.sessions import MemorySessions
from pointsman.upstreams.port import Call, Exchange

ROUNDS = 15
TABLES = """
[upstreams.main]
base_url = "http://127.0.0.1:1/v1"
[models]
small = { upstream = "main", id = "small", input_per_million = 1, output_per_million = 5 }
[tiers]
simple = "small"
[keys.plain]
sha256 = "%(plain)s"
[keys.rate]
sha256 = "%(rate)s"
requests_per_minute = 1000000000
[keys.budget]
sha256 = "%(budget)s"
budget = { money = 1000000, per = "day" }
[keys.all]
sha256 = "%(all)s"
team = "all"
models = ["sm*"]
requests_per_minute = 1000000000
tokens_per_minute = 1000000000
budget = { money = 1000000, per = "month" }
when_low = "lower_tier"
[teams.all]
requests_per_minute = 1000000000
tokens_per_minute = 1000000000
budget = { money = 1000000, per = "week" }
"""
KEYS = {
    "plain": "no limits",
    "rate": "a rate limit",
    "budget": "a budget",
    "all": "six limits of two levels, a list of models",
}
ANSWER = msgspec.json.encode(
    {
        "id": "1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 900, "completion_tokens": 40},
    }
)
BODY = msgspec.json.encode(
    {
        "model": "auto",
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": "Why is the build slow? " * 20}],
    }
)


class Answered:
    """An upstream's answer that is already there (``Exchange``)."""

    def __init__(self) -> None:
        self.status = 200
        self.headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))]

    async def read(self) -> bytes:
        """Return the whole body."""
        return ANSWER

    async def next(self) -> bytes:
        """Return nothing more."""
        return b""

    def close(self) -> None:
        """There is nothing to close."""


class Upstream:
    """Answers every request alike (``UpstreamClient``)."""

    async def send(self, call: Call) -> Exchange:
        """Answer at once."""
        assert call.body
        return Answered()

    def close(self) -> None:
        """There is nothing to close."""


def configured(store: str, url: str, folder: str) -> Config:
    text = TABLES % {name: hashlib.sha256(name.encode()).hexdigest() for name in KEYS}
    text += f'[sessions]\nurl = "{url}"\n[access]\npath = "{folder}/budgets.sqlite"\n'
    config = examine(Path("pointsman.toml"), {}, text=text).config
    assert config is not None
    # Set after the check: a file may not have budgets in memory, and the others are compared with it.
    access = msgspec.structs.replace(config.access, store=store)
    return msgspec.structs.replace(config, access=access)


def gateway_of(config: Config) -> Gateway:
    engine = build_engine(build_policy(config))
    runtime = Runtime(engine, sessions=MemorySessions(), ledger=MemoryLedger(size=100))
    state = build_live_state(
        runtime, config, names=engine.names, access=build_access(config, open_budgets(config))
    )
    for upstream in state.upstreams.values():
        upstream.client = Upstream()
    return Gateway(state)


async def request(gateway: Gateway, key: str) -> None:
    messages: Iterator[dict[str, Any]] = iter([{"type": "http.request", "body": BODY}])
    headers = [
        (b"content-type", b"application/json"),
        (b"authorization", b"Bearer " + key.encode()),
        (b"x-session-id", b"s-1"),
    ]
    path = "/v1/chat/completions"

    async def receive() -> dict[str, Any]:
        found = next(messages, None)
        if found is None:
            await asyncio.Event().wait()
        assert found is not None
        return found

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            assert message["status"] == 200, message

    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(),
             "query_string": b"", "headers": headers}  # fmt: skip
    await gateway(scope, receive, send)


async def measure(gateway: Gateway, requests: int) -> dict[str, tuple[float, float]]:
    """Return CPU and wall time of a request in microseconds, by key."""
    found: dict[str, list[tuple[float, float]]] = {key: [] for key in KEYS}
    for _ in range(ROUNDS):
        for key, seen in found.items():
            cpu, wall = time.process_time(), time.perf_counter()
            for _ in range(requests):
                await request(gateway, key)
            spent = time.process_time() - cpu, time.perf_counter() - wall
            seen.append((spent[0] / requests * 1e6, spent[1] / requests * 1e6))
    return {
        key: (statistics.median(cpu for cpu, _ in seen), statistics.median(wall for _, wall in seen))
        for key, seen in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1_000, help="of each key in each round")
    parser.add_argument("--store", choices=("memory", "sqlite", "valkey"), default="memory")
    parser.add_argument("--url", default="redis://127.0.0.1:6379/0", help="of Valkey")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        gateway = gateway_of(configured(given.store, given.url, folder))
        found = asyncio.run(measure(gateway, given.requests))
        assert gateway.state.access is not None
        gateway.state.access.budgets.close()
    base = found["plain"][0]
    print(f"CPU per request, store {given.store}; {ROUNDS} rounds of {given.requests} requests each")
    for key, (cpu, wall) in found.items():
        beside = "" if given.store == "memory" else f"  wall {wall:7.0f} us"
        print(f"  {KEYS[key]:<44}{cpu:7.1f} us  {cpu - base:+6.1f} us  {cpu / base:5.2f} x{beside}")


if __name__ == "__main__":
    main()

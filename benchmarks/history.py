"""A resent history with one new message: what deciding costs beside one hash of the same bytes.

    .venv/bin/python benchmarks/history.py

Baseline, in the same run and interleaved: SHA-256 of the body. Every part is on: tiers, domains, guidance.
Reading the body into a turn is listed apart. ``decide`` follows on it at once, when half a megabyte has just
gone through the processor's caches; ``alone`` decides such turns without that, and ``tool`` the same history
with one more result of a tool instead of a person's words. CPU medians; on a busy machine trust the ratios.
"""

import hashlib
import json
import statistics
import time
from collections.abc import Callable
from functools import partial

from pointsman.decision.engine import Engine
from pointsman.decision.memory import Memory
from pointsman.drivers import drive
from pointsman.factory import build_engine, default_policy
from pointsman.vocabulary import AgentRequest, ModelReply, WireFormat
from pointsman.wire.request import read_request

ROUNDS = 60


def history(kilobytes: int) -> list[dict[str, object]]:
    """Tool calls and their results, about 400 bytes a message."""
    messages: list[dict[str, object]] = [
        {"role": "user", "content": "find out why the nightly build is slow"}
    ]
    size, n = 0, 0
    while size < kilobytes * 1000:
        call = {"id": f"c{n}", "type": "function", "function": {"name": "read", "arguments": f'{{"n": {n}}}'}}
        text = " ".join(f"line {n * 7919 % 1009} took {i * n % 977} ms;" for i in range(26))
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": text},
        ]
        size += len(text) + 200
        n += 1
    return messages


def body_of(messages: list[dict[str, object]]) -> bytes:
    return json.dumps({"model": "auto", "messages": messages}).encode()


def read(body: bytes) -> AgentRequest:
    return read_request(WireFormat.CHAT, body, session="s")


def decide(engine: Engine, agent_request: AgentRequest, memory: Memory) -> Memory:
    return drive(engine.decide(agent_request, memory, "d"), lambda _: ModelReply(error="no-model")).memory


def cpu_us(run: Callable[[], object]) -> float:
    started = time.process_time_ns()
    run()
    return (time.process_time_ns() - started) / 1e3


def main() -> None:
    engine = build_engine(default_policy())
    learned_routers = ("history", "hash", "read", "decide", "alone", "tool", "decide/hash", "alone/hash")
    print(*(f"{learned_router:>11}" for learned_router in learned_routers), "  (µs of CPU)")
    for kilobytes in (4, 40, 400):
        messages = history(kilobytes)
        memory = decide(engine, read(body_of(messages[:-2])), Memory())
        size, hashed, taken, decided, alone = measure(engine, messages, memory)
        tool = iteration(engine, messages, memory)
        times = (f"{value:>11.1f}" for value in (hashed, taken, decided, alone, tool))
        print(f"{size:>9.0f}kB", *times, f"{decided / hashed:>11.2f} {alone / hashed:>11.2f}")


def measure(
    engine: Engine, messages: list[dict[str, object]], memory: Memory
) -> tuple[float, float, float, float, float]:
    """Size in kB, and the medians of hash, read, decide and decide alone in µs."""
    hashed, taken, decided, turns = [], [], [], []
    body = b""
    for n in range(ROUNDS):
        new: dict[str, object] = {"role": "user", "content": f"and what about step {n}? investigate it"}
        body = body_of([*messages, new])
        hashed.append(cpu_us(partial(hashlib.sha256, body)))
        taken.append(cpu_us(partial(read, body)))
        decided.append(cpu_us(partial(decide, engine, read(body), memory)))
        turns.append(
            read(body_of([*messages, {**new, "content": f"step {n} was fine, look at the next one"}]))
        )
    alone = [cpu_us(partial(decide, engine, agent_request, memory)) for agent_request in turns]
    median = statistics.median
    return len(body) / 1e3, median(hashed), median(taken), median(decided), median(alone)


def iteration(engine: Engine, messages: list[dict[str, object]], memory: Memory) -> float:
    """The median of deciding after one more result of a tool, alone, in µs."""
    *earlier, last = messages
    turns = [read(body_of([*earlier, {**last, "content": f"result {n}"}])) for n in range(ROUNDS)]
    return statistics.median(
        cpu_us(partial(decide, engine, agent_request, memory)) for agent_request in turns
    )


if __name__ == "__main__":
    main()

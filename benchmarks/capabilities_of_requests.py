"""What the selection of capabilities costs a decision: in a tool loop, for a new message, with new tools.

    nice .venv/bin/python benchmarks/capabilities_of_requests.py [TOOLS] [CHARACTERS]

One request of an agent with TOOLS tools of CHARACTERS of description each (20 and 300), read and decided
without ledger and session store. Medians; the sides take turns, so that a busy machine slows all alike.
"""

import itertools
import statistics
import sys
import time
from collections.abc import Callable

import msgspec

from pointsman.capabilities import CapabilityPolicy, Strategy
from pointsman.decision.memory import Memory
from pointsman.decision.policy import Policy
from pointsman.drivers import drive, no_model
from pointsman.factory import build_engine, default_policy
from pointsman.vocabulary import Mode, WireFormat
from pointsman.wire.request import read_request

ROUNDS = 300
WORDS = (
    "read",
    "write",
    "list",
    "search",
    "file",
    "folder",
    "mail",
    "calendar",
    "weather",
    "city",
    "shell",
    "command",
    "test",
    "branch",
    "commit",
)


def tools(count: int, characters: int, first: int = 0) -> list[object]:
    words = itertools.cycle(f"{word}{number % 17}" for number, word in enumerate(WORDS * 17))
    found: list[object] = []
    for number in range(first, first + count):
        text = " ".join(itertools.islice(words, characters // 6))[:characters]
        found.append({"type": "function", "function": {"name": f"tool_{number}", "description": text}})
    return found


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e6


def main() -> None:
    count, characters = (*map(int, sys.argv[1:]), *(20, 300)[len(sys.argv) - 1 :])
    base = default_policy()
    selecting = Policy(
        profile=base.profile,
        domains=base.domains,
        guidance=base.guidance,
        capabilities=CapabilityPolicy(strategy=Strategy.LOCAL, mode=Mode.OBSERVE),
    )
    engines = {"off": build_engine(base), "on": build_engine(selecting)}
    offered = tools(count, characters)

    def body(number: int, *, loop: bool = False, own: list[object] | None = None) -> bytes:
        call = {"id": "c", "type": "function", "function": {"name": "tool_1", "arguments": "{}"}}
        messages: list[object] = [{"role": "user", "content": f"Please search the weather of city {number}."}]
        if loop:
            messages += [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c", "content": "rain"},
            ]
        asked = {"model": "auto", "messages": messages, "tools": own or offered}
        return msgspec.json.encode(asked)

    def decide(side: str, data: bytes, memory: Memory) -> Memory:
        request = read_request(WireFormat.CHAT, data, session="s", arrived_at=1.0)
        return drive(engines[side].decide(request, memory, "d"), no_model).memory

    plain = msgspec.json.encode(
        {"model": "auto", "messages": [{"role": "user", "content": "What is a monad?"}]}
    )
    known = {side: decide(side, body(0), Memory()) for side in engines}
    found: dict[str, list[float]] = {}
    for number in range(1, ROUNDS):
        for side in engines:
            for name, data, memory in (
                ("no tools", plain, Memory()),
                ("tool loop", body(0, loop=True), known[side]),
                ("new message", body(number), known[side]),
            ):
                found.setdefault(f"{name}, {side}", []).append(timed(lambda: decide(side, data, memory)))  # noqa: B023
    for number in range(5):
        fresh = body(0, own=tools(count, characters, first=1_000 * (number + 1)))
        for side in engines:
            found.setdefault(f"new tools, {side}", []).append(timed(lambda: decide(side, fresh, Memory())))  # noqa: B023
    print(f"{count} tools of {characters} characters, microseconds, medians")
    for name, values in found.items():
        print(f"  {name:<18}{statistics.median(values):>12,.1f}")


if __name__ == "__main__":
    main()

"""What guidance costs: an event, all classifiers, a request whose history is long.

Run: ``python benchmarks/guidance.py``. CPU time of one thread, medians over interleaved rounds. Every figure
stands beside a baseline of the same run: ``naive`` is what an event would cost if the whole window were
looked at anew, ``digest`` what recognising a resent history by hashing it would cost.
"""

from __future__ import annotations

import json
import statistics
import time
import tracemalloc
from collections.abc import Callable

import msgspec

from pointsman.guidance import (
    DoomLoopClassifier,
    ErrorRateClassifier,
    ErrorStreakClassifier,
    GuidanceContext,
    GuidanceMemory,
    GuidancePolicy,
    Guide,
    HighToolCountClassifier,
    LargeOutputClassifier,
    Mode,
    ProgressStallClassifier,
    RepeatedErrorClassifier,
    SensitiveContentClassifier,
    SequentialWhenParallelClassifier,
    SingleToolRepeatedClassifier,
    without_models,
)
from pointsman.trajectory import ToolInvoked, ToolResult, TrajectoryBuilder
from pointsman.vocabulary import ToolCall, WireFormat
from pointsman.wire.request import JsonHistory

ROUNDS = 15
CLASSIFIERS: tuple[Callable[[], object], ...] = (
    DoomLoopClassifier,
    ErrorStreakClassifier,
    ErrorRateClassifier,
    RepeatedErrorClassifier,
    ProgressStallClassifier,
    HighToolCountClassifier,
    SingleToolRepeatedClassifier,
    SequentialWhenParallelClassifier,
    LargeOutputClassifier,
    SensitiveContentClassifier,
)


def medians(repeat: int, **work: Callable[[], object]) -> dict[str, float]:
    """Median CPU time of each piece of work, in µs; rounds are interleaved."""
    taken: dict[str, list[float]] = {name: [] for name in work}
    for run in work.values():
        run()
    for _ in range(ROUNDS):
        for name, run in work.items():
            start = time.process_time()
            for _ in range(repeat):
                run()
            taken[name].append((time.process_time() - start) / repeat * 1e6)
    return {name: statistics.median(times) for name, times in taken.items()}


def event(number: int, *, failed: bool) -> ToolInvoked:
    text = (
        f"Traceback (most recent call last):\n  File '/srv/app/main.py', line {number}\nKeyError: 'x'"
        if failed
        else f"src/app/module_{number}.py:{number}: def work(item): return item\n" * 20
    )
    result = ToolResult.error(text) if failed else ToolResult.ok(text)
    return ToolInvoked("bash", json.dumps({"command": f"grep -n work src/{number}", "timeout": 120}), result)


def stuck(length: int) -> TrajectoryBuilder:
    builder = TrajectoryBuilder()
    for number in range(length):
        builder.on_event(event(number, failed=number % 3 == 0))
    return builder


def naive(events: list[ToolInvoked]) -> int:
    """The seed's rules over the raw window: arguments compared as JSON, results as texts."""
    calls = [(e.tool_name, json.dumps(json.loads(str(e.params)), sort_keys=True)) for e in events]
    failures = [bool(e.result and e.result.is_error) for e in events]
    loops = sum(calls[-p:] == calls[-2 * p : -p] for p in range(1, 6))
    texts = {e.result.text for e in events if e.result}
    return loops + sum(failures) + len(texts)


def cost_of_an_event() -> None:
    full, fine, bad = stuck(60).build(), event(900, failed=False), event(901, failed=True)
    short = ToolInvoked("click", '{"button": "next"}', ToolResult.ok("True"))
    window = [event(number, failed=number % 3 == 0) for number in range(50)]
    taken = medians(
        200,
        short=lambda: full.with_event(short),
        success=lambda: full.with_event(fine),
        failure=lambda: full.with_event(bad),
        naive=lambda: naive(window),
    )
    print("event, window 50 (budget 10 µs): short result, result of 1.4 kB, traceback")
    for name, value in taken.items():
        print(f"  {name:10}{value:8.1f} µs   {value / taken['naive']:6.2f} of naive")


def cost_of_classifiers() -> None:
    pending = (ToolCall("1", "bash", json.dumps({"command": "ls -la src", "timeout": 120})),)
    context = GuidanceContext(None, stuck(60).build(), pending_tool_calls=pending)
    made = [build() for build in CLASSIFIERS]
    taken = medians(200, classifiers=lambda: [member.classify(context) for member in made])  # type: ignore[attr-defined]
    print(f"all {len(made)} classifiers, window 50 (budget 60 µs)\n  {taken['classifiers']:18.1f} µs")
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = [[build() for build in CLASSIFIERS] for _ in range(100)]
    each = (tracemalloc.get_traced_memory()[0] - before) / len(kept) / len(CLASSIFIERS)
    tracemalloc.stop()
    print(f"memory of a classifier (budget 1,000 bytes)\n  {each:18.0f} bytes")


def conversation(messages: int) -> list[dict[str, object]]:
    built: list[dict[str, object]] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "on it"},
    ]
    for number in range((messages - 2) // 2):
        done = event(number, failed=number % 3 == 0)
        call = {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": "bash", "arguments": done.params},
        }
        assert done.result is not None
        content = ("Error: " if done.result.is_error else "") + done.result.text
        built.append({"role": "assistant", "content": None, "tool_calls": [call]})
        built.append({"role": "tool", "tool_call_id": f"call_{number}", "content": content})
    return built


def cost_of_a_request() -> None:
    guide = Guide(GuidancePolicy(mode=Mode.ON))
    work: dict[str, Callable[[], object]] = {}
    for size in (20, 2_000):
        messages = [msgspec.json.encode(message) for message in conversation(size + 2)]
        seen, whole = messages[:-2], messages
        _, memory = without_models(guide.turn(JsonHistory(WireFormat.CHAT, seen), GuidanceMemory()))
        stored = msgspec.json.encode(memory)

        def request(whole: list[bytes] = whole, memory: GuidanceMemory = memory) -> object:
            return without_models(guide.turn(JsonHistory(WireFormat.CHAT, whole), memory))

        def with_store(whole: list[bytes] = whole, stored: bytes = stored) -> object:
            kept = msgspec.json.decode(stored, type=GuidanceMemory)
            _, after = without_models(guide.turn(JsonHistory(WireFormat.CHAT, whole), kept))
            return msgspec.json.encode(after)

        work |= {f"{size} request": request, f"{size} with memory stored": with_store}
    taken = medians(20, **work)
    print("a request with two new messages (2,000 at most 1.3 times 20)")
    for name in ("request", "with memory stored"):
        short, long = taken[f"20 {name}"], taken[f"2000 {name}"]
        print(f"  {name:20}{short:8.1f} µs with 20{long:10.1f} µs with 2,000{long / short:8.2f} times")


if __name__ == "__main__":
    cost_of_an_event()
    cost_of_classifiers()
    cost_of_a_request()

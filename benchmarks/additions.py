"""What texts added in earlier requests cost: deciding a resent history and editing its body.

    .venv/bin/python benchmarks/additions.py [ADDITIONS …]

Baseline, in the same run and interleaved: the same history in a session to which nothing was added. CPU
medians in microseconds; on a busy machine trust the ratios.
"""

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

from history import body_of, history

from pointsman.decision.decision import Decision, Injection
from pointsman.decision.engine import Engine
from pointsman.decision.memory import Additions, Memory, remember
from pointsman.drivers import drive, no_model
from pointsman.factory import build_engine, default_policy
from pointsman.gateway._injections import injections
from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS, Body
from pointsman.wire.request import JsonHistory, read_request

ROUNDS = 60
WIRE = FORMATS[WireFormat.CHAT]


def added_to(messages: list[dict[str, object]], count: int) -> Additions:
    """The memory of a session in which ``count`` messages, evenly spread, were given a text."""
    additions = Additions()
    step = max(len(messages) // (2 * count + 1), 1) * 2
    for number in range(count):
        sent = JsonHistory.of(WireFormat.CHAT, messages[: 1 + number * step])
        additions, _ = remember(additions, sent, (Injection("domains", f"text {number} " * 30),))
    return additions


def request(engine: Engine, raw: bytes, memory: Memory) -> tuple[Memory, Decision, bytes]:
    """Read a body, decide it, and put into it what is to be added."""
    body = Body(WIRE, raw)
    decided = drive(engine.decide(read_request(WIRE.format, body, session="s"), memory, "d"), no_model)
    decision = decided.decision
    edits = injections(WIRE, body, decision) if decision.injections or decision.standing else []
    return decided.memory, decision, body.edited(edits)


def cpu_us(run: Callable[[], object]) -> float:
    started = time.process_time_ns()
    run()
    return (time.process_time_ns() - started) / 1000


def compare(engine: Engine, kilobytes: int, count: int) -> str:
    """One line of the table."""
    messages = history(kilobytes)
    before, now = body_of(messages[:-2]), body_of(messages)
    memories = {
        name: request(engine, before, Memory(additions=additions))[0]
        for name, additions in (("without", Additions()), ("with", added_to(messages, count)))
    }
    times: dict[str, list[float]] = {name: [] for name in memories}
    for _ in range(ROUNDS):
        for name, memory in memories.items():
            times[name].append(cpu_us(partial(request, engine, now, memory)))
    without, with_ = (statistics.median(each) for each in times.values())
    found = len(request(engine, now, memories["with"])[1].standing)
    return f"{kilobytes:>7} kB {found:>10} {without:>10.0f} {with_:>10.0f} {with_ / without:>7.2f}"


def main() -> None:
    counts = [int(argument) for argument in sys.argv[1:]] or [1, 2, 10, 64]
    engine = build_engine(default_policy())
    print(f"{'history':>10} {'additions':>10} {'without':>10} {'with':>10} {'ratio':>7}")
    for kilobytes in (35, 400):
        for count in counts:
            print(compare(engine, kilobytes, count))


if __name__ == "__main__":
    main()

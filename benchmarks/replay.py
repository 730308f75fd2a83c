"""Time of a replay: a ledger of N decisions, decided again under another policy on one core.

    .venv/bin/python benchmarks/replay.py [N]

Half of the turns have their words kept. Baseline, in the same run: reading the same records without deciding.
"""

import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from pointsman.decision.decision import without_content
from pointsman.decision.engine import Engine
from pointsman.decision.memory import Memory
from pointsman.decision.policy import Policy
from pointsman.drivers import drive
from pointsman.factory import build_engine, default_policy
from pointsman.guidance import GuidancePolicy
from pointsman.reports.replay import Replay, Summary
from pointsman.reports.replay_period import ReplayFile
from pointsman.stores.ledger import Attempt, Entry, PromptText, Retention, SqliteLedger
from pointsman.vocabulary import Mode, ModelQuery, ModelReply, ModelSpec, Tier, WireFormat
from pointsman.wire.request import read_request

WORDS = (
    "please fix the failing test in the parser and explain why it breaks",
    "hello",
    "design a distributed rate limiter, prove that it is fair, step by step",
    "what is the capital of France?",
    "refactor this function to use async and add tests for the api",
    "yes, go on",
    "investigate the memory leak in production and summarise the root cause",
)
MODELS = {
    name: ModelSpec(
        name,
        "up",
        name,
        input_per_million=price,
        output_per_million=4 * price,
        cached_input_per_million=price / 10,
    )
    for name, price in (("small", 0.1), ("large", 3.0))
}


def a_policy(*, large_from: int, kept: int) -> Policy:
    base = default_policy()
    tier_models = {tier: "large" if tier.rank >= large_from else "small" for tier in Tier}
    boundaries = tuple(edge + 0.02 * kept for edge in base.profile.boundaries)
    profile = msgspec.structs.replace(base.profile, boundaries=boundaries)
    return Policy(
        profile=profile,
        models=MODELS,
        tier_models=tier_models,
        domains=base.domains,
        guidance=GuidancePolicy(mode=Mode.ON),
    )


def nobody(_: ModelQuery) -> ModelReply:
    return ModelReply(error="no-model")


def a_session(engine: Engine, number: int, dice: random.Random) -> list[Entry]:
    """One conversation: three messages of a person, each followed by up to six tool calls."""
    memory = Memory()
    messages: list[dict[str, Any]] = []
    found: list[Entry] = []
    for turn_number in range(3):
        messages.append({"role": "user", "content": f"{dice.choice(WORDS)} {dice.getrandbits(32):x}"})
        for call_number in range(dice.randrange(1, 7)):
            turn = read_request(
                WireFormat.CHAT,
                {"messages": list(messages)},
                session=f"s{number}",
                arrived_at=float(number * 7 + turn_number * 60 + call_number),
            )
            wanted = f"d{number}-{turn_number}-{call_number}"
            decided = drive(engine.decide(turn, memory, wanted), nobody)
            memory = decided.memory
            found += [without_content(decided.decision), an_attempt(wanted, decided.decision.chain[0], dice)]
            if number % 2:
                found.append(PromptText(decision=wanted, text=decided.words.text))
            call_id = f"{turn_number}.{call_number}"
            function = {"name": "bash", "arguments": f'{{"c": "make {dice.randrange(3)}"}}'}
            messages += [
                {
                    "role": "assistant",
                    "tool_calls": [{"id": call_id, "type": "function", "function": function}],
                },
                {
                    "role": "tool",
                    "tool_call_id": call_id,
                    "content": dice.choice(("Error: no rule", "done", "42 files")),
                },
            ]
    return found


def an_attempt(decision: str, model: str, dice: random.Random) -> Attempt:
    tokens = dice.randrange(500, 20_000)
    return Attempt(
        decision=decision,
        number=1,
        model=model,
        upstream="up",
        status=200,
        started_at=0.0,
        total_ms=900.0,
        input_tokens=tokens,
        cached_tokens=tokens // 2,
        output_tokens=dice.randrange(20, 900),
    )


def fill(path: Path, count: int) -> None:
    engine, dice = build_engine(a_policy(large_from=2, kept=0)), random.Random(0)
    ledger = SqliteLedger(path, queue=10 * count, text="full", retention=Retention(None, None))
    made = number = 0
    while made < count:
        for entry in a_session(engine, number, dice):
            ledger.append(entry)
            made += isinstance(entry, Attempt)
        number += 1
    ledger.close()


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "ledger.sqlite"
        fill(path, count)
        ledger = SqliteLedger(path)
        turns = ledger.count()
        began = time.process_time()
        read = sum(1 for _ in ledger.records())
        reading = time.process_time() - began
        assert read == turns
        engine = build_engine(a_policy(large_from=1, kept=1))
        summary, out = Summary(engine.version), ReplayFile(Path(directory) / "out.jsonl")
        wall, began = time.perf_counter(), time.process_time()
        for line in out.write(Replay(engine), ledger.records()):
            summary.add(line)
        spent, wall = time.process_time() - began, time.perf_counter() - wall
        ledger.close()
    print(f"{turns:,} decisions: {spent:.1f} s CPU ({wall:.1f} s wall), {spent / turns * 1e6:.0f} µs each")
    print(f"reading the records alone: {reading:.1f} s CPU, {reading / turns * 1e6:.0f} µs each")
    print(f"most memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB\n")
    print("\n".join(summary.lines()))


if __name__ == "__main__":
    main()

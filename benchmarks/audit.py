"""What an audit of many requests costs: made-up sessions are read, and decided again by the shipped policy.

    python benchmarks/audit.py [--requests 100000]

Prints CPU seconds of this process and its peak memory. Results of tools have 200 to 20,000 characters and
stand in each line twice, as Claude Code writes them; 100,000 requests need 3 GB of disk for a while.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pointsman.audit import Collection, Home, sources
from pointsman.audit.money import Pricing
from pointsman.audit.policies import policy_verdicts
from pointsman.factory import default_policy

MODELS = ("claude-opus-4-8", "claude-sonnet-4-5", "claude-haiku-4-5")
COMMANDS = ("pytest -q", "ls -la", "grep -n order shop.py", "cat shop.py", "git diff")
WORDS = (
    "the",
    "parser",
    "must",
    "keep",
    "dates",
    "in",
    "order",
    "when",
    "tests",
    "of",
    "shop",
    "fail",
    "again",
)


def main() -> None:
    """Make the logs, audit them, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Home.at(Path(folder))
        size = make(Path(folder), options.requests)
        began, pricing = time.process_time(), Pricing()
        read = list(Collection(home, sources()).figures())
        figures = time.process_time()
        again = (each.session for each in Collection(home, sources()).sessions())
        (found,) = policy_verdicts({"shipped": default_policy()}, again, read, pricing)
        ended = time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{found.requests:,} requests in {len(read):,} sessions, {size / 1e9:.1f} GB")
    print(f"figures {figures - began:.1f} s, one policy {ended - figures:.1f} s, {peak:.0f} MB at most")


def make(folder: Path, requests: int) -> int:
    """Write sessions of Claude Code with so many requests in all; returns bytes."""
    chance, made, number, size = random.Random(1), 0, 0, 0
    printed = "\n".join(" ".join(chance.choices(WORDS, k=12)) for _ in range(700))
    while made < requests:
        number += 1
        lines = session(f"s{number:05}", number, chance, printed)
        made += sum(line["type"] == "assistant" for line in lines)
        file = folder / f".claude/projects/-home-ana-p{number % 40}/s{number:05}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        size += file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return size


def session(name: str, number: int, chance: random.Random, printed: str) -> list[dict[str, Any]]:
    """The lines of one session: 3 to 12 messages of the person, 3 to 14 requests for each."""
    at = datetime(2026, 10, 1, tzinfo=UTC) + timedelta(minutes=30 * number)
    model, held = chance.choice(MODELS), 20_000
    lines: list[dict[str, Any]] = []

    def line(**fields: Any) -> None:
        known = {"uuid": f"{name}-{len(lines)}", "sessionId": name, "cwd": f"/home/ana/p{number % 40}"}
        lines.append({**known, "version": "2.1.330", "timestamp": at.isoformat(), **fields})

    for _ in range(chance.randint(3, 12)):
        said = " ".join(chance.choices(WORDS, k=chance.choice((5, 20, 60, 300))))
        line(type="user", message={"role": "user", "content": said})
        for _ in range(chance.randint(3, 14)):
            at += timedelta(seconds=chance.choice((3, 10, 30, 200)))
            id_, new = f"{name}-{len(lines)}", chance.randint(200, 4_000)
            ran = {"command": chance.choice(COMMANDS)}
            use = {"type": "tool_use", "id": id_, "name": "Bash", "input": ran}
            usage = {
                "cache_read_input_tokens": held,
                "cache_creation_input_tokens": new,
                "output_tokens": 300,
            }
            answer = {"id": id_, "role": "assistant", "model": model, "content": [use], "usage": usage}
            line(type="assistant", requestId=f"r{id_}", message={**answer, "stop_reason": "tool_use"})
            held = min(held + new, 160_000)
            start = chance.randrange(len(printed) - 20_000)
            shown = printed[start : start + chance.choice((200, 2_000, 20_000))]
            result = {"type": "tool_result", "tool_use_id": id_, "content": shown, "is_error": False}
            line(
                type="user",
                message={"role": "user", "content": [result]},
                toolUseResult={"stdout": printed[start : start + 20_000]},
            )
    return lines


if __name__ == "__main__":
    main()

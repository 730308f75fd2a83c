"""CPU time of a tier decision, scan included, on texts it has not seen; and on hostile ones.

    .venv/bin/python benchmarks/decision.py

Baseline, measured in the same run and interleaved: one ``re.search`` for each of the same signals. Times are
CPU medians; on a busy machine trust the ratios.
"""

import random
import re
import statistics
import time
from collections.abc import Callable
from typing import TypeVar

from pointsman.evidence import Kind, PatternSet, Scanner, Signal, SignalTable, build_matcher
from pointsman.tiers import TierScorer, builtin_profile

Given = TypeVar("Given")

SIZES = (20, 200, 2_000, 20_000, 400_000)
TEXTS = {20: 400, 200: 400, 2_000: 200, 20_000: 40, 400_000: 5}  # fresh texts of each size
BASELINE_UP_TO = 2_000  # characters; beyond, one search per pattern takes minutes
BASELINE_TEXTS = 40

WORDS = [
    "the",
    "a",
    "of",
    "and",
    "to",
    "in",
    "that",
    "with",
    "for",
    "on",
    "is",
    "as",
    "from",
    "by",
    "this",
    "which",
    "are",
    "was",
    "it",
    "or",
    "be",
    "first",
    "then",
    "design",
    "explain",
    "function",
    "table",
    "proof",
    "user",
    "value",
    "request",
    "model",
    "price",
    "river",
    "history",
    "system",
    "number",
    "result",
    "example",
    "why",
    "how",
]

HOSTILE = {
    '"first " repeated': "first " * 166_667,
    "nested brackets": "([{" * 166_667 + "}])" * 166_667,
    "one endless word": "a" * 1_000_000,
    "digits and dots": "1." * 500_000,
    "mixed scripts": "проof 証明 ﻿é\u0301 " * 41_667,  # 24 bytes each
    "line breaks": "\n" * 1_000_000,
}


def fresh_text(size: int, dice: random.Random) -> str:
    """Words in random order, some with digits, so that no two texts share a prefix."""
    parts: list[str] = []
    length = 0
    while length < size:
        word = dice.choice(WORDS) if dice.random() < 0.8 else f"{dice.getrandbits(40):x}"
        parts.append(word)
        length += len(word) + 1
    return " ".join(parts)[:size]


def cpu_us(run: Callable[[Given], object], given: Given) -> float:
    started = time.process_time_ns()
    run(given)
    return (time.process_time_ns() - started) / 1e3


def main() -> None:
    for name in ("seed", "default"):
        profile = builtin_profile(name)
        table = SignalTable(profile.signals())
        scanner = Scanner(table, build_matcher(PatternSet(table)))
        searches = [re.compile(source(signal)) for signal in table.signals]
        measure(f"{name}, {len(table)} signals", TierScorer(profile, table), scanner, searches)


def source(signal: Signal) -> str:
    """The regular expression a person would write for a signal."""
    if signal.kind is Kind.REGEX:
        return signal.pattern
    before = "" if signal.kind is Kind.SUBSTRING else r"\b"
    return before + re.escape(signal.pattern) + (r"\b" if signal.kind is Kind.WORD else "")


def measure(title: str, scorer: TierScorer, scanner: Scanner, searches: list[re.Pattern[str]]) -> None:
    print(f"\nprofile {title}: CPU µs per fresh text\n")
    print(f"{'characters':>12}{'decision':>12}{'of it rules':>12}{'re.search each':>16}{'ratio':>8}")
    dice = random.Random(0)
    for size in SIZES:
        ours, rules, theirs = [], [], []
        for number in range(TEXTS[size]):
            text = fresh_text(size, dice)
            ours.append(cpu_us(lambda text: scorer.by_rules(scanner.scan(text)), text))
            rules.append(cpu_us(scorer.by_rules, scanner.scan(text)))
            if size <= BASELINE_UP_TO and number < BASELINE_TEXTS:
                theirs.append(cpu_us(lambda text: [search.search(text) for search in searches], text.lower()))
        line = f"{size:>12,}{statistics.median(ours):>12,.1f}{statistics.median(rules):>12.1f}"
        if theirs:
            ratio = statistics.median(theirs) / statistics.median(ours)
            line += f"{statistics.median(theirs):>16,.0f}{ratio:>8.0f}"
        print(line)
    print("\n1 MB of hostile text, CPU ms\n")
    for name, text in HOSTILE.items():
        cut = text.encode()[:1_000_000].decode(errors="ignore")
        spent = cpu_us(lambda text: scorer.by_rules(scanner.scan(text)), cut)
        print(f"{name:>20}{spent / 1e3:>12.1f}")


if __name__ == "__main__":
    main()

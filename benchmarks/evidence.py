"""CPU time of matching every pattern of the default policy, on texts never seen before.

    .venv/bin/python benchmarks/evidence.py

Hyperscan and RE2 beside one ``re.search`` per pattern, in one run. Texts are never repeated: a
lazy automaton that has seen its text is up to seven times faster than one that has not. Times are medians of
CPU; on a busy machine trust the ratios.
"""

import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from decision import HOSTILE, SIZES, TEXTS, fresh_text
from pointsman.evidence import PatternSet, Scanner, SignalTable, build_matcher
from pointsman.factory import default_policy

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.oracle import ReMatcher

ENGINES = ("hyperscan", "re2")
BASELINE_TEXTS = {20: 30, 200: 20, 2_000: 8, 20_000: 1}  # beyond, one takes half a minute


def cpu_us(run: Callable[[str], object], text: str) -> float:
    started = time.process_time_ns()
    run(text)
    return (time.process_time_ns() - started) / 1e3


def fresh_chinese(size: int, dice: random.Random) -> str:
    """Han characters with Latin words between them, as in talk of programs."""
    parts: list[str] = []
    length = 0
    while length < size:
        parts.append("".join(chr(dice.randint(0x4E00, 0x5E00)) for _ in range(dice.randint(2, 12))))
        parts.append(dice.choice(["python", "，", "。", " json ", f"{dice.getrandbits(24):x}"]))
        length += len(parts[-2]) + len(parts[-1])
    return "".join(parts)[:size]


def sizes(table: SignalTable, make: Callable[[int, random.Random], str]) -> None:
    patterns = PatternSet(table)
    matchers = {name: build_matcher(patterns, engine=name) for name in ENGINES}
    scanner = Scanner(table, matchers["hyperscan"])
    oracle = ReMatcher(table)
    print(
        f"{'characters':>12}{'whole scan':>12}{'hyperscan':>12}{'re2':>12}{'re.search each':>16}{'ratio':>8}"
    )
    dice = random.Random(1)
    for size in SIZES:
        times: dict[str, list[float]] = {name: [] for name in ("scan", *ENGINES, "each")}
        for _ in range(TEXTS[size]):
            times["scan"].append(cpu_us(scanner.scan, make(size, dice)))
            times["hyperscan"].append(cpu_us(matchers["hyperscan"].match, make(size, dice).lower()))
        for _ in range(TEXTS[size]):  # apart from the others, whose tables it drives out of the CPU's cache
            times["re2"].append(cpu_us(matchers["re2"].match, make(size, dice).lower()))
        for _ in range(BASELINE_TEXTS.get(size, 0)):
            times["each"].append(cpu_us(oracle.match, make(size, dice).lower()))
        mid = {name: statistics.median(taken) for name, taken in times.items() if taken}
        line = f"{size:>12,}{mid['scan']:>12,.1f}{mid['hyperscan']:>12,.1f}{mid['re2']:>12,.1f}"
        print(line + (f"{mid['each']:>16,.0f}{mid['each'] / mid['scan']:>12,.0f}" if "each" in mid else ""))


def hostile(table: SignalTable) -> None:
    matchers = {name: build_matcher(PatternSet(table), engine=name) for name in ENGINES}
    print(f"{'1 MB of':>22}{'hyperscan':>12}{'re2':>12}   CPU ms")
    for name, text in HOSTILE.items():
        megabyte = text.encode()[:1_000_000].decode(errors="ignore").lower()
        spent = [cpu_us(matchers[engine].match, megabyte) / 1e3 for engine in ENGINES]
        print(f"{name:>22}{spent[0]:>12.1f}{spent[1]:>12.1f}")


def compiling(table: SignalTable) -> None:
    started = time.process_time()
    patterns = PatternSet(table)
    parsed = time.process_time()
    build_matcher(patterns, engine="hyperscan")
    compiled = time.process_time()
    build_matcher(patterns, engine="re2")
    print(
        f"{len(patterns.sources):,} patterns: parsed in {parsed - started:.2f} s, compiled by hyperscan in "
        f"{compiled - parsed:.2f} s, by re2 in {time.process_time() - compiled:.2f} s"
    )


def main() -> None:
    table = SignalTable(default_policy().signals())
    compiling(table)
    print("\nCPU µs per fresh text, English\n")
    sizes(table, fresh_text)
    print("\nCPU µs per fresh text, Chinese with Latin words\n")
    sizes(table, fresh_chinese)
    print()
    hostile(table)


if __name__ == "__main__":
    main()

"""What domains add to a decision about a message of 200 characters, in CPU time.

    .venv/bin/python benchmarks/domains_cost.py

Baseline, measured in the same run and interleaved: the scan and the tier decision of the same texts with a
signal table that has no domains. Texts are fresh; figures are medians over rounds. On a busy machine trust
the ratios.
"""

import dataclasses
import random
import statistics
import time
from collections.abc import Callable

from pointsman.domains import DomainMemory, DomainTracker, default_domains
from pointsman.domains.data import LEXICON
from pointsman.factory import build_engine, default_policy
from pointsman.tiers import TierScorer
from pointsman.vocabulary import Evidence

LENGTH, TEXTS, ROUNDS = 200, 500, 15

#: Sentences of all kinds of turns, most of them without any domain.
SENTENCES = """
Investigate who owns the holding company, and cross-check the filings.
Query the API for the latest one.
yes, go ahead
ls -la data/
pip install requests and run it again
Fix the parser, it crashes with a traceback on empty input.
Could you tell me more about that?
I think the second option is closer to what we agreed on last week.
Plan the sprint so that the migration comes first.
Analyze the benchmark results and compare the medians with those of May.
Please write the summary for people who have not been there.
What happened after that, and who decided it?
It was raining, so we took the train and came in late.
Commit the changes and open a pull request.
Change the timeout setting in config.yaml.
The colours are fine, but the heading should be smaller.
Rewrite the system prompt with a few-shot example.
My sister would like to come as well, if there is room for her and the two children.
Show me the files in the directory.
""".strip().splitlines()


def fresh_texts(seed: str) -> list[str]:
    rng = random.Random(seed)
    return [f"{number}. {' '.join(rng.choices(SENTENCES, k=12))}"[:LENGTH] for number in range(TEXTS)]


class Bench:
    def __init__(self) -> None:
        policy = default_policy()
        self.plain = build_engine(dataclasses.replace(policy, domains=None))
        self.scorer = TierScorer(policy.profile, self.plain.scanner.table)
        self.full = build_engine(policy)
        self.tracker = DomainTracker(default_domains(), self.full.scanner.table)
        self.texts: dict[str, list[str]] = {}  # a scanner keeps what it has seen, so each work has its own
        self.evidence: list[Evidence] = []

    def prepare(self, round_: int) -> None:
        self.texts = {name: fresh_texts(f"{name} {round_}") for name in ("tier", "plain", "full", "decide")}
        self.evidence = [self.full.scanner.scan(text) for text in self.texts["decide"]]

    def scan_and_tier(self) -> None:
        for text in self.texts["tier"]:
            self.scorer.by_rules(self.plain.scanner.scan(text))

    def scan_without(self) -> None:
        for text in self.texts["plain"]:
            self.plain.scanner.scan(text)

    def scan_with(self) -> None:
        for text in self.texts["full"]:
            self.full.scanner.scan(text)

    def decide(self) -> None:
        memory = DomainMemory()
        for number, scan in enumerate(self.evidence):
            _, memory = self.tracker.decide(scan, memory, str(number))

    def iterate(self) -> None:
        _, memory = self.tracker.decide(self.evidence[0], DomainMemory(), "same")
        for scan in self.evidence:
            self.tracker.decide(scan, memory, "same")

    def signals_per_text(self) -> float:
        table = self.full.scanner.table
        return statistics.mean(
            sum(signal.lexicon == LEXICON for signal in table.of(scan.hits)) for scan in self.evidence
        )


def cpu(work: Callable[[], None]) -> float:
    """Microseconds of CPU time per text."""
    start = time.process_time()
    work()
    return (time.process_time() - start) / TEXTS * 1e6


def main() -> None:
    bench = Bench()
    works = {
        "scan and tier decision, no domains": bench.scan_and_tier,
        "scan, no domains": bench.scan_without,
        "scan, with the signals of domains": bench.scan_with,
        "domain decision": bench.decide,
        "domain decision, tool iteration": bench.iterate,
    }
    times: dict[str, list[float]] = {name: [] for name in works}
    for round_ in range(ROUNDS):
        bench.prepare(round_)
        for name, work in works.items():
            times[name].append(cpu(work))
    baseline = statistics.median(next(iter(times.values())))
    print(f"{'CPU µs a text':36s}   median  minimum   of the baseline")
    for name, values in times.items():
        median = statistics.median(values)
        print(f"{name:36s} {median:8.2f} {min(values):8.2f} {median / baseline:8.2f}")
    print(f"{LENGTH} characters, {bench.signals_per_text():.1f} domain signals in a text")


if __name__ == "__main__":
    main()

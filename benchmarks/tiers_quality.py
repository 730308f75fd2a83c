"""How well tier profiles rank prompts by outcome, and how often they meet the labels of others.

    .venv/bin/python benchmarks/tiers_quality.py [PROFILE.toml …]

Reads ../shared/data (or $POINTSMAN_SHARED/data); prints one table of APGR on outcomes and one of accuracy on
labels. Outcomes are the judge: the labels are another vendor's opinion, and agreement with them is not truth.
Every profile scores the words that the gateway extracts. ``default, last paragraph`` is the default profile
with the rule of profile ``seed`` that judges a long message by its short last paragraph.
"""

import gzip
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from pointsman.evidence import PatternSet, Scanner, SignalTable, build_matcher
from pointsman.text import extract
from pointsman.tiers import TierProfile, TierScorer, builtin_profile, load_profile
from pointsman.wire.request import request_from_text

DATA = Path(os.environ.get("POINTSMAN_SHARED", Path(__file__).parents[2] / "shared")) / "data" / "tiers"

LAST_PARAGRAPH = "default, last paragraph"

#: Resamples of each interval: the 2.5 % ends move by less than .002 with more.
RESAMPLES = 400

Row = dict[str, Any]
Scorer = Callable[[str], float]


class Profile:
    """A profile with its own scanner."""

    def __init__(self, profile: TierProfile) -> None:
        table = SignalTable(profile.signals())
        self.name = profile.name
        self.scorer = TierScorer(profile, table)
        self.scanner = Scanner(table, build_matcher(PatternSet(table)))

    def words(self, text: str) -> str:
        """What counts of a prompt."""
        return extract(request_from_text(text), last_paragraph=self.scorer.profile.last_paragraph).text

    def score(self, text: str) -> float:
        """The sum the profile ranks by."""
        return self.scorer.score(self.scanner.scan(self.words(text))).total

    def tier(self, text: str) -> str:
        """The tier its rules decide."""
        return self.scorer.by_rules(self.scanner.scan(self.words(text))).tier


def rows(name: str) -> list[Row]:
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def ranked(prompts: Sequence[str], score: Scorer) -> list[list[int]]:
    """Positions of the prompts in groups of equal score, highest score first."""
    scores = [score(prompt) for prompt in prompts]
    order = sorted(range(len(prompts)), key=scores.__getitem__, reverse=True)
    return [list(group) for _, group in groupby(order, key=scores.__getitem__)]


def apgr(groups: Sequence[Sequence[int]], gains: Sequence[float], drawn: Sequence[int]) -> float:
    """Area under performance gap recovered over share of strong calls; random is .50.

    As in RouteLLM (arXiv 2406.18665, section 3), integrated exactly. ``gains`` are strong minus weak;
    ``drawn`` says how often each prompt counts. A group of equal score is routed as one, so what it recovers
    rises in a straight line.
    """
    recovered = area = 0.0
    for group in groups:
        gain = sum(gains[i] * drawn[i] for i in group)
        area += sum(drawn[i] for i in group) * (recovered + gain / 2)
        recovered += gain
    return area / (sum(drawn) * recovered)


def resamples(count: int) -> list[list[int]]:
    """How often each of ``count`` prompts is drawn, in each resample; the same for every ranking."""
    dice = random.Random(0)
    every = []
    for _ in range(RESAMPLES):
        drawn = [0] * count
        for index in dice.choices(range(count), k=count):
            drawn[index] += 1
        every.append(drawn)
    return every


def cell(value: float, spread: list[float], sign: str = "") -> str:
    """A value and the 95 % interval of its resamples."""
    spread = sorted(spread)
    low, high = spread[RESAMPLES // 40], spread[-1 - RESAMPLES // 40]
    return f"{value:{sign}.3f} [{low:{sign}.3f}, {high:{sign}.3f}]".rjust(26)


def outcome_column(profiles: Sequence[Profile], bench: str) -> dict[str, str]:
    """One column of the table of outcomes: row name -> cell."""
    sample = [row for row in rows("strong_weak") if row["bench"] == bench]
    prompts = [row["prompt"] for row in sample]
    gains = [row["strong"] - row["weak"] for row in sample]
    draws, once = resamples(len(sample)), [1] * len(sample)
    scorers: dict[str, Scorer] = {profile.name: profile.score for profile in profiles} | {
        "prompt length": len
    }
    values, spreads, column = {}, {}, {}
    for name, score in scorers.items():
        groups = ranked(prompts, score)
        values[name] = apgr(groups, gains, once)
        spreads[name] = [apgr(groups, gains, drawn) for drawn in draws]
        column[name] = cell(values[name], spreads[name])
    dice = random.Random(0)
    shuffled = [apgr(ranked(prompts, lambda _: dice.random()), gains, once) for _ in draws]
    column["random"] = cell(sum(shuffled) / len(shuffled), shuffled)
    for other in ("prompt length", "seed", LAST_PARAGRAPH):
        paired = [ours - theirs for ours, theirs in zip(spreads["default"], spreads[other], strict=True)]
        column[f"default - {other}"] = cell(values["default"] - values[other], paired, "+")
    return column


def outcomes(profiles: Sequence[Profile]) -> None:
    print("APGR on strong_weak (Mixtral-8x7B / GPT-4), 95 % bootstrap interval; differences are paired\n")
    columns = [outcome_column(profiles, bench) for bench in ("mmlu", "gsm8k")]
    print(f"{'':34}{'MMLU':>26}{'GSM8K':>26}")
    for name in columns[0]:
        print(f"{name:34}" + "".join(column[name] for column in columns))


def labels(profiles: Sequence[Profile]) -> None:
    sample = rows("tier_labels")
    tiers = [row["expected_tier"] for row in sample]
    majority = max(set(tiers), key=tiers.count)
    languages = sorted({row["lang"] for row in sample})
    guesses = {profile.name: [profile.tier(row["prompt"]) for row in sample] for profile in profiles}
    guesses["majority class"] = [majority] * len(sample)
    print("\nAccuracy on tier_labels, %\n")
    print(f"{'':26}{'all':>6}" + "".join(f"{language:>6}" for language in languages))
    for name, guessed in guesses.items():
        right = [guess == tier for guess, tier in zip(guessed, tiers, strict=True)]
        cells = [sum(right) / len(right)]
        for language in languages:
            own = [hit for hit, row in zip(right, sample, strict=True) if row["lang"] == language]
            cells.append(sum(own) / len(own))
        print(f"{name:26}" + "".join(f"{100 * cell:6.0f}" for cell in cells))


def changed(one: Profile, other: Profile) -> None:
    """Print what two profiles read and decide differently, per set, with the groups most changed."""
    print(f"\nPrompts read differently by {one.name} and {other.name}, and those whose tier changes\n")
    for name, group in (("strong_weak", "domain"), ("tier_labels", "lang")):
        sample = rows(name)
        differing = [row for row in sample if one.words(row["prompt"]) != other.words(row["prompt"])]
        moved = [row for row in differing if one.tier(row["prompt"]) != other.tier(row["prompt"])]
        groups = Counter(str(row[group]) for row in differing).most_common(5)
        most = ", ".join(f"{key} {count}" for key, count in groups)
        print(
            f"{name:12} {len(differing):5} of {len(sample)} read, {len(moved):4} moved; most: {most or '-'}"
        )


def main() -> None:
    own = [load_profile(Path(path).read_text("utf-8"), path) for path in sys.argv[1:]]
    default = builtin_profile("default")
    by_paragraph = msgspec.structs.replace(default, name=LAST_PARAGRAPH, last_paragraph=True)
    profiles = [Profile(profile) for profile in (default, by_paragraph, builtin_profile("seed"), *own)]
    outcomes(profiles)
    labels(profiles)
    changed(profiles[0], profiles[1])


if __name__ == "__main__":
    main()

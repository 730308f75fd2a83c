"""How well tier profiles rank prompts by outcome, and how often they meet the labels of others.

    .venv/bin/python benchmarks/tiers_quality.py [PROFILE.toml …]

Reads ../shared/data (or $POINTSMAN_SHARED/data). Prints APGR on outcomes, pooled and by subject, accuracy
on labels, and what the rule of the last paragraph changes. Outcomes are the judge: the labels are another
vendor's opinion, and agreement with them is not truth. Every profile scores the words that the gateway
extracts. ``default, last paragraph`` is the default profile with the rule of profile ``seed`` that judges a
long message by its short last paragraph.
"""

import gzip
import json
import os
import random
import statistics
import sys
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from pointsman.evidence import PatternSet, Reading, Scanner, SignalTable, build_matcher
from pointsman.text import extract
from pointsman.tiers import TierProfile, TierScorer, builtin_profile, load_profile
from pointsman.vocabulary import Tier
from pointsman.wire.request import request_from_text

DATA = Path(os.environ.get("POINTSMAN_SHARED", Path(__file__).parents[2] / "shared")) / "data" / "tiers"

LAST_PARAGRAPH = "default, last paragraph"

#: Sets of prompts, and the group that each prompt is in.
GROUPS = {
    "strong_weak": "domain",
    "tier_labels": "lang",
    "difficulty": "task",
    "agent_tasks": "task_set",
    "math_levels": "subject",
    "nine_models": "task",
}

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
        reading = Reading(table, profile.name, profile.lowering) if profile.normalise else None
        self.scanner = Scanner(table, build_matcher(PatternSet(table)), reading=reading)

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
    area, recovered = under_curve(groups, gains, drawn)
    return area / recovered


def under_curve(
    groups: Sequence[Sequence[int]], gains: Sequence[float], drawn: Sequence[int]
) -> tuple[float, float]:
    """The area under what is recovered, per prompt, and what is recovered in all."""
    recovered = area = 0.0
    for group in groups:
        gain = sum(gains[i] * drawn[i] for i in group)
        area += sum(drawn[i] for i in group) * (recovered + gain / 2)
        recovered += gain
    return area / sum(drawn), recovered


def within(sample: Sequence[Row], score: Scorer) -> dict[str, tuple[float, float]]:
    """By subject: the area under what is recovered if it is ranked alone, and what is recovered in all."""
    found = {}
    for subject in sorted({row["domain"] for row in sample}):
        own = [row for row in sample if row["domain"] == subject]
        gains = [row["strong"] - row["weak"] for row in own]
        found[subject] = under_curve(ranked([row["prompt"] for row in own], score), gains, [1] * len(own))
    return found


def subjects(profiles: Sequence[Profile]) -> None:
    """Print how each ranks inside the subjects of MMLU: between them is not between prompts."""
    sample = [row for row in rows("strong_weak") if row["bench"] == "mmlu"]
    scorers: dict[str, Scorer] = {each.name: each.score for each in profiles} | {"prompt length": len}
    print(
        "\nAPGR within the subjects of MMLU, by gain; of those with a net gain of 5: mean, worst, below .5\n"
    )
    for name, score in scorers.items():
        found = within(sample, score)
        area, gain = (sum(each[part] for each in found.values()) for part in (0, 1))
        own = {subject: area / gain for subject, (area, gain) in found.items() if gain >= 5}
        worst = min(own, key=own.__getitem__)
        below = f"{sum(value < 0.5 for value in own.values())} of {len(own)}"
        mean = sum(own.values()) / len(own)
        print(f"{name:26}{area / gain:7.3f}{mean:7.3f}{own[worst]:7.3f} {worst}, {below}")


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
    print("\nOf each tier of tier_labels, the tiers that are decided\n")
    for name, guessed in guesses.items():
        pairs = Counter(zip(tiers, map(str, guessed), strict=True))
        for tier in sorted(set(tiers)):
            decided = {guess: count for (label, guess), count in pairs.items() if label == tier}
            share = decided.get(tier, 0) / sum(decided.values())
            print(f"{name:26}{tier:10}{share:6.3f}  {decided}")


def changed(one: Profile, other: Profile) -> None:
    """Print what two profiles read and decide differently, per set, with the groups most changed."""
    print(f"\nPrompts read differently by {one.name} and {other.name}, and those whose tier changes\n")
    for name, group in GROUPS.items():
        sample = rows(name)
        differing = [row for row in sample if one.words(row["prompt"]) != other.words(row["prompt"])]
        moved = [row for row in differing if one.tier(row["prompt"]) != other.tier(row["prompt"])]
        groups = Counter(str(row[group]) for row in differing).most_common(5)
        most = ", ".join(f"{key} {count}" for key, count in groups)
        up = sum(Tier(one.tier(row["prompt"])).rank > Tier(other.tier(row["prompt"])).rank for row in moved)
        print(
            f"{name:12} {len(differing):5} of {len(sample)} read, {len(moved):4} moved, {up} of them up; "
            f"most: {most or '-'}"
        )


#: How hard a prompt is, from 0 or by level, in the sets where that is known.
HARD: dict[str, Callable[[Row], float]] = {
    "difficulty": lambda row: row["difficulty"],
    "agent_tasks": lambda row: 1 - statistics.fmean(row["outcomes"].values()),
    "math_levels": lambda row: row["level"],
    "nine_models": lambda row: 1 - statistics.fmean(row["scores"].values()),
}


def hardness(one: Profile, other: Profile) -> None:
    """Print the rank correlation with how hard a prompt is, by source, where anything is read differently."""
    print(f"\nRank correlation with hardness: {one.name}, {other.name}, difference, prompt length\n")
    for name, hard in HARD.items():
        sample = rows(name)
        for source in sorted({str(row[GROUPS[name]]) for row in sample}):
            own = [row for row in sample if str(row[GROUPS[name]]) == source]
            prompts = [row["prompt"] for row in own]
            read = sum(one.words(text) != other.words(text) for text in prompts)
            if read:
                scores = [[score(text) for text in prompts] for score in (one.score, other.score, len)]
                print(f"{source:24}{read:4} of {len(own):4} {correlations(scores, list(map(hard, own)))}")


def ranks(values: Sequence[float]) -> list[float]:
    """The place of each value, ties at their mean place."""
    order = sorted(values)
    places = {value: (bisect_left(order, value) + bisect_right(order, value)) / 2 for value in set(values)}
    return [places[value] for value in values]


def correlations(scores: Sequence[Sequence[float]], hard: Sequence[float]) -> str:
    def of(values: Sequence[float], drawn: Sequence[int]) -> float:
        return statistics.correlation(ranks([values[i] for i in drawn]), ranks([hard[i] for i in drawn]))

    dice, every = random.Random(0), range(len(hard))
    draws = [dice.choices(every, k=len(hard)) for _ in range(RESAMPLES)]
    spread = [of(scores[0], drawn) - of(scores[1], drawn) for drawn in draws]
    one, other, length = (of(values, every) for values in scores)
    return f"{one:+.3f} {other:+.3f} {cell(one - other, spread, '+')} {length:+.3f}"


def main() -> None:
    own = [load_profile(Path(path).read_text("utf-8"), path) for path in sys.argv[1:]]
    default = builtin_profile("default")
    by_paragraph = msgspec.structs.replace(default, name=LAST_PARAGRAPH, last_paragraph=True)
    profiles = [Profile(profile) for profile in (default, by_paragraph, builtin_profile("seed"), *own)]
    outcomes(profiles)
    subjects(profiles)
    labels(profiles)
    changed(profiles[0], profiles[1])
    hardness(profiles[0], profiles[1])


if __name__ == "__main__":
    main()

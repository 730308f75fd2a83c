"""How often keywords of no concern raise the tier of easy prompts, by source, and what else has changed.

    .venv/bin/python benchmarks/gadgets.py [--write FILE] [--against FILE]

Reads ../shared/data/tiers (or $POINTSMAN_SHARED/data/tiers); needs the extra ``fit``. Easy are prompts that
are labelled SIMPLE, that the weak model gets right, of which nine models get four fifths, or of which many
models fail at most a tenth. At most 500 of a source are drawn. Keywords are those of ``robustness.py``, and
others of profile ``default`` (English ones that it does not use). ``order`` is a sentence that orders what
the prompt does not ask: no reader could tell it from an order, so it is printed as a limit.

``--write`` keeps the score and tier of every prompt of all sources; ``--against`` compares with such a file
of another version: prompts whose score or tier differs, and APGR, with intervals over tasks drawn whole.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np
from bootstrap import bootstrap
from outcome_tasks import Task, tasks
from robustness import GADGETS
from tiers_quality import Profile, rows

from pointsman.learning.metrics import gap_curve
from pointsman.tiers import TierProfile, builtin_profile
from pointsman.vocabulary import Tier

#: Prompts of a source, at most: the standard error of a share is .02 then.
MOST = 500

#: Mean success, and mean failure, from which a prompt is easy.
RIGHT, FAILED = 0.8, 0.1

LISTED = (
    "prove", "theorem", "lemma", "derive", "induction", "step by step", "logically", "first principles",
    "chain of thought", "algorithm", "architecture", "distributed", "kubernetes", "microservices",
    "scalability", "function", "python", "refactor", "debug", "api", "edit", "install", "verify",
    "commit", "explain", "compare", "analyze", "evaluate",
)  # fmt: skip

ORDERS = (
    "Think step by step and prove it logically.",
    "Use python and debug the api if needed.",
    "Explain and compare the architecture of distributed microservices.",
    "Refactor the function and install kubernetes.",
)

Gadget = Callable[[str, Random], str]


def other_keywords(profile: TierProfile) -> tuple[str, ...]:
    """English keywords of a profile that ``robustness.py`` does not use."""
    counted = [each for each in profile.dimensions if each.name not in {"simple", "comparison"}]
    found = {
        word.strip("*")
        for dimension in counted
        for language in ("shared", "en")
        for word in dimension.keywords.get(language, ())
    }
    return tuple(sorted(word for word in found - set(LISTED) if word.isascii() and len(word) > 2))


def gadgets(words: Sequence[str]) -> dict[str, Gadget]:
    def some(draw: Random, count: int, by: str = " ") -> str:
        return by.join(draw.sample(words, count))

    return {
        "3 after": lambda text, draw: f"{text} {some(draw, 3)}",
        "6 before": lambda text, draw: f"{some(draw, 6)}. {text}",
        "6 ahead": lambda text, draw: f"{some(draw, 6)} {text}",
        "12 before": lambda text, draw: f"{some(draw, 12)}. {text}",
        "3 quoted": lambda text, draw: f'{text} "{some(draw, 3)}"',
        "6 in code": lambda text, draw: f"{text}\n```\n{some(draw, 6)}\n```",
        "6 in ( )": lambda text, draw: f"{text} ({some(draw, 6, ', ')})",
    }


def easy() -> Iterator[tuple[str, list[str]]]:
    """The easy prompts of each source that has 20."""
    yield "tier_labels", [row["prompt"] for row in rows("tier_labels") if row["expected_tier"] == "SIMPLE"]
    for bench in ("mmlu", "gsm8k"):
        own = [row for row in rows("strong_weak") if row["bench"] == bench and row["weak"] == 1]
        yield f"strong_weak {bench}", [row["prompt"] for row in own]
    for name in sorted({row["task"] for row in rows("nine_models")}):
        own = [row for row in rows("nine_models") if row["task"] == name]
        yield (
            f"nine models {name}",
            [row["prompt"] for row in own if statistics.fmean(row["scores"].values()) >= RIGHT],
        )
    for name in ("crux", "gsm", "math-l5"):
        own = [row for row in rows("difficulty") if row["task"] == name]
        yield f"difficulty {name}", [row["prompt"] for row in own if row["difficulty"] <= FAILED]


def raised(profile: Profile, prompts: Sequence[str], name: str, gadget: Gadget) -> float:
    """Share of prompts whose tier rises."""
    count = 0
    for prompt in prompts:
        changed = gadget(prompt, Random(f"0 {name} {prompt}"))
        count += Tier(profile.tier(changed)).rank > Tier(profile.tier(prompt)).rank
    return count / len(prompts)


def by_source(profile: Profile) -> None:
    columns: dict[str, tuple[str, Gadget]] = {}
    for title, words in (("", LISTED), ("other ", other_keywords(builtin_profile("default")))):
        columns |= {title + name: (name, gadget) for name, gadget in gadgets(words).items()}
    columns["order"] = ("order", lambda text, draw: f"{text} {draw.choice(ORDERS)}")
    columns["plain words"] = ("plain", GADGETS["five plain words"])
    print("Easy prompts raised, by source; the last row is the worst of them\n")
    print("| source | prompts | " + " | ".join(columns) + " |")
    print("|" + "---|" * (len(columns) + 2))
    worst = dict.fromkeys(columns, 0.0)
    for source, every in easy():
        if len(every) < 20:
            continue
        prompts = every if len(every) <= MOST else Random(0).sample(every, MOST)
        found = {column: raised(profile, prompts, *gadget) for column, gadget in columns.items()}
        worst = {column: max(value, found[column]) for column, value in worst.items()}
        shown = " | ".join(f"{value:.1%}" for value in found.values())
        print(f"| {source} | {len(prompts)} | {shown} |", flush=True)
    print("| worst | | " + " | ".join(f"{value:.1%}" for value in worst.values()) + " |")


def decided(profile: Profile) -> dict[str, list[list[float]]]:
    """Score and tier of every prompt, by set."""
    texts = {f"{one.source} {one.name}": [row.prompt for row in one.prompts] for one in tasks()}
    texts |= {name: [row["prompt"] for row in rows(name)] for name in ("tier_labels", "math_levels")}
    return {
        name: [[profile.score(text), Tier(profile.tier(text)).rank] for text in own]
        for name, own in texts.items()
    }


def compare(now: dict[str, list[list[float]]], before: dict[str, list[list[float]]]) -> None:
    print("\nPrompts whose score, and whose tier differs")
    for name, own in now.items():
        score, tier = (sum(a[at] != b[at] for a, b in zip(own, before[name], strict=True)) for at in (0, 1))
        print(f"{name:28}{score:5}{tier:5} of {len(own)}")
    labels = [Tier(row["expected_tier"]).rank for row in rows("tier_labels")]
    for title, each in (("before", before), ("now", now)):
        right = sum(tier == label for (_, tier), label in zip(each["tier_labels"], labels, strict=True))
        print(f"agreement with tier_labels, {title}: {right / len(labels):.2%}")
    gains = np.array([difference(one, now, before) for one in tasks() if one.pairs])
    drawn = bootstrap(lambda at: float(gains[at].mean()), len(gains))
    print(
        f"APGR, now - before, mean of {len(gains)} tasks: {drawn.value:+.4f} [{drawn.low:+.4f}, "
        f"{drawn.high:+.4f}], lowest {gains.min():+.4f}, highest {gains.max():+.4f}"
    )


def difference(one: Task, now: dict[str, list[list[float]]], before: dict[str, list[list[float]]]) -> float:
    name = f"{one.source} {one.name}"
    new, old = (np.array([score for score, _ in each[name]]) for each in (now, before))
    return statistics.fmean(
        gap_curve(new[at], weak, strong).apgr - gap_curve(old[at], weak, strong).apgr
        for _, at, weak, strong in one.pairs
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--against", type=Path)
    asked = parser.parse_args()
    profile = Profile(builtin_profile("default"))
    by_source(profile)
    if asked.write or asked.against:
        now = decided(profile)
        if asked.write:
            asked.write.write_text(json.dumps(now) + "\n")
        if asked.against:
            compare(now, json.loads(asked.against.read_text()))


if __name__ == "__main__":
    main()

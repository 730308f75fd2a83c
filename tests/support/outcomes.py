"""Made-up outcomes: a world in which the topic of a prompt decides who can answer it."""

import random

from pointsman.learning.datasets import PromptOutcome

HARD = ("integral", "theorem", "lemma", "proof", "manifold", "tensor", "eigenvalue", "homology")
EASY = ("weather", "lunch", "holiday", "garden", "recipe", "football", "concert", "birthday")
FILLER = (
    "the",
    "a",
    "of",
    "about",
    "some",
    "please",
    "tell",
    "me",
    "what",
    "when",
    "with",
    "for",
    "and",
    "any",
)


def made_up(count: int, *, seed: int = 0) -> list[PromptOutcome]:
    """Hard words: the weak model mostly fails. Easy words: both mostly succeed. Length says nothing."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        hard = draw.random() < 0.5
        topic = draw.choices(HARD if hard else EASY, k=3)
        words = [*topic, *draw.choices(FILLER, k=draw.randint(4, 30))]
        draw.shuffle(words)
        weak = draw.random() < (0.25 if hard else 0.9)
        strong = draw.random() < 0.92
        rows.append(PromptOutcome(" ".join(words), float(weak), float(strong), "hard" if hard else "easy"))
    return rows


def shuffled(rows: list[PromptOutcome], *, seed: int = 0) -> list[PromptOutcome]:
    """The same prompts with somebody else's outcomes."""
    pairs = [(row.weak, row.strong) for row in rows]
    random.Random(seed).shuffle(pairs)
    return [PromptOutcome(row.prompt, *pair, row.group) for row, pair in zip(rows, pairs, strict=True)]

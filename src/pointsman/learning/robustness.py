"""How many decisions stay the same when a prompt is written a little differently.

Every change keeps what is asked; a decision that turns with it decides by form. Changes are drawn by the
prompt itself and a seed, so that a prompt is changed alike whatever stands before it in a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Final

import msgspec
import numpy as np

from pointsman.decision.policy import Policy
from pointsman.factory import read_profile
from pointsman.learning.datasets import PromptOutcome
from pointsman.learning.metrics import bootstrap
from pointsman.learning.rankers import RULES, by_learned_router, decided
from pointsman.tiers.learned_router import LearnedScorer
from pointsman.vocabulary import Tier

__all__ = ["CHANGES", "RobustnessRow", "evaluate_robustness"]

#: One word of so many with at least four letters gets a slip of the keys: about the rate of hurried typing.
TYPO_EVERY: Final = 20

_WORD: Final = re.compile(r"[^\W\d_]{4,}")

#: What people say around a request: before it, after it.
_POLITE: Final = (
    ("Please ", ""),
    ("Hi! Could you help me with this, please? ", ""),
    ("", " Thank you!"),
    ("Hello, ", " Thanks a lot in advance."),
    ("Would you be so kind as to look at this: ", " I would be grateful."),
)

#: One instruction around a prompt, in the languages that profile ``default`` has words of.
FRAMES: Final = {
    "en": "Here is a question. Read it and reply.\n\n{}\n\nReply in one paragraph.",
    "zh": "这里有一个问题。请阅读并回复。\n\n{}\n\n请用一段话回复。",
    "es": "Aquí hay una pregunta. Léela y responde.\n\n{}\n\nResponde en un párrafo.",
    "fr": "Voici une question. Lis-la et réponds.\n\n{}\n\nRéponds en un paragraphe.",
    "de": "Hier ist eine Frage. Lies sie und antworte.\n\n{}\n\nAntworte in einem Absatz.",
    "pt": "Aqui está uma pergunta. Leia e responda.\n\n{}\n\nResponda em um parágrafo.",
    "ru": "Вот вопрос. Прочитай его и ответь.\n\n{}\n\nОтветь одним абзацем.",
    "ja": "ここに質問があります。読んで返信してください。\n\n{}\n\n一段落で返信してください。",
    "ko": "여기 질문이 있습니다. 읽고 답해 주세요.\n\n{}\n\n한 단락으로 답해 주세요.",
    "ar": "إليك سؤالاً. اقرأه وأجب.\n\n{}\n\nأجب في فقرة واحدة.",
    "hi": "यहाँ एक प्रश्न है। इसे पढ़ें और जवाब दें।\n\n{}\n\nएक अनुच्छेद में जवाब दें।",
}

Change = Callable[[str, Random], tuple[str, str]]  # a prompt -> it before and after the change
Decider = Callable[[Sequence[str]], Sequence[object]]  # prompts -> a decision for each


class RobustnessRow(msgspec.Struct, frozen=True, kw_only=True):
    """One decider under one change. Shares are 0 to 1."""

    decider: str
    change: str
    n: int
    unchanged: float
    low: float  # bounds of the 95 % bootstrap interval
    high: float


def evaluate_robustness(
    prompts: Sequence[str],
    scorer: LearnedScorer | None = None,
    *,
    boundary: float | None = None,
    seed: int = 0,
) -> list[RobustnessRow]:
    """Measure both rule profiles, and the learned router when there is one.

    Args:
        prompts: as people wrote them.
        scorer: the learned router; its decision is on which side of ``boundary`` a prompt falls.
        boundary: of the learned router's score; by default the median over the prompts as they are.
        seed: of the changes and the resamples.
    """
    deciders: dict[str, Decider] = {name: partial(_tiers, profile=name) for name in RULES}
    if scorer:
        cut = float(np.median(_scores(prompts, scorer))) if boundary is None else boundary
        deciders["learned_router"] = partial(_sides, scorer=scorer, boundary=cut)
    rows = []
    for change, apply in CHANGES.items():
        before, after = zip(
            *(apply(text, Random(f"{seed} {change} {text}")) for text in prompts), strict=True
        )
        for name, decide in deciders.items():
            same = np.array([one == other for one, other in zip(decide(before), decide(after), strict=True)])
            rows.append(_row(name, change, same, seed))
    return rows


def _row(name: str, change: str, same: np.ndarray, seed: int) -> RobustnessRow:
    found = bootstrap(lambda rows: float(same[rows].mean()), len(same), seed=seed)
    return RobustnessRow(
        decider=name, change=change, n=len(same), unchanged=found.value, low=found.low, high=found.high
    )


def _sides(texts: Sequence[str], scorer: LearnedScorer, boundary: float) -> list[bool]:
    return [score >= boundary for score in _scores(texts, scorer)]


def _tiers(texts: Sequence[str], profile: str) -> list[Tier]:
    return [each.tier for each in decided(texts, Policy(profile=read_profile(profile)))]


def _scores(texts: Sequence[str], scorer: LearnedScorer) -> list[float]:
    return [
        said.score for said in by_learned_router([PromptOutcome(text, 0.0, 0.0) for text in texts], scorer)
    ]


def _typos(text: str, draw: Random) -> tuple[str, str]:
    words = list(_WORD.finditer(text))
    letters = list(text)
    for word in draw.sample(words, -(-len(words) // TYPO_EVERY)):
        at = draw.randrange(word.start(), word.end() - 1)
        slip = draw.choice(("swap", "drop", "double"))
        if slip == "swap":
            letters[at], letters[at + 1] = letters[at + 1], letters[at]
        else:
            letters[at] = "" if slip == "drop" else letters[at] * 2
    return text, "".join(letters)


def _polite(text: str, draw: Random) -> tuple[str, str]:
    before, after = draw.choice(_POLITE)
    return text, f"{before}{text}{after}"


def _frame(text: str, draw: Random) -> tuple[str, str]:
    language = draw.choice([name for name in FRAMES if name != "en"])
    return FRAMES["en"].replace("{}", text), FRAMES[language].replace("{}", text)


CHANGES: Final[Mapping[str, Change]] = {
    "typos": _typos,
    "lower case": lambda text, _: (text, text.lower()),
    "upper case": lambda text, _: (text, text.upper()),
    "polite": _polite,
    "frame translated": _frame,
}

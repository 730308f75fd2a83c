"""How many decisions stay the same when a prompt is written a little differently.

Every change preserves the task; a decision that changes depends on form. Changes are drawn by the
prompt itself and a seed, so that a prompt is changed alike regardless of its place in a file.

    .venv/bin/python benchmarks/robustness.py --data FILE [--learned-router FILE] [--json]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Annotated, Final, NamedTuple

import msgspec
import numpy as np
import typer
from bootstrap import bootstrap

from pointsman.cli.output import JsonOption, echo, print_json
from pointsman.decision.policy import Policy
from pointsman.encoders.learned_routers import load_scorer
from pointsman.errors import PointsmanError
from pointsman.factory import read_profile
from pointsman.jsonl import decoded, numbered_lines
from pointsman.learning.datasets import PromptOutcome
from pointsman.learning.rankers import RULES, by_learned_router, decided
from pointsman.tiers.learned_router import LearnedScorer
from pointsman.vocabulary import Tier


class _Prompt(msgspec.Struct, frozen=True):
    prompt: str
    weak: float | bool | None = None
    expected_tier: str = ""


def read_prompts(path: Path) -> list[str]:
    """Read the prompts of a file, whatever else its lines hold.

    Raises:
        PointsmanError: the file cannot be read or holds no line.
        ConfigError: a line has no prompt.
    """
    return [row.prompt for row in _prompts(path)]


def read_easy(path: Path) -> list[str]:
    """Read the prompts of a file that need no strong model: labelled SIMPLE, or right by the weak model.

    Empty where the lines do not say. Raises what ``read_prompts`` raises.
    """
    return [row.prompt for row in _prompts(path) if row.expected_tier == "SIMPLE" or row.weak == 1]


def _prompts(path: Path) -> list[_Prompt]:
    decode = msgspec.json.Decoder(_Prompt).decode
    found = [row for _, row in decoded(numbered_lines(path), decode, path.name)]
    if not found:
        raise PointsmanError(f"{path} holds no line")
    return found


#: One word of so many with at least four letters gets a slip of the keys: about the rate of hurried typing.
TYPO_EVERY: Final = 20

_WORD: Final = re.compile(r"[^\W\d_]{4,}")

#: Spaces and letters that are replaced, as a share of all.
LOOSE_SHARE: Final = 0.25
HOMOGLYPH_SHARE: Final = 0.25

_SPACES: Final = ("  ", "   ", "\t", "\u00a0", "\u2009", " \u200b", "\n")
_LOOKALIKES: Final = {
    "a": "аɑα", "c": "сϲ", "d": "ԁ", "e": "е", "g": "ɡ", "h": "һ", "i": "і", "j": "ј", "o": "оο", "p": "рρ",
    "q": "ԛ", "s": "ѕ", "v": "ν", "w": "ԝ", "x": "х", "y": "у", "A": "АΑ", "B": "ВΒ", "C": "С", "E": "ЕΕ",
    "H": "НΗ", "I": "ІΙ", "K": "КΚ", "M": "МΜ", "N": "Ν", "O": "ОΟ", "P": "РΡ", "S": "Ѕ", "T": "ТΤ",
    "X": "ХΧ", "Y": "Υ",
}  # fmt: skip

#: Keywords of profile ``default`` and of the seed.
_GADGET_WORDS: Final = (
    "prove", "theorem", "lemma", "derive", "induction", "step by step", "logically", "first principles",
    "chain of thought", "algorithm", "architecture", "distributed", "kubernetes", "microservices",
    "scalability", "function", "python", "refactor", "debug", "api", "edit", "install", "verify",
    "commit", "explain", "compare", "analyze", "evaluate",
)  # fmt: skip

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


def _loose(text: str, draw: Random) -> tuple[str, str]:
    """Other spaces between words, one in four; some invisible."""
    parts = re.split("( )", text)
    return text, "".join(
        draw.choice(_SPACES) if part == " " and draw.random() < LOOSE_SHARE else part for part in parts
    )


def _homoglyphs(text: str, draw: Random) -> tuple[str, str]:
    """One Latin letter in four replaced by one of another script that looks the same."""
    return text, "".join(
        draw.choice(_LOOKALIKES[letter])
        if letter in _LOOKALIKES and draw.random() < HOMOGLYPH_SHARE
        else letter
        for letter in text
    )


def _any_case(text: str, draw: Random) -> tuple[str, str]:
    return text, "".join(draw.choice((letter.lower(), letter.upper())) for letter in text)


def _all_forms(text: str, draw: Random) -> tuple[str, str]:
    changed = text
    for change in (_typos, _any_case, _loose, _homoglyphs):
        changed = change(changed, draw)[1]
    return text, changed


#: Changes of form alone: the second of the two figures of robustness is over these.
FORM: Final = ("typos", "spacing", "lower case", "upper case", "mixed case", "homoglyphs")

CHANGES: Final[Mapping[str, Change]] = {
    "typos": _typos,
    "spacing": _loose,
    "lower case": lambda text, _: (text, text.lower()),
    "upper case": lambda text, _: (text, text.upper()),
    "mixed case": _any_case,
    "homoglyphs": _homoglyphs,
    "all of these": _all_forms,
    "polite": _polite,
    "frame translated": _frame,
}


def _words(draw: Random, count: int) -> str:
    return " ".join(draw.sample(_GADGET_WORDS, count))


#: Keywords of no concern to the prompt, set beside it. The last is the control: it has no keyword.
GADGETS: Final[Mapping[str, Callable[[str, Random], str]]] = {
    "three after": lambda text, draw: f"{text} {_words(draw, 3)}",
    "six before": lambda text, draw: f"{_words(draw, 6)}. {text}",
    "three in quotes": lambda text, draw: f'{text} "{_words(draw, 3)}"',
    "six in a code block": lambda text, draw: f"{text}\n```\n{_words(draw, 6)}\n```",
    "five plain words": lambda text, _: f"{text} blue window table apple garden",
}


#: The first of the two figures of robustness is over these.
KEYWORD_GADGETS: Final = tuple(GADGETS)[:-1]


class GadgetRow(msgspec.Struct, frozen=True, kw_only=True):
    """How often one gadget raises the tier of easy prompts. Shares are 0 to 1."""

    decider: str
    gadget: str
    n: int
    raised: float
    low: float  # bounds of the 95 % bootstrap interval
    high: float


def decided_simple(prompts: Sequence[str]) -> list[str]:
    """The prompts to which profile ``default`` gives tier SIMPLE."""
    tiers = zip(prompts, _tiers(prompts, "default"), strict=True)
    return [prompt for prompt, tier in tiers if tier is Tier.SIMPLE]


def evaluate_gadgets(easy: Sequence[str], *, seed: int = 0) -> list[GadgetRow]:
    """Measure how often keywords added to an easy prompt raise its tier, for both rule profiles.

    Args:
        easy: prompts that need no strong model, as people wrote them.
        seed: of the keywords and the resamples.
    """
    rows = []
    for decider in RULES:
        before = _tiers(easy, decider)
        for gadget, apply in GADGETS.items():
            after = _tiers([apply(text, Random(f"{seed} {gadget} {text}")) for text in easy], decider)
            raised = np.array([one.rank < other.rank for one, other in zip(before, after, strict=True)])
            row = _row(decider, gadget, raised, seed)
            rows.append(
                GadgetRow(
                    decider=decider, gadget=gadget, n=row.n, raised=row.unchanged, low=row.low, high=row.high
                )
            )
    return rows


def robustness_lines(rows: Sequence[RobustnessRow]) -> list[str]:
    """One line per change, one column per decider: share of decisions unchanged."""
    shares = [_Share(row.decider, row.change, row.unchanged, row.low, row.high) for row in rows]
    return _share_lines(f"unchanged, {rows[0].n:,} prompts", shares, "mean of form alone", FORM)


def gadget_lines(rows: Sequence[GadgetRow]) -> list[str]:
    """One line per gadget, one column per decider: share of easy prompts with a raised tier."""
    if not rows:
        return ["no easy prompt here: none is labelled so, and none is SIMPLE"]
    shares = [_Share(row.decider, row.gadget, row.raised, row.low, row.high) for row in rows]
    title = f"raised, {rows[0].n:,} easy prompts"
    return _share_lines(title, shares, "keyword gadgets: mean", KEYWORD_GADGETS)


class _Share(NamedTuple):
    """A share of one decider under one change or gadget, with its interval."""

    decider: str
    row: str
    share: float
    low: float
    high: float


def _share_lines(title: str, shares: Sequence[_Share], mean: str, of: Container[str]) -> list[str]:
    """A table with a line for each row, and the mean of some rows; a column for each decider."""
    deciders = list(dict.fromkeys(each.decider for each in shares))
    table = [(title, deciders)]
    for row in dict.fromkeys(each.row for each in shares):
        cells = [
            f"{each.share:.1%} ({each.low:.1%} .. {each.high:.1%})" for each in shares if each.row == row
        ]
        table.append((row, cells))
    meant = [each for each in shares if each.row in of]
    table.append((mean, [_mean([each.share for each in meant if each.decider == name]) for name in deciders]))
    return [name.ljust(28) + "".join(f"{cell:>26}" for cell in cells) for name, cells in table]


def _mean(shares: Sequence[float]) -> str:
    return f"{sum(shares) / len(shares):.1%}"


app = typer.Typer(add_completion=False)


@app.command()
def robustness(
    *,
    data: Annotated[Path, typer.Option(help="JSON lines with prompt.")],
    learned_router: Annotated[Path | None, typer.Option(help="A learned router, to measure it too.")] = None,
    boundary: Annotated[
        float | None,
        typer.Option(help="Boundary on the learned router's score; default: its median over the prompts."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the changes and the bootstrap.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Measure robustness: whether decisions change with the form of a prompt, or with keywords set beside it.

    The changes are typing errors (one word in twenty), spacing, case, look-alike letters, politeness, and the
    language of an instruction around the prompt. The decision of a rule profile is the tier; of a learned
    router, the side of a boundary. Easy prompts are those labelled SIMPLE or right by the weak model, where
    the file says so, else those of tier SIMPLE.
    """
    scorer = load_scorer(learned_router) if learned_router else None
    prompts = read_prompts(data)
    rows = evaluate_robustness(prompts, scorer, boundary=boundary, seed=seed)
    easy = read_easy(data) or decided_simple(prompts)
    gadgets = evaluate_gadgets(easy, seed=seed) if easy else []
    if as_json:
        print_json({"rows": rows, "gadgets": gadgets})
    else:
        echo("\n".join([*robustness_lines(rows), "", *gadget_lines(gadgets)]))


if __name__ == "__main__":
    app()

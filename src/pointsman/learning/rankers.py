"""Baselines of a learned ranking: each scores prompts, the highest get the strong model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from pointsman.decision.engine import Engine
from pointsman.decision.memory import Memory
from pointsman.decision.policy import Policy
from pointsman.drivers import drive, no_model
from pointsman.factory import build_engine, read_profile
from pointsman.learning.datasets import PromptOutcome
from pointsman.learning.metrics import Floats, Rows
from pointsman.text.extract import persons_words
from pointsman.tiers import TierDecision
from pointsman.tiers.kinds import Kinds
from pointsman.tiers.learned_router import LearnedRouter, LearnedScore, LearnedScorer
from pointsman.tiers.ngrams import ngram_key
from pointsman.wire.request import request_from_text

__all__ = [
    "RULES",
    "alike",
    "baselines",
    "by_kinds",
    "by_learned_router",
    "by_length",
    "by_rules",
    "decided",
    "first_alike",
    "has_fitted_lengths",
    "persons_text",
    "was_fitted_on",
]

#: The profiles that are measured beside everything else.
RULES: Final = ("seed", "default")


def persons_text(prompt: str) -> str:
    """The words that count of a prompt: the same extraction as for a live request."""
    return persons_words(request_from_text(prompt))


def alike(texts: Sequence[str]) -> Rows:
    """The first text that a router cannot tell from each, as it reads the same n-grams. Shape ``(n,)``.

    Duplicate prompts count once, whatever their case, spaces and numbers: a rule learned from
    one is not held out from the other, and an interval that draws them one by one is too narrow.
    """
    return first_alike(map(ngram_key, texts))


def first_alike(keys: Iterable[bytes]) -> Rows:
    """The first place of each key. Shape ``(n,)``."""
    first: dict[bytes, int] = {}
    return np.array([first.setdefault(each, place) for place, each in enumerate(keys)], dtype=np.intp)


def by_length(rows: Sequence[PromptOutcome]) -> Floats:
    """Characters of the prompt as sent."""
    return np.array([len(row.prompt) for row in rows], dtype=np.float64)


def by_rules(rows: Sequence[PromptOutcome], profile: str, *, tools: bool = False) -> Floats:
    """The weighted score of a tier profile; ``tools``: of requests that offer tools."""
    found = _decided([row.prompt for row in rows], _engine_of_rules(profile), tools=tools)
    return np.array([tier.score for tier in found])


@lru_cache(maxsize=4)
def _engine_of_rules(profile: str) -> Engine:
    return build_engine(Policy(profile=read_profile(profile)))


def by_kinds(rows: Sequence[PromptOutcome], kinds: Kinds, rules: Floats) -> dict[str, Floats]:
    """Kinds combined with length, and with the score of a profile."""
    found = [kinds.of(persons_text(row.prompt)) for row in rows]
    shifts = np.array([kind.shift if kind else 0.0 for kind in found])
    lengths = np.log(np.maximum(by_length(rows), 1.0))
    per_log_length = read_profile("default").per_log_length
    return {"kinds": lengths + shifts, "kinds + default": rules + per_log_length * shifts}


def decided(prompts: Sequence[str], policy: Policy) -> list[TierDecision]:
    """Decisions of a policy for single prompts, without model calls."""
    return _decided(prompts, build_engine(policy))


def _decided(prompts: Sequence[str], engine: Engine, *, tools: bool = False) -> list[TierDecision]:
    found = []
    for prompt in prompts:
        request = request_from_text(prompt)
        if tools:
            request = msgspec.structs.replace(request, features=request.features | {"tools"})
        tier = drive(engine.decide(request, Memory(), ""), no_model).decision.tier
        assert tier is not None  # noqa: S101 - no prompt here names a model
        found.append(tier)
    return found


def by_learned_router(rows: Sequence[PromptOutcome], scorer: LearnedScorer) -> list[LearnedScore]:
    """Scores of a learned router and of its rule baseline, with the domain of each row."""
    rules = by_rules(rows, scorer.learned_router.rules)
    pairs = zip(rows, rules, strict=True)
    return [scorer.score(persons_text(row.prompt), rules=score, domain=row.group) for row, score in pairs]


def baselines(rows: Sequence[PromptOutcome]) -> dict[str, Floats]:
    """Random, length, both rule profiles, and the oracle that knows every outcome beforehand.

    Random gives every prompt the same score: equal scores are served in random order.
    """
    return {
        "random": np.zeros(len(rows)),
        "length": by_length(rows),
        **{name: by_rules(rows, name) for name in RULES},
        "oracle": np.array([row.gain for row in rows]),
    }


def was_fitted_on(learned_router: LearnedRouter, rows: Sequence[PromptOutcome]) -> bool:
    """Whether a learned router was fitted on exactly these prompts: as many, and of the same mean length.

    A learned router stores no prompts, so one fitted on some of them is not recognised.
    """
    return has_fitted_lengths(learned_router, [len(persons_text(row.prompt)) for row in rows])


def has_fitted_lengths(learned_router: LearnedRouter, characters: Sequence[int] | NDArray[np.int64]) -> bool:
    """Whether the prompts a learned router was fitted on are as many, with the person's words as long."""
    lengths = np.log(np.maximum(characters, 1))
    return learned_router.rows == len(lengths) and math.isclose(
        learned_router.log_length, float(lengths.mean()), rel_tol=1e-12
    )

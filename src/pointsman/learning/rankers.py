"""Baselines of a learned ranking: each scores prompts, the highest get the strong model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final

import msgspec
import numpy as np
from msgspec import UNSET
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
from pointsman.tiers.learned_router import EVIDENCE, LearnedRouter, LearnedScore, LearnedScorer
from pointsman.tiers.ngrams import ngram_key, ngrams
from pointsman.wire.request import request_from_text

__all__ = [
    "ERRORS",
    "LEARNED",
    "RULES",
    "STATED",
    "alike",
    "baselines",
    "by_kinds",
    "by_learned_router",
    "by_length",
    "by_rules",
    "decided",
    "first_alike",
    "has_seen",
    "persons_text",
    "prompt_digest",
    "scores_of",
    "sketch_of",
    "unseen",
    "was_fitted_on",
    "with_bounds",
]

#: Bytes of a digest of a prompt: two of 10⁹ prompts collide once in 10²⁰ runs.
DIGEST: Final = 16
#: Bytes of it that a router's file keeps, and of how many prompts.
_KEPT: Final = 8
SKETCH: Final = 1_024

#: The profiles that are measured beside everything else.
RULES: Final = ("seed", "default")

#: The ranker of a learned router.
LEARNED: Final = "learned_router"
#: What it says of each prompt beside its score: of the weak and of the strong model.
STATED: Final = ("p_weak", "p_strong")
ERRORS: Final = ("weak_error", "strong_error")


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


#: No scores of profiles that were computed before.
_NOTHING: Final[Mapping[str, Floats]] = {}


def by_learned_router(
    rows: Sequence[PromptOutcome], scorer: LearnedScorer, known: Mapping[str, Floats] = _NOTHING
) -> list[LearnedScore]:
    """Scores of a learned router and of its rule baseline, with the domain of each row.

    ``known`` are scores of profiles that were computed before.
    """
    profile = scorer.learned_router.rules
    rules = known[profile] if profile in known else by_rules(rows, profile)
    pairs = zip(rows, rules, strict=True)
    return [scorer.score(persons_text(row.prompt), rules=score, domain=row.group) for row, score in pairs]


def scores_of(
    rows: Sequence[PromptOutcome],
    kinds: Kinds | None = None,
    scorer: LearnedScorer | None = None,
    *,
    known: Mapping[str, Floats] = _NOTHING,
) -> dict[str, Floats]:
    """Scores of each prompt by every ranker, and the statements of a learned router.

    ``known`` are scores of profiles that were computed before.
    """
    rules = {name: known[name] if name in known else by_rules(rows, name) for name in RULES}
    found = {"length": by_length(rows), **rules}
    if kinds:
        found |= by_kinds(rows, kinds, found["default"])
    if scorer:
        said = by_learned_router(rows, scorer, rules)
        found[LEARNED] = np.array([each.score for each in said])
        found |= {name: np.array([getattr(each, name) for each in said]) for name in (*STATED, *ERRORS)}
    return found


def baselines(rows: Sequence[PromptOutcome], known: Mapping[str, Floats] = _NOTHING) -> dict[str, Floats]:
    """Random, length, both rule profiles, and the oracle that knows every outcome beforehand."""
    return with_bounds(rows, scores_of(rows, known=known))


def with_bounds(rows: Sequence[PromptOutcome], found: Mapping[str, Floats]) -> dict[str, Floats]:
    """Rankings by scores, with random before and the oracle after the baselines.

    Random gives every prompt the same score: equal scores are served in random order.
    """
    return {
        "random": np.zeros(len(rows)),
        **{name: found[name] for name in ("length", *RULES)},
        "oracle": np.array([row.gain for row in rows]),
        **{name: scores for name, scores in found.items() if name not in {*STATED, *ERRORS}},
    }


def prompt_digest(prompt: str) -> bytes:
    """A digest that is equal for prompts that a router cannot tell apart."""
    return blake2b(ngram_key(prompt), digest_size=DIGEST).digest()


def sketch_of(prompts: Iterable[str]) -> bytes:
    """The smallest digests of different prompts, ascending: they identify the prompts of a fit.

    Texts with too few n-grams to be evidence ("go on") are left out: nothing is learned from them. Source of
    such sketches: Broder, "On the resemblance and containment of documents" (1997).
    """
    kept = {prompt_digest(each)[:_KEPT] for each in prompts if len(ngrams(each)) >= EVIDENCE}
    return b"".join(sorted(kept)[:SKETCH])


def was_fitted_on(learned_router: LearnedRouter, rows: Sequence[PromptOutcome]) -> bool:
    """Whether a learned router was fitted on any of these prompts, by ``has_seen``."""
    characters = [len(persons_text(row.prompt)) for row in rows]
    return has_seen(learned_router, [prompt_digest(row.prompt) for row in rows], characters)


def has_seen(
    learned_router: LearnedRouter, digests: Sequence[bytes], characters: Sequence[int] | NDArray[np.int64]
) -> bool:
    """Whether a learned router was fitted on any of these prompts.

    Of more than ``SKETCH`` prompts the file names a part, so that few in common may be overlooked. A file
    without digests is known by exactly the same prompts: as many, with words of the same mean length.

    Args:
        learned_router: The router.
        digests: Of the prompts, by ``prompt_digest``.
        characters: Of the person's words of each prompt.
    """
    if learned_router.sketch is not UNSET:
        return not _named(learned_router).isdisjoint(each[:_KEPT] for each in digests)
    lengths = np.log(np.maximum(characters, 1))
    return learned_router.rows == len(lengths) and math.isclose(
        learned_router.log_length, float(lengths.mean()), rel_tol=1e-12
    )


def unseen(learned_router: LearnedRouter, prompts: Sequence[str]) -> Rows:
    """Places of the prompts that a learned router is known not to have been fitted on."""
    if learned_router.sketch is UNSET:
        return np.array([], dtype=np.intp)
    named = _named(learned_router)
    last = max(named) if len(named) == SKETCH else b"\xff" * _KEPT
    found = (prompt_digest(each)[:_KEPT] for each in prompts)
    places = [at for at, each in enumerate(found) if each <= last and each not in named]
    return np.array(places, dtype=np.intp)


def _named(learned_router: LearnedRouter) -> set[bytes]:
    sketch = b"" if learned_router.sketch is UNSET else learned_router.sketch
    return {sketch[at : at + _KEPT] for at in range(0, len(sketch), _KEPT)}

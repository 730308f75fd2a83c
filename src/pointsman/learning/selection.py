"""``pointsman eval capabilities``: selection for labelled tasks, compared with simpler methods.

Part of the tasks becomes examples of their capability, the rest is judged: by ``split`` where lines have one,
else four fifths against one by a hash of the task, so that no task ever changes sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb
from typing import Final

import msgspec
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from pointsman.capabilities import (
    Capability,
    CapabilityRegistry,
    ClassifierExample,
    LocalScorer,
    SelectionPolicy,
    TaskClassifierGuide,
)
from pointsman.errors import ConfigError
from pointsman.learning.capabilities import CalibrationReport, Labelled, report_selection
from pointsman.learning.intervals import wilson
from pointsman.learning.metrics import Floats, Interval, sums_interval, widened
from pointsman.remembering import grouped
from pointsman.vocabulary import Encoder

__all__ = ["SelectionRow", "Selections", "evaluate_selection"]

#: How far down the list of likeliest capabilities ``first_five`` looks: as many as a model is asked about.
FIRST: Final = 5

Scores = Sequence[float]


class SelectionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One way to select, on the tasks that need something. Shares are 0 to 1."""

    selector: str
    n: int
    first: Interval  # the likeliest capability is one that is needed
    first_five: Interval  # everything needed is among the five likeliest


class Selections(msgspec.Struct, frozen=True, kw_only=True):
    """Every selection method, and the product's selection at its threshold."""

    capabilities: int
    examples: int  # per capability, at most
    rows: tuple[SelectionRow, ...]
    threshold: float
    selected: CalibrationReport


def evaluate_selection(
    rows: Sequence[Labelled],
    *,
    described: Mapping[str, str],
    examples: int,
    encoder: Encoder | None = None,
    seed: int = 0,
) -> Selections:
    """Measure selection on the judged part of some tasks.

    Args:
        rows: labelled tasks.
        described: what each capability is for; one that is not here is described by its name.
        examples: how many each capability gets at most, from the part that is not judged.
        encoder: the one selection uses, and its nearest-neighbour baseline.
        seed: of the resamples.

    Raises:
        ConfigError: no task is left to judge.
    """
    judged = [row for row in rows if row.judged]
    if not any(row.needed for row in judged):
        raise ConfigError("no labelled task is left to judge", hint="give more lines")
    given = grouped((name, row.words) for row in rows if not row.judged for name in sorted(row.needed))
    labels = set(given).union(*(row.needed for row in judged))
    registry = CapabilityRegistry(
        Capability(
            name,
            TaskClassifierGuide(
                described.get(name, name.replace("_", " ")),
                [ClassifierExample(text, result=True) for text in given.get(name, [])[:examples]],
            ),
        )
        for name in sorted(labels | set(described))
    )
    order = [each.name for each in registry.get_all_capabilities()]
    scorer = LocalScorer(registry, encoder)
    own = [list(scorer.probabilities(row.words).values()) for row in judged]
    needed = [row.needed for row in judged if row.needed]
    limit = SelectionPolicy().threshold
    places = {name: at for at, name in enumerate(order)}
    wanted = [frozenset(places[name] for name in row.needed) for row in judged]
    often = [float(len(given.get(name, ()))) for name in order]
    return Selections(
        capabilities=len(order),
        examples=examples,
        rows=(
            *(
                _row(name, scores, needed, order, seed)
                for name, scores in _by_selector(judged, registry, own, encoder, often).items()
            ),
            _random(needed, len(order), seed),
        ),
        threshold=limit,
        selected=report_selection(own, wanted, limit),
    )


def _by_selector(
    judged: Sequence[Labelled],
    registry: CapabilityRegistry,
    own: Sequence[Scores],
    encoder: Encoder | None,
    often: Scores,
) -> dict[str, list[Scores]]:
    """Scores of the judged tasks that need something, by selector.

    Args:
        judged: the tasks.
        registry: the capabilities.
        own: the product's scores of all of them.
        encoder: of the nearest neighbour.
        often: how many examples each capability has, which "majority" ranks by.
    """
    tasks = [row.words for row in judged if row.needed]
    ways: dict[str, list[Scores]] = {
        "pointsman": [scores for row, scores in zip(judged, own, strict=True) if row.needed],
        "TF-IDF": _by_tf_idf(registry, tasks),
    }
    if encoder is not None:
        ways["nearest"] = _by_nearest(registry, encoder, tasks)
    ways["majority"] = [often] * len(tasks)
    return ways


def _texts(registry: CapabilityRegistry) -> tuple[list[str], list[int]]:
    """Descriptions and examples, and the place of the capability each belongs to."""
    texts: list[str] = []
    owners: list[int] = []
    for at, each in enumerate(registry.get_all_capabilities()):
        own = [f"{each.name.replace('_', ' ')}: {each.guide.instructions}", *each.guide.positives]
        texts += own
        owners += [at] * len(own)
    return texts, owners


def _best(near: Floats, owners: Sequence[int], count: int) -> list[float]:
    best = np.full(count, -1.0)
    np.maximum.at(best, owners, near)
    return [float(value) for value in best]


def _by_tf_idf(registry: CapabilityRegistry, tasks: Sequence[str]) -> list[Scores]:
    """Cosine of words and pairs with the nearest description or example."""
    texts, owners = _texts(registry)
    vectorizer = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2))
    known = vectorizer.fit_transform(texts)
    near = (vectorizer.transform(tasks) @ known.T).toarray()
    return [_best(line, owners, len(registry)) for line in near]


def _by_nearest(registry: CapabilityRegistry, encoder: Encoder, tasks: Sequence[str]) -> list[Scores]:
    texts, owners = _texts(registry)
    near = encoder.encode(tasks) @ encoder.encode(texts).T
    return [_best(np.asarray(line, dtype=np.float64), owners, len(registry)) for line in near]


def _row(
    name: str, scores: Sequence[Scores], needed: Sequence[frozenset[str]], order: Sequence[str], seed: int
) -> SelectionRow:
    ranked = [[order[at] for at in np.argsort(-np.asarray(line), kind="stable")[:FIRST]] for line in scores]
    pairs = list(zip(ranked, needed, strict=True))
    return SelectionRow(
        selector=name,
        n=len(pairs),
        first=_share([line[0] in wanted for line, wanted in pairs], seed),
        first_five=_share([wanted <= set(line) for line, wanted in pairs], seed),
    )


def _random(needed: Sequence[frozenset[str]], count: int, seed: int) -> SelectionRow:
    """What drawing at random gives on average: known, so nothing is drawn."""
    depth = min(FIRST, count)
    firsts = [len(wanted) / count for wanted in needed]
    fives = [
        comb(count - len(wanted), depth - len(wanted)) / comb(count, depth) if len(wanted) <= depth else 0.0
        for wanted in needed
    ]
    return SelectionRow(
        selector="random", n=len(needed), first=_mean(firsts, seed), first_five=_mean(fives, seed)
    )


def _share(hits: Sequence[bool], seed: int) -> Interval:
    """The interval holds the score interval: a bootstrap has no width where all are hits, or none is."""
    return widened(_mean(hits, seed), *wilson(sum(hits), len(hits)))


def _mean(values: Sequence[float], seed: int) -> Interval:
    return sums_interval(np.array(values, dtype=np.float64), seed=seed)

"""What is compared: every system scores a task against every capability, from the same guides."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pointsman.capabilities import CapabilityRegistry, LocalScorer
from pointsman.vocabulary import Encoder

Scores = Sequence[float]
System = Callable[[str], Scores]  # task -> one score per capability, in registry order


class Remembering:
    """An encoder that encodes each text once: every system gets the same vectors, and nobody waits twice."""

    def __init__(self, encoder: Encoder) -> None:
        self.name = encoder.name
        self._encoder = encoder
        self._known: dict[str, Any] = {}

    def encode(self, texts: Sequence[str], /) -> Any:
        for text in texts:
            if text not in self._known:
                self._known[text] = self._encoder.encode([text])[0]
        return np.array([self._known[text] for text in texts], dtype=np.float32).reshape(len(texts), -1)


def pointsman(registry: CapabilityRegistry, encoder: Encoder | None) -> System:
    scorer = LocalScorer(registry, encoder)
    return lambda task: list(scorer.probabilities(task).values())


def tf_idf(registry: CapabilityRegistry, encoder: Encoder | None) -> System | None:  # noqa: ARG001
    """TF-IDF over words and pairs, cosine with the nearest row: the baseline. Needs scikit-learn."""
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
    except ImportError:
        return None
    texts, owners = _rows(registry)
    vectorizer = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2))
    rows = vectorizer.fit_transform(texts)

    def score(task: str) -> Scores:
        near = np.asarray((rows @ vectorizer.transform([task]).T).todense()).ravel()
        return _best(near, owners, len(registry))

    return score


def nearest(registry: CapabilityRegistry, encoder: Encoder | None) -> System | None:
    """The nearest example by the encoder."""
    if encoder is None:
        return None
    texts, owners = _rows(registry)
    rows = encoder.encode(texts)
    return lambda task: _best(rows @ encoder.encode([task])[0], owners, len(registry))


def semantic_router(registry: CapabilityRegistry, encoder: Encoder | None) -> System | None:
    """The PyPI package with its defaults, over the same encoder."""
    try:
        from semantic_router import IndexedRouter, Route
        from semantic_router.encoders.base import DenseEncoder
    except ImportError:
        return None
    if encoder is None:
        return None
    encode = encoder.encode

    class Ours(DenseEncoder):  # type: ignore[misc]
        def __call__(self, docs: list[Any]) -> list[list[float]]:
            return [list(map(float, row)) for row in encode(docs)]

    names = [each.name for each in registry.get_all_capabilities()]
    routes = [
        # Its way of using a description is an utterance.
        Route(name=each.name, utterances=[f"{each.name}: {each.guide.instructions}", *each.guide.positives])
        for each in registry.get_all_capabilities()
    ]
    router = IndexedRouter(encoder=Ours(name="ours"), routes=routes)

    def score(task: str) -> Scores:
        found = {each.name: each.confidence for each in router(task, limit=None)}
        return [found.get(name) or 0.0 for name in names]

    return score


def _rows(registry: CapabilityRegistry) -> tuple[list[str], Any]:
    texts, owners = [], []
    for at, each in enumerate(registry.get_all_capabilities()):
        rows = [f"{each.name}: {each.guide.instructions}", *each.guide.positives]
        texts += rows
        owners += [at] * len(rows)
    return texts, np.array(owners)


def _best(near: Any, owners: Any, size: int) -> Scores:
    best = np.full(size, -1.0)
    np.maximum.at(best, owners, near)
    return list(map(float, best))


def milliseconds(score: System, tasks: Sequence[str]) -> tuple[float, float]:
    """(median CPU, median wall) time of one selection."""
    cpu, wall = [], []
    for task in tasks:
        began, started = time.process_time(), time.perf_counter()
        score(task)
        cpu.append(time.process_time() - began)
        wall.append(time.perf_counter() - started)
    return float(np.median(cpu)) * 1e3, float(np.median(wall)) * 1e3

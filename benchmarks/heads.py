"""Heads: learned routers of a number of labels, at home and on unseen tasks. Columns of ``left_out.py``.

Routers are those of ``fit tiers --features kinds``, with kinds made without the source or task they are
measured on. Every figure is APGR minus that of length, on prompts without labels.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from outcome_tasks import Remembering, Task

from pointsman.learning.kinds_prior import fitter
from pointsman.learning.learning import Corpus, held_out, trust
from pointsman.learning.metrics import Interval, difference_interval
from pointsman.tiers.kinds import Kinds

LABELS = (100, 500, 1_500)

#: Prompts to be ranked, at least; draws of labels where there is one pair of models; most pairs otherwise.
LEAST, DRAWS, PAIRS = 60, 4, 6

#: Resamples of an interval.
RESAMPLES = 200

Rows = NDArray[np.intp]
Found = dict[int, list[Interval]]  # labels -> differences to length


def difference(corpus: Corpus, labels: Rows, rest: Rows) -> Interval:
    """APGR of a router of these labels minus that of length, on other prompts."""
    own = corpus.take(labels)
    fit = fitter(own)
    weights = fit(own, np.arange(len(own)))
    counts = trust(weights.similarity(corpus, rest), held_out(own, seed=0, fit=fit).bounds)
    weak, strong = counts * weights.evidence(corpus, rest)
    scores = strong - weak + weights.prior(corpus, rest)
    return difference_interval(
        scores, corpus.log_length[rest], corpus.weak[rest], corpus.strong[rest], resamples=RESAMPLES
    )


def pair_corpora(one: Task, kinds: Kinds, encoder: Remembering) -> Iterator[tuple[int, Corpus]]:
    """The number of each pair of models that is looked at, with its outcomes."""
    whole = Corpus.of(one.prompts, encoder, kinds)
    for number in range(0, len(one.pairs), max(-(-len(one.pairs) // PAIRS), 1)):
        _, places, weak, strong = one.pairs[number]
        yield number, replace(whole.take(np.array(places)), weak=weak, strong=strong)


def at_home(one: Task, kinds: Kinds, encoder: Remembering) -> Found:
    """Labels of the task itself."""
    found: Found = {count: [] for count in LABELS}
    for number, corpus in pair_corpora(one, kinds, encoder):
        draw = np.random.default_rng(number)
        for _ in range(DRAWS if len(one.pairs) == 1 else 1):
            order = draw.permutation(len(corpus))
            for count in LABELS:
                rest = order[count:]
                if len(rest) >= LEAST and corpus.strong[rest].mean() > corpus.weak[rest].mean():
                    found[count].append(difference(corpus, order[:count], rest))
    return found


def elsewhere(one: Task, siblings: Sequence[Task], kinds: Kinds, encoder: Remembering) -> Found:
    """Labels of other tasks by the same models."""
    found: Found = {count: [] for count in LABELS}
    for number in range(0, len(one.pairs), max(-(-len(one.pairs) // PAIRS), 1)):
        models, places, weak, strong = one.pairs[number]
        others = [(each, each.outcomes_of(models)) for each in siblings]
        known = [(each, own) for each, own in others if own is not None]
        if not known:
            continue
        prompts = [one.prompts[at] for at in places]
        corpus = Corpus.of([*prompts, *(p for each, _ in known for p in each.prompts)], encoder, kinds)
        corpus = replace(
            corpus,
            weak=np.concatenate([weak, *(own[0] for _, own in known)]),
            strong=np.concatenate([strong, *(own[1] for _, own in known)]),
        )
        rest, labels = np.split(np.arange(len(corpus)), [len(prompts)])
        order = np.random.default_rng(number).permutation(labels)
        for count in LABELS:
            if len(order) >= count:
                found[count].append(difference(corpus, order[:count], rest))
    return found

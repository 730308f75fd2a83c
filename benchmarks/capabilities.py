"""How well capabilities are selected, beside TF-IDF, the nearest example and the package semantic-router.

    .venv/bin/python benchmarks/capabilities.py [quality] [scope] [two] [hybrid] [cost]

Without arguments all five tables. Reads ../shared/data (or $POINTSMAN_SHARED/data). Every system gets the
same guides and, where it uses one, the same vectors. scikit-learn and semantic-router are compared where
they are installed. Queries are unseen; a third of them was held aside and is reported apart.
"""

import gc
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from selection.data import Dataset, Query, banking77, clinc150, held_aside, metatool, two_tools
from selection.systems import (
    Remembering,
    Scores,
    System,
    milliseconds,
    nearest,
    pointsman,
    semantic_router,
    tf_idf,
)

from pointsman.capabilities import CapabilityRegistry, SelectionPolicy
from pointsman.encoders import load_encoder
from pointsman.vocabulary import Encoder

#: Queries of each set that are judged; the sentence model needs 5 ms for each new text.
QUERIES = 900

Make = Callable[[CapabilityRegistry, Encoder | None], System | None]

ENCODERS: dict[str, Encoder | None] = {"none": None}
for each in ("static", "sentence"):
    real = load_encoder(each)
    assert real is not None
    ENCODERS[each] = Remembering(real)

SYSTEMS: list[tuple[str, Make, str]] = [
    ("TF-IDF", tf_idf, "none"),
    ("pointsman, no encoder", pointsman, "none"),
    ("nearest, static", nearest, "static"),
    ("semantic-router, static", semantic_router, "static"),
    ("pointsman, static", pointsman, "static"),
    ("nearest, sentence", nearest, "sentence"),
    ("semantic-router, sentence", semantic_router, "sentence"),
    ("pointsman, sentence", pointsman, "sentence"),
]


def sample(queries: Sequence[Any], size: int = QUERIES) -> list[Any]:
    """Every so-manieth, in file order."""
    return list(queries[:: max(1, -(-len(queries) // size))])


def names(registry: CapabilityRegistry) -> list[str]:
    return [each.name for each in registry.get_all_capabilities()]


def ranked(scores: Scores) -> list[int]:
    return [int(at) for at in np.argsort(-np.asarray(scores), kind="stable")]


def share(flags: Sequence[bool]) -> str:
    return f"{np.mean(flags):.3f}" if len(flags) else "–"


def quality() -> None:
    """Top-1 and top-5, with 0, 5 and 10 examples."""
    print("\n## Top-1 / top-5 on unseen queries (held aside in brackets)\n")
    for data in (clinc150(), banking77(), metatool()):
        for examples in (0, 5, 10):
            registry = data.registry(examples)
            order = names(registry)
            print(f"{data.name}, {len(order)} capabilities, {examples} examples")
            for title, make, encoder in SYSTEMS:
                system = make(registry, ENCODERS[encoder])
                if system is None:
                    continue
                _print_quality(
                    title, [(query, ranked(system(query[0]))) for query in sample(data.queries)], order
                )


def _print_quality(title: str, found: list[tuple[Query, list[int]]], order: list[str]) -> None:
    cells = []
    for depth in (1, 5):
        open_: list[bool] = []
        aside: list[bool] = []
        for (text, needed), places in found:
            hit = needed <= {order[at] for at in places[:depth]}
            (aside if held_aside(text) else open_).append(hit)
        cells.append(f"{share(open_)} ({share(aside)})")
    print(f"  {title:28} {'   '.join(cells)}")


def scope() -> None:
    """In-scope accuracy against rejection of what nothing serves."""
    data = clinc150()
    hidden = frozenset(sorted(data.instructions)[::5])
    print("\n## CLINC150: in-scope accuracy | near and far out-of-scope recall, at three thresholds\n")
    print("near: the 30 intents the registry is not told; far: the set's own. Thresholds of every system are")
    print("where it rejects 50, 75 and 90 % of other far out-of-scope tasks.\n")
    near = sample([text for text, needed in data.queries if needed & hidden], 300)
    inside = sample([query for query in data.queries if not query[1] & hidden])
    for examples in (0, 5, 10):
        registry = data.registry(examples, hidden)
        print(f"{examples} examples")
        for title, make, encoder in SYSTEMS:
            system = make(registry, ENCODERS[encoder])
            if system is not None:
                _print_scope(title, system, names(registry), inside, near, data)


def _print_scope(
    title: str, system: System, order: list[str], inside: list[Query], near: list[str], data: Dataset
) -> None:
    scored = [(needed, system(text)) for text, needed in inside]
    best = {part: [max(system(text)) for text in texts] for part, texts in (
        ("tune", data.far_tuning), ("near", near), ("far", data.far)
    )}  # fmt: skip
    cells = []
    for quantile in (0.5, 0.75, 0.9):
        limit = float(np.quantile(best["tune"], quantile))
        kept = [max(line) > limit and order[ranked(line)[0]] in needed for needed, line in scored]
        rejected = [share([score <= limit for score in best[part]]) for part in ("near", "far")]
        cells.append(f"{share(kept)} | {rejected[0]} {rejected[1]}")
    print(f"  {title:28} {'    '.join(cells)}")


def two() -> None:
    """Two tools at once: exactly the two, and by threshold."""
    queries = two_tools()
    used = frozenset(tool for _, needed in queries for tool in needed)
    print("\n## MetaTool, two tools: the two likeliest are they | both in the first five | chosen exactly\n")
    for title_of, only in (("199 tools", frozenset()), (f"the {len(used)} tools in use", used)):
        data = metatool(only)
        for examples in (0, 10):
            registry = data.registry(examples)
            order = names(registry)
            print(f"{title_of}, {examples} examples")
            for title, make, encoder in SYSTEMS:
                system = make(registry, ENCODERS[encoder])
                if system is not None:
                    scored = [(needed, system(text)) for text, needed in queries]
                    _print_two(title, scored, order, own=make is pointsman)


def _print_two(
    title: str, scored: list[tuple[frozenset[str], Scores]], order: list[str], *, own: bool
) -> None:
    exact = share([{order[at] for at in ranked(line)[:2]} == needed for needed, line in scored])
    five = share([needed <= {order[at] for at in ranked(line)[:5]} for needed, line in scored])
    limit = SelectionPolicy().threshold
    chosen = [
        {name for name, score in zip(order, line, strict=True) if score >= limit} == needed
        for needed, line in scored
    ]
    print(f"  {title:28} {exact} | {five} | {share(chosen) if own else '–'}")


def hybrid() -> None:
    """How often a model would be asked, and what that could gain."""
    data = clinc150()
    tasks = sample(data.queries) + [(text, frozenset[str]()) for text in data.far]
    limit = SelectionPolicy().threshold
    print(
        "\n## Hybrid on CLINC150 with its out-of-scope, 10 examples: share of tasks asked about, questions,"
    )
    print(
        "## exact selections by score alone, and with a model that is always right about what it is asked\n"
    )
    registry = data.registry(10)
    order = names(registry)
    for encoder, loaded in ENCODERS.items():
        system = pointsman(registry, loaded)
        scored = [(needed, dict(zip(order, system(text), strict=True))) for text, needed in tasks]
        for low, high in ((limit, limit), (0.15, 0.4), (0.1, 0.6), (0.05, 0.8), (0.02, 0.95)):
            asked = [sorted((p, n) for n, p in line.items() if low < p < high)[-5:] for _, line in scored]
            right = [
                {name for name, p in line.items() if (name in needed if (p, name) in some else p >= limit)}
                == needed
                for (needed, line), some in zip(scored, asked, strict=True)
            ]
            print(
                f"  {encoder:10} unsure {low:.2f}–{high:.2f}: asked {share([bool(each) for each in asked])}, "
                f"{np.mean([len(each) for each in asked]):.2f} questions, exact {share(right)}"
            )


def cost() -> None:
    """Time of one selection, encoding included, and memory of a registry."""
    data = metatool()
    registry = data.registry(10)
    tasks = [text for text, _ in sample(data.queries, 300)]
    print(
        f"\n## {len(registry)} tools, ten examples: median ms of one selection, encoding included; memory\n"
    )
    for title, make, encoder in SYSTEMS:
        fresh = load_encoder(encoder)
        if fresh is not None:
            fresh.encode(["warm"])
        gc.collect()
        tracemalloc.start()
        system = make(registry, fresh)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        if system is not None:
            cpu, wall = milliseconds(system, tasks)
            print(f"  {title:28} {cpu:7.2f} CPU {wall:7.2f} wall   {held / 1e6:6.1f} MB")


TABLES = {each.__name__: each for each in (quality, scope, two, hybrid, cost)}

if __name__ == "__main__":
    for table in sys.argv[1:] or TABLES:
        TABLES[table]()

"""Prometheus metrics of the gateway.

Counted in plain numbers, and put into Prometheus' shape when someone looks: an increment costs 0.1 µs, a
cached child of a ``prometheus_client`` counter 0.6, and every request makes seven.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from pointsman.decision.decision import Decision
from pointsman.stores.ledger.port import Attempt
from pointsman.vocabulary import ModelSpec

__all__ = ["Metrics"]


class _Counter(NamedTuple):
    help: str
    labels: tuple[str, ...]


_COUNTERS: Final = {
    "requests": _Counter("Requests answered.", ("format", "status")),
    "decisions": _Counter("Decisions.", ("tier", "stage")),
    "refused": _Counter("Requests that no model can serve.", ("tier",)),
    "lower_tier": _Counter("Requests answered by a model of a lower tier.", ("tier", "served")),
    "domains": _Counter("Decisions by the primary domain of the conversation.", ("domain",)),
    "guidance": _Counter("Hints, given or withheld.", ("classifier", "rung", "result")),
    "capabilities": _Counter("Selections of capabilities.", ("strategy", "result")),
    "tools": _Counter("Tools offered by requests from which some are cut.", ("result",)),
    "abstained": _Counter("Parts of decisions that failed open.", ("reason",)),
    "attempts": _Counter(
        "Tries of an upstream, and models that were not asked.", ("upstream", "model", "result")
    ),
    "tokens": _Counter("Tokens as upstreams reported them.", ("model", "kind")),
    "cost": _Counter("Cost of attempts with usage, at the configured prices; no cache writes.", ("model",)),
    "unpriced": _Counter("Attempts of unknown cost: their model has no price.", ("model",)),
    "unmetered": _Counter("Answers of unknown cost: the upstream reported no usage.", ("model",)),
    "continued": _Counter("Requests that go on from a response the upstream keeps.", ("before",)),
    "replayed": _Counter("Requests answered with the answer to an earlier one of their Idempotency-Key.", ()),
    "passed": _Counter("Requests passed on to an upstream as they came.", ("upstream", "method", "result")),
    "shadow_answers": _Counter("Requests sampled for the shadow model.", ("model", "result")),
    "disconnects": _Counter("Requests whose caller went away.", ()),
    "internal_errors": _Counter("Requests that failed inside the gateway.", ()),
    "reloads": _Counter("Configurations read again.", ("result",)),
}

#: Seconds. A decision takes tens of microseconds; one that asked a model, up to its timeout.
_OVERHEAD: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.05, 0.25, 1.0)
#: Seconds. From a cached short prompt to a model that thinks for minutes.
_FIRST_BYTE: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

#: Failures of an attempt after which its tokens may have been used.
_MAYBE_PAID: Final = frozenset({"timeout", "cut", "malformed", "too_large", "disconnect"})

#: Decisions and attempts counted at once: many in a row cost a quarter of each in its turn.
_BATCH: Final = 256


class _Histogram:
    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def buckets(self) -> list[tuple[str, float]]:
        ends = [*map(str, self.bounds), "+Inf"]
        return list(zip(ends, map(float, accumulate(self.counts)), strict=True))


class Metrics(Collector):
    """Counts of one gateway. Labels come from the configuration alone, so their number is bounded."""

    def __init__(self) -> None:
        self.overhead = _Histogram(_OVERHEAD)
        self._first_byte: dict[str, _Histogram] = {}
        self._counts = defaultdict[tuple[str, ...], float](
            float, {("disconnects",): 0, ("internal_errors",): 0}
        )
        self._waiting: list[Decision | Attempt] = []
        #: Is told of each decision and attempt too; must neither block nor raise (``request_log``).
        self.listener: Callable[[Decision | Attempt], None] | None = None
        self._models: Mapping[str, ModelSpec] = {}
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        self._results: dict[str, tuple[str, Callable[[], Mapping[str, float]]]] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def count(self, *key: str, by: float = 1) -> None:
        """Add to a counter: its name, then its labels."""
        self._counts[key] += by

    def price(self, models: Mapping[str, ModelSpec]) -> None:
        """Take the prices of models, by name, for what is seen from now on."""
        self._count_waiting()
        self._models = models

    def gauge(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """Add a gauge that is read when someone looks."""
        self._gauges[name] = help_text, read

    def results(self, name: str, help_text: str, read: Callable[[], Mapping[str, float]]) -> None:
        """Add a counter by result that someone else counts; it is read when someone looks."""
        self._results[name] = help_text, read

    def seen(self, entry: Decision | Attempt) -> None:
        """Count a decision or an attempt."""
        if self.listener is not None:
            self.listener(entry)
        waiting = self._waiting
        waiting.append(entry)
        if len(waiting) >= _BATCH:
            self._count_waiting()

    def _count_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for entry in waiting:
            if isinstance(entry, Decision):
                self._decision(entry)
            else:
                self._attempt(entry)

    def _decision(self, decision: Decision) -> None:
        tier = decision.tier
        self.count("decisions", tier.tier if tier else "none", tier.stage if tier else "none")
        if decision.domains:
            self.count("domains", decision.domains.effective.primary.domain or "none")
        if guidance := decision.guidance:
            for firing in guidance.firings:
                result = "given" if guidance.injection else "withheld"
                self.count("guidance", firing.classifier, firing.rung, result)
        if selected := decision.capabilities:
            self.count("capabilities", selected.strategy, selected.result)
            if tools := selected.tools:
                self.count("tools", "kept", by=len(tools.kept))
                self.count("tools", "cut", by=tools.offered - len(tools.kept))
        for reason in decision.abstained:
            self.count("abstained", reason.code)
        if decision.refused:
            self.count("refused", tier.tier if tier else "none")

    def _attempt(self, attempt: Attempt) -> None:
        model = attempt.model
        self.count("attempts", attempt.upstream, model, attempt.error or "ok")
        if attempt.first_byte_ms is not None:
            first_byte = self._first_byte.get(attempt.upstream)
            if first_byte is None:
                first_byte = self._first_byte[attempt.upstream] = _Histogram(_FIRST_BYTE)
            first_byte.observe(attempt.first_byte_ms / 1e3)
        if attempt.input_tokens:
            self.count("tokens", model, "input", by=attempt.input_tokens)
        if attempt.cached_tokens:
            self.count("tokens", model, "cached", by=attempt.cached_tokens)
        if attempt.output_tokens:
            self.count("tokens", model, "output", by=attempt.output_tokens)
        if attempt.input_tokens is not None and attempt.output_tokens is not None:
            self._cost(attempt, attempt.input_tokens, attempt.output_tokens)
        elif attempt.status // 100 == 2 or attempt.error in _MAYBE_PAID:
            self.count("unmetered", model)

    def _cost(self, attempt: Attempt, tokens_in: int, tokens_out: int) -> None:
        model = self._models.get(attempt.model)
        cached = min(attempt.cached_tokens or 0, tokens_in)
        paid = model.cost(tokens_in, cached, tokens_out) if model else None
        if paid is None:
            self.count("unpriced", attempt.model)
        else:
            self.count("cost", attempt.model, by=paid)

    def page(self) -> bytes:
        """Return the page for Prometheus."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield everything in Prometheus' shape (``prometheus_client.registry.Collector``)."""
        self._count_waiting()
        for name, (text, labels) in _COUNTERS.items():
            family = CounterMetricFamily(f"pointsman_{name}", text, labels=labels)
            for key, value in list(self._counts.items()):
                if key[0] == name:
                    family.add_metric(key[1:], value)
            yield family
        for name, (text, read) in self._gauges.items():
            yield GaugeMetricFamily(f"pointsman_{name}", text, value=read())
        for name, (text, counts) in self._results.items():
            family = CounterMetricFamily(f"pointsman_{name}", text, labels=("result",))
            for result, count in counts().items():
                family.add_metric((result,), count)
            yield family
        overhead = HistogramMetricFamily(
            "pointsman_overhead_seconds", "From arrival of a request to its first attempt."
        )
        overhead.add_metric((), self.overhead.buckets(), self.overhead.sum)
        yield overhead
        first = HistogramMetricFamily(
            "pointsman_first_byte_seconds",
            "From an attempt to the first byte of its answer.",
            labels=("upstream",),
        )
        for upstream, histogram in list(self._first_byte.items()):
            first.add_metric((upstream,), histogram.buckets(), histogram.sum)
        yield first

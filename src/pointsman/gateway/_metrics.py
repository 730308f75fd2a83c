"""Prometheus metrics of the gateway.

Counted in plain numbers, and put into Prometheus' shape when someone looks: an increment costs 0.1 µs, a
cached child of a ``prometheus_client`` counter 0.6, and every request makes seven.
"""

from __future__ import annotations

import logging
import platform
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics_page
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from pointsman import __version__
from pointsman.decision.decision import Decision
from pointsman.gateway._failures import Failure
from pointsman.gateway.metric_table import METRICS, OF_MODELS
from pointsman.gateway.upstream import Target
from pointsman.guidance import GuidanceDecision
from pointsman.model_choice.chains import LOWER_TIER, Pool
from pointsman.stores.ledger.port import Attempt, may_be_paid
from pointsman.stores.ledger.turns import cost, usage
from pointsman.vocabulary import ModelSpec, Tier
from pointsman.wire.project import traceparent_of

__all__ = ["LowerTiers", "Metrics"]

log = logging.getLogger(__name__)

#: Decisions and attempts counted at once: many in a row cost a quarter of each in its turn.
_BATCH: Final = 256


#: Series of one metric at most. Labels come from the configuration; a mistake must not fill the memory.
_MOST_SERIES: Final = 2_000
_OTHER: Final = "other"
_STATUS_CLASS: Final = ("none", "1xx", "2xx", "3xx", "4xx", "5xx")
_OPENMETRICS: Final = "application/openmetrics-text"
#: Codes of reasons for which a decision changes the model of a session (``model_choice.settle``).
_SWITCHES: Final = {"routing.up": "up", "routing.down": "down", "routing.unable": "unable"}

#: Families of such codes that have a metric of their own: ``projects.observe``, ``escalation.long``.
_FAMILIES: Final = {"projects": "projects", "escalation": "escalations"}

#: Seconds until a kind of request that a lower tier answers is told again.
_AGAIN: Final = 600.0

_OF_KIND: Final = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}
#: One value, or values by the only label of the metric.
Reading: TypeAlias = Callable[[], float | Mapping[str, float]]


class _Served(NamedTuple):
    """A decided request that has ended."""

    decision: Decision
    model: str  # that answered; empty where none did
    status: int  # as sent; 0: none was
    seconds: float
    at: float  # when it ended, in seconds since the epoch


class _Histogram:
    __slots__ = ("bounds", "counts", "exemplars", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0
        self.exemplars: dict[int, Exemplar] = {}  # the latest, by bucket

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def buckets(self) -> Iterator[tuple[str, float] | tuple[str, float, Exemplar]]:
        ends = [*map(str, self.bounds), "+Inf"]
        for place, (end, count) in enumerate(zip(ends, accumulate(self.counts), strict=True)):
            exemplar = self.exemplars.get(place)
            yield (end, float(count)) if exemplar is None else (end, float(count), exemplar)


def _callers_trace(decision: Decision) -> str:
    """Return the id of the trace that a request belongs to, where its caller records that."""
    parent = traceparent_of(decision.input.traceparent)
    return parent.trace_id if parent is not None and parent.is_sampled else ""


class _Given(CollectorRegistry):
    """Metrics that were collected elsewhere."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        super().__init__()
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


class Metrics(Collector):
    """Counts of one gateway. Labels come from the configuration alone, so their number is bounded."""

    def __init__(self) -> None:
        self.overhead = _Histogram(METRICS["overhead_seconds"].buckets)
        self._histograms: dict[str, dict[tuple[str, ...], _Histogram]] = {
            name: {} for name, spec in METRICS.items() if spec.kind == "histogram"
        }
        self._histograms["overhead_seconds"][()] = self.overhead
        self._counts: dict[str, defaultdict[tuple[str, ...], float]] = {
            name: defaultdict(float, dict.fromkeys(spec.known, 0.0))
            for name, spec in METRICS.items()
            if spec.kind == "counter"
        }
        #: Requests by the caller's format and the status sent, since ``requests`` was last asked for.
        self.responses: defaultdict[tuple[str, int], int] = defaultdict(int)
        #: Decisions that a cheap model serves because another one agrees: that is no fallback.
        self._agreed: set[str] = set()
        self._waiting: list[Decision | Attempt | _Served] = []
        #: Is told of each decision and attempt too; must neither block nor raise (``request_log``).
        self.listener: Callable[[Decision | Attempt], None] | None = None
        #: Returns the id of the trace in which a request is recorded, for exemplars; empty where in none.
        self.trace_of: Callable[[Decision], str] = _callers_trace
        #: Returns the metrics of all processes of this gateway as those of one; None where there is one.
        self.of_all: Callable[[], Awaitable[Sequence[Metric]]] | None = None
        self._models: Mapping[str, ModelSpec] = {}
        self._readings: dict[str, Reading] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        """Add to a counter: its name, then its labels."""
        series = self._counts[name]
        if labels not in series and len(series) >= _MOST_SERIES:
            self._counts["series_dropped"][()] += 1
            labels = (_OTHER,) * len(labels)
        series[labels] += by

    def price(self, models: Mapping[str, ModelSpec]) -> None:
        """Take the prices of models, by name, for requests from now on."""
        self._count_waiting()
        self._models = models
        for model in models.values():
            self._show(model)

    def _show(self, model: ModelSpec) -> None:
        """Show the series of a model at 0, before the first of them is counted."""
        for name, values in OF_MODELS.items():
            for value in values:
                self.count(name, *filter(None, (model.name, value)), by=0)
        if model.cost(0, 0, 0) is not None:  # an unknown cost is no cost of 0
            self.count("cost", model.name, by=0)
        self.count("attempts", model.upstream, model.name, "ok", by=0)
        self._histogram("request_duration_seconds", (model.name, "2xx"))
        self._histogram("first_byte_seconds", (model.upstream,))

    def watch(self, name: str, read: Reading) -> None:
        """Read a metric when someone looks: one value, or values by its only label."""
        if name not in METRICS:
            raise KeyError(name)
        self._readings[name] = read

    def seen(self, entry: Decision | Attempt) -> None:
        """Count a decision or an attempt."""
        if self.listener is not None:
            self.listener(entry)
        waiting = self._waiting
        waiting.append(entry)
        if len(waiting) >= _BATCH:
            self._count_waiting()

    def note_agreed(self, decision: str) -> None:
        """Note the id of a decision that a cheap model serves because another one agrees."""
        if len(self._agreed) >= _MOST_SERIES:  # whose callers left before they were served
            self._agreed.clear()
        self._agreed.add(decision)

    def served(self, decision: Decision, model: str, status: int, seconds: float) -> None:
        """Count a decided request that has ended.

        Args:
            decision: Of the request.
            model: Configured name of the model that answered; empty if none did.
            status: As sent; 0 if the caller left before.
            seconds: From its arrival.
        """
        self._waiting.append(_Served(decision, model, status, seconds, time.time()))

    def recorded(self, model: str, status: int, seconds: float, trace: str, at: float) -> None:
        """Note the trace in which a request is recorded, for the exemplar of its duration.

        Args:
            model: Configured name of the model that answered; empty if none did.
            status: As sent; 0 if the caller left before.
            seconds: From its arrival.
            trace: Id in hexadecimal.
            at: When it ended, in seconds since the epoch.
        """
        labels = model or "none", _STATUS_CLASS[status // 100]
        histogram = self._histogram("request_duration_seconds", labels)
        bucket = bisect_left(histogram.bounds, seconds)
        histogram.exemplars[bucket] = Exemplar({"trace_id": trace}, seconds, at)

    def _count_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        responses, self.responses = self.responses, defaultdict(int)
        for (wire, status), number in responses.items():
            self.count("requests", wire, f"{status // 100}xx", by=number)
        for entry in waiting:
            if isinstance(entry, Decision):
                self._decision(entry)
            elif isinstance(entry, Attempt):
                self._attempt(entry)
            else:
                self._served(entry)

    def _histogram(self, name: str, labels: tuple[str, ...]) -> _Histogram:
        series = self._histograms[name]
        if labels not in series and len(series) >= _MOST_SERIES:
            self._counts["series_dropped"][()] += 1
            labels = (_OTHER,) * len(labels)
        found = series.get(labels)
        return found or series.setdefault(labels, _Histogram(METRICS[name].buckets))

    def _served(self, served: _Served) -> None:
        decision, chain = served.decision, served.decision.chain
        labels = served.model or "none", _STATUS_CLASS[served.status // 100]
        self._histogram("request_duration_seconds", labels).observe(served.seconds)
        if trace := self.trace_of(decision):
            self.recorded(served.model, served.status, served.seconds, trace, served.at)
        if served.model and chain and served.model != chain[0]:
            if decision.id in self._agreed:
                self._agreed.discard(decision.id)
            else:
                self.count("switches", "fallback")

    def _decision(self, decision: Decision) -> None:
        tier = decision.tier
        self.count("decisions", tier.tier if tier else "none", tier.stage if tier else "none")
        if decision.domains:
            self.count("domains", decision.domains.effective.primary.domain or "none")
        if decision.guidance:
            self._guidance(decision.guidance)
        if selected := decision.capabilities:
            self.count("capabilities", selected.strategy, selected.result)
            if tools := selected.tools:
                self.count("tools", "kept", by=len(tools.kept))
                self.count("tools", "cut", by=tools.offered - len(tools.kept))
        for reason in decision.abstained:
            self.count("abstained", reason.code)
        for reason in decision.reasons:
            if reason.code in _SWITCHES:
                self.count("switches", _SWITCHES[reason.code])
            family, _, which = reason.code.partition(".")
            if family in _FAMILIES:
                self.count(_FAMILIES[family], which)
        if decision.refused:
            self.count("refused", tier.tier if tier else "none")

    def _guidance(self, guidance: GuidanceDecision) -> None:
        result = "given" if guidance.injection else "withheld"
        for firing in guidance.firings:
            self.count("guidance", firing.classifier, firing.rung, result)
        if guidance.firings:
            self.count("guidance_arms", guidance.arm)

    def _attempt(self, attempt: Attempt) -> None:
        model = attempt.model
        self.count("attempts", attempt.upstream, model, attempt.error or "ok")
        if attempt.first_byte_ms is not None:
            first_byte = self._histogram("first_byte_seconds", (attempt.upstream,))
            first_byte.observe(attempt.first_byte_ms / 1e3)
        if attempt.input_tokens:
            self.count("tokens", model, "input", by=attempt.input_tokens)
        if attempt.cached_tokens:
            self.count("tokens", model, "cached", by=attempt.cached_tokens)
        if attempt.output_tokens:
            self.count("tokens", model, "output", by=attempt.output_tokens)
        if attempt.written_tokens:
            self.count("tokens", model, "written", by=attempt.written_tokens)
        used = usage(attempt)
        if used is None:
            if may_be_paid(attempt):
                self.count("unmetered", model)
        elif (paid := cost(self._models.get(model), used)) is None:
            self.count("unpriced", model)
        else:
            self.count("cost", model, by=paid)

    def families(self) -> list[Metric]:
        """Return all metrics of this process."""
        return list(self._registry.collect())

    def page(self) -> bytes:
        """Return the page in Prometheus' text format."""
        return generate_latest(self._registry)

    async def page_of_all(self, accept: str) -> tuple[bytes, str]:
        """Return the page of all processes of this gateway; else as ``page_for``."""
        return self.page_for(accept, None if self.of_all is None else _Given(await self.of_all()))

    def page_for(self, accept: str, registry: CollectorRegistry | None = None) -> tuple[bytes, str]:
        """Return the page and its media type: OpenMetrics, with exemplars, where a scraper accepts that."""
        shown = registry or self._registry
        if _OPENMETRICS in accept:
            return openmetrics_page(shown), CONTENT_TYPE_LATEST  # type: ignore[no-untyped-call]
        return generate_latest(shown), CONTENT_TYPE_PLAIN_0_0_4

    def collect(self) -> Iterator[Metric]:
        """Yield everything in Prometheus' shape (``prometheus_client.registry.Collector``)."""
        self._count_waiting()
        for name, spec in METRICS.items():
            family = _OF_KIND[spec.kind](f"pointsman_{name}", spec.help, labels=spec.labels)
            if isinstance(family, HistogramMetricFamily):
                for labels, each in list(self._histograms[name].items()):
                    family.add_metric(labels, list(each.buckets()), each.sum)
            else:
                for labels, value in self._values(name):
                    family.add_metric(labels, value)
            yield family

    def _values(self, name: str) -> Iterator[tuple[tuple[str, ...], float]]:
        if name == "build_info":
            yield (__version__, platform.python_version()), 1.0
        elif name not in self._readings:
            yield from list(self._counts.get(name, {}).items())
        elif isinstance(values := self._readings[name](), Mapping):
            yield from (((label,), value) for label, value in values.items())
        else:
            yield (), values


class LowerTiers:
    """Counts the requests that a model of a lower tier answered, and logs each kind of them once in a while.

    A kind is a tier, a format, features, the model that answered, and why others did not.
    """

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._clock = clock
        self._next: dict[tuple[object, ...], float] = {}

    def note(
        self,
        pools: Mapping[Tier, Pool],
        decision: Decision,
        target: Target,
        left_out: Sequence[tuple[Target, Failure]],
    ) -> None:
        """Note the model that answered a request.

        Args:
            pools: The models of each tier.
            decision: Of the request.
            target: The model that answered.
            left_out: The models due before it, and why they did not answer.
        """
        planned = next((reason for reason in decision.reasons if reason.code == LOWER_TIER), None)
        if decision.tier is None or (planned is None and not left_out):
            return
        tier, served = decision.tier.tier, _highest(pools, target.model.name)
        if served is None or served.rank >= tier.rank:
            return
        self._metrics.count("lower_tier", tier, served)
        asked = decision.input
        kinds = ((other.model.name, failure.kind) for other, failure in left_out)
        kind = (tier, asked.format, target.model.name, *sorted(asked.features), *kinds)
        now = self._clock()
        if now < self._next.get(kind, now):
            return
        self._next[kind] = now + _AGAIN
        why = [planned.detail] if planned else []
        why += [
            f'"{other.model.name}" did not answer: {failure.fault.message}' for other, failure in left_out
        ]
        needs = f" with {', '.join(asked.features)}" if asked.features else ""
        log.warning(
            'a request of tier %s in format %s%s was answered by "%s" of tier %s: %s (decision %s)',
            tier,
            asked.format,
            needs,
            target.model.name,
            served,
            "; ".join(why),
            decision.id,
        )


def _highest(pools: Mapping[Tier, Pool], model: str) -> Tier | None:
    """The highest tier that has a model."""
    return max(
        (tier for tier, pool in pools.items() if any(entry.model == model for entry in pool)),
        key=lambda tier: tier.rank,
        default=None,
    )

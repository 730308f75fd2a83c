"""What ``/metrics`` shows. Children are looked up by label once and kept: 0.5 µs an increment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from pointsman.decision import Decision
from pointsman.gateway.wire import Usage

__all__ = ["Metrics"]

#: Seconds. A decision takes tens of microseconds; one that asked a model, up to its timeout.
_OVERHEAD: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.05, 0.25, 1.0)
#: Seconds. From a cached short prompt to a model that thinks for minutes.
_FIRST_BYTE: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Metrics:
    """Counters of one gateway. Labels come from the configuration only, so their number is bounded."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = self._counter("requests", "Requests answered.", "format", "status")
        self._decisions = self._counter("decisions", "Decisions by tier and stage.", "tier", "stage")
        self._abstained = self._counter("abstained", "Parts of decisions that failed open.", "reason")
        self._attempts = self._counter("attempts", "Tries of an upstream.", "upstream", "model", "result")
        self._tokens = self._counter("tokens", "Tokens as upstreams reported them.", "model", "kind")
        self.disconnects = self._counter("disconnects", "Requests whose caller went away.")
        self.reloads = self._counter("reloads", "Configurations read again.", "result")
        self.overhead = Histogram(
            "pointsman_overhead_seconds",
            "From arrival of a request to its first attempt.",
            registry=self.registry,
            buckets=_OVERHEAD,
        )
        self._first_byte = Histogram(
            "pointsman_first_byte_seconds",
            "From an attempt to the first byte of its answer.",
            ("upstream",),
            registry=self.registry,
            buckets=_FIRST_BYTE,
        )
        self._children: dict[tuple[str, ...], Callable[[float], None]] = {}

    def gauge(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """Add a gauge that is read when somebody looks."""
        Gauge(f"pointsman_{name}", help_text, registry=self.registry).set_function(read)

    def request(self, wire: str, status: int) -> None:
        """Count a request answered."""
        self._add(1, self._requests, "requests", wire, f"{status // 100}xx")

    def decision(self, decision: Decision) -> None:
        """Count a decision."""
        tier = decision.tier
        self._add(
            1, self._decisions, "decisions", tier.tier if tier else "none", tier.stage if tier else "none"
        )
        for reason in decision.abstained:
            self._add(1, self._abstained, "abstained", reason.code)

    def attempt(self, upstream: str, model: str, result: str, first_byte: float | None) -> None:
        """Count an attempt; ``result`` is "ok" or a class of failure."""
        self._add(1, self._attempts, "attempts", upstream, model, result)
        if first_byte is not None:
            self._add(first_byte, self._first_byte, "first_byte", upstream)

    def tokens(self, model: str, usage: Usage) -> None:
        """Count the tokens of an answer."""
        if usage.input:
            self._add(usage.input, self._tokens, "tokens", model, "input")
        if usage.cached:
            self._add(usage.cached, self._tokens, "tokens", model, "cached")
        if usage.output:
            self._add(usage.output, self._tokens, "tokens", model, "output")

    def page(self) -> bytes:
        """Return the page for Prometheus."""
        return generate_latest(self.registry)

    def _counter(self, name: str, help_text: str, *labels: str) -> Counter:
        return Counter(f"pointsman_{name}", help_text, labels, registry=self.registry)

    def _add(self, amount: float, metric: Counter | Histogram, *key: str) -> None:
        add = self._children.get(key)
        if add is None:
            child = metric.labels(*key[1:])
            add = self._children[key] = child.inc if isinstance(child, Counter) else child.observe
        add(amount)

"""Every metric of the gateway: name, kind, help and labels.

``_metrics`` counts by this table; the Grafana dashboard in ``deploy/`` is generated from it
(``scripts/monitoring.py``); the alert rules and the table in ``docs/reference/http.md`` are checked with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Final, Literal, NamedTuple

from pointsman.vocabulary import Stage, Tier, WireFormat

__all__ = ["METRICS", "OF_MODELS", "PROCESS", "MetricSpec", "sample_names"]


class MetricSpec(NamedTuple):
    """One metric. Counters are exposed with the suffix ``_total``."""

    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()  # upper bounds, in the unit of the name
    known: tuple[tuple[str, ...], ...] = ()  # values of the labels that are shown at 0 from the start


#: Seconds. A decision takes tens of microseconds; one that asked a model, up to its timeout.
_OVERHEAD: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.05, 0.25, 1.0)
#: Seconds. From a cached short prompt to a model that thinks for minutes.
_FIRST_BYTE: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
#: Seconds. From a short answer of a small model to an agent's longest turn.
_DURATION: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


def _counter(text: str, *labels: str, known: Iterable[tuple[str, ...]] = ()) -> MetricSpec:
    return MetricSpec("counter", text, labels, known=tuple(known))


def _gauge(text: str, *labels: str) -> MetricSpec:
    return MetricSpec("gauge", text, labels)


def _each(*values: str) -> list[tuple[str, ...]]:
    """The series of a metric with one label."""
    return [(value,) for value in values]


#: Parts of a decision that may fail open (``decision.engine``).
_PARTS: Final = ("tiers", "domains", "guidance", "capabilities", "model_choice", "additions")
_TIERS: Final = tuple(map(str, Tier))

#: Metrics with a series for each configured model from the start, and the values of their other labels.
#: Without a first sample at 0 Prometheus sees no increase in the first failure.
OF_MODELS: Final[Mapping[str, tuple[str, ...]]] = {
    "tokens": ("input", "cached", "output", "written"), "unpriced": ("",), "unmetered": ("",),
}  # fmt: skip

#: By name without the prefix ``pointsman_`` and the suffix ``_total``.
METRICS: Final[Mapping[str, MetricSpec]] = {
    "build_info": _gauge("Version of the gateway and of Python; always 1.", "version", "python"),
    "policy_info": _gauge("Version of the policy in effect; always 1.", "version"),
    "requests": _counter(
        "Requests answered.", "format", "status", known=product(WireFormat, ("2xx", "4xx", "5xx"))
    ),
    "requests_in_progress": _gauge("Requests in progress."),
    "request_duration_seconds": MetricSpec(
        "histogram",
        "From arrival of a request to the end of its answer, by the model that answered.",
        ("model", "status"),
        _DURATION,
    ),
    "body_bytes_held": _gauge("Bytes of the bodies of requests in progress."),
    "decisions": _counter("Decisions.", "tier", "stage", known=product(_TIERS, (Stage.RULES,))),
    "refused": _counter("Requests that no model can serve.", "tier", known=_each(*_TIERS)),
    "lower_tier": _counter("Downgrades: requests answered by a model of a lower tier.", "tier", "served"),
    "switches": _counter(
        "Changes of the model of a session, by reason.",
        "reason",
        known=_each("up", "down", "unable", "fallback"),
    ),
    "domains": _counter("Decisions by the primary domain of the conversation.", "domain"),
    "projects": _counter("Decisions in which the file of projects had a say, by reason.", "reason"),
    "escalations": _counter("Decisions about an agent in trouble, by reason.", "reason"),
    "guidance": _counter("Hints, given or withheld.", "classifier", "rung", "result"),
    "guidance_arms": _counter("Decisions with a hint due, by arm of the experiment.", "arm"),
    "capabilities": _counter("Selections of capabilities.", "strategy", "result"),
    "tools": _counter(
        "Tools offered by requests from which some are cut.", "result", known=_each("kept", "cut")
    ),
    "abstained": _counter(
        "Parts of decisions that failed open.",
        "reason",
        known=_each(*(f"{part}.failed" for part in _PARTS)),
    ),
    "attempts": _counter(
        "Tries of an upstream, and models that were not asked.", "upstream", "model", "result"
    ),
    "circuit_open": _gauge("1 while the circuit breaker of an upstream is open.", "upstream"),
    "tokens": _counter("Tokens as upstreams reported them.", "model", "kind"),
    "cost": _counter("Cost of attempts with usage, at the configured prices.", "model"),
    "unpriced": _counter("Attempts of unknown cost: their model has no price.", "model"),
    "unmetered": _counter("Answers of unknown cost: the upstream reported no usage.", "model"),
    "spent": _counter("Money that keys with limits have spent, as settled.", "key", "team"),
    "limited": _counter("Requests refused by a limit of their key or its team.", "key", "team", "limit"),
    "budget_settlements_lost": _counter("Settlements that did not reach the budget store."),
    "continued": _counter(
        "Requests that go on from a response the upstream keeps.",
        "before",
        known=_each("known", "unknown"),
    ),
    "replayed": _counter(
        "Requests answered with the answer to an earlier one of their Idempotency-Key.", known=[()]
    ),
    "passed": _counter("Requests passed on to an upstream as they came.", "upstream", "method", "result"),
    "overhead_seconds": MetricSpec(
        "histogram", "From arrival of a request to its first attempt.", (), _OVERHEAD
    ),
    "first_byte_seconds": MetricSpec(
        "histogram", "From an attempt to the first byte of its answer.", ("upstream",), _FIRST_BYTE
    ),
    "ext_proc": _counter("Requests that Envoy showed, by what became of them.", "result"),
    "shadow_decisions": _counter("Turns decided under the shadow policy too.", "result"),
    "agreements": _counter(
        "Requests for which cheap models were asked and compared, by table and result.", "rule", "result"
    ),
    "shadow_answers": _counter("Requests sampled for the shadow model.", "model", "result"),
    "disconnects": _counter("Requests whose caller went away.", known=[()]),
    "internal_errors": _counter("Requests that failed inside the gateway.", known=[()]),
    "reloads": _counter("Configurations read again.", "result", known=_each("done", "failed")),
    "ledger_lost": _counter("Rows the ledger could not keep."),
    "ledger_removed": _counter(
        "Decisions, and entries that belong to none, removed by retention.",
        "reason",
        known=_each("age", "size"),
    ),
    "ledger_spilled": _counter("Rows that waited in the spill file: the database was away or slow."),
    "ledger_waiting": _gauge("Rows that wait to be written to the ledger."),
    "session_failures": _counter("Times the memory of a session could not be read, kept or written down."),
    "workers": _gauge("Processes that serve the address, of which those that have begun to."),
    "worker_restarts": _counter("Processes that ended by themselves and were replaced.", known=[()]),
    "stores_failing": _gauge("Stores that fail just now."),
    "spans": _counter("Spans for OpenTelemetry.", "result", known=_each("sent", "lost")),
    "series_dropped": _counter(
        "Counts whose labels were replaced: the metric had too many series.", known=[()]
    ),
}

#: What ``prometheus_client`` adds of the process, where the system has ``/proc``.
PROCESS: Final = (
    "process_virtual_memory_bytes",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_cpu_seconds_total",
    "process_open_fds",
    "process_max_fds",
)


def sample_names() -> frozenset[str]:
    """Return the name of every series that ``/metrics`` may show, as queries name them."""
    found = set(PROCESS)
    for name, spec in METRICS.items():
        whole = f"pointsman_{name}"
        match spec.kind:
            case "counter":
                found.add(f"{whole}_total")
            case "gauge":
                found.add(whole)
            case "histogram":
                found |= {f"{whole}_bucket", f"{whole}_sum", f"{whole}_count"}
    return frozenset(found)

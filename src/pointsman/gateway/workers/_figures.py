"""The published state of each worker, and the metrics of several workers as those of one gateway.

Counters and histograms add up. Gauges add up too, but for those that say whether or when something is so:
of them the largest holds. A worker that has ended leaves its counters and histograms to its successor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from prometheus_client.core import Metric
from prometheus_client.samples import Exemplar, Timestamp

from pointsman.gateway._live_state import Family, Published

__all__ = ["SUPERVISOR", "added_up", "families_of", "lasting", "publish", "read"]

_LARGEST: Final = frozenset({
    "pointsman_build_info", "pointsman_policy_info", "pointsman_circuit_open", "pointsman_stores_failing",
    "process_start_time_seconds", "process_max_fds",
})  # fmt: skip
_ADDED_UP: Final = frozenset({"counter", "histogram"})

#: The supervisor publishes as this one.
SUPERVISOR: Final = 0

_Key = tuple[str, tuple[tuple[str, str], ...]]


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Published).decode


def families_of(metrics: Iterable[Metric]) -> list[Family]:
    """Return metrics as plain values."""
    return [
        (
            one.name,
            one.documentation,
            one.type,
            [(each.name, each.labels, each.value) for each in one.samples],
        )
        for one in metrics
    ]


def lasting(families: Iterable[Family]) -> list[Family]:
    """Return the metrics of a worker that outlive it: counters and histograms, without ``process_*``."""
    return [each for each in families if each[2] in _ADDED_UP and each[0].startswith("pointsman_")]


def added_up(of_workers: Sequence[Iterable[Family]], own: Iterable[Metric] = ()) -> list[Metric]:
    """Return the metrics of all workers as those of one; ``own`` are one's with their exemplars."""
    exemplars = {_key(each.name, each.labels): each.exemplar for one in own for each in one.samples}
    found: dict[str, Metric] = {}
    sums: dict[str, dict[_Key, float]] = {}
    for family in (each for families in of_workers for each in families):
        name, text, kind, samples = family
        found.setdefault(name, Metric(name, text, kind))
        values = sums.setdefault(name, {})
        for sample, labels, value in samples:
            key = _key(sample, labels)
            before = values.get(key, 0.0)
            values[key] = max(before, value) if name in _LARGEST else before + value
    for name, values in sums.items():
        for key, value in values.items():
            _add(found[name], key, value, exemplars.get(key))
    return list(found.values())


def _add(metric: Metric, key: _Key, value: float, exemplar: Exemplar | None) -> None:
    timestamp: Timestamp | None = None
    metric.add_sample(key[0], dict(key[1]), value, timestamp, exemplar)


def _key(sample: str, labels: dict[str, str]) -> _Key:
    return sample, tuple(labels.items())


def publish(folder: Path, number: int, mine: Published) -> None:
    """Publish the state of a worker, atomically."""
    fresh = folder / f"{number}.fresh"
    fresh.write_bytes(_encode(mine))
    fresh.replace(folder / f"{number}.json")


def read(folder: Path, number: int) -> Published | None:
    """Return the published state of a worker; None if it has published nothing yet."""
    try:
        return _decode((folder / f"{number}.json").read_bytes())
    except (OSError, msgspec.DecodeError):
        return None

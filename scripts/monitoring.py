"""Writes the Grafana dashboard in deploy/ from the table of metrics.

.venv/bin/python scripts/monitoring.py
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pointsman.gateway.metric_table import METRICS, MetricSpec

DASHBOARD: Final = Path(__file__).resolve().parents[1] / "deploy" / "grafana" / "pointsman.json"

#: Every metric of the table stands in one section.
SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Requests": (
        *("requests", "request_duration_seconds", "requests_in_progress", "overhead_seconds", "disconnects"),
        *("internal_errors", "passed", "replayed", "continued", "body_bytes_held"),
    ),
    "Models and upstreams": (
        *("attempts", "first_byte_seconds", "circuit_open", "lower_tier", "switches", "refused"),
        *("tokens", "cost", "unpriced", "unmetered"),
    ),
    "Keys and teams": ("spent", "limited", "budget_settlements_lost"),
    "Decisions": (
        *("decisions", "domains", "projects", "escalations", "guidance", "guidance_arms"),
        *("capabilities", "tools", "abstained", "shadow_decisions", "shadow_answers", "agreements"),
        "ext_proc",
    ),
    "The gateway itself": (
        *("build_info", "policy_info", "reloads", "stores_failing", "ledger_lost", "ledger_spilled"),
        *("ledger_waiting", "ledger_removed", "session_failures", "spans", "workers", "worker_restarts"),
        "series_dropped",
    ),
}
#: Units as Grafana names them, where the name of the metric does not say it.
UNITS: Final = {"body_bytes_held": "bytes", "cost": "currency", "spent": "currency"}
#: Panels beside each other, and the grid of a dashboard in columns.
BESIDE, GRID, HEIGHT = 3, 24, 8
SCHEMA: Final = 39  # of dashboards, Grafana 11
SELECTED: Final = '{job=~"$job"}'


def queries(name: str, spec: MetricSpec) -> Iterator[tuple[str, str]]:
    """Yield the queries of a panel and the legend of each."""
    by, legend = ", ".join(spec.labels), " ".join(f"{{{{{label}}}}}" for label in spec.labels)
    whole = f"pointsman_{name}"
    match spec.kind:
        case "counter":
            grouped = f"sum by ({by})" if by else "sum"
            yield f"{grouped} (rate({whole}_total{SELECTED}[$__rate_interval]))", legend or "per second"
        case "gauge":
            grouped = f"max by ({by})" if by else "sum"
            yield f"{grouped} ({whole}{SELECTED})", legend or name.replace("_", " ")
        case "histogram":
            # Of the labels the first: quantiles by two would be too many lines.
            grouped = ", ".join(("le", *spec.labels[:1]))
            first = f"{{{{{spec.labels[0]}}}}} " if spec.labels else ""
            for quantile in (0.5, 0.95):
                rate = f"sum by ({grouped}) (rate({whole}_bucket{SELECTED}[$__rate_interval]))"
                yield f"histogram_quantile({quantile}, {rate})", f"{first}p{quantile * 100:.0f}"


def unit(name: str, spec: MetricSpec) -> str:
    if name in UNITS:
        return UNITS[name]
    return "s" if spec.kind == "histogram" else "ops" if spec.kind == "counter" else "short"


def panel(name: str, place: int, top: int) -> dict[str, Any]:
    """Return the panel of one metric, the ``place``-th of its section, which begins at ``top``."""
    spec, width = METRICS[name], GRID // BESIDE
    targets = [
        {
            "refId": chr(ord("A") + number),
            "expr": query,
            "legendFormat": legend,
            "exemplar": spec.kind == "histogram",
        }
        for number, (query, legend) in enumerate(queries(name, spec))
    ]
    return {
        "type": "timeseries",
        "title": name.replace("_", " ").capitalize(),
        "description": spec.help,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {
            "x": place % BESIDE * width,
            "y": top + place // BESIDE * HEIGHT,
            "w": width,
            "h": HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": unit(name, spec), "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": targets,
    }


def panels() -> Iterator[dict[str, Any]]:
    top = 0
    for title, names in SECTIONS.items():
        yield {"type": "row", "title": title, "collapsed": False, "panels": [],
               "gridPos": {"x": 0, "y": top, "w": GRID, "h": 1}}  # fmt: skip
        top += 1
        for place, name in enumerate(names):
            yield panel(name, place, top)
        top += -(-len(names) // BESIDE) * HEIGHT


def dashboard() -> str:
    """Return the dashboard, as Grafana imports it."""
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
    job = {
        "name": "job",
        "type": "query",
        "label": "Job",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": "label_values(pointsman_build_info, job)",
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "current": {"text": "All", "value": "$__all"},
    }
    found = {
        "uid": "pointsman",
        "title": "Pointsman",
        "tags": ["pointsman", "llm"],
        "schemaVersion": SCHEMA,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [source, job]},
        "panels": [{"id": number, **each} for number, each in enumerate(panels(), 1)],
    }
    return json.dumps(found, indent=2) + "\n"


if __name__ == "__main__":
    DASHBOARD.write_text(dashboard(), encoding="utf-8")

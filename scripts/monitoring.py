"""Writes the Grafana dashboard and the alert rules in deploy/ from the table of metrics.

.venv/bin/python scripts/monitoring.py            # rewrites both files
.venv/bin/python scripts/monitoring.py --check    # exits with 1 when a file differs

promtool checks the rules where it is installed (Debian: prometheus).
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from pointsman.gateway.metric_table import METRICS, MetricSpec, sample_names

DEPLOY: Final = Path(__file__).resolve().parents[1] / "deploy"
DASHBOARD: Final = DEPLOY / "grafana" / "pointsman.json"
ALERTS: Final = DEPLOY / "prometheus" / "alerts.yaml"

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
NAME: Final = re.compile(r"\b(?:pointsman|process)_\w+")


class Alert(NamedTuple):
    """One alert rule."""

    name: str
    query: str
    lasts: str  # for which it must hold
    severity: str
    summary: str
    action: str  # the first thing to look at


_FAILED = 'sum(rate(pointsman_requests_total{status="5xx"}[5m])) / sum(rate(pointsman_requests_total[5m]))'
_FALLBACK = (
    'sum(rate(pointsman_switches_total{reason="fallback"}[15m])) / sum(rate(pointsman_decisions_total[15m]))'
)
_ABSTAINED = "sum(rate(pointsman_abstained_total[15m])) / sum(rate(pointsman_decisions_total[15m]))"
_FORGOTTEN = "sum(rate(pointsman_session_failures_total[10m])) / sum(rate(pointsman_decisions_total[10m]))"
_OVERHEAD = "histogram_quantile(0.95, sum by (le) (rate(pointsman_overhead_seconds_bucket[10m])))"

#: Thresholds that hold for any gateway; what is normal of costs and durations differs too much between them.
RULES: Final = (
    Alert(
        "PointsmanAbsent",
        "absent(pointsman_build_info)",
        "5m",
        "critical",
        "No gateway answers Prometheus.",
        "Is a gateway running, and may Prometheus read /metrics? With keys, scrapes need one.",
    ),
    Alert(
        "PointsmanRequestsFail",
        f"{_FAILED} > 0.05",
        "10m",
        "critical",
        "More than 5 % of requests end with a status of 500 or above.",
        "Look at the attempts by result, and at the log.",
    ),
    Alert(
        "PointsmanInternalErrors",
        "sum(increase(pointsman_internal_errors_total[10m])) > 0",
        "0m",
        "warning",
        "Requests failed inside the gateway.",
        "The log has a traceback of each.",
    ),
    Alert(
        "PointsmanCircuitOpen",
        "max by (upstream) (pointsman_circuit_open) == 1",
        "5m",
        "warning",
        "The circuit breaker of an upstream is open: others serve its requests where they can.",
        "The log says why it opened; pointsman router doctor asks the upstream.",
    ),
    Alert(
        "PointsmanFallback",
        f"{_FALLBACK} > 0.1",
        "15m",
        "warning",
        "More than 10 % of requests are answered by another model than planned.",
        "Look at the attempts by upstream, model and result.",
    ),
    Alert(
        "PointsmanOverhead",
        f"{_OVERHEAD} > 0.25",
        "10m",
        "warning",
        "One request in twenty waits more than 250 ms for its decision.",
        "Is the processor busy, the session store slow, or the model that verifies tiers?",
    ),
    Alert(
        "PointsmanAbstains",
        f"{_ABSTAINED} > 0.05",
        "15m",
        "warning",
        "Parts of more than 5 % of decisions failed open.",
        "Look at the reasons in pointsman_abstained_total, and at the log.",
    ),
    Alert(
        "PointsmanStoreFails",
        "max(pointsman_stores_failing) > 0",
        "5m",
        "warning",
        "The ledger, the session store or the budget store fails.",
        "/health/ready names it; the log says why.",
    ),
    Alert(
        "PointsmanLedgerLoses",
        "sum(increase(pointsman_ledger_lost_total[10m])) > 0",
        "0m",
        "warning",
        "Rows of the ledger are lost.",
        "Is the disk full or slow, or the database away?",
    ),
    Alert(
        "PointsmanLedgerFull",
        'sum(increase(pointsman_ledger_removed_total{reason="size"}[15m])) > 0',
        "0m",
        "warning",
        "Decisions younger than keep_days are removed: the ledger is larger than max_mb.",
        "Is max_mb in [ledger] large enough for keep_days? The log says what was removed.",
    ),
    Alert(
        "PointsmanBudgetSettlementsLost",
        "sum(increase(pointsman_budget_settlements_lost_total[10m])) > 0",
        "0m",
        "warning",
        "Spent money did not reach its durable record; what was reserved for it stays used.",
        "Was a gateway stopped while Valkey or the database was away?",
    ),
    Alert(
        "PointsmanSessionFailures",
        f"{_FORGOTTEN} > 0.05",
        "10m",
        "warning",
        "The memory of sessions cannot be read or written for more than 5 % of requests.",
        "Is the session store slow or away? /health/ready names it.",
    ),
    Alert(
        "PointsmanPoliciesDiffer",
        "count(count by (version) (pointsman_policy_info)) > 1",
        "15m",
        "warning",
        "Replicas decide by different policies.",
        "Has a replica refused a new configuration? See pointsman_reloads_total and the log.",
    ),
    Alert(
        "PointsmanReloadFailed",
        'sum(increase(pointsman_reloads_total{result="failed"}[10m])) > 0',
        "0m",
        "warning",
        "A changed configuration is invalid; the one before stays in effect.",
        "Run pointsman config check.",
    ),
    Alert(
        "PointsmanUnpriced",
        "sum by (model) (increase(pointsman_unpriced_total[1h])) > 0",
        "0m",
        "info",
        "A model has no price: its cost is unknown.",
        "Set input_per_million and output_per_million under [models].",
    ),
    Alert(
        "PointsmanSpansLost",
        'sum(increase(pointsman_spans_total{result="lost"}[10m])) > 0',
        "10m",
        "info",
        "Spans for OpenTelemetry are lost.",
        "Can the collector be reached?",
    ),
    Alert(
        "PointsmanSeriesDropped",
        "sum(increase(pointsman_series_dropped_total[1h])) > 0",
        "0m",
        "info",
        "A metric has more series than it may.",
        "Look for a label with too many values.",
    ),
    Alert(
        "PointsmanFileDescriptors",
        "process_open_fds / process_max_fds > 0.8 and on (instance, job) pointsman_build_info",
        "10m",
        "warning",
        "More than 80 % of the file descriptors are in use.",
        "Raise the limit (ulimit -n), or lower connections under [server.limits].",
    ),
)


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


def rules() -> str:
    """Return the alert rules, as Prometheus reads them: strings are in JSON's form, which YAML takes."""
    lines = [
        "# Generated by scripts/monitoring.py from the table of metrics; do not edit.",
        "groups:",
        "  - name: pointsman",
        "    rules:",
    ]
    for alert in RULES:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {json.dumps(alert.query)}",
            f"        for: {alert.lasts}",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {json.dumps(alert.summary)}",
            f"          action: {json.dumps(alert.action)}",
        ]
    return "\n".join(lines) + "\n"


def unknown(text: str) -> set[str]:
    """Return the metrics that a file names and that do not exist."""
    return set(NAME.findall(text)) - sample_names()


def promtool() -> int:
    """Let promtool check the rules, where it is installed."""
    tool = shutil.which("promtool")
    if tool is None:
        print("promtool is not installed (Debian: apt-get install prometheus); it has not checked the rules")
        return 0
    return subprocess.run([tool, "check", "rules", str(ALERTS)], check=False).returncode


def main() -> int:
    files = {DASHBOARD: dashboard(), ALERTS: rules()}
    if "--check" not in sys.argv:
        for file, text in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    differing = [file for file, text in files.items() if file.read_text(encoding="utf-8") != text]
    for file in differing:
        print(f"{file.relative_to(DEPLOY.parent)} differs: run scripts/monitoring.py")
    return 1 if differing else promtool()


if __name__ == "__main__":
    sys.exit(main())

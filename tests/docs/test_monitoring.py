"""The dashboard and the alert rules in deploy/: up to date, and every metric that they name exists."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pointsman.gateway.metric_table import METRICS


def loaded() -> Any:
    path = Path(__file__).parents[2] / "scripts" / "monitoring.py"
    spec = importlib.util.spec_from_file_location("monitoring", path)
    assert spec
    assert spec.loader
    script = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = script
    spec.loader.exec_module(script)
    return script


monitoring = loaded()


def test_the_files_are_up_to_date() -> None:
    assert monitoring.DASHBOARD.read_text(encoding="utf-8") == monitoring.dashboard()
    assert monitoring.ALERTS.read_text(encoding="utf-8") == monitoring.rules()


def test_every_metric_has_a_panel_and_every_name_is_a_metric() -> None:
    shown = [name for names in monitoring.SECTIONS.values() for name in names]
    assert sorted(shown) == sorted(METRICS)
    for text in (monitoring.dashboard(), monitoring.rules()):
        assert not monitoring.unknown(text)
    assert monitoring.unknown("rate(pointsman_request_total[5m])") == {"pointsman_request_total"}


@pytest.mark.parametrize("alert", monitoring.RULES, ids=lambda alert: alert.name)
def test_a_rule_says_what_is_wrong_and_where_to_look(alert: Any) -> None:
    assert alert.summary.endswith(".")
    assert alert.action.endswith((".", "?"))
    assert re.fullmatch(r"\d+m", alert.lasts)
    known: set[str] = set()
    for name in monitoring.NAME.findall(alert.query):
        plain = name.removeprefix("pointsman_").removesuffix("_total").removesuffix("_bucket")
        known |= set() if name.startswith("process_") else set(METRICS[plain].labels)
    assert set(re.findall(r"\{(\w+)=", alert.query)) <= known


def test_panels_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in json.loads(monitoring.dashboard())["panels"]]
    cells = [
        (x, y)
        for at in places
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < monitoring.GRID


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_reads_the_rules() -> None:
    command = ["promtool", "check", "rules", str(monitoring.ALERTS)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr

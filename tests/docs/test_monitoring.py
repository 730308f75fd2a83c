"""The dashboard and the alert rules in deploy/: every metric that they name exists, and each has a panel."""

import asyncio
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from pointsman.config import Config
from pointsman.config.shapes import demo_config
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from pointsman.gateway.metric_table import METRICS, sample_names
from support.in_process import ask


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
ALERTS = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yaml"
RULES = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"][0]["rules"]
NAME = re.compile(r"\b(?:pointsman|process)_\w+")


def test_the_dashboard_is_up_to_date() -> None:
    assert monitoring.DASHBOARD.read_text(encoding="utf-8") == monitoring.dashboard()


def unknown(text: str) -> set[str]:
    """The metrics that a text names and that do not exist."""
    return set(NAME.findall(text)) - sample_names()


def test_every_metric_has_a_panel_and_every_name_is_a_metric() -> None:
    shown = [name for names in monitoring.SECTIONS.values() for name in names]
    assert sorted(shown) == sorted(METRICS)
    for text in (monitoring.dashboard(), ALERTS.read_text(encoding="utf-8")):
        assert not unknown(text)
    assert unknown("rate(pointsman_request_total[5m])") == {"pointsman_request_total"}


@pytest.mark.parametrize("alert", RULES, ids=lambda alert: str(alert["alert"]))
def test_a_rule_says_what_is_wrong_and_where_to_look(alert: dict[str, Any]) -> None:
    assert alert["annotations"]["summary"].endswith(".")
    assert alert["annotations"]["action"].endswith((".", "?"))
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert re.fullmatch(r"\d+m", alert["for"])
    known: set[str] = set()
    for name in NAME.findall(alert["expr"]):
        plain = name.removeprefix("pointsman_").removesuffix("_total").removesuffix("_bucket")
        known |= set() if name.startswith("process_") else set(METRICS[plain].labels)
    assert set(re.findall(r"\{(\w+)=", alert["expr"])) <= known


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
    command = ["promtool", "check", "rules", str(ALERTS)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


#: Panels of what only traffic names: domains, hints, endpoints, tools of a registry. No alert asks for them.
OF_TRAFFIC = {
    *("passed", "lower_tier", "spent", "limited", "domains", "projects", "escalations", "guidance"),
    *("guidance_arms", "capabilities", "shadow_decisions", "shadow_answers", "agreements", "ext_proc"),
}
SELECTOR = re.compile(r"\b((?:pointsman|process)_\w+)(?:\{([^}]*)\})?")


def selected(query: str) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    """The series of a query, each with the labels that it asks for."""
    return {
        (name, frozenset(re.findall(r'(\w+)="([^"]*)"', labels)))
        for name, labels in SELECTOR.findall(query.replace('{job=~"$job"}', ""))
    }


def queries_of_the_dashboard() -> list[str]:
    panels = json.loads(monitoring.dashboard())["panels"]
    return [
        target["expr"]
        for panel in panels
        for target in panel.get("targets", ())
        if not any(re.search(rf"pointsman_{name}(_total)?\b", target["expr"]) for name in OF_TRAFFIC)
    ]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, frozenset[tuple[str, str]]]]:
    """The series of a gateway that has served nothing."""
    ledger = tmp_path_factory.mktemp("fresh") / "ledger.sqlite"

    def config() -> Config:
        found = demo_config()
        return msgspec.structs.replace(found, ledger=msgspec.structs.replace(found.ledger, path=ledger))

    with closing(Builder(config)) as built:
        page = asyncio.run(ask(Gateway(built()), "/metrics", b"", method="GET")).body.decode()
    families = text_string_to_metric_families(page)
    return [(each.name, frozenset(each.labels.items())) for one in families for each in one.samples]


@pytest.mark.parametrize("query", [alert["expr"] for alert in RULES] + queries_of_the_dashboard())
def test_what_is_asked_is_there_before_anything_happened(
    query: str, fresh: list[tuple[str, frozenset[tuple[str, str]]]]
) -> None:
    """Prometheus sees no increase from nothing to 1: the first failure would raise no alert."""
    for name, labels in selected(query):
        found = [given for shown, given in fresh if shown == name and labels <= given]
        assert found or name.startswith("process_"), f"{name} {dict(labels)} is not shown by a fresh gateway"

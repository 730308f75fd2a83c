"""Dockerfile, compose.yaml and the files in deploy/ fit the gateway; `make chart` renders the chart."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from pointsman.config import AnyKey, examine
from pointsman.gateway.build import check_shared
from pointsman.upstreams.port import ServerSpec

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "pointsman"
VALUES = sorted([CHART / "values.yaml", *CHART.glob("ci/*-values.yaml")])
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())


def values_of(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    given: dict[str, Any] = yaml.safe_load(file.read_text())
    return {**found, **given}


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "pointsman.toml"
    file.write_text(text)
    return file


@pytest.mark.parametrize("file", VALUES, ids=lambda file: file.stem)
def test_a_set_of_values_fits_the_schema_and_holds_a_valid_configuration(file: Path, tmp_path: Path) -> None:
    values = values_of(file)
    jsonschema.validate(values, json.loads((CHART / "values.schema.json").read_text()))
    loaded = examine(written(tmp_path, values["config"]), AnyKey())
    assert loaded.errors == []
    assert loaded.config is not None
    if values["workers"] > 1:
        check_shared(loaded.config)
    referred = set(re.findall(r"\$\{(\w+)\}", values["config"]))
    assert referred <= {each["name"] for each in values["secrets"]}


def test_the_chart_waits_for_longer_than_the_gateway_drains() -> None:
    values = values_of(CHART / "values.yaml")
    assert values["drainSeconds"] >= ServerSpec().drain_notice + ServerSpec().drain
    assert (CHART / "dashboard.json").resolve() == DEPLOY / "grafana" / "pointsman.json"


def test_the_image_is_run_without_build_tools_by_a_user_without_rights() -> None:
    *_, final = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)
    assert re.search(r"^USER 10001:10001$", final, re.MULTILINE)
    assert "apt-get" not in DOCKERFILE
    assert "pip install" not in final
    assert "STOPSIGNAL SIGTERM" in final
    health = json.loads(re.findall(r"^HEALTHCHECK .*CMD (.*)$", final, re.MULTILINE)[0])
    assert "/health/ready" in health[-1]


def test_only_what_the_image_is_built_from_reaches_the_builder() -> None:
    first, *rest = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] != "#"]
    named = {line[1:] for line in rest if line.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    assert first == "*"
    assert {source for sources in copied for source in sources.split()} == named
    assert all((ROOT / source).exists() for source in named)


def test_the_image_has_what_its_neighbours_need() -> None:
    locked = (ROOT / "requirements" / "image.txt").read_text()
    for package in ("uvicorn", "redis", "psycopg", "opentelemetry-sdk", "grpcio"):
        assert re.search(rf"^{package}==", locked, re.MULTILINE), package


def test_compose_mounts_what_is_there_and_shares_what_two_processes_need() -> None:
    services = COMPOSE["services"]
    assert set(services) == {"gateway", "valkey", "postgres", "prometheus", "grafana"}
    for service in services.values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert (ROOT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"], (
                volume
            )
    loaded = examine(DEPLOY / "docker" / "pointsman.toml", AnyKey())
    assert loaded.errors == []
    assert loaded.config is not None
    check_shared(loaded.config)
    assert loaded.config.ledger.url == "postgresql://pointsman@postgres:5432/pointsman"
    assert loaded.config.sessions.url == "redis://valkey:6379/0"


def test_compose_waits_for_longer_than_the_gateway_drains() -> None:
    gateway = COMPOSE["services"]["gateway"]
    assert (
        int(gateway["stop_grace_period"].removesuffix("s"))
        > ServerSpec().drain_notice + ServerSpec().drain + 10
    )
    assert gateway["read_only"]
    assert gateway["cap_drop"] == ["ALL"]


def test_no_secret_is_written_down() -> None:
    lines = (DEPLOY / "docker" / "env.example").read_text().splitlines()
    assert {line.partition("=")[2] for line in lines if not line.startswith("#")} == {""}
    asked = set(re.findall(r"\$\{(\w+)", (ROOT / "compose.yaml").read_text()))
    asked |= set(re.findall(r"\$\{(\w+)\}", (DEPLOY / "docker" / "pointsman.toml").read_text()))
    assert asked <= {line.partition("=")[0] for line in lines}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_the_unit_is_valid(tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / "pointsman.service").read_text()
    unit = tmp_path / "pointsman.service"
    unit.write_text(text.replace("/opt/pointsman/bin/pointsman serve", "/bin/true serve"))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if "pointsman.service" in line] == []


def test_the_unit_waits_for_longer_than_the_gateway_drains() -> None:
    text = (DEPLOY / "systemd" / "pointsman.service").read_text()
    [seconds] = re.findall(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)
    assert int(seconds) > ServerSpec().drain_notice + ServerSpec().drain + 10
    for line in ("DynamicUser=yes", "ProtectSystem=strict", "NoNewPrivileges=yes", "KillMode=mixed"):
        assert line in text.splitlines()

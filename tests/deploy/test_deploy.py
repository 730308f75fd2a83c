"""Dockerfile, compose.yaml and the files in deploy/ fit the gateway; `make chart` renders the chart."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from pointsman.config import AnyKey, examine
from pointsman.gateway.build import check_shared
from pointsman.upstreams.port import ServerSpec

#: Runs the metadata hook as hatchling does, which is not installed here.
HOOK = """
import runpy, sys, types
module = types.ModuleType("hatchling.metadata.plugin.interface")
module.MetadataHookInterface = object
sys.modules[module.__name__] = module
hook = runpy.run_path("hatch_build.py")["CustomMetadataHook"]()
hook.root, hook.config, found = ".", {}, {}
hook.update(found)
print(found["readme"]["content-type"])
"""
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


@pytest.mark.parametrize(
    ("ledger", "given", "is_refused"),
    [
        ("", {"replicas": 1}, False),
        ("", {"replicas": 2}, True),
        ("", {"autoscaling": {"enabled": True}}, True),
        ('[ledger]\nurl = "postgresql://p@db/p"', {"replicas": 2}, False),
        ('[ledger]\nkeep_days = 9\n  url="postgresql://p@db/p"', {"autoscaling": {"enabled": True}}, False),
        ('[ledger]\njsonl = "-"', {"replicas": 3}, False),
        ("[ledger]\nkeep_days = 9", {"replicas": 2}, True),
        ('[ledger]\n# url = "postgresql://p@db/p"', {"replicas": 2}, True),
        ('[ledger]\nkeep_days = 9\n[sessions]\nurl = "redis://valkey"', {"replicas": 2}, True),
    ],
)
def test_several_pods_need_a_ledger_that_they_share(
    ledger: str, given: dict[str, Any], is_refused: bool
) -> None:
    """Once, two pods by default had a file each, which ended with every change of the configuration."""
    values = values_of(CHART / "values.yaml")
    values |= {**given, "config": values["config"] + ledger + "\n"}
    found = jsonschema.Draft7Validator(json.loads((CHART / "values.schema.json").read_text()))
    errors = [list(error.path) for error in found.iter_errors(values)]
    assert errors == ([["config"]] if is_refused else [])


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


def test_what_is_built_and_what_builds_it_is_pinned_by_hash() -> None:
    """Once, pip fetched the newest hatchling and ran it (build isolation)."""
    installs = re.findall(r"^RUN \S+/pip (?:install|wheel) (.+)$", DOCKERFILE, re.MULTILINE)
    assert installs
    for options in installs:
        assert "--require-hashes" in options or {"--no-index", "--no-deps"} <= set(options.split()), options
    assert "--no-build-isolation" in DOCKERFILE
    assert re.search(r"^hatchling==", (ROOT / "requirements" / "wheel.txt").read_text(), re.MULTILINE)


def test_what_the_build_reads_reaches_the_builder(tmp_path: Path) -> None:
    """Once, the hook that hatchling runs (hatch_build.py) did not: no image could be built."""
    lines = re.findall(r"^COPY (?!--from)(.+) (\S+)$", DOCKERFILE, re.MULTILINE)
    for sources, target in lines:
        for source in sources.split():
            place = tmp_path / target / (Path(source).name if target.endswith("/") else "")
            place.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / source).is_dir():
                place.mkdir(exist_ok=True)
            else:
                shutil.copy(ROOT / source, place)
    done = subprocess.run(
        [sys.executable, "-c", HOOK], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "text/markdown\n", done.stderr


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
        assert re.search(rf"^{package}(\[[a-z,]+\])?==", locked, re.MULTILINE), package


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

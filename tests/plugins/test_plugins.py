"""A small package, installed beside Pointsman, adds each kind of plug-in: through the door of its users."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pointsman.errors import ConfigError
from pointsman.plugins import GROUPS, load

#: All of a package: a client that answers by itself, an encoder, a session store, a detector, a provider,
#: a report, a command, a source of logs and a capability.
PACKAGE = '''
from pathlib import Path

from pointsman.audit.sources import Home
from pointsman.capabilities import Capability, TaskClassifierGuide
from pointsman.guidance import ClassificationResult, GuidanceInjection
from pointsman.stores.sessions import MemorySessions
from pointsman.upstreams.connections import DemoClient


class Client(DemoClient):
    def __init__(self, spec):
        self.spec = spec


class Letters:
    name = "letters-26"

    def encode(self, texts, /):
        import numpy
        rows = [[1 + text.lower().count(chr(97 + place)) for place in range(26)] for text in texts]
        found = numpy.array(rows, dtype=numpy.float32)
        return found / numpy.linalg.norm(found, axis=1, keepdims=True)


class Kept(MemorySessions):
    def __init__(self, spec):
        super().__init__(size=spec.size, ttl=spec.ttl)


class Always:
    name, version = "always", "1"

    def classify(self, context, /):
        return ClassificationResult.yes(1.0)


class Reminder:
    name, category, version = "reminder", "general", "1"

    def classify(self, context, /):
        return ClassificationResult.yes(1.0)

    def provide(self, context, /):
        return GuidanceInjection("acme.reminder", "Look at the tests.", 50)


class Notes:
    name, versions = "notes", ""

    def places(self, home: Home):
        return []

    def find(self, home: Home):
        return []

    def read(self, log):
        return iter(())


def carbon(*, per_token: float = 2.0):
    """Report an estimate of carbon."""
    print(f"carbon {per_token:g}")


def greet(name: str):
    """Greet somebody."""
    print(f"Hello, {name}")


tides = Capability("tides", TaskClassifierGuide("Times of high and low water."))
'''
OFFERED = {
    "upstream": "Client",
    "store": "Kept",
    "encoder": "Letters",
    "detector": "Always",
    "provider": "Reminder",
    "report": "carbon",
    "command": "greet",
    "source": "Notes",
    "capability": "tides",
}
#: Providers and detectors are named by one key.
NAMES = {"detector": "always", "provider": "reminder"}
CONFIGURATION = """
[upstreams.acme]
base_url = "acme:eu"
[models.small]
upstream = "acme"
id = "small"
[tiers]
simple = "small"
[sessions]
store = "acme"
[domains]
mode = "on"
examples = "acme"
[guidance]
mode = "on"
[[guidance.providers]]
text = "Slow down."
classifier = { entry_point = "always" }
[[guidance.providers]]
entry_point = "reminder"
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder as an installer leaves it: a module and its metadata."""
    metadata = tmp_path / "site" / "pointsman_acme-1.2.dist-info"
    metadata.mkdir(parents=True)
    (metadata.parent / "pointsman_acme.py").write_text(PACKAGE)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: pointsman-acme\nVersion: 1.2\n")
    sections = [
        f"[{GROUPS[kind]}]\n{NAMES.get(kind, 'acme')} = pointsman_acme:{value}\n"
        for kind, value in OFFERED.items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(sections))
    (tmp_path / "pointsman.toml").write_text(CONFIGURATION)
    return metadata.parent


def pointsman(folder: Path, *arguments: str, site: Path | None = None) -> subprocess.CompletedProcess[str]:
    places = {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "s"), "XDG_CONFIG_HOME": str(folder / "c")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "POINTSMAN"))}
    places["POINTSMAN_CACHE_DIR"] = os.environ["POINTSMAN_CACHE_DIR"]  # compiled patterns: else 3 s of CPU
    kept |= places | ({"PYTHONPATH": str(site)} if site else {})
    command = [sys.executable, "-m", "pointsman", *arguments]
    return subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True, timeout=300)


@pytest.mark.integration
@pytest.mark.slow
def test_a_package_adds_every_kind(tmp_path: Path, site: Path) -> None:
    file = str(tmp_path / "pointsman.toml")
    doctor = pointsman(tmp_path, "router", "doctor", "--config", file, site=site)
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    listed = [" ".join(line.split()) for line in doctor.stdout.splitlines() if "plug-in" in line]
    assert [line for line in listed if "pointsman_acme:" in line] == [
        f"ok plug-in {kind} {NAMES.get(kind, 'acme')}: pointsman_acme:{OFFERED[kind]}, pointsman-acme 1.2"
        for kind in GROUPS
    ]
    assert "ok upstream acme: a plug-in serves acme:eu: not asked" in listed
    said = pointsman(tmp_path, "run", "/chat Hello", "--config", file, site=site)
    assert "no model was called" in said.stdout, said.stderr  # by the plug-in's client
    assert pointsman(tmp_path, "acme", "Ada", site=site).stdout == "Hello, Ada\n"
    assert pointsman(tmp_path, "report", "acme", "--per-token", "3", site=site).stdout == "carbon 3\n"
    explained = pointsman(tmp_path, "explain", "Hello", "--config", file, "--json", site=site)
    assert json.loads(explained.stdout)["domains"] is not None, explained.stderr


def test_without_the_package_each_name_has_its_line(tmp_path: Path, site: Path) -> None:
    del site
    checked = pointsman(tmp_path, "config", "check", "--config", str(tmp_path / "pointsman.toml"))
    assert checked.returncode == 1
    for said in (
        '"…" is not an http or https address',
        'unknown session store "acme"',
        'unknown encoder "acme"',
        '"always" is not an entry point, nor the name of an installed provider or detector',
    ):
        assert said in checked.stderr
    assert pointsman(tmp_path, "acme").returncode == 2


def test_two_packages_of_one_name_are_refused(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = site / "pointsman_other-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: pointsman-other\nVersion: 1.0\n")
    (other / "entry_points.txt").write_text("[pointsman.encoders]\nacme = os:sep\n")
    monkeypatch.syspath_prepend(str(site))
    with pytest.raises(ConfigError, match='several packages offer the encoder "acme"'):
        load("encoder", "acme")
    assert load("encoder", "nobody") is None


def test_a_configuration_without_plug_ins_reads_no_metadata(tmp_path: Path) -> None:
    (tmp_path / "pointsman.toml").write_text('[sessions]\nstore = "sqlite"\n')
    code = (
        "import sys; from pathlib import Path; from pointsman.config import load\n"
        "load(Path(sys.argv[1])); print(*sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "pointsman.toml")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "pointsman.plugins" in ran.stdout.split()
    assert "importlib.metadata" not in ran.stdout.split()

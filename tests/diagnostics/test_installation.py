"""The command that installs an extra, for each way in which the package may have been installed."""

import json
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pointsman.diagnostics import _doctor as installation
from pointsman.diagnostics._doctor import install_command


@pytest.fixture(autouse=True)
def activated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    monkeypatch.setattr(installation, "find_spec", lambda _: object())


def installed(monkeypatch: pytest.MonkeyPatch, origin: str | None) -> None:
    found: Any = SimpleNamespace(read_text=lambda _: origin)
    monkeypatch.setattr("importlib.metadata.distribution", lambda _: found)


@pytest.mark.parametrize(
    "origin", [None, "", "no JSON", '{"url": "https://x/p.whl"}', '{"url": "file:///x", "dir_info": {}}']
)
def test_a_package(monkeypatch: pytest.MonkeyPatch, origin: str | None) -> None:
    installed(monkeypatch, origin)
    assert install_command("fit") == "pip install 'pointsman[fit]'"


def test_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", missing)
    assert install_command("fit") == "pip install 'pointsman[fit]'"


def test_a_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = tmp_path / "a place"
    here.mkdir()
    url = here.as_uri()
    installed(monkeypatch, json.dumps({"url": url, "dir_info": {"editable": True}}))
    monkeypatch.chdir(tmp_path)
    assert install_command("fit") == f"pip install -e '{here}[fit]'"
    monkeypatch.chdir(here)
    assert install_command("fit") == "pip install -e '.[fit]'"


def test_an_environment_that_is_not_activated(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, None)
    monkeypatch.delenv("VIRTUAL_ENV")
    monkeypatch.setattr(sys, "prefix", "/venv")
    monkeypatch.setattr(sys, "executable", "/venv/bin/python")
    assert install_command("fit") == "/venv/bin/python -m pip install 'pointsman[fit]'"
    monkeypatch.setattr(installation, "find_spec", lambda _: None)
    assert install_command("fit") == "uv pip --python /venv/bin/python install 'pointsman[fit]'"

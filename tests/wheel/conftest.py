"""The wheel, built once, and a fresh home for each test."""

import shutil
import subprocess
from pathlib import Path

import pytest

from support.homes import PATIENCE

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("uv") is None:
        pytest.skip("uv is not installed: make one-line")
    to = tmp_path_factory.mktemp("dist")
    subprocess.run(["uv", "build", "-q", "--wheel", "-o", to, ROOT], check=True, timeout=PATIENCE)
    [built] = to.glob("pointsman-*.whl")
    return built


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / "work").mkdir(parents=True)
    return tmp_path / "home"

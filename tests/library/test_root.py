"""What ``import pointsman`` gives, and what it does not load."""

import inspect
import subprocess
import sys

import pytest

import pointsman

HEAVY = (
    "asyncio",
    "aiohttp",
    "httpx",
    "httptools",
    "starlette",
    "uvicorn",
    "numpy",
    "sklearn",
    "torch",
    "langgraph",
    "rich",
    "typer",
)


def test_the_root_names_exist_and_are_few() -> None:
    assert sorted(pointsman.__all__) == list(pointsman.__all__)
    assert all(hasattr(pointsman, name) for name in pointsman.__all__)
    assert len(pointsman.__all__) <= 40


def test_what_a_public_method_returns_has_a_public_name() -> None:
    methods = inspect.getmembers(pointsman.Pointsman, inspect.isfunction)
    returned = {inspect.signature(method).return_annotation for name, method in methods if name[0] != "_"}
    ours = {name for said in returned for name in said.split(" | ") if name[0].isupper()}
    ours -= {"None", "Self"}
    assert {"Decision", "Explained", "CapabilityDecision", "GuidanceDecision"} <= ours
    assert ours - {"Application"} <= {*pointsman.__all__}  # given back as it came: the orchestrator's own
    parts = pointsman.Decision.__annotations__.values()
    named = {name for said in parts for name in said.split(" | ") if name.endswith("Decision")}
    assert named == {"TierDecision", "DomainDecision", "GuidanceDecision", "CapabilityDecision"}
    assert named <= {*pointsman.__all__}


def test_a_former_name_warns_and_names_its_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointsman, "_DEPRECATED", {"Router": ("Pointsman", "0.3")})
    with pytest.warns(pointsman.PointsmanDeprecationWarning) as warned:
        found = pointsman.Router
    assert found is pointsman.Pointsman
    assert (
        str(warned[0].message) == "pointsman.Router is now pointsman.Pointsman; 0.3 removes the former name"
    )
    assert warned[0].filename == __file__


def test_importing_the_root_loads_no_http_or_ml_library() -> None:
    code = f"import sys; from pointsman import *; print([name for name in {HEAVY!r} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"

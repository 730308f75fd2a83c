"""What ``import pointsman`` gives, and what it does not load."""

import subprocess
import sys

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
    assert len(pointsman.__all__) <= 30


def test_importing_the_root_loads_no_http_or_ml_library() -> None:
    code = f"import sys; from pointsman import *; print([name for name in {HEAVY!r} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"

"""The examples of adapters run, each in a process of its own, as their first lines say."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
#: What each needs, and what it prints.
EXAMPLES = {
    "litellm_router": ("litellm", "REASONING, ['reasoning override (2 markers)']: This is large."),
    "pydantic_ai_routing": ("pydantic_ai", "Hello!\n  This is small."),
    "langchain_routing": ("langchain", "This is large."),
    "openai_agents_routing": ("agents", "This is large."),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    needed, expected = EXAMPLES[name]
    if find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    program = [sys.executable, str(ROOT / "examples" / f"{name}.py")]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    found = subprocess.run(
        program, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert found.returncode == 0, found.stderr
    assert expected in found.stdout
    assert "its own choice" not in found.stderr

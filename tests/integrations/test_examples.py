"""The examples of adapters run as they stand, here: importing what each needs takes seconds."""

from importlib.util import find_spec
from pathlib import Path
from runpy import run_path

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
def test_an_example_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needed, expected = EXAMPLES[name]
    if find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    found = capsys.readouterr()
    assert expected in found.out
    assert "its own choice" not in found.err

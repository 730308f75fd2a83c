"""The reference page shows every key there is."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_printed_from_the_types() -> None:
    path = ROOT / "scripts" / "configuration_reference.py"
    spec = importlib.util.spec_from_file_location("configuration_reference", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.render() in script.PAGE.read_text("utf-8"), "run scripts/configuration_reference.py"

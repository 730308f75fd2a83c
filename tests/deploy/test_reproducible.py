"""The comparison of two builds names what differs; `make dist` runs it on real ones."""

import importlib.util
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_difference_is_named(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("reproducible", ROOT / "scripts" / "reproducible.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)

    def wheel(name: str, day: int, text: str) -> Path:
        with zipfile.ZipFile(tmp_path / name, "w") as made:
            made.writestr(zipfile.ZipInfo("a.py", (2026, 1, 1, 0, 0, 0)), "x = 1\n")
            made.writestr(zipfile.ZipInfo("b.py", (2026, 1, day, 0, 0, 0)), text)
        return tmp_path / name

    first = wheel("1.whl", 1, "")
    assert script.differences(first, wheel("2.whl", 1, "")) == []
    assert script.differences(first, wheel("3.whl", 2, "")) == ["b.py"]
    assert script.differences(first, wheel("4.whl", 1, "y = 2\n")) == ["b.py"]

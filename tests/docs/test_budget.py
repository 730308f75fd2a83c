"""What ``benchmarks/budget.py`` refuses: a request that costs more than the committed table."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def budget() -> Any:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        spec = importlib.util.spec_from_file_location("budget", BENCHMARKS / "budget.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(BENCHMARKS))
    return module


@pytest.mark.parametrize(
    ("path", "before", "now", "is_above"),
    [
        (("bare", "short", "opcodes, loop"), 10_000, 10_099, False),
        (("bare", "short", "opcodes, loop"), 10_000, 10_100, True),
        (("bare", "short", "opcodes, loop"), 10_000, 9_000, False),
        (("bare", "event", "opcodes, loop"), 100, 102, False),  # below what repeats
        (("bare", "event", "opcodes, loop"), 100, 104, True),
        (("bare", "short", "Python calls, rest"), 20.5, 20.9, False),
        (("bare", "short", "Python calls, rest"), 20.5, 21, True),
        (("bare", "short", "rows"), 3, 3.1, True),
        (("bare", "short", "writes"), 20, 22, False),
        (("bare", "short", "writes"), 20, 23, True),
        (("--help", "modules"), 176, 177, False),
        (("--help", "modules of pointsman"), 7, 8, True),
        (("guidance", "off"), 0, 1, True),
        (("guidance", "off"), 0, 0, False),
        (("shadow model", "on, loop"), 3_800, 4_100, False),
        (("guidance", "on, loop"), 100, 115, False),  # below what two counts repeat
        (("guidance", "on, loop"), 100, 116, True),
        (("telemetry", "on, rest"), 8_000, 16_000, True),
    ],
)
def test_a_rise_of_one_percent_fails(
    budget: Any, path: tuple[str, ...], before: float, now: float, is_above: bool
) -> None:
    assert budget.is_above(path, before, now) is is_above


def test_what_rose_is_named_by_file(budget: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def table(scan: float) -> dict[str, Any]:
        return {
            "loads": {"bare": {"short": {"opcodes, loop": 1_000 + scan}}},
            "files": {"bare": {"short, loop": {"pointsman/evidence/_scan.py": scan, "a.py": 1_000}}},
        }

    assert not budget.compare(table(100), table(100))
    assert budget.compare(table(100), table(150))
    printed = capsys.readouterr().out
    assert "above the table: bare, short, opcodes, loop" in printed
    assert "+50.0  pointsman/evidence/_scan.py" in printed
    assert "a.py\n" not in printed.replace("_scan.py", "")


def test_the_table_holds_every_load_of_both_configurations(budget: Any) -> None:
    table = json.loads((BENCHMARKS / "budget.json").read_text())
    loads = {"agent, first request", "agent, next turn", "event", "short", "short, alone in its batch"}
    assert {name: set(found) for name, found in table["loads"].items()} == dict.fromkeys(
        budget.configurations(), loads
    )
    assert not [name for name, costs in table["features"].items() if costs["off"] >= 10]


def test_every_file_that_is_named_is_there(budget: Any) -> None:
    gateway = sys.modules["counting.gateway"]
    table = json.loads((BENCHMARKS / "budget.json").read_text())
    rows = [file for loads in table["files"].values() for opcodes in loads.values() for file in opcodes]
    timers = [timer.partition(":")[0] for timer in gateway.TIMERS]
    named = {file for file in (*rows, *timers) if file.startswith("pointsman/")}
    assert len(named) > len(timers)
    assert not [file for file in sorted(named) if not (BENCHMARKS.parent / "src" / file).is_file()]
    for timer in gateway.TIMERS:
        file, _, name = timer.partition(":")
        if file.startswith("pointsman/"):
            source = (BENCHMARKS.parent / "src" / file).read_text()
            assert all(f" {part}(" in source or f" {part}:" in source for part in name.split(".")), timer

"""Public types as a user's type checker sees them: ``mypy --strict`` on a small program."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

#: A wrong use is marked with ``type: ignore``; strict mode complains of a mark that nothing needs.
PROGRAM = """
from typing import assert_type

from pointsman import Decision, Pointsman, Reason, Tier, WireFormat

points = Pointsman()
decision = points.decide("Hello!", session="s")
assert_type(decision, Decision)
assert_type(decision.chain, tuple[str, ...])
assert_type(decision.abstained, tuple[Reason, ...])
if decision.tier:
    assert_type(decision.tier.tier, Tier)
    assert_type(decision.tier.score, float)
points.decide({"messages": []}, format=WireFormat.CHAT)
points.decide(3)  # type: ignore[arg-type]


async def later() -> None:
    assert_type(await points.decide_async("Hello!"), Decision)
"""


def test_right_uses_are_typed_and_wrong_ones_found(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM, encoding="utf-8")
    assert pytestconfig.cache is not None
    kept = pytestconfig.cache.mkdir("mypy")  # what it knows of modules that have not changed since
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--cache-dir",
        str(kept),
        str(file),
    ]
    checked = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (checked.stdout, checked.returncode) == ("", 0)

"""The page of the command line is what the program says of itself."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date() -> None:
    printed = subprocess.run(
        [sys.executable, ROOT / "scripts" / "cli_reference.py"], capture_output=True, text=True, check=True
    ).stdout
    assert (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8") == printed, (
        "run: python scripts/cli_reference.py > docs/reference/cli.md"
    )

"""The tests that decision 0135 names exist."""

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DECISION: Final = ROOT / "docs" / "decisions" / "0135-code-of-the-founding-documents.md"


def test_every_test_that_the_decision_names_exists() -> None:
    text = DECISION.read_text("utf-8").partition("## Where each difference is tested")[2]
    files = {ROOT / name for name in re.findall(r"`(tests/[\w/]+\.py)`", text)}
    known = "".join(file.read_text("utf-8") for file in files)
    named = set(re.findall(r"`(test_\w+)`", text))
    assert len(named) > 20
    assert [name for name in named if f"def {name}(" not in known] == []

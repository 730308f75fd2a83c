"""The pages quote what ``scripts/figures.py`` has printed, and nothing else where it prints."""

import json
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PRINTED: dict[str, list[str]] = json.loads((DOCS / "explanation" / "figures.json").read_text("utf-8"))

#: A share of one with its sign, or per cent.
_FIGURE = re.compile(r"[-+]?0?\.\d{3}|\d+\.\d(?= ?%)")


def figures(text: str) -> set[str]:
    """Figures of a text, without the zero before the point, the minus of a page as the one of a program."""
    found = _FIGURE.findall(text.replace("\N{MINUS SIGN}", "-"))
    return {re.sub(r"^([-+]?)0\.", r"\1.", figure) for figure in found}


def page(name: str, start: str, end: str) -> str:
    text = (DOCS / name).read_text("utf-8")
    assert start in text, f"{name} has no part that starts with {start!r}"
    return text.split(start, 1)[1].split(end, 1)[0]


def test_the_table_of_escalation_is_the_printed_one() -> None:
    shown = page("explanation/measuring.md", "$ python benchmarks/escalation.py", "```")
    lines = [line for line in shown.splitlines() if line.startswith("| ")]
    assert len(lines) > 5
    assert set(lines) <= set(PRINTED["escalation"])


@pytest.mark.parametrize(
    ("name", "start", "end", "command"),
    [
        ("decisions/0152-learned-routers-on-the-prior-of-kinds.md", "| own labels |", "A loss of", "heads"),
        ("decisions/0151-kinds-of-prompts.md", "| GSM8K |", "Nine models and", "kinds"),
        ("explanation/measuring.md", "| cost at 95 %", "Costs are in", "projects"),
        ("explanation/measuring.md", "| trouble tells: cost of", "Recomputed on", "projects"),
        (
            "decisions/0150-form-and-stray-keywords.md",
            "| three keywords after",
            "| `strong_weak`",
            "robustness",
        ),
    ],
)
def test_a_table_quotes_printed_figures(name: str, start: str, end: str, command: str) -> None:
    said = figures(page(name, start, end))
    assert len(said) >= 4
    assert not said - figures("\n".join(PRINTED[command]))

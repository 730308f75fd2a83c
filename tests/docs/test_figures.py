"""The pages quote what ``scripts/figures.py`` has printed: each figure of a table at its place."""

import json
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PRINTED: dict[str, list[str]] = json.loads((DOCS / "explanation" / "figures.json").read_text("utf-8"))

MEASURING = "explanation/measuring.md"
KINDS = "notebook/0151-prior-by-kind-of-prompt.md"
CLAIMS = "decisions/0169-label-permutation-test.md"
FORM = "decisions/0150-text-normalisation-and-keyword-cap.md"
LISTS = "notebook/0168-keyword-lists.md"

#: A share of one with its sign, per cent, or none.
_FIGURE = re.compile(r"[-+]?\d?\.\d{3}|\d+\.\d(?= ?%)|(?<=[ |])-(?=[ |]|$)")

#: Page, beginning of the row, command, beginning of the line, which of such lines, which of its figures.
PLACES: list[tuple[str, str, str, str, int, slice]] = [
    *(
        (MEASURING, f"| {label}", "projects", line, which, part)
        for label, line, part in (
            ("APGR by length", "mean over", slice(0, 1)),
            ("APGR by project", "mean over", slice(1, 2)),
            ("project \N{MINUS SIGN} length |", "mean over", slice(2, 3)),
            ("APGR with shuffled", "mean over", slice(3, 4)),
            ("APGR by the strong model's own", "APGR by the strong model's own", slice(0, 3)),
            ("the same with whole repositories drawn", "project \N{MINUS SIGN} length, median", slice(1, 4)),
            ("cost at 95 %", "  length", slice(0, 3)),
            ("the same: project", "  project", slice(0, 3)),
            ("the same: random mixture", "  mixture", slice(0, 3)),
            ("trouble tells: total cost", "cheap first, trouble", slice(0, 3)),
            ("trouble tells: cost of", "cheap first, trouble", slice(3, 6)),
            ("trouble tells: successes", "cheap first, trouble", slice(6, 9)),
            ("tests tell of every failure: total cost", "cheap first, tests", slice(0, 3)),
            ("tests tell of every failure: cost of", "cheap first, tests", slice(3, 6)),
            ("tests tell of every failure: successes", "cheap first, tests", slice(6, 9)),
            ("always weak (total cost .200): cost of", "always weak", slice(1, 4)),
            ("always weak: successes", "always weak", slice(4, 7)),
        )
        for which in (0, 1)
    ),
    (CLAIMS, "| real", "claims", "real", 0, slice(0, 7)),
    (CLAIMS, "| shuffled", "claims", "shuffled", 0, slice(0, 7)),
    *(
        (FORM, "| three keywords after", "robustness", line, -1, slice(3, 4))
        for line in ("three after", "six in a code")
    ),
]


def figures(text: str) -> list[str]:
    """Figures of a text, without the zero before the point and the plus, with a program's minus."""
    found = _FIGURE.findall(text.replace("\N{MINUS SIGN}", "-"))
    return [re.sub(r"^(-?)0\.", r"\1.", figure.lstrip("+")) for figure in found]


def rows(name: str, start: str) -> list[str]:
    text = (DOCS / name).read_text("utf-8")
    found = [line for line in text.splitlines() if line.startswith(start)]
    assert found, f"{name} has no row that starts with {start!r}"
    return found


def lines(command: str, start: str) -> list[str]:
    found = [line for line in PRINTED[command] if line.startswith(start)]
    assert found, f"{command} prints no line that starts with {start!r}"
    return found


def column(row: str, number: int) -> str:
    """A cell of a row of a page, without its label."""
    return row.strip().strip("|").split("|")[number + 1]


@pytest.mark.parametrize(("page", "row", "command", "line", "which", "part"), PLACES)
def test_a_cell_quotes_the_line_that_prints_it(
    page: str, row: str, command: str, line: str, which: int, part: slice
) -> None:
    (shown,) = rows(page, row)
    expected = figures(lines(command, line)[max(which, 0)])[part]
    assert expected
    if command == "robustness":
        assert expected[0] in figures(column(shown, 1))
    elif command == "claims":
        assert figures(shown) == expected
    else:
        assert figures(column(shown, which))[: len(expected)] == expected


def test_the_table_of_escalation_is_the_printed_one() -> None:
    text = (DOCS / MEASURING).read_text("utf-8").split("$ python benchmarks/escalation.py", 1)[1]
    shown = [line for line in text.split("```", 1)[0].splitlines() if line.startswith("| ")]
    assert shown == [line for line in PRINTED["escalation"] if line.startswith("| ")]


def table(title: str) -> dict[str, list[str]]:
    """A table of ``left_out.py`` by row."""
    text = "\n".join(PRINTED["kinds"]).split(f"{title} left out", 1)[1].split("left out;", 1)[0]
    parted = (re.split(r"\s{2,}", line, maxsplit=1) for line in text.splitlines())
    return {label: figures(f" {rest} ") for label, *more in parted for rest in more}


@pytest.mark.parametrize("title", ["source", "task"])
def test_both_tables_of_kinds_are_the_printed_ones(title: str) -> None:
    text = (DOCS / KINDS).read_text("utf-8").split(f"Each {title} left out", 1)[1].split("\n\n", 2)[1]
    shown = [line for line in text.splitlines() if line.startswith("| ")][1:]
    printed = table(f"Each {title}")
    assert len(shown) >= 14
    for row in shown:
        label, *cells = (cell.strip() for cell in row.strip().strip("|").split("|"))
        assert figures(f" {' | '.join(cells)} ") == printed[label.strip("`")], label


def test_the_table_of_gadgets_is_the_printed_one() -> None:
    printed = {
        cells[1].strip(): [float(cell.strip(" %")) for cell in cells[3:17]]
        for cells in (line.split("|") for line in PRINTED["gadgets"] if "%" in line and "worst" not in line)
    }
    names = {
        "MMLU": "strong_weak mmlu", "GSM8K": "strong_weak gsm8k", "nine models, GSM8K": "nine models gsm8k",
        "MBPP": "nine models mbpp", "Natural Questions": "nine models natural_qa",
        "OpenBookQA": "nine models openbook_qa", "crux": "difficulty crux",
        "difficulty, gsm": "difficulty gsm",
    }  # fmt: skip
    text = (DOCS / LISTS).read_text("utf-8")
    shown = [line for line in text.splitlines() if "\N{RIGHTWARDS ARROW}" in line and line.startswith("|")]
    assert len(shown) == len(printed)
    for row in shown:
        label = row.split("|")[1].strip()
        after = [float(found) for found in re.findall(r"\N{RIGHTWARDS ARROW} ([\d.]+) %", row)]
        three, six, twelve, _, code, *_ = found = printed[names.get(label, label)]
        assert after == [three, six, twelve, code, max(found[6:12])], label

"""Headings in sentence case, standard terms, and references that can be followed."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src" / "pointsman"
PAGES: Final = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
CONFIGURATION: Final = [
    ROOT / "pyproject.toml",
    ROOT / "Makefile",
    *sorted(SOURCE.rglob("*.toml")),
    *sorted((ROOT / "integrations").rglob("*.yaml")),
]
#: They name what old configurations and ledgers held, to refuse or to migrate it.
OLD_NAMES: Final = (
    SOURCE / "config" / "convert.py",
    SOURCE / "stores" / "ledger" / "_bodies.py",
    ROOT / "tests" / "config" / "test_load.py",
    ROOT / "tests" / "stores" / "ledger" / "test_earlier.py",
    Path(__file__),
)
CODE: Final = [
    path
    for folder in ("src", "tests", "scripts", "examples", "benchmarks", "integrations")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path not in OLD_NAMES
]

#: Names and phrases that were replaced by a standard term, and the term.
REPLACED: Final = {
    r"`(Turn|Need|Answer|Addition|Gauge|Spoke)`": "AgentRequest, ModelQuery, Injection …",
    r"`(ourselves|own_headers|caller|pages|setup|second|chains|said)\.py`": "the room's new name",
    r"\b(left_alone|left alone)\b": "circuit breaker open, open_circuits",
    r"\bgoing_down\b": "shutting_down",
    r"\bfamiliarit(y|ies)\b": "similarity to the training data",
    r"\babilities\b": "features",
    r"\bWITHHELD\b": "CONTROL",
    r"\b(head file|learned head)\b": "learned router file, learned router",
    r"\b(stands there twice|member .* twice)\b": "duplicate key",
    r"\bdrawn together\b": "resampled as one cluster",
    r"\bJSON from elsewhere\b": "untrusted JSON",
    r"\bfrom elsewhere\b": "untrusted, another origin",
    r"\bn-grams are not heard\b": "out of distribution",
    r"\brefuses to claim\b": "reports an improvement only when it is statistically significant",
    r"\b[Dd]esign page\b": "a page of docs/",
    r"\.\./shared/(design|seeds)": "a page of docs/",
}
#: Classes that were renamed; a class of that name must not come back.
RENAMED_CLASSES: Final = re.compile(r"^class (Turn|Need|Answer|Addition|Gauge|Spoke)\b", re.MULTILINE)

#: Names that are written with a capital inside a heading.
PROPER: Final = {
    *("Agent", "Zero", "Claude", "Code"),  # Agent Zero, Claude Code
    *("Pydantic", "AI", "Agents", "SDK", "MCP", "LangChain", "Open", "WebUI"),
    *("Anthropic", "Azure", "Codex", "Furo", "Hyperscan", "Java", "OpenAI"),
    *("Pydantic", "AI", "Agents", "SDK", "MCP", "LangChain"),  # Pydantic AI, OpenAI Agents SDK
    *("Anthropic", "Azure", "Codex", "Envoy", "Furo", "Hyperscan", "Java", "OpenAI"),
    *("Daft", "Data", "DuckDB", "Parquet", "Polars", "Ray", "Spark"),  # Data of Ray Data
    *("Pointsman", "Python", "Sphinx", "Unicode"),
}
HEADING: Final = re.compile(r"^#{1,4} (.+)$", re.MULTILINE)
FENCE: Final = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
#: A page of the documentation named in code, with the headings quoted after it.
REFERENCE: Final = re.compile(
    r'docs/([\w./-]+?\.md|(?:decisions|notebook)/\d{4})((?:,| and)? "[^"]+"(?: and "[^"]+")*)?'
)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def headings(page: str) -> list[str]:
    return HEADING.findall(FENCE.sub("", page))


def not_in_sentence_case(heading: str) -> list[str]:
    """Words of a heading with a capital that they should not have."""
    plain = re.sub(r"`[^`]*`|\[[^\]]*\]|\([^)]*\)|^\d{4} ", " ", heading)
    sentences = re.split(r"[:.] ", plain)
    rest = [word.strip(",;:?!\"'") for sentence in sentences for word in sentence.split()[1:]]
    capital = [word for word in rest if re.fullmatch(r"[A-Z][a-z]+('s)?", word)]
    return [word for word in capital if word.removesuffix("'s") not in PROPER]


@pytest.mark.parametrize(
    ("heading", "wrong"),
    [
        ("Tier boundaries", []),
        ("Tier Boundaries", ["Boundaries"]),
        ("0110 The site is built with Sphinx", []),
        ("Step 2: extract primary and secondary", []),
        ("HTTP API", []),
        ("Use domains in Agent Zero", []),
    ],
)
def test_what_sentence_case_is(heading: str, wrong: list[str]) -> None:
    assert not_in_sentence_case(heading) == wrong


def found_in(paths: Iterable[Path], look: Callable[[str], object]) -> dict[str, object]:
    """What is wrong with the text of each file, by name.

    All at once: each test costs a hundredth of a second around it, and there are two thousand files.
    """
    found = {name_of(path): look(path.read_text(encoding="utf-8")) for path in paths}
    return {name: wrong for name, wrong in found.items() if wrong}


def test_headings_are_in_sentence_case() -> None:
    def wrong(page: str) -> dict[str, list[str]]:
        return {heading: words for heading in headings(page) if (words := not_in_sentence_case(heading))}

    assert found_in(PAGES, wrong) == {}


def replaced_words(text: str) -> dict[str, str]:
    # First without the boundary in front: a pattern that begins with letters is found thirty times as fast.
    near = {
        pattern: term for pattern, term in REPLACED.items() if re.search(pattern.removeprefix(r"\b"), text)
    }
    hits = ((re.search(pattern, text), term) for pattern, term in near.items())
    return {found[0]: term for found, term in hits if found is not None}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("its circuit breaker is open", []),
        ("it is left alone for a while", ["left alone"]),
        ("capabilities and features", []),
        ("abilities of a model", ["abilities"]),
        ("a turn of the conversation", []),
        ("a `Turn` holds", ["`Turn`"]),
    ],
)
def test_what_a_replaced_word_is(text: str, found: list[str]) -> None:
    assert list(replaced_words(text)) == found


def test_no_replaced_word_comes_back() -> None:
    files = [*PAGES, *CONFIGURATION, *CODE]
    assert found_in(files, replaced_words) == {}
    assert found_in(files, RENAMED_CLASSES.findall) == {}


def unresolved(text: str) -> list[str]:
    """References to pages or headings that do not exist."""
    joined = re.sub(r"\n\s*(#:? ?)?", " ", text)
    missing = []
    for page, quoted in REFERENCE.findall(joined):
        found = sorted((ROOT / "docs").glob(page if page.endswith(".md") else f"{page}-*.md"))
        if not found:
            missing.append(f"docs/{page}")
            continue
        known = headings(found[0].read_text(encoding="utf-8"))
        missing += [
            f'docs/{page}, "{title}"' for title in re.findall(r'"([^"]+)"', quoted) if title not in known
        ]
    return missing


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ('Source: docs/sources/prompt-classifier.md, "Tier boundaries".', []),
        ('Source: docs/sources/prompt-classifier.md, "Tier\n    boundaries".', []),
        ('#: docs/sources/README.md, "Tier\n#: bounds".', ['docs/sources/README.md, "Tier bounds"']),
        ("docs/sources/nothing.md", ["docs/sources/nothing.md"]),
        ("docs/decisions/0001 and docs/decisions/9999", ["docs/decisions/9999"]),
        ("docs/notebook/0011 and docs/notebook/0001", ["docs/notebook/0001"]),
    ],
)
def test_what_a_reference_is(text: str, missing: list[str]) -> None:
    assert unresolved(text) == missing


def test_every_reference_to_the_docs_resolves() -> None:
    assert found_in([*CODE, *CONFIGURATION], lambda text: unresolved(text) if "docs/" in text else []) == {}


def test_the_glossary_has_each_term_once_and_names_places_that_exist() -> None:
    page = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split("|") for line in page.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in row] for row in rows if row[0].strip() != "term"]
    terms = [row[0] for row in rows]
    assert len(terms) == len(set(terms))
    places = {place for row in rows for place in re.findall(r"`([\w/]+(?:\.py|/))`", row[2])}
    assert {place for place in places if not (SOURCE / place).exists()} == set()


#: A file of the repository, or of the package, named in a page.
FILE: Final = re.compile(
    r"`((?:tests|benchmarks|scripts|src|examples|integrations|[a-z_]+)/[\w/.-]+\.(?:py|toml))`"
)


def test_every_file_that_a_page_names_exists() -> None:
    def missing(page: str) -> list[str]:
        named = FILE.findall(page)
        return [file for file in named if not (ROOT / file).exists() and not (SOURCE / file).exists()]

    assert found_in(PAGES, missing) == {}

"""Every Python example in the README and the docs runs, top to bottom, one namespace a page."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: Folders with one page per decision: those in force, and the notebook of measurements and earlier ones.
RECORDS = ("decisions", "notebook")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__example__"}
    for block in blocks(page):
        exec(compile(block, str(page), "exec"), namespace)


def links(page: Path) -> list[str]:
    return re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))


def test_relative_links_lead_somewhere() -> None:
    missing = [(page, link) for page in PAGES for link in links(page) if not (page.parent / link).exists()]
    assert not missing


def test_every_page_is_in_the_index() -> None:
    docs = ROOT / "docs"
    index = docs / "README.md"
    linked = {(docs / link).resolve() for link in links(index)}
    pages = {page for page in docs.rglob("*.md") if page.parent.name not in RECORDS} - {index}
    assert pages <= linked, pages - linked


@pytest.mark.parametrize("name", RECORDS)
def test_every_decision_is_in_its_index_under_its_title(name: str) -> None:
    folder = ROOT / "docs" / name
    listed = re.findall(r"^- \[(.+)\]\((.+)\)$", (folder / "README.md").read_text("utf-8"), re.MULTILINE)
    pages = {page.name: page.read_text("utf-8").partition("\n")[0] for page in folder.glob("0*.md")}
    assert {name: f"# {title}" for title, name in listed} == pages
    assert len(listed) == len(pages)
    assert all(title.startswith(f"# {name[:4]} ") for name, title in pages.items())


def test_a_decision_has_one_page_and_few_are_in_force() -> None:
    numbers = [page.name[:4] for name in RECORDS for page in (ROOT / "docs" / name).glob("0*.md")]
    assert len(numbers) == len(set(numbers))
    assert len(list((ROOT / "docs" / "decisions").glob("0*.md"))) <= 40


def test_every_module_is_on_the_architecture_page_once() -> None:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text("utf-8")
    rows = re.findall(r"^\| *\d? *\| (`[^|]+) \|", page.partition("## The floors")[2], re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    source = ROOT / "src" / "pointsman"
    modules = [
        path.stem for path in source.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    ]
    assert sorted([*named, "testing"]) == sorted(name for name in modules if not name.startswith("__"))

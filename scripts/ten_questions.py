"""Ten questions of new users: clicks from the index of the documentation, and rank in the site's search.

    python scripts/ten_questions.py [site]

``make docs`` runs it after the build. It prints one line per query, and exits with 1 where a page is more
than two clicks from docs/README.md or not among the first three results. The site's own scripts search, in an
engine of JavaScript; each page counts once.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
MOST_CLICKS: Final = 2
FIRST: Final = 3  # results that a person looks at

#: Page, then the words that a new user would type.
QUESTIONS: Final = (
    ("how-to/keys-and-budgets", ("budget", "spending limit")),
    ("how-to/one-model-for-a-project", ("one model for a project", "project one model")),
    ("how-to/why-this-model", ("why the large model", "why model")),
    ("how-to/two-replicas", ("two replicas", "replicas")),
    ("how-to/turn-off", ("turn off", "disable")),
    ("how-to/remove", ("remove", "uninstall")),
    ("how-to/privacy", ("privacy", "what is stored")),
    ("how-to/upgrade", ("upgrade", "upgrade version")),
    ("how-to/console", ("label", "label answers")),
    ("how-to/cost-of-an-hour", ("cost yesterday", "why did cost rise")),
)

#: The scripts of the site's page of results, and what they want of a browser.
SCRIPTS: Final = ("_static/searchtools.js", "_static/language_data.js", "searchindex.js")
BROWSER: Final = """
var window = globalThis, location = {search: ""}, document = {getElementById: () => null}
var URLSearchParams = function () { this.get = () => query }
var SPHINX_HIGHLIGHT_ENABLED = false, _ready = () => null, _ = (text) => text
"""
#: Pages of the results, the best last, as ``Search.query`` of these scripts has them.
FOUND: Final = "JSON.stringify(Search._performSearch(...Search._parseQuery(query)).map(([page]) => page))"
LINK: Final = re.compile(r"\]\((?!https?:|#)([^)#\s]+\.md)")


def clicks(page: str, start: str = "README") -> int:
    """Count the links that a reader follows from the index to a page; 99 if there is no way."""
    docs = ROOT / "docs"
    seen, reached = {start}, [start]
    for count in range(1, MOST_CLICKS + 2):
        reached = [target for name in reached for target in _linked(docs, name) if target not in seen]
        seen.update(reached)
        if page in seen:
            return count
    return 99


def _linked(docs: Path, name: str) -> Iterator[str]:
    file = docs / f"{name}.md"
    for link in LINK.findall(file.read_text("utf-8")):
        target = (file.parent / link).resolve()
        if target.is_relative_to(docs) and target.exists():
            yield str(target.relative_to(docs).with_suffix(""))


def pages(site: Path, query: str) -> list[str]:
    """Return the pages that the site's search finds, best first."""
    engine = importlib.import_module("py_mini_racer").MiniRacer()  # of the environment that builds the site
    engine.eval(f"const query = {json.dumps(query)};{BROWSER}")
    for name in SCRIPTS:
        engine.eval((site / name).read_text("utf-8"))
    found: list[str] = json.loads(engine.eval(FOUND))
    return list(dict.fromkeys(reversed(found)))


def main() -> int:
    """Print the table; return 1 if a page is too far away."""
    site = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site"
    missed = 0
    print(f"{'page':<34} {'clicks':>6}  {'query':<24} rank")
    for page, queries in QUESTIONS:
        for query in queries:
            found = pages(site, query)
            rank = found.index(page) + 1 if page in found else 0
            is_near = 0 < rank <= FIRST and clicks(page) <= MOST_CLICKS
            missed += not is_near
            first = "" if is_near else f"  <- first: {', '.join(found[:FIRST])}"
            print(f"{page:<34} {clicks(page):>6}  {query:<24} {rank or '-':>4}{first}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Ten questions of new users: clicks from the index of the documentation, and rank in the site's search.

    python scripts/ten_questions.py [site]

``make docs`` runs it after the build. It prints one line per query, and exits with 1 where a page is more
than two clicks from docs/README.md or not among the first three results. It ranks as the site's own
``searchtools.js`` does, over the same ``searchindex.js`` and with the scores of docs/_static/scorer.js; each
page counts once.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

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

#: Table of the index, then the names of the scores of a whole and of a partial match.
KINDS: Final = (("terms", "term", "partialTerm"), ("titleterms", "title", "partialTitle"))
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


class Search:
    """The search of the site: an index, and the scores of its results."""

    def __init__(self, site: Path) -> None:
        english = importlib.import_module("sphinx.search.en")  # of the environment that builds the site
        text = (site / "searchindex.js").read_text("utf-8")
        self.index: dict[str, Any] = json.loads(text[text.index("(") + 1 : text.rindex(")")])
        self.language = english.SearchEnglish({})
        scorer = (ROOT / "docs" / "_static" / "scorer.js").read_text("utf-8")
        self.scores = {name: int(value) for name, value in re.findall(r"(\w+): (\d+),", scorer)}
        folders = re.search(r"\(\{ (.+?) \}\[", scorer)
        assert folders is not None
        found = re.findall(r'"?([\w-]+)"?: (-?\d+)', folders[1])
        self.folders = {name: int(value) for name, value in found}

    def pages(self, query: str) -> list[str]:
        """Return the pages that a query finds, best first."""
        words = re.findall(r"\w+", query.lower())
        names, titles = self.index["docnames"], self.index["titles"]
        ranked = []
        for file, score in (*self._titles(query.lower().strip()), *self._objects(words), *self._terms(words)):
            in_title = set(re.split(r"\W+", titles[file].lower()))
            bonus = sum(word in in_title for word in words) + self.folders.get(names[file].split("/")[0], 0)
            ranked.append((-score - bonus, titles[file].lower(), names[file]))
        ranked.sort()
        return list(dict.fromkeys(name for _, _, name in ranked))

    def _titles(self, query: str) -> Iterator[tuple[int, int]]:
        for title, places in self.index["alltitles"].items():
            if query in title.lower() and len(query) >= len(title) / 2:
                for file, _ in places:
                    is_page = self.index["titles"][file] == title
                    yield file, round(self.scores["title"] * len(query) / len(title)) + is_page

    def _objects(self, words: list[str]) -> Iterator[tuple[int, int]]:
        for prefix, entries in self.index["objects"].items():
            for file, _, _, _, name in entries:
                full = f"{prefix}.{name}".lower()
                for word in words:
                    if word in full and all(other in full for other in words):
                        is_name = full.split(".")[-1] == word
                        yield file, self.scores["objNameMatch" if is_name else "objPartialMatch"]

    def _terms(self, words: list[str]) -> Iterator[tuple[int, int]]:
        stems = {self.language.stem(word) for word in words if word not in self.language.stopwords}
        scores: dict[int, dict[str, int]] = defaultdict(dict)
        for stem in stems:
            for kind, exact, partial in KINDS:
                known = self.index[kind]
                whole = stem in known
                for term in (stem,) if whole else (term for term in known if len(stem) > 2 and stem in term):
                    for file in _files(known[term]):
                        scores[file][stem] = self.scores[exact if whole else partial]
        needed = {len(stems), sum(len(stem) > 2 for stem in stems)}
        for file, found in scores.items():
            if len(found) in needed:
                yield file, max(found.values())


def _files(found: int | list[int]) -> Iterable[int]:
    return [found] if isinstance(found, int) else found


def main() -> int:
    """Print the table; return 1 if a page is too far away."""
    search = Search(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site"))
    missed = 0
    print(f"{'page':<34} {'clicks':>6}  {'query':<24} rank")
    for page, queries in QUESTIONS:
        for query in queries:
            found = search.pages(query)
            rank = found.index(page) + 1 if page in found else 0
            is_near = 0 < rank <= FIRST and clicks(page) <= MOST_CLICKS
            missed += not is_near
            first = "" if is_near else f"  <- first: {', '.join(found[:FIRST])}"
            print(f"{page:<34} {clicks(page):>6}  {query:<24} {rank or '-':>4}{first}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())

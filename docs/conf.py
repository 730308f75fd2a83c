"""Configuration of the documentation site (`make docs`). Reasons: docs/notebook/0110."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.highlighting import lexers

import pointsman

project = "Pointsman"
author = "The Pointsman authors"
version = release = pointsman.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "index"
exclude_patterns: list[str] = []

# Markdown. Headings down to this level get anchors, so that a link to `page.md#heading` is checked.
myst_heading_anchors = 4

# API reference: members in the order of the source, types in the description.
autodoc_member_order = "bysource"
autodoc_typehints = "description"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"Pointsman {version}"
html_copy_source = False
html_show_sourcelink = False
templates_path: list[str] = []
html_search_scorer = str(Path(__file__).parent / "_static" / "scorer.js")

# Diagrams are shown as their source: the usual renderer is a script that is fetched from another site.
lexers["mermaid"] = TextLexer()

_documented: set[tuple[str, str]] = set()


def _once(_app: Sphinx, what: str, _name: str, member: Any, skip: bool, _options: Any) -> bool:
    """Describe a name that several packages offer only where it comes first."""
    key = (getattr(member, "__module__", "") or "", getattr(member, "__qualname__", "") or "")
    if what != "module" or skip or not all(key):
        return skip
    is_known = key in _documented
    _documented.add(key)
    return is_known


def _out_of_the_way(app: Sphinx, docname: str, _source: list[str]) -> None:
    """Keep design decisions out of the navigation, and the notebook out of the search index too."""
    folder = docname.partition("/")[0]
    if folder == "notebook":
        app.env.metadata[docname]["nosearch"] = True
    if folder in ("decisions", "notebook"):
        app.env.metadata[docname]["orphan"] = True


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-skip-member", _once)
    app.connect("source-read", _out_of_the_way)

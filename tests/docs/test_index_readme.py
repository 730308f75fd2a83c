"""The README of a package index has no link that leads nowhere."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts"))

from index_readme import for_index  # noqa: E402 - of scripts/

README = (ROOT / "README.md").read_text("utf-8")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def test_without_an_address_links_are_their_text() -> None:
    made = for_index(README)
    assert [link for link in LINK.findall(made) if not link.startswith("http")] == []
    assert "Configuration" in made or "configure" in made
    assert for_index("see [a page](SECURITY.md#b), ![x](p.png)[out](https://example.com)") == (
        "see a page, [out](https://example.com)"
    )


def test_with_an_address_links_are_absolute() -> None:
    made = for_index(
        "![p](p.png) [a](SECURITY.md#b) [c](#c) [out](https://example.com)", "https://example.com/r"
    )
    assert made == (
        "![p](https://example.com/r/p.png) [a](https://example.com/r/SECURITY.md#b) [c](#c)"
        " [out](https://example.com)"
    )
    assert len(LINK.findall(for_index(README, "https://example.com/r"))) == len(LINK.findall(README))

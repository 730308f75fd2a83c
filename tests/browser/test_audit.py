"""The page of an audit in a real browser, opened from a file: what a person who is sent it gets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from typer.testing import CliRunner

from pointsman.cli import app
from support.agent_logs import month

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

WIDTHS = (400, 1_180)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
AXE = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations.map(
    (one) => one.id + ": " + one.nodes.map((node) => node.html + " " + node.failureSummary).join("; "))"""
TOO_WIDE = "() => document.documentElement.scrollWidth > document.documentElement.clientWidth"
TALLEST_ROW = "() => Math.max(...[...document.querySelectorAll('tr')].map((row) => row.clientHeight))"


@pytest.fixture(scope="module")
def page_file(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a month of invented logs, prompts included."""
    del browser  # without one nothing here is made
    folder = tmp_path_factory.mktemp("audit")
    month(folder / "home")
    file = folder / "audit.html"
    ran = CliRunner().invoke(
        app, ["audit", "--home", str(folder / "home"), "--html", str(file), "--with-text"]
    )
    assert ran.exit_code == 0, ran.output
    return file


def test_the_page_is_right_in_every_width_and_scheme(browser: Browser, page_file: Path) -> None:
    from support.chromium import opened

    found: dict[str, Any] = {}
    with opened(browser, page_file.parent.as_uri(), bypass_csp=True) as watched:  # for axe
        for width in WIDTHS:
            watched.page.set_viewport_size({"width": width, "height": 900})
            page = watched.go(f"/{page_file.name}")
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                if problems := page.evaluate(AXE):
                    found[f"{width} {scheme}"] = problems
            if page.evaluate(TOO_WIDE):
                found[f"{width} too wide"] = True
            if page.evaluate(TALLEST_ROW) > 80:  # two lines; a narrow last column made ten of a sentence
                found[f"{width} rows too tall"] = True
    assert found == {}


def test_the_page_needs_no_script_and_asks_nobody(browser: Browser, page_file: Path) -> None:
    """Whatever it asks for but itself is a problem (``support.chromium``), and so is what it is refused."""
    from support.chromium import opened

    with opened(browser, page_file.parent.as_uri(), checks=False, java_script_enabled=False) as watched:
        asked: list[str] = []
        watched.page.on("request", lambda request: asked.append(request.url))
        page = watched.go(f"/{page_file.name}")
        assert asked == [page_file.as_uri()]
        assert watched.problems == []
        sentence = page.get_by_role("heading", level=1)
        assert sentence.is_visible()
        assert "in 29 days. Sure to save: " in sentence.inner_text()
        box = sentence.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 720  # seen without scrolling


def test_the_dearest_session_is_the_first_and_shows_where_it_got_stuck(
    browser: Browser, page_file: Path
) -> None:
    from support.chromium import opened

    with opened(browser, page_file.parent.as_uri()) as watched:
        first = watched.go(f"/{page_file.name}").locator(".session").first
        assert "session-05" in first.inner_text()
        assert "after the first sign of being stuck" in first.inner_text()
        assert "Mend the failing tests of the basket." in first.inner_text()
        lane = first.get_by_role("img", name="with the first sign of being stuck")
        sign, failed = (lane.locator(f"path.{letter}").bounding_box() for letter in "sx")
        assert sign is not None
        assert failed is not None
        assert failed["x"] < sign["x"] < failed["x"] + failed["width"]


def test_the_page_prints(browser: Browser, page_file: Path) -> None:
    from support.chromium import opened

    with opened(browser, page_file.parent.as_uri()) as watched:
        printed = watched.go(f"/{page_file.name}").pdf(format="A4")
    assert printed.startswith(b"%PDF")
    assert 1 <= printed.count(b"/Type /Page\n") <= 12

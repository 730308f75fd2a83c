"""Every page in a real browser: nothing that it complains of, no foreign request, no axe violation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from support.chromium import Demo

pytestmark = pytest.mark.browser

WIDTHS = (360, 1_440)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PAGES = {
    "home": "/console",
    "now": "/console/now",
    "change": "/console/change",
    "decisions": "/console/decisions",
    "a search": "/console/decisions?text=primes",
    "a search without results": "/console/decisions?session=nobody",
    "decision": "/console/decisions/{proof}",
    "session": "/console/sessions/demo-stuck-agent-1",
    "sessions": "/console/sessions",
    "savings": "/console/savings",
    "quality": "/console/quality",
    "policy": "/console/policy",
    "label": "/console/label",
    "try": "/console/try",
}
#: Ends before the stream of events does, which never ends by itself.
AXE = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations.map(
    (one) => one.id + ": " + one.nodes.map((node) => node.html + " " + node.failureSummary).join("; "))"""
TOO_WIDE = """() => document.documentElement.scrollWidth <= document.documentElement.clientWidth ? []
    : [...document.querySelectorAll("body *")]
        .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
        .slice(0, 5).map((one) => one.outerHTML.slice(0, 120))"""


def places(demo: Demo, path: str) -> str:
    return path.format(proof=demo.proof, planted=demo.planted)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_right_in_every_width_and_scheme(browser: Browser, demo: Demo, name: str) -> None:
    from support.chromium import opened

    found: dict[str, Any] = {}
    with opened(browser, demo.base) as watched:
        for width in WIDTHS:
            watched.page.set_viewport_size({"width": width, "height": 900})
            page = watched.go(places(demo, PAGES[name]))
            assert page.get_by_role("heading", level=1).count() == 1
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                if problems := page.evaluate(AXE):
                    found[f"{width} {scheme}"] = problems
            if wide := page.evaluate(TOO_WIDE):
                found[f"{width} too wide"] = wide
    assert found == {}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_readable_without_scripts(browser: Browser, demo: Demo, name: str) -> None:
    from support.chromium import opened

    with opened(browser, demo.base, checks=False, java_script_enabled=False) as watched:
        page = watched.go(places(demo, PAGES[name]))
        assert page.get_by_role("navigation", name="Pages").get_by_role("link").count() >= 7
        assert page.get_by_role("heading", level=1).inner_text()
        assert watched.problems == []


@pytest.mark.parametrize(
    "path",
    [
        "/console/decisions/{planted}",
        "/console/sessions/planted",
        "/console/decisions?session=planted",
        "/console/label",
        "/console",
        "/console/now",
    ],
)
def test_planted_scripts_stay_text(browser: Browser, demo: Demo, path: str) -> None:
    """In a prompt, a tool's result, a model's answer, a hint that quotes them, a label and a comment."""
    from support.chromium import HOSTILE, opened

    with opened(browser, demo.base) as watched:
        page = watched.go(places(demo, path))
        assert page.locator("script:not([src])").count() == 0
        assert page.locator("img[src=x]").count() == 0
        if "{planted}" in path:
            words = page.locator("body").inner_text()
            assert words.count("window.hacked = 1") >= 4  # the prompt, the label, and the comment
            assert HOSTILE.partition("<img")[0] in words


def test_a_planted_search_stays_text(browser: Browser, demo: Demo) -> None:
    from support.chromium import HOSTILE, opened

    with opened(browser, demo.base) as watched:
        page = watched.go("/console/decisions")
        page.get_by_role("searchbox").fill(HOSTILE)
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("text="))
        assert page.get_by_role("searchbox").input_value() == HOSTILE


@pytest.mark.parametrize(
    "path",
    [
        "/console/savings?baseline={hostile}",
        "/console/policy?version={hostile}",
        "/console/policy",
        "/console/quality",
        "/console/try?request={hostile}",
    ],
)
def test_a_planted_address_stays_text(browser: Browser, demo: Demo, path: str) -> None:
    from support.chromium import HOSTILE, opened

    with opened(browser, demo.base, checks=False) as watched:
        page = watched.go(path.format(hostile=quote(HOSTILE, safe="")))
        assert page.locator("script:not([src])").count() == 0
        assert page.locator("img[src=x]").count() == 0
        assert page.evaluate("typeof window.hacked") == "undefined"
        assert ("window.hacked" in page.locator("main").inner_text()) is ("{" in path)
        assert [
            each for each in watched.problems if "the server responded with a status of 4" not in each
        ] == []


def test_what_is_typed_stays_text(browser: Browser, demo: Demo) -> None:
    from playwright.sync_api import expect

    from support.chromium import HOSTILE, opened

    with opened(browser, demo.base, checks=False) as watched:
        page = watched.go("/console/try")
        page.get_by_role("textbox").first.fill(HOSTILE)
        expect(page.locator("#result")).to_contain_text("window.hacked")
        page = watched.go("/console/policy")
        page.locator("#replay textarea").fill(f"[tiers]\nsimple = '{HOSTILE}'\n")
        page.get_by_role("button", name="Replay").click()
        expect(page.locator("#replay [role=alert]")).to_contain_text("window.hacked")
        assert page.locator("script:not([src])").count() == 0
        assert page.evaluate("typeof window.hacked") == "undefined"
        assert [each for each in watched.problems if "a status of 400" not in each] == []


@pytest.mark.parametrize("width", [390, 1_280, 1_440])
def test_versions_of_the_policy_are_in_sight(browser: Browser, demo: Demo, width: int) -> None:
    """The number of decisions was cut off, and nothing showed that the table scrolls."""
    from support.chromium import opened

    with opened(browser, demo.base, viewport={"width": width, "height": 900}) as watched:
        table = watched.go("/console/policy").get_by_role("region", name="Table of versions")
        assert table.evaluate("(one) => one.scrollWidth - one.clientWidth") == 0


def test_a_page_at_twice_the_size_needs_no_scrolling_to_the_side(browser: Browser, demo: Demo) -> None:
    """A window of 1,280 pixels at 200 % shows 640 of the page's (WCAG 2.2, 1.4.4 and 1.4.10)."""
    from support.chromium import opened

    found: dict[str, Any] = {}
    zoomed: dict[str, Any] = {"viewport": {"width": 640, "height": 400}, "device_scale_factor": 2}
    with opened(browser, demo.base, **zoomed) as watched:
        for name, path in PAGES.items():
            if wide := watched.go(places(demo, path)).evaluate(TOO_WIDE):
                found[name] = wide
    assert found == {}


def test_a_decision_appears_while_the_page_is_open(browser: Browser, demo: Demo) -> None:
    from playwright.sync_api import expect

    from pointsman.cli.demo_traffic import ScriptedRequest
    from support.chromium import opened

    with opened(browser, demo.base) as watched:
        page = watched.go("/console/now")
        expect(page.get_by_role("status")).to_have_text("live")
        body = {"model": "auto", "messages": [{"role": "user", "content": "What is a mutex?"}]}
        demo.send(ScriptedRequest("appears-live", "/v1/chat/completions", body))
        expect(page.locator("#rows tr").first).to_contain_text("appears-live")
        page.emulate_media(reduced_motion="reduce")
        assert page.evaluate(AXE) == []


def test_policies_and_requests_are_tried_as_one_types(browser: Browser, demo: Demo) -> None:
    from playwright.sync_api import expect

    from support.chromium import opened

    with opened(browser, demo.base) as watched:
        page = watched.go("/console/try")
        page.get_by_role("textbox").first.fill("Prove step by step that there are infinitely many primes.")
        expect(page.locator("#result")).to_contain_text("REASONING")
        assert page.evaluate(AXE) == []


def test_a_policy_that_does_not_load_is_explained_in_the_page(browser: Browser, demo: Demo) -> None:
    from playwright.sync_api import expect

    from support.chromium import opened

    with opened(browser, demo.base, checks=False) as watched:
        page = watched.go(f"/console/decisions/{demo.proof}")
        page.locator("#again textarea").fill("[tiers]\nboundries = 1\n")
        page.get_by_role("button", name="Decide again").click()
        expect(page.locator("#again")).to_contain_text("boundries")
        expect(page.locator("#again")).to_contain_text("2")

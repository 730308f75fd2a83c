"""The console without a mouse."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from support.chromium import Demo

pytestmark = pytest.mark.browser

LABELS = 100
OTHER_POLICY = """[upstreams.demo]
base_url = "demo:"
[models.demo-large]
upstream = "demo"
id = "demo-large"
[tiers]
simple = "demo-large"
"""
VIOLATIONS = "async () => (await axe.run()).violations.map((one) => one.id)"


def test_pages_rows_search_and_help(browser: Browser, demo: Demo) -> None:
    from playwright.sync_api import expect

    from support.chromium import opened

    with opened(browser, demo.base) as watched:
        page = watched.go("/console")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#main")).to_be_focused()
        jump(page, "d", "/console/decisions$")
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("k")
        expect(page.locator("[data-row]").first).to_have_class(re.compile(r"\bat\b"))
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("/console/decisions/d-"))
        jump(page, "d", "/console/decisions$")
        page.keyboard.press("/")
        page.keyboard.type("infinitely many primes")
        expect(page.locator("#rows tr")).to_have_count(1)
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_be_hidden()


def test_the_palette_opens_pages_and_searches(browser: Browser, demo: Demo) -> None:
    from playwright.sync_api import expect

    from support.chromium import opened

    with opened(browser, demo.base) as watched:
        page = watched.go("/console")
        page.keyboard.press("Control+k")
        expect(page.get_by_role("combobox")).to_be_focused()
        assert page.evaluate(VIOLATIONS) == []
        page.keyboard.type("sess")
        expect(page.get_by_role("option").first).to_have_text("Sessions")
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("/console/sessions$"))
        page.keyboard.press("Control+k")
        page.keyboard.type("infinitely many primes")
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("text=infinitely"))
        expect(page.locator("#rows tr")).to_have_count(1)


def test_a_row_opens_by_a_click_anywhere_in_it(browser: Browser, demo: Demo) -> None:
    from playwright.sync_api import expect

    from support.chromium import opened

    with opened(browser, demo.base) as watched:
        for place in ("td.cost", "td.when a"):
            page = watched.go("/console/decisions")
            page.locator("#rows tr").first.locator(place).click()
            page.wait_for_url(re.compile("/console/decisions/d-"))
        page = watched.go("/console/decisions")
        page.evaluate("getSelection().selectAllChildren(document.querySelector('#rows td.tokens'))")
        page.locator("#rows td.cost").first.dispatch_event("click")
        expect(page).to_have_url(re.compile("/console/decisions$"))


def test_an_outcome_is_set(browser: Browser, demo: Demo) -> None:
    from playwright.sync_api import expect

    from support.chromium import opened

    with opened(browser, demo.base) as watched:
        page = watched.go(f"/console/decisions/{demo.proof}")
        page.locator("#outcome input[name=score]").focus()
        page.keyboard.type("0.9")
        page.keyboard.press("Tab")
        page.keyboard.type("right")
        page.keyboard.press("Enter")
        expect(page.locator("#outcome ul")).to_contain_text("0.9 right")


def test_every_control_can_be_reached_and_is_seen(browser: Browser, demo: Demo) -> None:
    """Focus goes through the page in order, and every stop shows where it is."""
    from support.chromium import opened

    unseen = """() => { const at = document.activeElement, style = getComputedStyle(at);
        return at === document.body || style.outlineStyle !== "none" || style.boxShadow !== "none" ? ""
            : at.outerHTML.slice(0, 100); }"""
    of_decisions = ("/console/decisions", f"/console/decisions/{demo.proof}")
    of_policies = ("/console/savings", "/console/quality", "/console/policy")
    for path in ("/console", *of_decisions, *of_policies, "/console/try"):
        with opened(browser, demo.base) as watched:
            page = watched.go(path)
            for _ in range(25):
                page.keyboard.press("Tab")
                assert page.evaluate(unseen) == ""


def test_savings_of_another_period_are_asked_for(browser: Browser, demo: Demo) -> None:
    from playwright.sync_api import expect

    from support.chromium import opened

    with opened(browser, demo.base) as watched:
        page = watched.go("/console/quality")
        jump(page, "s", "/console/savings$")
        focus(page, "select[name=last]")
        page.keyboard.type("24")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("last=24h"))
        expect(page.locator(".tiles")).to_contain_text("Saved, at least")


def test_a_period_is_replayed_and_its_changes_are_opened(browser: Browser, demo: Demo) -> None:
    from playwright.sync_api import expect

    from support.chromium import opened

    with opened(browser, demo.base) as watched:
        page = watched.go("/console/policy")
        focus(page, "#h-versions ~ .scroll a")
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("version="))
        focus(page, "#replay textarea")
        page.keyboard.press("Control+a")
        page.keyboard.insert_text(OTHER_POLICY)
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("/console/policy/replays/"))
        expect(page.get_by_role("heading", level=1)).to_have_text("Replay done")
        assert page.get_by_role("progressbar").get_attribute("value") == "1.0"
        expect(page.locator(".tiles")).to_contain_text("Changed")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            assert page.evaluate(VIOLATIONS) == []
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("/console/decisions/d-"))


def jump(page: Page, key: str, address: str) -> None:
    """Open a page by two keys, again where a slow machine let the time between them pass."""
    from playwright.sync_api import TimeoutError as Late

    for _ in range(10):
        page.keyboard.press("g")
        page.keyboard.press(key)
        with suppress(Late):
            page.wait_for_url(re.compile(address), timeout=5_000)
            return
    pytest.fail(f"g and {key} do not open {address}")


def focus(page: Page, selector: str) -> None:
    """Go by Tab until an element has the focus."""
    wanted = page.locator(selector).first
    for _ in range(60):
        page.keyboard.press("Tab")
        if wanted.evaluate("one => one === document.activeElement"):
            return
    pytest.fail(f"Tab does not reach {selector}")


@pytest.mark.slow
def test_a_hundred_decisions_take_a_hundred_keys(browser: Browser, demo: Demo) -> None:
    from playwright.sync_api import expect

    from support.chromium import opened

    demo.stick(LABELS + 5)
    with opened(browser, demo.base) as watched:
        page = watched.go("/console/label")
        before = labelled(page.locator(".head .live").inner_text())
        for number in range(1, LABELS + 1):
            page.keyboard.press("12345"[number % 5])
            expect(page.locator(".head .live")).to_contain_text(re.compile(rf"^{before + number} labelled"))
        assert "with labels of two models: 40 more for" in page.locator(".head .live").inner_text()


def labelled(head: str) -> int:
    found = re.match(r"([\d,]+) labelled", head)
    assert found, head
    return int(found[1].replace(",", ""))

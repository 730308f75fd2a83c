"""Who may open the console, in a real browser: login, logout, forged tokens, foreign pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from support.chromium import Demo

pytestmark = pytest.mark.browser

KEY = "a-key-of-callers"
FOREIGN = "http://foreign.example"


@pytest.fixture(scope="module")
def locked(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """A gateway that asks for a key."""
    from support.chromium import demo_gateway

    with demo_gateway(tmp_path_factory.mktemp("locked"), [KEY]) as made:
        yield made


def test_login_and_logout(browser: Browser, locked: Demo) -> None:
    from playwright.sync_api import expect

    from support.chromium import opened

    with opened(browser, locked.base, checks=False) as watched:
        page = watched.go("/console/decisions?tier=SIMPLE")
        page.wait_for_url(re.compile("/console/login"))
        assert page.evaluate("async () => (await axe.run()).violations.map((one) => one.id)") == []
        page.get_by_label("Key of the gateway").fill("wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_text("this is no key of the gateway")).to_be_visible()
        page.get_by_label("Key of the gateway").fill(KEY)
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("tier=SIMPLE"))
        cookies = page.context.cookies()
        assert [(each.get("httpOnly"), each.get("sameSite")) for each in cookies] == [(True, "Strict")]
        assert KEY not in str(cookies)
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url(re.compile("/console/login"))
        watched.go("/console")
        page.wait_for_url(re.compile("/console/login"))
        assert [each for each in watched.problems if "401" not in each] == []  # that of the wrong key


def test_a_label_after_the_session_ended_leaves_the_page(browser: Browser, locked: Demo) -> None:
    from playwright.sync_api import expect

    from support.chromium import opened

    locked.stick(1)
    with opened(browser, locked.base) as watched:
        page = watched.go("/console/login?to=/console/label")
        page.get_by_label("Key of the gateway").fill(KEY)
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("/console/label"))
        expect(page.get_by_role("button", name="4 good")).to_be_visible()
        page.context.clear_cookies()
        for _ in range(2):
            page.keyboard.press("4")
            expect(page.locator("#label > .notice")).to_contain_text("You are signed out.")
        expect(page.locator("#label > .notice")).to_have_count(1)
        expect(page.get_by_role("heading", level=1)).to_have_text("Label")
        page.get_by_role("link", name="Sign in").click()
        page.wait_for_url(re.compile("/console/login.to=%2Fconsole%2Flabel"))


def test_a_cookie_from_before_the_logout_opens_nothing(browser: Browser, locked: Demo) -> None:
    from support.chromium import opened

    with opened(browser, locked.base) as watched:
        page = watched.go("/console/login")
        page.get_by_label("Key of the gateway").fill(KEY)
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile("/console$"))
        (kept,) = page.context.cookies()
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url(re.compile("/console/login"))
        page.context.add_cookies(
            [{"name": kept["name"], "value": kept["value"], "url": f"{locked.base}/console"}]
        )
        watched.go("/console")
        page.wait_for_url(re.compile("/console/login"))


@pytest.mark.parametrize("token", ["", "forged", "e" * 43])
def test_a_change_without_the_token_is_refused(browser: Browser, demo: Demo, token: str) -> None:
    from support.chromium import opened

    with opened(browser, demo.base, checks=False) as watched:
        page = watched.go(f"/console/decisions/{demo.planted}")
        page.locator("#outcome input[name=token]").evaluate(
            "(field, value) => { field.value = value }", token
        )
        page.locator("#outcome input[name=score]").fill("1")
        with page.expect_navigation() as answered:
            page.get_by_role("button", name="Set outcome").click()
        assert answered.value.status in {401, 403}
        watched.go(f"/console/decisions/{demo.planted}")
        assert page.locator("#outcome li").count() == 1  # the one that was there


def test_a_form_of_a_foreign_page_is_refused(browser: Browser, demo: Demo) -> None:
    from support.chromium import opened

    form = f"""<form method="post" action="{demo.base}/console/decisions/{demo.planted}/outcome">
        <input name="score" value="1"><button>send</button></form>"""
    with opened(browser, demo.base, checks=False) as watched:
        page = watched.page
        page.route(f"{FOREIGN}/**", lambda route: route.fulfill(body=form, content_type="text/html"))
        page.goto(FOREIGN + "/")
        with page.expect_navigation() as answered:
            page.get_by_role("button").click()
        assert answered.value.status in {401, 403}
        watched.go(f"/console/decisions/{demo.planted}")
        assert page.locator("#outcome li").count() == 1


def test_no_foreign_page_can_read_or_frame_the_console(browser: Browser, demo: Demo) -> None:
    from support.chromium import opened

    reading = f"""async () => {{ try {{
        return await (await fetch("{demo.base}/console/decisions.json")).text();
    }} catch (error) {{ return "refused"; }} }}"""
    frame = f'<iframe src="{demo.base}/console"></iframe>'
    with opened(browser, demo.base, checks=False) as watched:
        page = watched.page
        page.route(f"{FOREIGN}/**", lambda route: route.fulfill(body=frame, content_type="text/html"))
        page.goto(FOREIGN + "/", wait_until="load")
        assert page.evaluate(reading) == "refused"
        assert [each.url for each in page.frames] == [FOREIGN + "/", "chrome-error://chromewebdata/"]

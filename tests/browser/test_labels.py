"""Labelling and fitting in a real browser: the last label, Fit, Fit again, Use it, Take back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.labelling import CONFIG, PROMPTS, a_prompt, by_kind, labelled_gateway
from support.waiting import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

#: A fit takes seconds, and a loaded machine many.
LONG = 300_000
VIOLATIONS = "async () => (await axe.run()).violations.map((one) => one.id)"


@pytest.mark.slow
def test_the_last_label_fit_use_it_and_take_back(browser: Browser, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    from support.chromium import opened

    hard = a_prompt(100_001)
    with labelled_gateway(tmp_path) as gateway:
        gateway.label(by_kind)
        gateway.chat(a_prompt(PROMPTS), "small")
        with opened(browser, str(gateway.http.base_url).rstrip("/")) as watched:
            page = watched.go("/console/label")
            until(lambda: "Answer 2" in gateway.http.get("/console/label").text)
            page.reload()
            expect(page.get_by_text("How good is answer 1?")).to_be_visible()
            assert page.evaluate(VIOLATIONS) == []
            page.keyboard.press("5")
            expect(page.get_by_text("How good is answer 2?")).to_be_visible()
            page.keyboard.press("5")
            expect(page.locator(".head .live")).to_contain_text(f"{PROMPTS + 1} prompts with labels of two")

            page.get_by_role("button", name="Fit").click()
            again = page.get_by_role("button", name="Fit again")  # the first target is not shown
            expect(again).to_be_visible(timeout=LONG)
            assert page.evaluate(VIOLATIONS) == []
            use = page.get_by_role("button", name="Use it")
            expect(use).to_be_hidden()
            again.click()
            expect(use).to_be_visible(timeout=LONG)
            assert page.evaluate(VIOLATIONS) == []
            use.click()
            back = page.get_by_role("button", name="Take back")
            expect(back).to_be_visible()
            until(lambda: gateway.served(hard) == "large")
            back.click()
            expect(page.get_by_role("heading", name="Label", exact=True)).to_be_visible()
            expect(back).to_be_hidden()
            assert gateway.file.read_text() == CONFIG
            until(lambda: gateway.served(hard) == "small")

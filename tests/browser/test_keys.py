"""The page Keys in a real browser: with keys, teams and limits, for an admin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from support.chromium import Demo

pytestmark = pytest.mark.browser

TABLES = """
[upstreams.demo]
base_url = "demo://"
[models]
small = { upstream = "demo", id = "demo-small", input_per_million = 1, output_per_million = 5 }
[tiers]
simple = "small"
[keys.admin]
sha256 = "HASH"
role = "admin"
budget = { money = 20, per = "week" }
[keys.old]
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
team = "a-team-with-a-long-name"
models = ["sm*"]
tiers = "simple"
expires = 2020-01-31
[teams.a-team-with-a-long-name]
requests_per_minute = 60
tokens_per_minute = 200000
budget = { money = 50, per = "month" }
"""


@pytest.fixture(scope="module")
def limited(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """A gateway whose keys have limits."""
    import msgspec

    from pointsman.config import examine
    from pointsman.gateway.build import Builder
    from pointsman.upstreams.port import DEMO_URL, hash_key
    from support.chromium import Demo
    from support.servers import gateway

    folder = tmp_path_factory.mktemp("keys")
    text = TABLES.replace("HASH", hash_key("the-admin").hex()).replace("demo://", DEMO_URL)

    def config() -> Any:
        found = examine(folder / "pointsman.toml", {}, text=text).config
        assert found is not None
        server = msgspec.structs.replace(found.server, port=0)
        ledger = msgspec.structs.replace(found.ledger, path=folder / "ledger.sqlite")
        access = msgspec.structs.replace(found.access, path=folder / "budgets.sqlite")
        return msgspec.structs.replace(found, server=server, ledger=ledger, access=access)

    with gateway(Builder(config)) as running, closing(Demo(running.url, running.gateway)) as demo:
        yield demo


def test_keys_and_teams_for_an_admin(browser: Browser, limited: Demo) -> None:
    from playwright.sync_api import expect

    from support.chromium import opened

    with opened(browser, limited.base) as watched:
        page = watched.go("/console/login")
        page.get_by_label("Key of the gateway").fill("the-admin")
        page.keyboard.press("Enter")
        page.wait_for_url("**/console")
        page.keyboard.press("g")
        page.keyboard.press("k")
        page.wait_for_url("**/console/keys")
        expect(page.get_by_role("heading", level=1)).to_have_text("Keys")
        expect(page.get_by_role("rowheader", name="old")).to_be_visible()
        expect(page.get_by_text("expired")).to_be_visible()
        expect(page.get_by_text("50.00 of 50.00 per month left")).to_be_visible()
        for width in (1280, 640, 360):
            page.set_viewport_size({"width": width, "height": 900})
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                assert page.evaluate("async () => (await axe.run()).violations.map((one) => one.id)") == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width

"""One real browser, and one gateway with something to look at, for all tests here.

Skipped where no Chromium is installed: ``make browser`` installs Debian's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from support.chromium import Demo


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser."""
    pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: make browser")
    from support.chromium import chromium, find_chromium

    if not find_chromium():
        pytest.skip("there is no Chromium here: make browser installs it")
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def demo(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """A gateway that has served the scripted agents and the planted texts."""
    from support.chromium import demo_gateway

    with demo_gateway(tmp_path_factory.mktemp("demo")) as played:
        played.play()
        yield played

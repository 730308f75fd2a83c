"""Live events: each look sends what is new or changed, to every browser, and to no more than may watch."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any, cast

import pytest

from pointsman.config.shapes import demo_config
from pointsman.console import GatewayView, _now
from pointsman.console._now import MOST_VIEWERS, Live
from pointsman.errors import Overloaded, StoreUnavailable
from pointsman.stores.ledger import MemoryLedger
from pointsman.testing import a_decision, an_attempt
from support.consoles import demo_engine


async def _at_once(call: Callable[[], Any]) -> Any:
    return call()


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_now, "_EVERY", 0.001)


def _live(ledger: MemoryLedger) -> Live:
    view = GatewayView(demo_config(), demo_engine(), ledger)
    return Live(lambda: view, _at_once)


def _opened(live: Live) -> AsyncGenerator[bytes, None]:
    return cast("AsyncGenerator[bytes, None]", live.stream(lambda: True).body_iterator)


def _event(sent: bytes) -> tuple[str, Any]:
    name, _, data = sent.decode().strip().partition("\ndata: ")
    return name.removeprefix("event: "), json.loads(data)


async def _next(events: Any) -> tuple[str, Any]:
    async with asyncio.timeout(30):
        return _event(await anext(events))


def test_a_row_is_sent_when_it_is_new_and_when_it_changed() -> None:
    async def watch() -> list[list[str]]:
        ledger = MemoryLedger()
        ledger.append(a_decision("d-1", at=1.0))
        live = _live(ledger)
        events = _opened(live)
        assert await anext(events) == b"retry: 2000\n\n"
        seen = []
        for entry in (a_decision("d-2", at=2.0), an_attempt("d-1"), None):
            name, event = await _next(events)
            assert name == "now"
            seen.append([row["id"] for row in event["rows"]])
            if entry:
                ledger.append(entry)
        name, event = await _next(events)
        seen.append([row["id"] for row in event["rows"]])
        await events.aclose()
        return seen

    assert asyncio.run(watch()) == [["d-1"], ["d-2"], ["d-1"], []]


def test_a_ledger_that_fails_is_told_and_looked_at_again() -> None:
    class Failing(MemoryLedger):
        fails = True

        def search(self, *arguments: Any, **named: Any) -> Any:
            if self.fails:
                raise StoreUnavailable("the disk is gone")
            return super().search(*arguments, **named)

    async def watch() -> list[str]:
        ledger = Failing()
        events = _opened(_live(ledger))
        await anext(events)
        first, said = await _next(events)
        assert said == {"message": "the disk is gone"}
        ledger.fails = False
        second, _ = await _next(events)
        await events.aclose()
        return [first, second]

    assert asyncio.run(watch()) == ["trouble", "now"]


def test_no_more_browsers_watch_than_may() -> None:
    async def watch() -> None:
        live = _live(MemoryLedger())
        streams = [_opened(live) for _ in range(MOST_VIEWERS)]
        for each in streams:
            await anext(each)
        with pytest.raises(Overloaded, match="browsers watch already"):
            live.stream(lambda: True)
        await streams[0].aclose()
        live.stream(lambda: True)
        for each in streams[1:]:
            await each.aclose()

    asyncio.run(watch())


def test_a_shutdown_ends_the_streams() -> None:
    async def watch() -> int:
        ledger = MemoryLedger()
        live = _live(ledger)
        streams = [_opened(live) for _ in range(2)]
        for each in streams:
            await anext(each)
        live.close()
        async with asyncio.timeout(30):
            for each in streams:
                async for _ in each:
                    pass  # what was sent before
        return len(streams)

    assert asyncio.run(watch()) == 2

"""A real browser before a gateway of the demo: what happened in it that should not, and what it is shown."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec
from playwright.sync_api import Browser, BrowserContext, Error, Page, Request, expect, sync_playwright

from pointsman.cli.demo_traffic import CLIENT, ScriptedRequest, one_round
from pointsman.config.shapes import demo_config
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from pointsman.upstreams.port import ServerSpec, hash_key
from support.servers import gateway

__all__ = ["AXE", "HOSTILE", "Demo", "Watched", "chromium", "demo_gateway", "find_chromium", "opened"]

AXE: Final = Path(__file__).parent.parent / "browser" / "vendor" / "axe.min.js"
#: Sets a variable wherever it is taken for HTML.
HOSTILE: Final = '<script>window.hacked = 1</script><img src=x onerror="window.hacked = 1">'
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
#: Milliseconds for which is waited for what must appear: a busy machine is slow.
_PATIENCE: Final = 30_000


def find_chromium() -> str:
    """Return the browser to use, of ``POINTSMAN_CHROMIUM`` or an installed one; empty: there is none."""
    named = os.environ.get("POINTSMAN_CHROMIUM", "")
    return named or next((path for name in _NAMES if (path := shutil.which(name))), "")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the browser."""
    expect.set_options(timeout=_PATIENCE)
    with sync_playwright() as playwright:
        # Without a sandbox of its own: a container has none to give, and it sees pages of ours alone.
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watched:
    """One page, and what happened in it that should not."""

    page: Page
    base: str
    problems: list[str] = field(default_factory=list)

    def go(self, path: str) -> Page:
        """Open a page of the console."""
        self.page.goto(self.base + path, wait_until="load")
        return self.page

    def check(self) -> None:
        """Fail where the browser complained, another host was asked, or a planted script ran."""
        assert self.problems == []
        assert self.page.evaluate("typeof window.hacked") == "undefined"


@contextmanager
def opened(browser: Browser, base: str, *, checks: bool = True, **settings: Any) -> Iterator[Watched]:
    """Open a page of its own, with cookies of its own; at the end, nothing must have gone wrong in it."""
    context = browser.new_context(**settings)
    context.set_default_timeout(_PATIENCE)
    context.add_init_script(path=AXE)
    watched = Watched(context.new_page(), base)
    _watch(context, watched)
    try:
        yield watched
        if checks:
            watched.check()
    finally:
        context.close()


def _watch(context: BrowserContext, watched: Watched) -> None:
    def asked(request: Request) -> None:
        if not request.url.startswith((watched.base + "/", "data:")):
            watched.problems.append(f"request to another host: {request.url}")

    def said(message: Any) -> None:
        if message.type in {"error", "warning"}:  # a violation of the content security policy is an error
            watched.problems.append(f"{message.type} on {watched.page.url}: {message.text}")

    def failed(error: Error) -> None:
        watched.problems.append(f"exception on {watched.page.url}: {error}")

    context.on("request", asked)
    watched.page.on("console", said)
    watched.page.on("pageerror", failed)


class Demo:
    """A gateway of the demo that has served the scripted agents, and somebody who plants scripts."""

    def __init__(self, base: str, gateway: Gateway, key: str = "") -> None:
        self.base = base
        self.gateway = gateway
        self.planted = ""  # id of the decision whose every text is hostile
        self.proof = ""  # that of the long proof
        self._client = httpx.Client(base_url=base, headers={"authorization": f"Bearer {key}"} if key else {})

    def send(self, request: ScriptedRequest) -> str:
        """Send one request of an agent, and return the id of its decision."""
        named = {"x-session-id": request.session, "user-agent": CLIENT}
        answer = self._client.post(request.path, json=request.body, headers=named)
        id_: str = answer.headers.get("x-pointsman-decision-id", "")
        return id_

    def play(self) -> None:
        """Play what the pages are to show."""
        self.play_round("1")
        for request in _planted():
            self.planted = self.send(request)
        outcome = {"score": 0.25, "label": HOSTILE, "comment": HOSTILE}
        self._client.post(f"/v1/decisions/{self.planted}/outcome", json=outcome).raise_for_status()

    def play_round(self, name: str, *, pause: float = 0.0) -> None:
        """Play the scripted agents once, with pauses of so many seconds."""
        for request in one_round(name):
            time.sleep(pause)
            id_ = self.send(request)
            if request.session.startswith("demo-proof"):
                self.proof = id_

    def stick(self, count: int) -> None:
        """Send requests of so many stuck agents: decisions worth a label."""
        for number in range(count):
            last = list(_stuck(f"label-{number}", f"Fix the failing test number {number}."))[-1]
            self.send(last)

    def close(self) -> None:
        """Close the connection to the gateway."""
        self._client.close()


def _stuck(session: str, task: str, error: str = "ERROR: no such file") -> Iterator[ScriptedRequest]:
    history: list[dict[str, Any]] = [{"role": "user", "content": task}]
    for number in range(4):
        body = {"model": "auto", "messages": list(history)}
        yield ScriptedRequest(session, "/v1/chat/completions", body)
        call = {"name": "bash", "arguments": json.dumps({"command": f"pytest {number * ' '}"})}
        made = {"id": f"call_{number}", "type": "function", "function": call}
        history.append({"role": "assistant", "content": HOSTILE, "tool_calls": [made]})
        history.append({"role": "tool", "tool_call_id": f"call_{number}", "content": error})


def _planted() -> Iterator[ScriptedRequest]:
    """A stuck agent whose task, model's answers and tool results hold scripts; its hint quotes them."""
    yield from _stuck("planted", f"{HOSTILE} Fix the failing tests.", f"ERROR: {HOSTILE}")


@contextmanager
def demo_gateway(folder: Path, keys: Sequence[str] = ()) -> Iterator[Demo]:
    """Serve the demo with a ledger of its own, which keeps whole texts."""

    def config() -> Any:
        found = demo_config()
        server = ServerSpec(port=0, keys=tuple(map(hash_key, keys)))
        ledger = msgspec.structs.replace(found.ledger, path=folder / "ledger.sqlite", text="full")
        return msgspec.structs.replace(found, server=server, ledger=ledger)

    with (
        gateway(Builder(config)) as running,
        closing(Demo(running.url, running.gateway, *keys[:1])) as demo,
    ):
        yield demo

"""A gateway with a console, called in process as a browser does."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from functools import cache
from typing import Final
from urllib.parse import urlencode

import msgspec

from pointsman.config import Config, ConsoleSpec
from pointsman.config.shapes import demo_config
from pointsman.decision.engine import Engine
from pointsman.factory import build_engine, build_policy, keep_policy
from pointsman.gateway._live_state import LiveState, build_live_state
from pointsman.gateway.app import Gateway
from pointsman.runtime import Runtime
from pointsman.stores.ledger import Ledger, MemoryLedger
from pointsman.stores.sessions import MemorySessions
from pointsman.upstreams.port import ServerSpec, hash_key
from support.in_process import Received, ask

__all__ = ["HOST", "KEY", "Browser", "console_gateway", "console_state", "demo_engine", "with_keys"]

HOST = "127.0.0.1:4747"
KEY = "a-key-of-the-gateway"


def with_keys(*keys: str, names: tuple[str, ...] = (), console: ConsoleSpec | None = None) -> Config:
    """The demo's configuration, with keys."""
    server = ServerSpec(keys=tuple(map(hash_key, keys)), names=names)
    return msgspec.structs.replace(demo_config(), server=server, console=console or ConsoleSpec())


@cache
def demo_engine() -> Engine:
    """The demo's, compiled once: it holds no state."""
    return build_engine(build_policy(demo_config()))


def console_gateway(config: Config | None = None, ledger: Ledger | None = None) -> Gateway:
    """A gateway over the demo upstream whose ledger keeps words."""
    config = config or demo_config()
    engine = demo_engine()
    runtime = Runtime(engine, sessions=MemorySessions(), ledger=ledger or MemoryLedger(text="full"))
    return Gateway(_state(config, runtime))


def console_state(config: Config, browser: Browser) -> LiveState:
    """The state that follows a gateway's after its configuration changed."""
    runtime = browser.gateway.state.runtime
    return _state(config, runtime.with_policy(build_engine(build_policy(config))))


def _state(config: Config, runtime: Runtime) -> LiveState:
    keep_policy(runtime, config)
    return build_live_state(runtime, config, names=runtime.engine.names)


class Browser:
    """Keeps a cookie, and sends what a browser does."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.cookie = ""
        self._loop: Final = asyncio.Runner()

    def close(self) -> None:
        """End the gateway."""
        self.gateway.stop()
        self.gateway.state.close()
        self._loop.close()

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Received:
        """Open a page."""
        return self._kept(self._ask(path, b"", self._headers(headers), method="GET"))

    def post(self, path: str, form: Mapping[str, str], headers: Mapping[str, str] | None = None) -> Received:
        """Send a form, with the token of the page before unless it names one."""
        sent = self._headers(
            {
                "content-type": "application/x-www-form-urlencoded",
                "origin": f"http://{HOST}",
                **(headers or {}),
            }
        )
        return self._kept(self._ask(path, urlencode(form).encode(), sent))

    def token(self, path: str = "/console/decisions") -> str:
        """The token that the forms of a page carry."""
        page = self.get(path)
        found = re.search(rb'name="token" value="([^"]+)"', page.body)
        assert found, page.body
        return found[1].decode()

    def chat(self, prompt: str, session: str = "s-1", model: str = "auto", key: str = "") -> str:
        """Send a request as an agent does, and return the id of its decision."""
        body = {"model": model, "messages": [{"role": "user", "content": prompt}]}
        return self.agent(body, session, key)

    def agent(
        self, body: Mapping[str, object], session: str, key: str = "", more: Mapping[str, str] | None = None
    ) -> str:
        """Send a whole request as an agent does, and return the id of its decision."""
        headers = {"x-session-id": session, "host": HOST, **(more or {})}
        if key:
            headers["authorization"] = f"Bearer {key}"
        answer = self._ask("/v1/chat/completions", body, headers)
        assert answer.status == 200, answer.body
        return answer.headers["x-pointsman-decision-id"]

    def _ask(self, path: str, body: object, headers: Mapping[str, str], method: str = "POST") -> Received:
        return self._loop.run(ask(self.gateway, path, body, headers, method=method))

    def _headers(self, more: Mapping[str, str] | None) -> dict[str, str]:
        cookie = {"cookie": self.cookie} if self.cookie else {}
        return {"host": HOST, "accept": "text/html", **cookie, **(more or {})}

    def _kept(self, answer: Received) -> Received:
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

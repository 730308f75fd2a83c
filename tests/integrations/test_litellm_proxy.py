"""A real Router and a real proxy of LiteLLM's, from an environment of their own: ``make litellm``."""

import asyncio
import logging
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

from pointsman.config.shapes import demo_config
from pointsman.gateway._live_state import LiveState
from pointsman.gateway.build import Builder
from pointsman.stores.ledger import SqliteLedger
from support.hosts import HARD, PATIENCE, FailingPoints, SlowPoints, not_there
from support.servers import gateway
from support.waiting import until

if find_spec("litellm") is None or find_spec("fastapi") is None:
    pytest.skip("LiteLLM and its proxy are not installed here: make litellm", allow_module_level=True)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # LiteLLM's own
]
EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCE = Path(__file__).parents[2] / "src"
KEY = "sk-2f8f0c1d7a6b4e5f9c3d"
#: It asks the network for prices otherwise, and where to report to.
OFFLINE = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"}
BOTH: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "auto", "messages": [{"role": "user", "content": HARD}]},
    "/v1/messages": {"model": "auto", "max_tokens": 99, "messages": [{"role": "user", "content": HARD}]},
}


def state_of_demo(folder: Path) -> tuple[Builder, LiveState]:
    from msgspec.structs import replace

    config = demo_config()
    ledger = replace(config.ledger, path=folder / "demo.sqlite")
    build = Builder(lambda: replace(config, ledger=ledger, server=replace(config.server, port=0)))
    return build, build()


class Proxy:
    """The proxy of ``examples/litellm``, as its command starts it, in front of the demo."""

    def __init__(self, folder: Path, demo: str) -> None:
        self.folder = folder
        text = (EXAMPLES / "litellm" / "proxy.yaml").read_text(encoding="utf-8")
        (folder / "proxy.yaml").write_text(
            text.replace("http://127.0.0.1:4747", demo).replace("ms: 30000", "ms: 300000"), encoding="utf-8"
        )
        shutil.copy(EXAMPLES / "litellm" / "pointsman.toml", folder)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        program = [
            str(Path(sys.executable).with_name("litellm")),
            "--config",
            "proxy.yaml",
            "--port",
            str(port),
        ]
        environment = os.environ | OFFLINE | {"LITELLM_MASTER_KEY": KEY, "PYTHONPATH": str(SOURCE)}
        with (folder / "proxy.log").open("wb") as log:
            self.process = subprocess.Popen(
                [*program, "--host", "127.0.0.1"], cwd=folder, env=environment, stdout=log, stderr=log
            )

    @property
    def log(self) -> str:
        return (self.folder / "proxy.log").read_text(encoding="utf-8", errors="replace")

    def is_up(self) -> bool:
        assert self.process.poll() is None, self.log
        try:
            return httpx.get(f"{self.url}/health/liveliness").status_code == 200
        except httpx.TransportError:
            return False

    def post(self, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
        sent = {"authorization": f"Bearer {KEY}"} | {n.replace("_", "-"): v for n, v in headers.items()}
        return httpx.post(self.url + path, json=body, headers=sent).raise_for_status()

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(30)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("litellm")
    build, state = state_of_demo(folder)
    with closing(build), closing(state), gateway(state) as demo, closing(Proxy(folder, demo.url)) as proxy:
        until(proxy.is_up, seconds=600)
        yield proxy


@pytest.mark.parametrize("path", BOTH)
def test_a_proxy_serves_the_tier_that_is_decided(proxy: Proxy, path: str) -> None:
    answer = proxy.post(path, BOTH[path], x_session_id="s-" + path.rpartition("/")[2])
    assert "demo-large would have answered" in answer.text
    assert answer.headers["x-litellm-complexity-router-cause"] == "classifier_plugin"
    assert answer.headers["x-pointsman-tier"] == "REASONING"
    simple = BOTH[path] | {"messages": [{"role": "user", "content": "Hello!"}]}
    other = proxy.post(path, simple, x_session_id="s-" + path.rpartition("/")[2])
    assert "demo-small would have answered" in other.text
    ids = [each.headers["x-pointsman-decision-id"] for each in (answer, other)]
    with closing(SqliteLedger(proxy.folder / "ledger.sqlite")) as ledger:
        until(lambda: all(ledger.get(each) for each in ids))
        given = [found.input for each in ids if (found := ledger.get(each))]
    assert [each.user_message for each in given] == [1, 2]
    assert {each.session for each in given} == {f"{given[0].caller}/s-{path.rpartition('/')[2]}"}


def test_a_stream_has_the_headers_too(proxy: Proxy) -> None:
    answer = proxy.post("/v1/chat/completions", BOTH["/v1/chat/completions"] | {"stream": True})
    assert answer.headers["x-pointsman-tier"] == "REASONING"
    assert "demo-large" in answer.text


def test_nothing_went_wrong_that_was_not_asked_for(proxy: Proxy) -> None:
    assert "goes on with its own choice" not in proxy.log


def routed(points: Any, timeout: float = PATIENCE) -> tuple[str, dict[str, Any]]:
    """Who answers in a Router of LiteLLM's, and what is in its metadata."""
    os.environ.update(OFFLINE)
    from litellm import Router

    from pointsman.integrations.litellm import Classifier

    def model(name: str) -> dict[str, Any]:
        params = {"model": f"openai/{name}", "api_key": "none", "mock_response": name}
        return {"model_name": name, "litellm_params": params}

    tiers = {"SIMPLE": "small", "MEDIUM": "small", "COMPLEX": "large", "REASONING": "large"}
    classifier = Classifier(points, timeout=timeout)
    config = {"classifier_type": "custom", "classifier_plugin": classifier, "tiers": tiers,
              "classifier_plugin_timeout_ms": 120_000}  # fmt: skip
    auto = {"model": "auto_router/complexity_router", "complexity_router_config": config,
            "complexity_router_default_model": "small"}  # fmt: skip
    router = Router(
        model_list=[model("small"), model("large"), {"model_name": "auto", "litellm_params": auto}]
    )
    metadata: dict[str, Any] = {"pointsman": {}}
    asked = [{"role": "user", "content": HARD}]
    answer = asyncio.run(router.acompletion(model="auto", messages=asked, metadata=metadata))
    return str(answer.choices[0].message.content), metadata


def test_a_router_serves_the_tier_that_is_decided() -> None:
    from pointsman import Pointsman

    answer, metadata = routed(Pointsman)
    assert answer == "large"
    assert metadata["pointsman"]["tier"] == "REASONING"


@pytest.mark.parametrize("points", [FailingPoints, SlowPoints, not_there], ids=["raises", "slow", "absent"])
def test_a_router_classifies_by_itself_without_a_decision(
    points: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "pointsman.integrations"):
        answer, metadata = routed(points, 0.01 if points is SlowPoints else PATIENCE)
    assert answer in {"small", "large"}
    assert metadata["pointsman"] == {}
    assert sum("goes on with its own choice" in each.getMessage() for each in caplog.records) == 1

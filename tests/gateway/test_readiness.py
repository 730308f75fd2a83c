"""``/health/ready`` while no upstream may be asked: other replicas may do better."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from pointsman.config import Config
from pointsman.config.shapes import demo_config
from pointsman.gateway import _circuit_breaker
from pointsman.gateway._openapi import openapi_document
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from pointsman.upstreams.port import DEMO_URL, UpstreamSpec
from support.in_process import Received, ask


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    def config() -> Config:
        found = demo_config()
        ledger = msgspec.structs.replace(found.ledger, path=tmp_path / "demo.sqlite")
        large = msgspec.structs.replace(found.models["demo-large"], upstream="other")
        upstreams = found.upstreams | {"other": UpstreamSpec("other", DEMO_URL)}
        models = found.models | {"demo-large": large}
        return msgspec.structs.replace(found, ledger=ledger, upstreams=upstreams, models=models)

    with closing(Builder(config)) as built:
        yield Gateway(built())


def ready(gateway: Gateway) -> Received:
    return asyncio.run(ask(gateway, "/health/ready", b"", method="GET"))


def fail(gateway: Gateway, *names: str) -> None:
    for name in names:
        for number in range(20):
            gateway.state.upstreams[name].failed("away", f"s{number}")


def test_one_upstream_that_works_is_enough(gateway: Gateway) -> None:
    fail(gateway, "demo")
    found = ready(gateway)
    assert (found.status, found.json()["status"]) == (200, "ok")
    assert found.json()["open_circuits"] == ["demo"]


def test_without_any_it_is_not_ready_until_a_probe_may_be_sent(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(gateway, "demo", "other")
    found = ready(gateway)
    assert (found.status, json.loads(found.body)["status"]) == (503, "unserved")
    assert (
        found.json()["status"]
        in openapi_document()["components"]["schemas"]["Ready"]["properties"]["status"]["enum"]
    )
    assert asyncio.run(ask(gateway, "/health/live", b"", method="GET")).status == 200
    monkeypatch.setattr(_circuit_breaker.CircuitBreaker, "is_pausing", lambda *_: False)
    assert ready(gateway).status == 200


def test_who_drains_says_so_first(gateway: Gateway) -> None:
    fail(gateway, "demo", "other")
    gateway.readiness.is_draining = True
    assert ready(gateway).json()["status"] == "draining"

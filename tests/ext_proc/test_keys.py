"""What a key decides of requests that are not decided: nobody chooses that no key is asked for."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import grpc
import msgspec
import pytest

from pointsman.config import Config
from pointsman.config.serving import ExtProcSpec
from pointsman.errors import StoreUnavailable
from pointsman.ext_proc.server import ExtProcServer, gateway_for
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from pointsman.upstreams.port import Limits
from support.envoy import BUFFERED, DUPLEX, NONE, STREAMED, Processed, ScriptedEnvoy
from support.limited import CHAT, config_of

pytestmark = pytest.mark.integration

KEYS = {
    "free": "",
    "poor": "budget = { money = 0.000001 }",
    "listed": 'models = ["small"]',
    "low": 'tiers = "simple"',
    "rated": "requests_per_minute = 1",
    "late": "expires = 2020-01-01",
    "viewer": 'role = "viewer"',
}
ORDINARY = json.dumps(CHAT).encode()
LARGE = json.dumps({**CHAT, "user": "x" * 3_000}).encode()
DOUBLED = ORDINARY[:-1] + b', "max_tokens": 1}'
OK: tuple[int, dict[str, str], list[bytes]] = (200, {}, [b"{}"])
#: The ways in which a caller had a request passed on as it came, and what a bounded key gets instead.
WAYS: dict[str, tuple[dict[str, Any], int]] = {
    "large body": ({"body": LARGE}, 413),
    "large body in parts": ({"body": LARGE, "mode": DUPLEX, "chunk": 700}, 413),
    "cut body": ({"body": ORDINARY, "mode": 3, "chunk": 60}, 413),
    "member twice": ({"body": DOUBLED}, 400),
    "no JSON": ({"body": b"{no json", "mode": DUPLEX}, 400),
    "compressed": ({"body": ORDINARY, "headers": {"content-encoding": "zstd"}}, 415),
    "content type": ({"body": ORDINARY, "headers": {"content-type": "text/plain"}}, 415),
    "no body": ({"body": b""}, 400),
    "other path": ({"body": ORDINARY, "path": "/v1/chat/completions/"}, 403),
    "in duplex": ({"body": ORDINARY, "path": "/v1/embeddings", "mode": DUPLEX}, 403),
    "other method": ({"body": ORDINARY, "method": "PUT"}, 403),
    "upgrade": ({"body": b"", "method": "GET", "headers": {"upgrade": "websocket"}}, 403),
    "body not shown": ({"body": ORDINARY, "mode": NONE}, 403),
    "body streamed": ({"body": ORDINARY, "mode": STREAMED}, 403),
}


def configured(folder: Path) -> Config:
    tables = [
        f'[keys.{name}]\nsha256 = "{sha256(name.encode()).hexdigest()}"\n{text}\n'
        for name, text in KEYS.items()
    ]
    found = config_of("".join(tables))
    return msgspec.structs.replace(
        found,
        ledger=msgspec.structs.replace(found.ledger, path=folder / "ledger.sqlite"),
        access=msgspec.structs.replace(found.access, path=folder / "budgets.sqlite"),
        server=msgspec.structs.replace(found.server, limits=Limits(body_bytes=2_000), drain=60.0),
    )


@asynccontextmanager
async def behind(folder: Path) -> AsyncIterator[tuple[Gateway, ScriptedEnvoy]]:
    spec = ExtProcSpec(port=0)
    builder = Builder(lambda: configured(folder))
    gateway = gateway_for(builder(), spec)
    served = ExtProcServer(gateway, spec)
    await served.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
            yield gateway, ScriptedEnvoy(channel)
    finally:
        await served.stop()
        builder.close()


def processed(folder: Path, key: str, *asked: dict[str, Any]) -> list[Processed]:
    """Return what became of requests with a key; an empty key: with none."""
    headers = {"authorization": f"Bearer {key}"} if key else {}

    async def ask() -> list[Processed]:
        async with behind(folder) as (_, envoy):
            return [
                await envoy.process(
                    **{"response": OK} | each | {"headers": headers | each.get("headers", {})}
                )
                for each in asked
            ]

    return asyncio.run(asyncio.wait_for(ask(), 60))


def refusal(found: Processed) -> tuple[int, str]:
    assert found.immediate is not None
    assert found.kinds[-1] == "immediate_response"
    return found.immediate.status.code, json.loads(found.immediate.body)["error"]["message"]


@pytest.mark.parametrize(("key", "status"), [("", 401), ("wrong", 401), ("late", 403)])
def test_who_may_not_call_is_refused_whatever_is_asked(tmp_path: Path, key: str, status: int) -> None:
    found = processed(tmp_path, key, *(asked for asked, _ in WAYS.values()))
    assert {way: refusal(each)[0] for way, each in zip(WAYS, found, strict=True)} == dict.fromkeys(
        WAYS, status
    )
    assert all(each.kinds == ["immediate_response"] for each in found)


@pytest.mark.parametrize("key", ["poor", "listed", "low"])
def test_a_key_with_limits_gets_nothing_undecided(tmp_path: Path, key: str) -> None:
    found = processed(tmp_path, key, *(asked for asked, _ in WAYS.values()))
    statuses = {way: status for way, (_, status) in WAYS.items()}
    assert {way: refusal(each)[0] for way, each in zip(WAYS, found, strict=True)} == statuses


def test_a_key_of_the_console_gets_nothing(tmp_path: Path) -> None:
    found = processed(tmp_path, "viewer", *(asked for asked, _ in WAYS.values()))
    assert {refusal(each)[0] for each in found} == {403}


def test_what_is_passed_carries_nothing_of_ours(tmp_path: Path) -> None:
    forged = {"x-pointsman-tier": "SIMPLE", "x-pointsman-why": "me"}
    ways = [asked | {"headers": forged | asked.get("headers", {})} for asked, _ in WAYS.values()]
    for asked, found in zip(ways, processed(tmp_path, "free", *ways), strict=True):
        assert found.immediate is None
        assert found.removed == ["x-pointsman-tier", "x-pointsman-why", "authorization"]
        assert (found.request_headers, found.clears_route) == ({}, False)
        assert found.body == (asked["body"] if asked.get("mode") == DUPLEX else None)


def test_a_credential_of_the_callers_own_stays(tmp_path: Path) -> None:
    own = {"x-pointsman-key": "free", "authorization": "Bearer their-own"}
    (found,) = processed(tmp_path, "", {"body": b"", "method": "GET", "path": "/v1/models", "headers": own})
    assert (found.immediate, found.removed) == (None, ["x-pointsman-key"])


def test_a_key_with_limits_reads(tmp_path: Path) -> None:
    (found,) = processed(tmp_path, "poor", {"body": b"", "method": "GET", "path": "/v1/models"})
    assert (found.immediate, found.removed) == (None, ["authorization"])


def test_what_is_passed_counts_for_the_rate(tmp_path: Path) -> None:
    found = processed(tmp_path, "rated", *[{"body": LARGE}] * 3)  # in two clock minutes at most
    assert found[0].immediate is None
    assert 429 in [refusal(each)[0] for each in found if each.immediate is not None]


def test_the_ordinary_request_is_refused_by_its_budget(tmp_path: Path) -> None:
    assert refusal(processed(tmp_path, "poor", {"body": ORDINARY})[0])[0] == 429


def test_a_refusal_is_in_the_callers_format(tmp_path: Path) -> None:
    (found,) = processed(tmp_path, "", {"body": LARGE, "path": "/v1/messages", "mode": BUFFERED})
    assert json.loads(found.immediate.body)["type"] == "error"
    assert refusal(found) == (
        401,
        "an API key is required; send it as 'Authorization: Bearer KEY' or in the header 'x-api-key'",
    )


@pytest.mark.parametrize("key", ["poor", "free"])
def test_a_gateway_that_fails_lets_no_bounded_key_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("of the gateway")

    async def test() -> list[Processed]:
        headers = {"authorization": f"Bearer {key}"}
        async with behind(tmp_path) as (gateway, envoy):
            monkeypatch.setattr(gateway.state.runtime, "decide", fail)
            first = await envoy.process(ORDINARY, headers=headers, response=OK)
            monkeypatch.setattr(Gateway, "__call__", fail)
            return [first, await envoy.process(ORDINARY, headers=headers, response=OK)]

    found = asyncio.run(asyncio.wait_for(test(), 60))
    if key == "poor":
        assert [refusal(each)[0] for each in found] == [500, 503]
    else:
        assert [(each.immediate, each.removed) for each in found] == [(None, ["authorization"])] * 2


def test_a_rate_that_cannot_be_told_lets_nothing_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr("pointsman.access.Spending.count_request", away)
    assert refusal(processed(tmp_path, "rated", {"body": LARGE})[0])[0] == 503

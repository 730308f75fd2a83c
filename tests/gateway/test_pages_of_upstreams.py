"""What an upstream answers to a passed-on request runs no script at the address of the console."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pointsman.testing import MemoryLedger
from pointsman.upstreams.port import ServerSpec, hash_key
from support.deciders import ScriptedDecider
from support.raw_http import ASKED, JSON, head, statuses, talk
from support.servers import Asked, Running, ScriptedUpstream, gateway, reply, state_for

pytestmark = pytest.mark.integration

SCRIPT = b"<script>fetch('/console/keys')</script>"
KINDS = {"html": "text/html", "svg": "image/svg+xml", "missing": "text/html"}
SITES = [b"cross-site", b"same-site", b"unheard-of", b""]


async def page(asked: Asked, send: Any) -> None:
    name = asked.path.rpartition("/")[2]
    await reply(
        send,
        404 if name == "missing" else 200,
        SCRIPT,
        ("content-type", KINDS.get(name, "text/html")),
        ("content-security-policy", "script-src *"),
        ("cross-origin-resource-policy", "cross-origin"),
    )


def serve(**more: Any) -> Iterator[Running]:
    with ScriptedUpstream(page).running() as url:
        state = state_for(
            f"{url}/v1",
            decider=ScriptedDecider("m0", ledger=MemoryLedger()),
            server=ServerSpec(port=0, passthrough="up0", **more),
            return_headers=("content-security-policy", "cross-origin-resource-policy"),
        )
        with gateway(state) as running:
            yield running


@pytest.fixture(scope="module")
def open_gateway() -> Iterator[Running]:
    yield from serve()


def get(path: bytes, *headers: bytes) -> bytes:
    lines = (b"GET %s HTTP/1.1" % path, b"host: localhost", b"connection: close", *headers, b"", b"")
    return b"\r\n".join(lines)


@pytest.mark.parametrize("name", KINDS)
def test_a_browser_runs_nothing_of_it(open_gateway: Running, name: str) -> None:
    got = talk(open_gateway.port, get(b"/v1/files/" + name.encode()), until=b"never")
    sent, _, body = got.partition(b"\r\n\r\n")
    assert SCRIPT in body
    lines = sent.lower().split(b"\r\n")
    assert [line for line in lines if line.startswith((b"content-security", b"cross-origin"))] == [
        b"content-security-policy: sandbox; frame-ancestors 'none'",
        b"cross-origin-resource-policy: same-origin",
    ]


@pytest.mark.parametrize("path", [b"/v1/files/html", b"/v1/models", b"/metrics", b"/v1/chat/completions"])
@pytest.mark.parametrize("site", SITES)
def test_without_keys_no_page_of_another_site_opens_or_loads_it(
    open_gateway: Running, path: bytes, site: bytes
) -> None:
    """Such a GET has no ``Origin``."""
    got = talk(open_gateway.port, get(path, b"sec-fetch-site: " + site), until=b"never")
    assert statuses(got) == [b"401"]
    assert b"rejects requests of other web origins" in got


@pytest.mark.parametrize("site", SITES)
def test_without_keys_no_page_of_another_site_asks_a_model(open_gateway: Running, site: bytes) -> None:
    asked = head(JSON, b"connection: close", b"sec-fetch-site: " + site) + ASKED
    assert statuses(talk(open_gateway.port, asked, until=b"never")) == [b"401"]


@pytest.mark.parametrize("site", [b"none", b"same-origin"])
def test_what_a_person_types_is_opened(open_gateway: Running, site: bytes) -> None:
    got = talk(open_gateway.port, get(b"/v1/files/html", b"sec-fetch-site: " + site), until=b"never")
    assert statuses(got) == [b"200"]


def test_a_page_of_this_machine_asks_as_ever(open_gateway: Running) -> None:
    local = (b"origin: http://localhost:3000", b"sec-fetch-site: same-site")
    got = talk(open_gateway.port, get(b"/v1/files/html", *local), until=b"never")
    assert statuses(got) == [b"200"]


@pytest.mark.parametrize("path", [b"/", b"/health/live"])
def test_other_sites_may_link_to_what_is_open(open_gateway: Running, path: bytes) -> None:
    got = talk(open_gateway.port, get(path, b"sec-fetch-site: cross-site"), until=b"never")
    assert statuses(got) == [b"200"]


def test_with_keys_the_key_alone_counts() -> None:
    for running in serve(keys=(hash_key("right"),)):
        asked = get(b"/v1/files/html", b"sec-fetch-site: cross-site", b"authorization: Bearer right")
        assert statuses(talk(running.port, asked, until=b"never")) == [b"200"]

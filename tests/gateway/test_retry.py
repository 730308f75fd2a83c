"""When an upstream says to come back, in every way it may say so."""

import time
from email.utils import formatdate

import httpx
import pytest

from pointsman.gateway._failures import retry_after
from pointsman.vocabulary import WireFormat
from support.requests_by_format import PATHS, request
from support.servers import ScriptedUpstream, gateway, reply, state_for


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "7", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "-7"}, None),
        ({"retry-after-ms": "-7"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after-ms": "nan"}, None),
        ({"retry-after-ms": "inf"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "\u00b2"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 99 Oct 2015 07:28:00 GMT"}, None),
    ],
)
def test_what_is_asked_for(headers: dict[str, str], seconds: float | None) -> None:
    sent = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    assert retry_after(sent) == seconds


def test_a_date_to_come() -> None:
    asked = retry_after([(b"retry-after", formatdate(time.time() + 100, usegmt=True).encode())])
    assert asked is not None
    assert 90 < asked <= 100


@pytest.mark.integration
@pytest.mark.parametrize(("code", "calls", "status"), [(401, 1, 403), (503, 2, 502)])
def test_a_stream_that_begins_with_an_error_is_retried_unless_our_key_is_refused(
    code: int, calls: int, status: int
) -> None:
    event = b'data: {"error":{"message":"no","code":%d}}\n\n' % code
    upstream = ScriptedUpstream(
        lambda _, send: reply(send, 200, event, ("content-type", "text/event-stream"))
    )
    with upstream.running() as url, gateway(state_for(f"{url}/v1", retries=1)) as running:
        body = request(WireFormat.CHAT) | {"stream": True}
        got = httpx.post(running.url + PATHS[WireFormat.CHAT], json=body, trust_env=False, timeout=60)
    assert (len(upstream.asked), got.status_code) == (calls, status)

"""What the gateway puts into a request counts as a part of it."""

import pytest

from pointsman.errors import Overloaded, TooLarge
from pointsman.gateway._inbound import BodyBudget, BodyReservation, InboundRequest
from pointsman.gateway._response_headers import downstream_headers
from pointsman.gateway.upstream import upstream_headers
from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS, Body

RESPONSES = FORMATS[WireFormat.RESPONSES]


def inbound(budget: BodyBudget, limit: int = 10_000, total: int = 20_000) -> InboundRequest:
    body = Body(RESPONSES, b'{"input": "hi"}')
    return InboundRequest(RESPONSES, {}, (), b"", body, 0.0, (), BodyReservation(budget, total), limit)


def test_it_is_bounded_with_what_it_goes_on_from() -> None:
    budget = BodyBudget()
    request = inbound(budget)
    request.grow(5_000)
    assert budget.held == 5_000
    with pytest.raises(TooLarge, match="with what it goes on from, the request is larger than 10000 bytes"):
        request.grow(10_000)


def test_all_requests_together_are_bounded_too() -> None:
    budget = BodyBudget()
    budget.held = 19_000
    with pytest.raises(Overloaded):
        inbound(budget).grow(5_000)


@pytest.mark.parametrize(
    "name",
    [
        "x-accel-redirect",
        "x-accel-buffering",
        "x-sendfile",
        "refresh",
        "clear-site-data",
        "location",
        "access-control-allow-origin",
    ],
)
def test_what_a_server_in_front_or_a_browser_would_obey_stays_here(name: str) -> None:
    sent = [(name.encode(), b"/secret"), (b"content-type", b"application/json")]
    assert downstream_headers(sent, ()) == [(b"content-type", b"application/json")]


@pytest.mark.parametrize(
    "sent",
    [
        [(b"x-original-url", b"/admin")],
        [(b"x-http-method-override", b"DELETE")],
        [(b"true-client-ip", b"10.0.0.1")],
        [(b"connection", b"close, X-Secret"), (b"x-secret", b"1")],
    ],
)
def test_headers_of_this_connection_and_of_proxies_go_no_further(sent: list[tuple[bytes, bytes]]) -> None:
    assert upstream_headers([*sent, (b"user-agent", b"x")]) == [(b"user-agent", b"x")]


def test_a_caller_gets_one_content_type() -> None:
    """Two were relayed, of which clients take either."""
    one, two = (b"content-type", b"text/event-stream"), (b"content-type", b"application/json")
    ids = [(b"retry-after", b"1"), (b"retry-after", b"2")]
    assert downstream_headers([one, *ids, two, two], ()) == [one, *ids]
    assert downstream_headers([one], ()) == [one]

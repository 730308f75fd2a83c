"""The head of an answer travels with the first of its body, and is never lost."""

import inspect
import re
import socket
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from pointsman.gateway._coalescing import CoalescingTransport
from pointsman.gateway._protocol import _Bounded
from pointsman.gateway.serve import Server
from support.raw_http import ASKED, JSON, head
from support.servers import gateway, state_for


class Written:
    """A transport that remembers what was written to it, each write apart."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def joining(
    method: str = "POST", *, started: bool = True
) -> tuple[Written, CoalescingTransport, SimpleNamespace]:
    """A transport, what joins writes to it, and the request that is answered."""
    below = Written()
    request = SimpleNamespace(scope={"method": method}, response_started=started)
    return (
        below,
        CoalescingTransport(cast("Any", below), cast("Any", SimpleNamespace(cycle=request))),
        request,
    )


def test_the_head_waits_for_the_first_of_the_body() -> None:
    below, transport, _ = joining()
    for part in (b"head ", b"first", b"second", b""):
        transport.write(part)
    assert below.writes == [b"head first", b"second", b""]


def test_an_answer_that_breaks_off_keeps_its_head() -> None:
    below, transport, _ = joining()
    transport.write(b"head")
    assert not below.writes
    transport.close()
    assert below.writes == [b"head"]
    assert transport.is_closing()


def test_each_answer_on_a_connection_has_a_head() -> None:
    below, transport, request = joining()
    transport.write(b"head 1 ")
    transport.write(b"body 1")
    request = SimpleNamespace(scope=request.scope, response_started=True)
    transport._protocol.cycle = cast("Any", request)
    transport.write(b"head 2 ")
    transport.write(b"body 2")
    assert below.writes == [b"head 1 body 1", b"head 2 body 2"]


@pytest.mark.parametrize(("method", "started"), [("HEAD", True), ("GET", True), ("POST", False)])
def test_nothing_else_waits(method: str, started: bool) -> None:
    """An answer to HEAD has no body; "100 Continue" comes before the answer has begun."""
    below, transport, _ = joining(method, started=started)
    transport.write(b"all")
    assert below.writes == [b"all"]


#: What ``_Bounded`` and ``Server`` override, with the names of the parameters.
OVERRIDDEN = {
    HttpToolsProtocol: {
        "connection_made": ["transport"],
        "connection_lost": ["exc"],
        "data_received": ["data"],
        "on_header": ["name", "value"],
        "on_headers_complete": [],
        "on_body": ["body"],
        "on_response_complete": [],
        "_should_upgrade": [],
        "pause_writing": [],
    },
    uvicorn.Server: {"run": ["sockets"], "startup": ["sockets"], "main_loop": [], "shutdown": ["sockets"]},
}
#: What they read and set beside that, which exists on instances alone.
STATE = {
    HttpToolsProtocol: "connections cycle expect_100_continue flow headers loop parser pipeline scope "
    "server_state transport url",
    uvicorn.Server: "_captured_signals should_exit",
    RequestResponseCycle: "disconnected expected_content_length keep_alive message_event more_body "
    "response_complete response_started scope",
}
BROKEN = "uvicorn changed what the gateway relies on: read its change, mend protocol.py, move the bound"


@pytest.mark.parametrize("kind", OVERRIDDEN)
def test_uvicorn_has_the_methods_that_are_overridden(kind: type[Any]) -> None:
    for name, wanted in OVERRIDDEN[kind].items():
        method = kind.__dict__.get(name)
        assert method is not None, f"{kind.__name__}.{name} is gone. {BROKEN}"
        assert list(inspect.signature(method).parameters) == ["self", *wanted], f"{name}. {BROKEN}"


def test_every_method_that_overrides_one_of_uvicorn_is_listed() -> None:
    for kind, ours in ((HttpToolsProtocol, _Bounded), (uvicorn.Server, Server)):
        inherited = {name for name in vars(ours) if not name.startswith("__") and hasattr(kind, name)}
        assert inherited == set(OVERRIDDEN[kind])


@pytest.mark.parametrize("kind", STATE)
def test_uvicorn_sets_the_attributes_that_are_used(kind: type[Any]) -> None:
    source = inspect.getsource(kind)
    for name in STATE[kind].split():
        assert re.search(rf"self\.{name}\b[^=\n]*=[^=]", source), f"{kind.__name__}.{name} is gone. {BROKEN}"


@pytest.mark.integration
def test_an_answer_arrives_in_one_piece() -> None:
    with gateway(state_for()) as running, socket.create_connection(("127.0.0.1", running.port)) as caller:
        for _ in range(3):
            caller.sendall(head(JSON) + ASKED)
            assert caller.recv(1 << 16).endswith(b"}")

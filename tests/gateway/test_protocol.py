"""The protocol overrides what uvicorn still has."""

import inspect
import re
import socket
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from pointsman.gateway._protocol import _Bounded
from pointsman.gateway.serve import Server
from support.raw_http import ASKED, JSON, head
from support.servers import gateway, state_for

#: What ``_Bounded`` and ``Server`` override, with the names of the parameters.
OVERRIDDEN = {
    HttpToolsProtocol: {
        "connection_made": ["transport"],
        "connection_lost": ["exc"],
        "data_received": ["data"],
        "on_message_begin": [],
        "on_header": ["name", "value"],
        "on_headers_complete": [],
        "on_body": ["body"],
        "on_message_complete": [],
        "on_response_complete": [],
        "pause_writing": [],
    },
    uvicorn.Server: {"run": ["sockets"], "startup": ["sockets"], "main_loop": [], "shutdown": ["sockets"]},
}
#: What they read and set beside that, which exists on instances alone.
STATE = {
    HttpToolsProtocol: "app asgi_version client connections cycle expect_100_continue flow headers loop "
    "parser pipeline scheme server server_state transport url",
    uvicorn.Server: "_captured_signals should_exit",
    RequestResponseCycle: "access_log body chunked_encoding default_headers disconnected "
    "expected_content_length flow keep_alive logger message_event more_body on_response response_complete "
    "response_started scope transport waiting_for_100_continue",
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

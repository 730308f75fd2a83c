"""The scripted agents of ``pointsman serve --demo``: a few sessions, played slowly against the demo itself.

Their requests are written here word for word, and the demo upstream answers the same to the same request, so
every round is decided alike. Their sessions are named ``demo-…``; ``--no-traffic`` leaves them out. They end
with the first request of another client.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

#: How the scripted agents name themselves (``user-agent``).
CLIENT: Final = "pointsman-demo-traffic"
#: Seconds between two requests, between two rounds, and before the first request.
_PAUSE: Final = 1.5
_BETWEEN_ROUNDS: Final = 45.0
_AT_FIRST: Final = 1.0
#: Rounds played: an hour of them. A demo that is left running does not fill a disk.
_ROUNDS: Final = 60
#: Seconds that one answer may take.
_TIMEOUT: Final = 30.0

Message = Mapping[str, Any]

_TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": {argument: {"type": "string"}}},
        },
    }
    for name, description, argument in (
        ("bash", "Run a command in the shell.", "command"),
        ("read_file", "Read a file.", "path"),
        ("edit_file", "Change a file.", "path"),
    )
]

_USAGE: Final = {"include_usage": True}

_QUESTION: Final = "What does HTTP status 409 mean?"
_PROOF: Final = (
    "Prove step by step that there are infinitely many primes. Then derive a lower bound for the number of "
    "primes below n from your proof, prove that the bound is correct, and explain rigorously why the prime "
    "number theorem gives a stronger one."
)
_TASK: Final = "The tests in tests/test_invoices.py fail since the last merge. Find out why and fix it."
_FEATURE: Final = (
    "Implement a function in Python that parses an ISO 8601 date range, refactor the callers in "
    "src/reports.py to use it, and write unit tests for the edge cases."
)

#: What the stuck agent does: the name of a tool, its arguments, and what comes back. It repeats a command
#: that cannot work until it is told so, and then looks where it is.
_NOT_FOUND: Final = "ERROR: file or directory not found: test/test_invoices.py"
_STUCK: Final = (
    ("bash", {"command": "pytest test/test_invoices.py"}, _NOT_FOUND),
    ("bash", {"command": "pytest test/test_invoices.py -v"}, _NOT_FOUND),
    ("bash", {"command": "pytest -v test/test_invoices.py"}, _NOT_FOUND),
)
_FREED: Final = (
    ("bash", {"command": "ls"}, "README.md  pyproject.toml  src  tests"),
    ("bash", {"command": "pytest tests/test_invoices.py"}, "1 failed: total is 119.0, not 119.00"),
    ("edit_file", {"path": "src/invoices.py"}, "edited src/invoices.py"),
    ("bash", {"command": "pytest tests/test_invoices.py"}, "12 passed in 0.31s"),
)
_WORKING: Final = (
    ("read_file", {"path": "src/reports.py"}, "def monthly(start, end): ..."),
    ("edit_file", {"path": "src/dates.py"}, "edited src/dates.py"),
    ("bash", {"command": "pytest tests/test_dates.py"}, "9 passed in 0.12s"),
)


class ScriptedRequest(NamedTuple):
    """One request of a scripted agent."""

    session: str
    path: str
    body: Mapping[str, Any]


def one_round(name: str) -> Iterator[ScriptedRequest]:
    """Yield the requests of one round in order. Two agents work at the same time.

    Args:
        name: Distinguishes sessions of this round.
    """
    yield _asked(f"demo-question-{name}", [_said(_QUESTION)])
    stuck = _agent(f"demo-stuck-agent-{name}", _TASK, (*_STUCK, *_FREED))
    working = _agent(f"demo-feature-{name}", _FEATURE, _WORKING)
    yield next(stuck)
    yield _asked(f"demo-proof-{name}", [_said(_PROOF)], stream=True, stream_options=_USAGE)
    for request in working:
        yield next(stuck)
        yield request
    yield from stuck


def _said(text: str) -> Message:
    return {"role": "user", "content": text}


def _asked(session: str, messages: list[Message], **more: object) -> ScriptedRequest:
    body = {"model": "auto", "messages": list(messages), **more}
    return ScriptedRequest(session, "/v1/chat/completions", body)


def _agent(
    session: str, task: str, steps: tuple[tuple[str, Mapping[str, str], str], ...]
) -> Iterator[ScriptedRequest]:
    """The requests of an agent: its task, and then the whole history again after each call of a tool."""
    history = [_said(task)]
    yield _asked(session, history, tools=_TOOLS)
    for number, (tool, arguments, result) in enumerate(steps):
        call = {"name": tool, "arguments": json.dumps(arguments)}
        made = {"id": f"call_{number}", "type": "function", "function": call}
        history.append({"role": "assistant", "content": None, "tool_calls": [made]})
        history.append({"role": "tool", "tool_call_id": f"call_{number}", "content": result})
        yield _asked(session, history, tools=_TOOLS)


def _post(host: str, port: int, request: ScriptedRequest) -> None:
    """Send one request and read its answer to the end."""
    headers = {"content-type": "application/json", "x-session-id": request.session, "user-agent": CLIENT}
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
    try:
        connection.request("POST", request.path, json.dumps(request.body).encode(), headers)
        connection.getresponse().read()
    finally:
        connection.close()


class DemoTraffic:
    """Plays rounds in a separate thread until it is stopped."""

    def __init__(
        self,
        host: str,
        port: int,
        name: str,
        *,
        send: Callable[[ScriptedRequest], None] | None = None,
        wait: Callable[[float], bool] | None = None,
        is_in_use: Callable[[], bool] = lambda: False,
    ) -> None:
        """Take where the demo listens.

        Args:
            host: Address of the demo.
            port: Its port.
            name: Distinguishes sessions of this start.
            send: Sends one request; default: over HTTP.
            wait: Waits for some seconds, and returns whether to stop; default: by the clock.
            is_in_use: Whether another client has sent a request; is asked before each request.
        """
        self._name = name
        self._stopped = threading.Event()
        self._send = send or partial(_post, host, port)
        self._wait = wait or self._stopped.wait
        self._is_in_use = is_in_use
        self._thread = threading.Thread(target=self.play, name="demo-traffic", daemon=True)

    def start(self) -> None:
        """Begin to play."""
        self._thread.start()

    def stop(self) -> None:
        """Stop. A request in progress ends by itself."""
        self._stopped.set()

    def play(self) -> None:
        """Play all rounds in this thread, until another client sends a request."""
        if self._wait(_AT_FIRST):
            return
        for number in range(1, _ROUNDS + 1):
            for request in one_round(f"{self._name}-{number}"):
                if self._is_in_use():
                    return
                try:
                    self._send(request)
                except (OSError, http.client.HTTPException):
                    return  # the gateway has stopped, or is about to
                if self._wait(_PAUSE):
                    return
            if self._wait(_BETWEEN_ROUNDS):
                return

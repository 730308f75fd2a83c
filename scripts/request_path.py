"""What one chat request passes through: files, packages, calls and changes of package, counted.

    .venv/bin/python scripts/request_path.py [--agent | --translated] [--functions]
        [--at-most FILES] [--changes-at-most CHANGES]

One ASGI request in this process, after others like it, through the gateway with tiers, domains, guidance,
sessions and ledger on, to an upstream that answers from memory. Every call of a function of ours is counted
in order (``sys.setprofile``). A package is the first name below ``pointsman``, or the module where that has
no package; a change is a call whose package is not that of the call before it. Generators count once.
"""

import argparse
import asyncio
import inspect
import itertools
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

import pointsman
from pointsman.config import load
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from pointsman.upstreams.port import Call, Exchange

RESUMED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
ROOT = Path(pointsman.__file__).parent
WARM_UP = 20  # requests before the one that is counted

CONFIG = """
[upstreams.main]
base_url = "http://127.0.0.1:1/v1"
formats = ["{format}"]

[models]
small = { upstream = "main", id = "small" }
large = { upstream = "main", id = "large" }

[tiers]
simple = "small"
complex = "large"

[domains]
mode = "observe"

[guidance]
mode = "{guidance}"

[ledger]
path = "{directory}/ledger.sqlite"

[sessions]
store = "memory"
"""

ANSWER = msgspec.json.encode(
    {
        "id": "1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 1},
    }
)

#: The same in Messages.
TRANSLATED = msgspec.json.encode(
    {
        "id": "1",
        "type": "message",
        "role": "assistant",
        "model": "large",
        "content": [{"type": "text", "text": "hi"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 1},
    }
)


class Answered:
    """An upstream's answer that is already there (``Exchange``)."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.status = 200
        self.headers = [(b"content-type", b"application/json")]

    async def read(self) -> bytes:
        """Return the whole body."""
        return self.body

    async def next(self) -> bytes:
        """Return nothing more."""
        return b""

    def close(self) -> None:
        """There is nothing to close."""


class Upstream:
    """Answers every request alike (``UpstreamClient``)."""

    async def send(self, call: Call) -> Exchange:
        """Answer at once."""
        assert call.body
        assert call.path != b"/messages" or b"<pointsman source=" in call.body
        return Answered(TRANSLATED if call.path == b"/messages" else ANSWER)

    def close(self) -> None:
        """There is nothing to close."""


def scope(session: str) -> dict[str, Any]:
    headers = [
        (b"content-type", b"application/json"),
        (b"host", b"localhost"),
        (b"x-session-id", session.encode()),
    ]
    path = "/v1/chat/completions"
    return {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": headers,
    }


def short(number: int) -> bytes:
    """A person's question."""
    messages = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": f"What does case {number} do, and why is the build slow?"},
    ]
    return msgspec.json.encode({"model": "auto", "messages": messages})


def agent(number: int) -> bytes:
    """A coding agent's turn with two tools and the result of one."""
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}}
    tools = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("read", "write")]
    messages = [
        {"role": "system", "content": "You are a coding agent."},
        {"role": "user", "content": f"Please find out why the build of case {number} is slow."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "import os"},
    ]
    return msgspec.json.encode({"model": "auto", "messages": messages, "tools": tools})


def stuck(number: int) -> bytes:
    """A coding agent's turn whose last eight calls have failed: guidance adds a hint."""
    error = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'build'"
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a coding agent."},
        {"role": "user", "content": f"Please find out why the build of case {number} is slow."},
    ]
    for step in range(8):
        function = {"name": "read", "arguments": f'{{"path": "{number}-{step}.py"}}'}
        call = {"id": f"c{step}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{step}", "content": error})
    tools = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("read", "write")]
    return msgspec.json.encode({"model": "auto", "messages": messages, "tools": tools})


async def request(gateway: Gateway, body: bytes, session: str) -> int:
    """Send one request and return the status."""
    messages: Iterator[dict[str, Any]] = iter([{"type": "http.request", "body": body}])
    status = 0

    async def receive() -> dict[str, Any]:
        return next(messages)

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)

    await gateway(scope(session), receive, send)
    return status


class Trace:
    """Calls of functions of ours, in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []  # file below the package, and function
        self._entered: dict[int, FrameType] = {}  # of generators and coroutines, which are called again

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Take note of an event (``sys.setprofile``)."""
        if event != "call" or not frame.f_code.co_filename.startswith(str(ROOT)):
            return
        if frame.f_code.co_flags & RESUMED:
            if id(frame) in self._entered:
                return
            self._entered[id(frame)] = frame  # kept, so that no other gets its id
        file = str(Path(frame.f_code.co_filename).relative_to(ROOT))
        self.calls.append((file, frame.f_code.co_qualname))


def package(file: str) -> str:
    return file.partition("/")[0].removesuffix(".py")


def session(written: Callable[[int], bytes], number: int) -> str:
    """Return the session of a request. A hint is given once: each stuck agent is another one."""
    return f"s-{number}" if written is stuck else "s-1"


async def counted(gateway: Gateway, written: Callable[[int], bytes]) -> Trace:
    for number in range(WARM_UP):
        assert await request(gateway, written(number), session(written, number)) == 200
    trace, last = Trace(), written(WARM_UP)
    sys.setprofile(trace)
    try:
        status = await request(gateway, last, session(written, WARM_UP))
    finally:
        sys.setprofile(None)
    assert status == 200
    return trace


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--agent", action="store_true", help="an agent's turn instead of a question")
    parser.add_argument(
        "--translated",
        action="store_true",
        help="a stuck agent's turn, with a hint, to an upstream of Messages",
    )
    parser.add_argument("--functions", action="store_true", help="list every call")
    parser.add_argument("--at-most", type=int, help="fail where more files are touched")
    parser.add_argument("--changes-at-most", type=int, help="fail where packages change more often")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "pointsman.toml"
        written = stuck if options.translated else agent if options.agent else short
        file.write_text(configuration(directory, translated=options.translated))
        builder = Builder(lambda: load(file))
        state = builder()
        for target in state.targets.values():
            target.upstream.client = Upstream()
        trace = asyncio.run(counted(Gateway(state), written))
        builder.close()
    files, changes = report(trace, functions=options.functions)
    if options.at_most is not None and files > options.at_most:
        raise SystemExit(f"more than {options.at_most} files")
    if options.changes_at_most is not None and changes > options.changes_at_most:
        raise SystemExit(f"more than {options.changes_at_most} changes of package")


def configuration(directory: str, *, translated: bool) -> str:
    """Return the configuration: of a chat upstream, or of one of Messages with guidance switched on."""
    text = CONFIG.replace("{directory}", directory)
    text = text.replace("{format}", "messages" if translated else "chat")
    return text.replace("{guidance}", "on" if translated else "observe")


def report(trace: Trace, *, functions: bool) -> tuple[int, int]:
    """Print what a request has passed through; return the numbers of files and of changes of package."""
    files = Counter(file for file, _ in trace.calls)
    packages = [package(file) for file, _ in trace.calls]
    changes = sum(a != b for a, b in itertools.pairwise(packages))
    if functions:
        for file, function in trace.calls:
            print(f"  {file}: {function}")
    for file, calls in sorted(files.items()):
        print(f"{calls:>5}  {file}")
    print(f"{len(trace.calls)} calls, {len(files)} files, {len(set(packages))} packages, {changes} changes")
    return len(files), changes


if __name__ == "__main__":
    main()

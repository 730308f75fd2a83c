"""What one chat request passes through: files, packages, calls and changes of package, counted.

    .venv/bin/python scripts/request_path.py [--agent] [--functions] [--at-most FILES]

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

[models]
small = { upstream = "main", id = "small" }
large = { upstream = "main", id = "large" }

[tiers]
simple = "small"
complex = "large"

[domains]
mode = "observe"

[guidance]
mode = "observe"

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


class Answered:
    """An upstream's answer that is already there (``Exchange``)."""

    def __init__(self) -> None:
        self.status = 200
        self.headers = [(b"content-type", b"application/json")]

    async def read(self) -> bytes:
        """Return the whole body."""
        return ANSWER

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
        return Answered()

    def close(self) -> None:
        """There is nothing to close."""


def scope() -> dict[str, Any]:
    headers = [(b"content-type", b"application/json"), (b"host", b"localhost"), (b"x-session-id", b"s-1")]
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


async def request(gateway: Gateway, body: bytes) -> int:
    """Send one request and return the status."""
    messages: Iterator[dict[str, Any]] = iter([{"type": "http.request", "body": body}])
    status = 0

    async def receive() -> dict[str, Any]:
        return next(messages)

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)

    await gateway(scope(), receive, send)
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


async def counted(gateway: Gateway, written: Callable[[int], bytes]) -> Trace:
    for number in range(WARM_UP):
        assert await request(gateway, written(number)) == 200
    trace, last = Trace(), written(WARM_UP)
    sys.setprofile(trace)
    try:
        status = await request(gateway, last)
    finally:
        sys.setprofile(None)
    assert status == 200
    return trace


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--agent", action="store_true", help="an agent's turn instead of a question")
    parser.add_argument("--functions", action="store_true", help="list every call")
    parser.add_argument("--at-most", type=int, help="fail where more files are touched")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "pointsman.toml"
        file.write_text(CONFIG.replace("{directory}", directory))
        builder = Builder(lambda: load(file))
        state = builder()
        for target in state.targets.values():
            target.upstream.client = Upstream()
        trace = asyncio.run(counted(Gateway(state), agent if options.agent else short))
        builder.close()
    report(trace, functions=options.functions)
    if options.at_most is not None and len({file for file, _ in trace.calls}) > options.at_most:
        raise SystemExit(f"more than {options.at_most} files")


def report(trace: Trace, *, functions: bool) -> None:
    files = Counter(file for file, _ in trace.calls)
    packages = [package(file) for file, _ in trace.calls]
    changes = sum(a != b for a, b in itertools.pairwise(packages))
    if functions:
        for file, function in trace.calls:
            print(f"  {file}: {function}")
    for file, calls in sorted(files.items()):
        print(f"{calls:>5}  {file}")
    print(f"{len(trace.calls)} calls, {len(files)} files, {len(set(packages))} packages, {changes} changes")


if __name__ == "__main__":
    main()

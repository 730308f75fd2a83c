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
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

import pointsman
from pointsman.config import load
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from pointsman.vocabulary import WireFormat

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from support.in_process import ask
from support.limited import Provider, Reply
from support.requests_by_format import PATHS, answer
from support.stuck_agents import call, say

CHAT, MESSAGES = WireFormat.CHAT, WireFormat.MESSAGES
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

FUNCTIONS: list[dict[str, Any]] = [{"name": name, "parameters": {}} for name in ("read", "write")]
TOOLS = {"tools": [{"type": "function", "function": function} for function in FUNCTIONS]}


def question(number: int) -> dict[str, Any]:
    """A person's question."""
    asked = say(CHAT, f"What does case {number} do, and why is the build slow?")
    return {"model": "auto", "messages": [{"role": "system", "content": "You are a helpful agent."}, asked]}


def agent(number: int) -> dict[str, Any]:
    """A coding agent's turn with two tools and the result of one."""
    asked = question(number)
    return {**asked, **TOOLS, "messages": [*asked["messages"], *call(CHAT, number, "a", failed=False)]}


def stuck(number: int) -> dict[str, Any]:
    """A coding agent's turn whose last eight calls have failed: guidance adds a hint."""
    asked = question(number)
    failed = itertools.chain.from_iterable(call(CHAT, step, "No module named 'build'") for step in range(8))
    return {**asked, **TOOLS, "messages": [*asked["messages"], *failed]}


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


def session(written: Callable[[int], dict[str, Any]], number: int) -> str:
    """Return the session of a request. A hint is given once: each stuck agent is another one."""
    return f"s-{number}" if written is stuck else "s-1"


async def counted(gateway: Gateway, written: Callable[[int], dict[str, Any]]) -> Trace:
    """Send requests, and trace the last."""
    trace = Trace()
    for number in range(WARM_UP + 1):
        body, headers = msgspec.json.encode(written(number)), {"x-session-id": session(written, number)}
        if number == WARM_UP:
            sys.setprofile(trace)
        try:
            got = await ask(gateway, PATHS[CHAT], body, headers)
        finally:
            sys.setprofile(None)
        assert got.status == 200
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
        written = stuck if options.translated else agent if options.agent else question
        file.write_text(configuration(directory, translated=options.translated))
        builder = Builder(lambda: load(file))
        state = builder()
        provider, said = Provider(), answer(MESSAGES if options.translated else CHAT)
        provider.answers = [lambda: Reply(200, [said])] * (WARM_UP + 1)
        for target in state.targets.values():
            target.upstream.client = provider
        trace = asyncio.run(counted(Gateway(state), written))
        assert (b"<pointsman source=" in provider.asked[-1].body) == options.translated
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

"""A gateway process whose opcodes, calls and writes are counted, and the loopback upstream that it asks."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from loopback.processes import free_port

from counting.lockstep import Caller, Upstream, connected

__all__ = ["Counts", "Gateway", "environment", "serving"]

SITE = Path(__file__).parent / "site"
#: The code beside this benchmark is counted, whatever else is installed.
SRC = Path(__file__).parents[2] / "src"


def environment(folder: Path, **more: str) -> dict[str, str]:
    """What a counted process finds around it: no settings of the machine's user, the same order of hashes."""
    kept = {
        name: os.environ[name]
        for name in ("PATH", "HOME", "LANG", "POINTSMAN_COUNT_FUNCTIONS")
        if name in os.environ
    }
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join([str(SITE), str(SRC)]),
        "PYTHONHASHSEED": "0",
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "POINTSMAN_COUNT": str(folder),
        **more,
    }


class Counts:
    """What was executed between two moments."""

    def __init__(self) -> None:
        #: Opcodes by file: of the event loop, of its timers, and of all other threads and processes.
        self.opcodes: dict[str, Counter[str]] = {"loop": Counter(), "timers": Counter(), "rest": Counter()}
        self.calls: Counter[str] = Counter()  # calls, and writes of threads beside the loop
        self.turns = 0  # of timers

    @property
    def loop(self) -> int:
        """Opcodes of the event loop."""
        return self.opcodes["loop"].total()

    @property
    def rest(self) -> int:
        """Opcodes elsewhere, and what timers do beyond their turns."""
        late = self.opcodes["timers"].total() - TIMER_TURN * self.turns
        return self.opcodes["rest"].total() + max(late, 0)

    def minus(self, before: "Counts") -> "Counts":
        """Return what has been added since."""
        added = Counts()
        for place, opcodes in self.opcodes.items():
            counted = Counter(opcodes)
            counted.subtract(before.opcodes[place])
            added.opcodes[place] = counted
        added.calls.update(self.calls)
        added.calls.subtract(before.calls)
        added.turns = self.turns - before.turns
        return added


#: Turns of the event loop that a timer begins, not a request. Their number depends on the seconds that a
#: measurement takes, so they are left out; but what they execute beyond ``TIMER_TURN`` opcodes each is
#: charged to the rest: work of requests that was put off.
TIMERS = (
    "pointsman/console/_now.py:Live",
    "pointsman/gateway/_inbound.py:DisconnectWatches._look",
    "pointsman/gateway/_protocol.py:close_slow",
    "pointsman/gateway/_protocol.py:close_unread",
    "pointsman/gateway/reloading.py:Reloader._keep_current",
    "pointsman/upstreams/http.py:_Timer._run",
    "stdlib/asyncio/futures.py:_set_result_unless_cancelled",
    "stdlib/asyncio/locks.py:Event.wait",
    "stdlib/asyncio/tasks.py:_release_waiter",
    "stdlib/asyncio/timeouts.py:Timeout._on_timeout",
    "uvicorn/server.py:Server.serve",
)
TIMER_TURN = 600  # the dearest, a look whether the configuration has changed, takes 412


def place_of(thread: str, root: str) -> str:
    """Where something was executed: on the event loop, by a timer of it, or elsewhere."""
    return "timers" if root in TIMERS else "loop" if thread == "loop" else "rest"


def read(found: Mapping[str, Any], counts: Counts) -> None:
    """Add what one process has counted."""
    for thread, root, file, opcodes, calls in found["rows"]:
        if file.endswith("sitecustomize.py"):
            continue
        place = place_of(thread, root)
        counts.opcodes[place][file] += opcodes
        counts.calls[f"Python calls, {place}"] += calls
    counts.turns += sum(turns for root, turns in found["turns"].items() if root in TIMERS)
    for thread, root, number in found["c_calls"]:
        counts.calls[f"C calls, {place_of(thread, root)}"] += number
    for thread, (number, size) in found["written"].items():
        if thread != "loop":
            counts.calls["writes"] += number
            counts.calls["bytes written"] += size


class Gateway:
    """A gateway that is counted."""

    def __init__(self, folder: Path, port: int, process: subprocess.Popen[bytes], caller: Caller) -> None:
        self.folder = folder
        self.port = port
        self.caller = caller
        self._process = process

    async def tell(self, request: str) -> None:
        """Tell the gateway's process, and its children, something; see ``site/sitecustomize.py``."""
        for name in self._sockets():
            await self._asked(name, request)

    async def counts(self) -> Counts:
        """Return all counts so far."""
        counts = Counts()
        for name in self._sockets():
            read(await self._asked(name, "counts"), counts)
        return counts

    @property
    def pid(self) -> int:
        """Id of its process."""
        return self._process.pid

    async def modules(self) -> list[str]:
        """Return the modules that the gateway has imported."""
        return list(await self._asked(self.folder / str(self._process.pid), "modules"))

    def _sockets(self) -> list[Path]:
        return [path for path in self.folder.iterdir() if path.name.isdigit()]

    @staticmethod
    async def _asked(path: Path, request: str) -> Any:
        """Ask one process; the upstream goes on answering meanwhile."""
        try:
            reader, writer = await asyncio.open_unix_connection(path, limit=1 << 26)
        except ConnectionRefusedError:  # a child that has ended
            return {"rows": [], "turns": {}, "c_calls": [], "written": {}}
        writer.write(request.encode() + b"\n")
        answered = json.loads(await reader.readline())
        writer.close()
        return answered


async def wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(6000):
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /health/live HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
            await reader.read()
            writer.close()
            return
        if process.poll() is not None:
            break
        await asyncio.sleep(0.1)
    raise SystemExit(did_not_start(log))


def did_not_start(log: Path) -> str:
    return f"the gateway did not start:\n{log.read_text()}"


def started(folder: Path, port: int, under: Sequence[str]) -> subprocess.Popen[bytes]:
    command = [
        *under,
        sys.executable,
        "-m",
        "pointsman",
        "serve",
        "--config",
        "pointsman.toml",
        "--port",
        str(port),
    ]
    keys = dict.fromkeys(("BENCH_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"), "sk-counted")
    with (folder / "log").open("wb") as output:
        env = environment(folder, **keys)
        if under:
            env["POINTSMAN_COUNT"] = ""
        return subprocess.Popen(command, stdout=output, stderr=output, env=env, cwd=folder)


@contextlib.asynccontextmanager
async def serving(folder: Path, config: str, under: Sequence[str] = ()) -> AsyncIterator[Gateway]:
    """Serve by a configuration in which ``{upstream}`` is the upstream's port, and count.

    Args:
        folder: An empty folder of its own.
        config: ``pointsman.toml``.
        under: A command that runs the gateway and counts instead.
    """
    streams: asyncio.Queue[Upstream] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Upstream(streams), "127.0.0.1", 0)
    upstream, port = listening.sockets[0].getsockname()[1], free_port()
    config = config.replace("{upstream}", str(upstream)).replace("{folder}", str(folder))
    (folder / "pointsman.toml").write_text(config)
    process = started(folder, port, under)
    try:
        await wait(port, process, folder / "log")
        gateway = Gateway(folder, port, process, await connected(port, streams))
        await gateway.tell("start")
        yield gateway
        gateway.caller.transport.close()
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(120 if under else 20)
        process.kill()
        listening.close()

"""Counts per request: of each load, of features switched on and off, of the commands' imports."""

import json
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

from counting.features import FEATURES, Feature
from counting.gateway import Counts, Gateway, environment, serving
from counting.loads import CALLS, agent, framed, short

__all__ = ["BARE", "Row", "features", "imports", "initial", "loads"]

Row = dict[str, float]
Ask = Callable[[int], Awaitable[None]]

WARM_UP = 6  # requests before those that are counted
REQUESTS = {"short": 40, "agent, first request": 12, "agent, next turn": 12}
ALONE = 8  # requests each of which the ledger writes alone
STREAMS = 3
EVENTS = (20, 120)  # of a short and a long stream: the difference is what events cost

BARE = """
[upstreams.main]
base_url = "http://127.0.0.1:{upstream}/v1"
api_key = "${BENCH_KEY}"

[models]
small = { upstream = "main", id = "small-1", input_per_million = 0.10, output_per_million = 0.40 }
large = { upstream = "main", id = "large-3", input_per_million = 3.00, output_per_million = 15.00 }

[tiers]
simple = "small"
medium = "small"
complex = "large"
reasoning = "large"

[ledger]
path = "{folder}/state/pointsman/ledger.sqlite"
"""


def initial() -> str:
    """The configuration that ``config init`` writes for keys of both providers, with their hosts replaced."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keys = {"OPENAI_API_KEY": "sk-counted", "ANTHROPIC_API_KEY": "sk-counted", "POINTSMAN_COUNT": ""}
        command = [sys.executable, "-m", "pointsman", "config", "init", "--output", "-"]
        run = subprocess.run(
            command, env=environment(folder, **keys), check=True, capture_output=True, text=True
        )
    written = run.stdout
    for host in ("https://api.openai.com/v1", "https://api.anthropic.com/v1"):
        if host not in written:
            raise SystemExit(f"config init does not write {host}, which benchmarks/counting expects")
        written = written.replace(host, "http://127.0.0.1:{upstream}/v1")
    return written


class Ledger:
    """A ledger's file: its size, its rows, and the bytes of their values."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "state" / "pointsman" / "ledger.sqlite"

    def size(self) -> Counter[str]:
        """Return its figures so far."""
        found: Counter[str] = Counter()
        with closing(sqlite3.connect(f"file:{self._file}?mode=ro", uri=True)) as connection:
            [pages], [page] = (
                connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size")
            )
            found["bytes of the file"] = pages * page
            tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
            for (table,) in tables:
                columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
                length = " + ".join(f"coalesce(length(CAST({each} AS BLOB)), 0)" for each in columns)
                query = f"SELECT count(*), coalesce(sum({length}), 0) FROM {table}"
                rows, size = connection.execute(query).fetchone()
                found["rows"] += rows
                found["bytes of rows"] += size
        return found


async def counted(gateway: Gateway, ask: Ask, count: int) -> tuple[Counts, Counts]:
    """Count requests that the ledger writes in one batch.

    The batch begins with one request more, so that the writer is awake before the first that is counted on
    the event loop.

    Returns:
        Counts of ``count`` requests while they were served, and of ``count`` + 1 until all was written.
    """
    await gateway.tell("quiet")
    before = await gateway.counts()
    await gateway.tell("hold")
    await ask(-1)
    await gateway.tell("held")
    await gateway.tell("idle")
    begun = await gateway.counts()
    for number in range(count):
        await ask(number)
    await gateway.tell("idle")
    served = await gateway.counts()
    await gateway.tell("release")
    await gateway.tell("quiet")
    return served.minus(begun), (await gateway.counts()).minus(before)


def row(served: Counts, written: Counts, size: Counter[str], count: int) -> Row:
    """What one request costs."""
    others = ("Python calls, rest", "C calls, rest", "writes", "bytes written")
    return {
        "opcodes, loop": served.loop / count,
        "opcodes, rest": written.rest / (count + 1),
        "Python calls, loop": served.calls["Python calls, loop"] / count,
        "C calls, loop": served.calls["C calls, loop"] / count,
        **{name: written.calls[name] / (count + 1) for name in others},
        **{name: number / (count + 1) for name, number in size.items()},
    }


def by_file(counts: Counts, place: str, count: int) -> Row:
    """Opcodes of one request by file."""
    return {file: opcodes / count for file, opcodes in counts.opcodes[place].items() if opcodes}


async def loads(config: str) -> tuple[dict[str, Row], dict[str, Row]]:
    """Count all loads under one configuration.

    Returns:
        Totals of each load, and its opcodes by file.
    """
    with tempfile.TemporaryDirectory() as name:
        async with serving(Path(name), config) as gateway:
            return await measured(gateway)


async def measured(gateway: Gateway) -> tuple[dict[str, Row], dict[str, Row]]:
    bodies: dict[str, Callable[[int], bytes]] = {
        "short": short,
        "agent, first request": agent,
        "agent, next turn": lambda number: agent(number, CALLS + 1),
    }
    totals: dict[str, Row] = {}
    files: dict[str, Row] = {}
    ledger = Ledger(gateway.folder)
    for load, body in bodies.items():

        async def ask(number: int, body: Callable[[int], bytes] = body) -> None:
            await gateway.caller.ask(framed(gateway.port, body(1000 + number)))

        count = REQUESTS[load]
        for number in range(WARM_UP):
            await ask(count + number)
        await gateway.tell("quiet")
        before = ledger.size()
        served, written = await counted(gateway, ask, count)
        size = ledger.size()
        size.subtract(before)
        totals[load] = row(served, written, size, count)
        files[f"{load}, loop"] = by_file(served, "loop", count)
        files[f"{load}, rest"] = by_file(written, "rest", count + 1)
    totals["short, alone in its batch"] = await alone(gateway)
    totals["event"], files["event, loop"] = await event(gateway)
    return totals, files


async def alone(gateway: Gateway) -> Row:
    """What a request costs the other threads where they write its entries alone."""
    await gateway.tell("quiet")
    before = await gateway.counts()
    for number in range(ALONE):
        await gateway.caller.ask(framed(gateway.port, short(2000 + number)))
        await gateway.tell("quiet")
    added = (await gateway.counts()).minus(before)
    writes = {name: added.calls[name] / ALONE for name in ("writes", "bytes written")}
    return {"opcodes, rest": added.rest / ALONE, **writes}


async def event(gateway: Gateway) -> tuple[Row, Row]:
    """What an event of a stream costs beyond its request."""
    found: list[Counts] = []
    for events in EVENTS:

        async def ask(number: int, events: int = events) -> None:
            await gateway.caller.ask(
                framed(gateway.port, short(3000 + events * 10 + number, stream=True)), events
            )

        await ask(STREAMS)  # a connection to the upstream, which other requests have not used
        served, _ = await counted(gateway, ask, STREAMS)
        found.append(served)
    added, count = found[1].minus(found[0]), STREAMS * (EVENTS[1] - EVENTS[0])
    calls = {name: added.calls[name] / count for name in ("Python calls, loop", "C calls, loop")}
    return {"opcodes, loop": added.loop / count, **calls}, by_file(added, "loop", count)


async def features() -> dict[str, Row]:
    """What each feature costs a short request: executed in its files while it is off; in all when on."""
    return {name: await switched(feature) for name, feature in FEATURES.items()}


async def switched(feature: Feature) -> Row:
    off, on = await short_request(feature.off), await short_request(feature.on)
    own = sum(
        opcodes
        for place in ("loop", "rest")
        for file, opcodes in off[place].items()
        if file.removeprefix("pointsman/").startswith(feature.files)
    )
    return {
        "off": own,
        "on, loop": sum(on["loop"].values()) - sum(off["loop"].values()),
        "on, rest": sum(on["rest"].values()) - sum(off["rest"].values()),
    }


async def short_request(config: str) -> dict[str, Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with serving(folder, with_tables(BARE, config)) as gateway:

            async def ask(number: int) -> None:
                await gateway.caller.ask(framed(gateway.port, short(1000 + number)))

            for number in range(WARM_UP):
                await ask(100 + number)
            count = REQUESTS["short"]
            served, written = await counted(gateway, ask, count)
            return {"loop": by_file(served, "loop", count), "rest": by_file(written, "rest", count + 1)}


def with_tables(config: str, more: str) -> str:
    """Add tables to a configuration; keys of one that it has go below its head."""
    for table in more.strip().split("\n\n"):
        head, _, keys = table.partition("\n")
        config = (
            config.replace(head, f"{head}\n{keys}", 1) if head and head in config else f"{config}\n{table}\n"
        )
    return config


COMMANDS: dict[str, list[str]] = {
    "import pointsman": ["-c", "import pointsman"],
    "import pointsman.gateway.app": ["-c", "import pointsman.gateway.app"],
    "Pointsman()": ["-c", "from pointsman import Pointsman; Pointsman()"],
    "--help": ["-m", "pointsman", "--help"],
    "serve --help": ["-m", "pointsman", "serve", "--help"],
    "config check": ["-m", "pointsman", "config", "check", "--config", "pointsman.toml"],
    "explain": ["-m", "pointsman", "explain", "why is the build slow?", "--config", "pointsman.toml"],
    "hook": ["-m", "pointsman", "hook", "claude-code"],
    "mcp": ["-m", "pointsman", "mcp", "--config", "pointsman.toml"],
}


#: What an agent tells its hook after a tool has run.
EVENT = json.dumps(
    {
        "session_id": "s-1",
        "transcript_path": "/nonexistent/s-1.jsonl",
        "cwd": "/tmp",
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
        "tool_response": {"stdout": "a.py", "stderr": "", "interrupted": False},
    }
).encode()


async def imports() -> dict[str, Row]:
    """How many modules each command imports: all, and the product's own."""
    found = {command: imported(command, arguments) for command, arguments in COMMANDS.items()}
    with tempfile.TemporaryDirectory() as name:
        async with serving(Path(name), BARE) as gateway:
            found["serve"] = modules(await gateway.modules())
    return found


def imported(command: str, arguments: list[str]) -> Row:
    """Run a command, and count what it has imported at its end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pointsman.toml").write_text(BARE.replace("{upstream}", "1").replace("{folder}", name))
        env = environment(folder, POINTSMAN_COUNT_MODULES="1", BENCH_KEY="sk-counted")
        given = EVENT if command == "hook" else b""
        called = [sys.executable, *arguments]
        run = subprocess.run(called, env=env, cwd=folder, input=given, capture_output=True, check=False)
        if run.returncode:
            raise SystemExit(f"{command}: {run.stderr.decode()[-1000:]}")
        return modules(json.loads((folder / "modules.json").read_text()))


def modules(names: list[str]) -> Row:
    own = [name for name in names if name.partition(".")[0] == "pointsman"]
    return {"modules": len(names), "modules of pointsman": len(own)}

"""Two gateways, one Valkey, one PostgreSQL: sessions that alternate between them, and the database stopped.

.venv/bin/python scripts/replicas.py [--requests 20000] [--sessions 2000] [--outage 10]

Starts everything on loopback (tests/support/engines.py). First every session sends its requests in turn to
one gateway and the other: each must find the session where the other left it, and every row must be in the
ledger. Then the database is stopped under load: no request may fail, and every row must be there or counted
as lost. Ends with status 1 where something of it does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec
import psycopg
import uvloop

ROOT: Final = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]

from loopback.load import Client, Measured  # noqa: E402 - found by the line above
from loopback.processes import Server, free_port  # noqa: E402 - found by the line above

from pointsman.stores.ledger.postgres import PostgresLedger  # noqa: E402 - beside them
from support import engines  # noqa: E402 - found by the line above

#: Sessions that send at once.
_AT_ONCE: Final = 24
_CONFIG: Final = """
[upstreams.main]
base_url = "http://127.0.0.1:{upstream}/v1"

[models.small]
upstream = "main"
id = "small-1"
input_per_million = 1.0
output_per_million = 2.0

[tiers]
simple = "small"
medium = "small"
complex = "small"
reasoning = "small"

[sessions]
store = "valkey"
url = "{valkey}"
password = "${{VALKEY_PASSWORD}}"

[ledger]
url = "{ledger}"
password = "${{PGPASSWORD}}"
"""


class Gateways:
    """Two processes of the gateway with one configuration."""

    def __init__(self, folder: Path, config: str, env: dict[str, str]) -> None:
        file = folder / "pointsman.toml"
        file.write_text(config)
        self.servers = []
        for name in ("a", "b"):
            port = free_port()
            command = [sys.executable, "-m", "pointsman", "serve", "--config", str(file), "--port", str(port)]
            self.servers.append(Server(name, command, port, env, folder / f"{name}.log"))
        for server in self.servers:
            server.wait()

    def stop(self) -> None:
        """End both."""
        for server in self.servers:
            server.stop()

    def lost(self) -> int:
        """Rows that either could not keep."""
        return sum(self._metric(server.port, "pointsman_ledger_lost") for server in self.servers)

    def failing(self) -> int:
        """Stores that fail just now, of both."""
        return sum(self._metric(server.port, "pointsman_stores_failing") for server in self.servers)

    def without_memory(self) -> int:
        """Times a session's memory was not there in time: Valkey has 50 ms, on a busy machine too."""
        return sum(self._metric(server.port, "pointsman_session_failures") for server in self.servers)

    def _metric(self, port: int, name: str) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            said = answer.read().decode()
        found = re.search(rf"^{name}(?:_total)? ([\d.e+]+)$", said, re.MULTILINE)
        assert found, f"no metric {name}"
        return int(float(found[1]))


def request(port: int, session: str, turn: int) -> bytes:
    """The request of a session that goes on: its history, and a new message of the user."""
    messages: list[dict[str, Any]] = []
    for number in range(turn):
        messages.append({"role": "user", "content": f"Question {number} of {session}: what comes next?"})
        messages.append({"role": "assistant", "content": "Hello there"})
    messages.append({"role": "user", "content": f"Question {turn} of {session}: what comes next?"})
    body = msgspec.json.encode({"model": "auto", "messages": messages})
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
        f"x-session-id: {session}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def converse(ports: list[int], sessions: Iterator[tuple[str, int]], measured: Measured) -> int:
    """Let sessions send their turns, to one gateway and the other; return how many requests were sent."""
    loop, sent = asyncio.get_running_loop(), 0

    async def worker() -> None:
        nonlocal sent
        opened = [await loop.create_connection(lambda: Client(measured), "127.0.0.1", port) for port in ports]
        clients = [client for _, client in opened]
        for number, (session, turns) in enumerate(sessions):
            for turn in range(turns):
                place = (number + turn) % len(ports)
                await clients[place].ask(request(ports[place], session, turn))
                sent += 1
        for client in clients:
            client.transport.close()

    await asyncio.gather(*(worker() for _ in range(_AT_ONCE)))
    return sent


def until(happened: Any, seconds: float = 120) -> bool:
    give_up = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.2)
    return True


class Checks:
    """What was found, a line each."""

    def __init__(self) -> None:
        self.failed = 0

    def say(self, what: str, holds: bool, found: object) -> None:
        """Print what was found of something that must hold."""
        self.failed += not holds
        print(f"{'ok  ' if holds else 'FAIL'} {what}: {found}", flush=True)


def alternating(
    gateways: Gateways, ledger: PostgresLedger, options: argparse.Namespace, checks: Checks
) -> None:
    measured, turns = Measured(), options.requests // options.sessions
    began = time.monotonic()
    names = ((f"session-{number:05}", turns) for number in range(options.sessions))
    sent = uvloop.run(converse([each.port for each in gateways.servers], names, measured))
    rate = sent / (time.monotonic() - began)
    print(f"{sent:,} requests in {options.sessions:,} sessions, {rate:.0f} a second")
    checks.say("requests that failed", measured.failed == 0, measured.failed)
    until(lambda: ledger.count() >= sent)
    checks.say("decisions in the ledger", ledger.count() == sent, ledger.count())
    checks.say("rows lost", gateways.lost() == 0, gateways.lost())
    found: Counter[str] = Counter()
    messages: dict[str, list[int]] = {}
    for record in ledger.records():
        asked = record.decision.input
        messages.setdefault(asked.session, []).append(asked.user_message)
        found["with one attempt"] += len(record.attempts) == 1
    checks.say("decisions with their attempt", found["with one attempt"] == sent, found["with one attempt"])
    expected = list(range(1, turns + 1))
    whole = sum(each == expected for each in messages.values())
    late = gateways.without_memory()
    said = f"{whole}, Valkey was late {late} times"
    checks.say("sessions whose memory went on at the other gateway", whole + late >= options.sessions, said)
    rows = [ledger.session(f"session-{number:05}") for number in range(options.sessions)]
    complete = sum(len(each) == turns and all(row.result == "counted" for row in each) for each in rows)
    checks.say("sessions whose summaries are complete", complete == options.sessions, complete)
    follow = sum(row.gap >= 0 for each in rows for row in each[1:])
    share = follow / max(1, sum(len(each) - 1 for each in rows))
    print(f"     summaries that know the turn before, at the other gateway: {share:.2%}")
    counted = sum(each.turns for each in ledger.totals().turns)
    checks.say("turns in the sums", counted == sent, counted)


def rows(url: str) -> tuple[int, int]:
    """Decisions and attempts in the database, also attempts whose decision was lost."""
    query = "SELECT (SELECT count(*) FROM pointsman.decisions), (SELECT count(*) FROM pointsman.entries)"
    with psycopg.connect(url) as connection:
        [found] = connection.execute(query)
    return int(found[0]), int(found[1])


def outage(
    gateways: Gateways, server: engines.Postgres, url: str, options: argparse.Namespace, checks: Checks
) -> None:
    before, measured, lost_before = rows(url), Measured(), gateways.lost()
    ports = [each.port for each in gateways.servers]

    async def under_load() -> tuple[int, int]:
        running = True
        names = (f"outage-{number:06}" for number in count())

        def sessions() -> Iterator[tuple[str, int]]:
            while running:
                yield next(names), 5

        load = asyncio.create_task(converse(ports, sessions(), measured))
        await asyncio.sleep(3)
        server.stop()
        print(f"PostgreSQL stopped for {options.outage:g} s", flush=True)
        await asyncio.sleep(options.outage)
        failing = await asyncio.to_thread(gateways.failing)
        server.start()  # of this thread: the kernel ends it with the thread that started it
        await asyncio.sleep(3)
        running = False
        return await load, failing

    sent, failing = uvloop.run(under_load())
    checks.say(
        "requests that failed while it was away", measured.failed == 0, f"{measured.failed} of {sent:,}"
    )
    checks.say("gateways that say so in their metrics", failing == len(ports), failing)
    kept: Counter[str] = Counter()

    def settled() -> bool:
        kept["lost"] = gateways.lost() - lost_before
        kept["decisions"], kept["attempts"] = (
            now - then for now, then in zip(rows(url), before, strict=True)
        )
        return kept.total() == 2 * sent

    is_settled = until(settled)
    checks.say("every row is there or counted", is_settled, f"{dict(kept)} of {2 * sent:,}")
    checks.say("gateways that fail afterwards", gateways.failing() == 0, gateways.failing())


@contextmanager
def everything(folder: Path) -> Iterator[tuple[Gateways, engines.Postgres, str]]:
    postgres, valkey = engines.find_postgres(), engines.find_valkey()
    assert postgres, "there is no PostgreSQL here: make services"
    assert valkey, "there is no Valkey or Redis here: make services"
    with ExitStack() as stack:
        server = stack.enter_context(engines.postgres(postgres))
        cache = stack.enter_context(engines.valkey(valkey))
        port = free_port()
        command = [sys.executable, str(ROOT / "benchmarks/loopback/upstream.py"), str(port), "3", "0"]
        upstream = subprocess.Popen(command)
        stack.callback(upstream.terminate)
        url = server.database()
        named = url.replace(f":{engines.PASSWORD}@", "@")
        config = _CONFIG.format(upstream=port, valkey=cache.url, ledger=named)
        env = os.environ | {"VALKEY_PASSWORD": cache.password, "PGPASSWORD": engines.PASSWORD}
        gateways = Gateways(folder, config, env)
        stack.callback(gateways.stop)
        yield gateways, server, url


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--sessions", type=int, default=2_000)
    parser.add_argument("--outage", type=float, default=10.0)
    options = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory() as name, everything(Path(name)) as (gateways, server, url):
        with closing(PostgresLedger(url)) as ledger:
            alternating(gateways, ledger, options, checks)
        outage(gateways, server, url, options, checks)
        for log in sorted(Path(name).glob("*.log")):
            said = [line for line in log.read_text().splitlines() if "WARNING" in line or "ERROR" in line]
            print(f"{log.stem}: {len(said)} warnings", *said[:6], sep="\n     ")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())

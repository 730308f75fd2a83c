"""What two workers serve beside one: requests a second and CPU per request, in turn, round after round.

    .venv/bin/python benchmarks/workers.py [--rounds 5] [--requests 3000]

The upstream is the built-in demo, inside the gateway, so that no other process takes part but the generator,
whose share of the machine is printed. The ledger is SQLite and sessions are in memory, with one worker and
with two. What the machine allows is printed beside it: how many times as much two
processes that only count do as one. By CPU: twice what a request takes with one worker over what it takes
with two; and what two cores would serve that also run the generator, over what one would.
"""

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from loopback.load import load
from loopback.processes import Server, free_port

from gateway import agent, short

CONCURRENCY: Final = 64
WARM: Final = 300  # requests that are not measured
BODIES: Final = {"short": short, "agent": agent}
COUNTING: Final = "for _ in range(20_000_000): pass"
CONFIG: Final = """
[upstreams.demo]
base_url = "demo:"
[models]
one = {{ upstream = "demo", id = "one" }}
[tiers]
simple = "one"
medium = "one"
complex = "one"
reasoning = "one"
[ledger]
path = "{folder}/ledger.sqlite"
"""


class Run(NamedTuple):
    """One load on one gateway."""

    rate: float  # requests a second
    cpu: float  # seconds of the gateway's processes for each
    generator: float  # seconds of the generator for each
    share: float  # of the machine that the generator took


def started(folder: Path, workers: int) -> Server:
    own = folder / str(workers)
    own.mkdir()
    file = own / "pointsman.toml"
    file.write_text(CONFIG.format(folder=own))
    port = free_port()
    command = [sys.executable, "-m", "pointsman", "serve", "--config", str(file), "--port", str(port)]
    server = Server(
        f"{workers} workers", [*command, "--workers", str(workers)], port, os.environ, own / "log"
    )
    server.wait()
    return server


def measured(server: Server, kind: str, count: int) -> Run:
    bodies: Iterator[bytes] = iter([BODIES[kind]() for _ in range(count)])
    cpu, own, began = server.cpu(), time.process_time(), time.perf_counter()
    result = load(server.port, bodies, CONCURRENCY)
    seconds = time.perf_counter() - began
    time.sleep(0.5)  # the ledger writes what waits
    spent, generated = server.cpu() - cpu, time.process_time() - own
    assert not result.failed
    return Run(count / seconds, spent / count, generated / count, generated / seconds / (os.cpu_count() or 1))


def allowed() -> float:
    """How many times as much two processes that only count do as one."""

    def seconds(copies: int) -> float:
        began = time.perf_counter()
        counting = [subprocess.Popen([sys.executable, "-c", COUNTING]) for _ in range(copies)]
        return time.perf_counter() - began if all(not each.wait() for each in counting) else 0.0

    found = [2 * seconds(1) / seconds(2) for _ in range(3)]
    return statistics.median(found)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=3_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        servers = {workers: started(Path(folder), workers) for workers in (1, 2)}
        try:
            for server in servers.values():
                load(server.port, (short() for _ in range(WARM)), CONCURRENCY)
            for kind in BODIES:
                runs: dict[int, list[Run]] = {1: [], 2: []}
                for _, workers in itertools.product(range(options.rounds), servers):
                    runs[workers].append(measured(servers[workers], kind, options.requests))
                print(f"two processes that only count: {allowed():.2f} times as much as one")
                show(kind, runs)
        finally:
            for server in servers.values():
                server.stop()
    loads = " ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"load of the machine: {loads} on {os.cpu_count()} cores")


def show(kind: str, runs: dict[int, list[Run]]) -> None:
    middle = {
        workers: Run(*map(statistics.median, zip(*found, strict=True))) for workers, found in runs.items()
    }
    for workers, found in middle.items():
        print(
            f"{kind}, {workers} worker(s): {found.rate:,.0f} requests/s, {found.cpu * 1e6:.0f} µs CPU each, "
            f"generator {found.generator * 1e6:.0f} µs ({found.share:.0%} of the machine)"
        )
    one, two = middle[1], middle[2]
    by_cpu, beside = 2 * one.cpu / two.cpu, 2 * one.cpu / (two.cpu + two.generator)
    served = f"two serve {two.rate / one.rate:.2f} times what one serves"
    print(f"{kind}: {served}; by CPU {by_cpu:.2f}, with the generator beside them {beside:.2f}\n")


if __name__ == "__main__":
    main()

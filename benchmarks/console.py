"""What looking on costs: the gateway's CPU per request with the page Now open, and with a line per request.

    .venv/bin/python benchmarks/console.py [--rounds 7] [--requests 2000]

One gateway serves short requests; in one of the loads a client keeps the stream of events of the page Now
open and reads it. A second gateway prints a line for each request, into a file. The CPU is that of a
server's whole process tree, the console's looks included. Each load runs twice between two plain ones, so
that what changes slowly, as other work on the machine does, cancels; so does a plain load, which shows the
noise. The first round warms up. Printed are medians, and of the ratio to the plain loads around it.
"""

import argparse
import http.client
import os
import statistics
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from loopback.load import load
from loopback.processes import Server, free_port

from gateway import EVENTS, GAP, POINTSMAN, short

CONCURRENCY = 16


@contextmanager
def page_open(port: int) -> Iterator[list[int]]:
    """Keep the page Now open, as a browser does; yields the bytes of each event that came."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/console")
    connection.getresponse().read()
    connection.request("GET", "/console/events")
    answer = connection.getresponse()
    seen: list[int] = []
    ended, began = threading.Event(), threading.Event()

    def read() -> None:
        while not ended.is_set() and (line := answer.readline()):
            if line.startswith(b"data:"):
                seen.append(len(line))
                began.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    began.wait(60)
    try:
        yield seen
    finally:
        ended.set()
        reader.join(5)
        connection.close()


def measure(server: Server, count: int) -> float:
    """Return microseconds of CPU per request."""
    bodies = (short() for _ in range(count))
    before = server.cpu()
    seen = load(server.port, bodies, CONCURRENCY)
    if seen.failed:
        raise SystemExit(f"{seen.failed} requests failed")
    return (server.cpu() - before) / count * 1e6


def with_page(server: Server, count: int) -> float:
    """Return the cost of a load while the page is open."""
    with page_open(server.port) as seen:
        found = measure(server, count)
    if not seen:
        raise SystemExit("the page got no event")
    return found


def one_round(plain: Server, with_lines: Server, count: int) -> dict[str, tuple[float, float]]:
    """Return the cost of each load, and of the plain ones around it."""
    loads: dict[str, Callable[[], float]] = {
        "plain": lambda: measure(plain, count),
        "page open": lambda: with_page(plain, count),
        "a line per request": lambda: measure(with_lines, count),
    }
    found = {}
    for name, load_once in loads.items():
        first, *inner, last = (each() for each in (loads["plain"], load_once, load_once, loads["plain"]))
        found[name] = statistics.mean(inner), (first + last) / 2
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=2_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        folder, env = Path(directory), {**os.environ, "BENCH_KEY": "sk-bench"}
        port = free_port()
        script = Path(__file__).parent / "loopback" / "upstream.py"
        upstream = [sys.executable, str(script), str(port), str(EVENTS), str(GAP)]
        servers = [Server("upstream", upstream, port, env, folder / "upstream.log")]
        try:
            for server, options in {"plain": [], "lines": ["--requests"]}.items():
                own, its_port = folder / server, free_port()
                own.mkdir()
                config = own / "pointsman.toml"
                config.write_text(POINTSMAN.format(url=f"http://127.0.0.1:{port}/v1", folder=own))
                command = [sys.executable, "-m", "pointsman", "serve", "--config", str(config)]
                command += ["--port", str(its_port), *options]
                servers.append(Server(server, command, its_port, env, folder / f"{server}.log"))
            for each in servers:
                each.wait()
            _, plain, lines = servers
            rounds = [one_round(plain, lines, arguments.requests) for _ in range(arguments.rounds + 1)][1:]
        finally:
            for each in servers:
                each.stop()
    for name in rounds[0]:
        values = [found[name][0] for found in rounds]
        ratios = [found[name][0] / found[name][1] for found in rounds]
        spent = f"{statistics.median(values):6.0f} µs/request, {min(values):.0f} to {max(values):.0f}"
        range_ = f"{min(ratios):.3f} to {max(ratios):.3f}"
        print(f"{name:20} {spent}; {statistics.median(ratios):.3f} times plain, {range_}")


if __name__ == "__main__":
    main()

"""What looking on costs: the gateway's CPU per request with the page Now open, and with a line per request.

    .venv/bin/python benchmarks/console.py [--rounds 7] [--requests 4000]

One gateway serves short requests; in one of the loads a client keeps the stream of events of the page Now
open and reads it. A second gateway prints a line for each request, into a file. Loads run in turn, round
after round, and the CPU is that of a server's whole process tree, the console's looks included. The first
round warms up. Printed are the median of each, and of the difference to the plain load of the same round.
"""

import argparse
import http.client
import os
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator
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
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set() and (line := answer.readline()):
            if line.startswith(b"data:"):
                seen.append(len(line))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
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


def one_round(plain: Server, with_lines: Server, count: int) -> dict[str, float]:
    """Return the costs of one round."""
    found = {"plain": measure(plain, count)}
    with page_open(plain.port) as seen:
        found["page open"] = measure(plain, count)
    if not seen:
        raise SystemExit("the page got no event")
    found["plain again"] = measure(plain, count)
    found["a line per request"] = measure(with_lines, count)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=4_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, env = Path(name), {**os.environ, "BENCH_KEY": "sk-bench"}
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
    for load_name in rounds[0]:
        values = [found[load_name] for found in rounds]
        more = [found[load_name] - found["plain"] for found in rounds]
        spent = f"{statistics.median(values):6.0f} µs/request, {min(values):.0f} to {max(values):.0f}"
        added = f"{statistics.median(more):+.0f}, {min(more):+.0f} to {max(more):+.0f}"
        print(f"{load_name:20} {spent}; more than plain: {added}")


if __name__ == "__main__":
    main()

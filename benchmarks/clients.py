"""What an HTTP client for upstreams costs: the one of ours beside aiohttp and pyreqwest.

    .venv/bin/python benchmarks/clients.py [--rounds 5]

Each client stands in the same plain relay (``loopback/relay.py``), with nothing decided. CPU of the relay's
process tree, loads in turn, medians; the ratio to ours is the figure of docs/decisions/0070. A client that is
not installed is left out: ``pip install aiohttp pyreqwest``.
"""

import argparse
import importlib.util
import itertools
import os
import statistics
import sys
import tempfile
from pathlib import Path

from loopback.processes import Server, free_port

from gateway import EVENTS, GAP, measure

LOADS = ("short", "stream")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--concurrency", type=int, default=16)
    arguments = parser.parse_args()
    loopback = Path(__file__).parent / "loopback"
    found = [name for name in ("aiohttp", "pyreqwest") if importlib.util.find_spec(name)]
    started: list[Server] = []
    with tempfile.TemporaryDirectory() as folder:

        def start(name: str, *command: str) -> int:
            port = free_port()
            words = [sys.executable, *(word.format(port=port) for word in command)]
            started.append(Server(name, words, port, os.environ, Path(folder) / f"{name}.log"))
            started[-1].wait()
            return port

        try:
            upstream = start("upstream", str(loopback / "upstream.py"), "{port}", str(EVENTS), str(GAP))
            for name in ("ours", *found):
                start(name, str(loopback / "relay.py"), name, "{port}", f"http://127.0.0.1:{upstream}/v1")
            results: dict[tuple[str, str], list[float]] = {}
            for round_ in range(-1, arguments.rounds):  # the first round warms up and does not count
                for load, server in itertools.product(LOADS, started[1:]):
                    spent = measure(server, load, arguments.concurrency, 1.0)
                    if round_ >= 0:
                        results.setdefault((server.name, load), []).append(spent)
        finally:
            for server in started:
                server.stop()
    medians = {key: statistics.median(values) for key, values in results.items()}
    print("\n| client | short, µs/request | stream, µs/event | to ours |\n|---|---|---|---|")
    for name in ("ours", *found):
        short, stream = (medians[name, load] for load in LOADS)
        ratios = ", ".join(f"{medians[name, load] / medians['ours', load]:.2f}" for load in LOADS)
        print(f"| {name} | {short:.0f} | {stream:.0f} | {ratios} |")


if __name__ == "__main__":
    main()

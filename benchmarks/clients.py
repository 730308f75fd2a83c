"""What an HTTP client for upstreams costs: the one of ours beside aiohttp and pyreqwest.

    .venv/bin/python benchmarks/clients.py [--rounds 7] [--gateway]

Each client stands behind the port of upstreams (``loopback/http_clients.py``) in the same plain relay
(``loopback/relay.py``), with nothing decided; with ``--gateway``, in the whole gateway. Loads: a short
request, a short stream of 100 events, and an agent's turn, which is a request of 35 kB answered with 100
events. CPU of the server's process tree, its threads included; loads and clients in turn, round after round;
median, least and most of each. A round's ratio to ours is of figures measured seconds apart; its median
decides (docs/notebook/0074). A client that is not installed is left out: ``pip install aiohttp pyreqwest``.
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

from gateway import EVENTS, GAP, POINTSMAN, measure

LOADS = {"short": "request", "stream": "event", "agent turn": "turn"}
LOOPBACK = Path(__file__).parent / "loopback"


def found() -> list[str]:
    libraries = {"aiohttp": ["aiohttp"], "pyreqwest": ["pyreqwest", "pyreqwest-threads"]}
    return ["ours", *(name for key in libraries if importlib.util.find_spec(key) for name in libraries[key])]


def report(place: str, figures: dict[tuple[str, str], list[float]], clients: list[str]) -> None:
    print(f"\n{place}: µs of CPU, median (least to most); ratio to ours of the same round\n")
    print("| client | " + " | ".join(f"{load}, µs a {unit} | to ours" for load, unit in LOADS.items()) + " |")
    print("|---|" + "---|" * (2 * len(LOADS)))
    for name in clients:
        row = []
        for load in LOADS:
            spent = figures[name, load]
            ratios = [mine / ours for mine, ours in zip(spent, figures["ours", load], strict=True)]
            row.append(f"{statistics.median(spent):.0f} ({min(spent):.0f} to {max(spent):.0f})")
            row.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        print(f"| {name} | {' | '.join(row)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--gateway", action="store_true", help="the whole gateway instead of a plain relay")
    arguments = parser.parse_args()
    started: list[Server] = []
    with tempfile.TemporaryDirectory() as folder:

        def start(name: str, script: str, *words: str) -> int:
            port = free_port()
            command = [sys.executable, str(LOOPBACK / script), *(word.format(port=port) for word in words)]
            path = f"{LOOPBACK.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
            env = {**os.environ, "BENCH_KEY": "sk-bench", "PYTHONPATH": path}
            started.append(Server(name, command, port, env, Path(folder) / f"{name}.log"))
            started[-1].wait()
            return port

        def start_client(name: str, url: str) -> None:
            if not arguments.gateway:
                start(name, "relay.py", name, "{port}", url)
                return
            (Path(folder) / name).mkdir()
            config = Path(folder) / name / "pointsman.toml"
            config.write_text(POINTSMAN.format(url=url, folder=config.parent))
            start(name, "gateway_with.py", name, "serve", "--config", str(config), "--port", "{port}")

        figures: dict[tuple[str, str], list[float]] = {}
        try:
            upstream = start("upstream", "upstream.py", "{port}", str(EVENTS), str(GAP))
            for name in found():
                start_client(name, f"http://127.0.0.1:{upstream}/v1")
            for round_ in range(-1, arguments.rounds):  # the first round warms up and does not count
                for load, server in itertools.product(LOADS, started[1:]):
                    spent = measure(server, load, arguments.concurrency, 1.0)
                    if round_ >= 0:
                        figures.setdefault((server.name, load), []).append(spent)
        finally:
            for server in started:
                server.stop()
    report("The whole gateway" if arguments.gateway else "A plain relay", figures, found())


if __name__ == "__main__":
    main()

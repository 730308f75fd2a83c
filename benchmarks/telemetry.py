"""What observing a gateway costs: CPU per request with spans off, of 1 % and of all requests, and JSON logs.

    .venv/bin/python benchmarks/telemetry.py [--rounds 7] [--scale 1.0]

Starts an upstream and a collector of its own, then one gateway for each setting, and a second one without any
to show the noise. Loads run in turn, round after round. The request path is the main thread, which runs the
event loop; what is made of requests afterwards runs in other threads, and "whole" has it too. Printed is the
least of all rounds, which other work on the machine disturbs less than the median, and the ratio to the first
gateway. Linux: reads /proc. Needs the extra ``otel``.
"""

import argparse
import contextlib
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from loopback.load import load
from loopback.processes import Server, free_port

from gateway import EVENTS, GAP, POINTSMAN, agent, short

LOADS: Final[Mapping[str, tuple[Callable[[], bytes], int]]] = {"short": (short, 1500), "agent": (agent, 500)}
CONCURRENCY: Final = 16
BASELINE: Final = "off"
#: Seconds in which the threads make lines and spans of the last requests, and send them.
AFTERWARDS: Final = 0.5

#: Lines for the configuration, and options of ``serve``.
SETTINGS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    BASELINE: ("", ()),
    "off again": ("", ()),
    "spans 1 %": ('[telemetry]\nendpoint = "{collector}"\nratio = 0.01\n', ()),
    "spans 100 %": ('[telemetry]\nendpoint = "{collector}"\nratio = 1.0\n', ()),
    "JSON logs": ("", ("--log-format", "json")),
    "spans 100 %, JSON logs": (
        '[telemetry]\nendpoint = "{collector}"\nratio = 1.0\n',
        ("--log-format", "json"),
    ),
}

COLLECTOR: Final = """
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def main_thread(server: Server) -> float:
    """Seconds of CPU that the main thread of a server has used."""
    pid = server.process.pid
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


def measure(server: Server, name: str, scale: float) -> tuple[float, float]:
    """Return microseconds of CPU per request: of the main thread, and of the whole process."""
    make, count = LOADS[name]
    whole, path = server.cpu(), main_thread(server)
    seen = load(server.port, (make() for _ in range(max(int(count * scale), CONCURRENCY))), CONCURRENCY)
    if seen.failed:
        raise SystemExit(f"{server.name}: {seen.failed} requests of the load {name} failed")
    path = main_thread(server) - path
    time.sleep(AFTERWARDS)
    whole = server.cpu() - whole
    return path / len(seen.times) * 1e6, whole / len(seen.times) * 1e6


def started(folder: Path, stopping: contextlib.ExitStack) -> list[Server]:
    """Start the upstream, the collector and a gateway for each setting."""
    env = {**os.environ, "BENCH_KEY": "sk-bench"}
    up, at = free_port(), free_port()
    script = Path(__file__).parent / "loopback" / "upstream.py"

    def start(name: str, command: list[str], port: int) -> Server:
        server = Server(name, command, port, env, folder / f"{port}.log")
        stopping.callback(server.stop)
        server.wait()
        return server

    start("upstream", [sys.executable, str(script), str(up), str(EVENTS), str(GAP)], up)
    start("collector", [sys.executable, "-c", COLLECTOR, str(at)], at)
    servers = []
    for number, (name, (lines, options)) in enumerate(SETTINGS.items()):
        (own := folder / str(number)).mkdir()
        text = POINTSMAN.format(url=f"http://127.0.0.1:{up}/v1", folder=own)
        text += lines.format(collector=f"http://127.0.0.1:{at}")
        (own / "pointsman.toml").write_text(text)
        port = free_port()
        command = [sys.executable, "-m", "pointsman", "serve", "--config", str(own / "pointsman.toml")]
        servers.append(start(name, [*command, "--port", str(port), *options], port))
    return servers


def show(results: Mapping[tuple[str, str], list[tuple[float, float]]]) -> None:
    """Print a table for each load."""
    for load_name in LOADS:
        print(f"\n| {load_name}, µs of CPU per request | request path | ratio | whole | ratio |")
        print("|---|---|---|---|---|")
        least = {name: [*map(min, zip(*results[name, load_name], strict=True))] for name in SETTINGS}
        first = least[BASELINE]
        for name, (path, whole) in least.items():
            print(f"| {name} | {path:.0f} | {path / first[0]:.3f} | {whole:.0f} | {whole / first[1]:.3f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0, help="more or fewer requests")
    asked = parser.parse_args()
    results: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stopping:
        servers = started(Path(name), stopping)
        for round_ in range(-1, asked.rounds):  # the first round warms up and does not count
            for load_name, server in itertools.product(LOADS, servers):
                spent = measure(server, load_name, asked.scale)
                if round_ >= 0:
                    results.setdefault((server.name, load_name), []).append(spent)
    show(results)


if __name__ == "__main__":
    main()

"""What a gateway costs: CPU per request and per streamed event, beside every peer found installed.

The load "agent turn" is a request of 35 kB whose answer is a stream of 100 events.

    .venv/bin/python benchmarks/gateway.py [--rounds 5] [--switchyard PYTHON] [--litellm COMMAND]

Starts an upstream of its own in a separate process, then Pointsman with decision and ledger on, NVIDIA's NeMo
Switchyard (``pip install nemo-switchyard``; give the interpreter it is installed for) and the LiteLLM proxy
(``pip install 'litellm[proxy]'``; give its command). Loads run in turn, round after round; CPU is that of a
server's whole process tree, and medians are printed with their ratios. No text is sent twice.
"""

import argparse
import importlib.util
import itertools
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from loopback.load import load
from loopback.processes import Server, free_port

EVENTS = 100  # of one stream
GAP = 0.01  # seconds between two of them: a fast model
NUMBERS = itertools.count()  # makes every request new

SHORT = "Could you explain how the scheduler decides where a pod is placed, and what taints do? (case {})"
RESULT = "def place(pod, nodes):\n    return max(fits(pod, nodes), key=score)\n" * 20


def short(*, stream: bool = False) -> bytes:
    """A person's question to an assistant."""
    messages = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": SHORT.format(next(NUMBERS))},
    ]
    return json.dumps({"model": "auto", "messages": messages, "stream": stream}).encode()


def agent(*, stream: bool = False) -> bytes:
    """A turn of a coding agent: ten tools, a long system prompt, twelve tool calls so far; about 35 kB."""
    field = {"type": "string", "description": "A path relative to the root of the repository."}
    parameters = {"type": "object", "properties": {"path": field, "text": field}, "required": ["path"]}
    tools = [
        {
            "type": "function",
            "function": {"name": f"tool_{n}", "description": "d" * 300, "parameters": parameters},
        }
        for n in range(10)
    ]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a careful coding agent. Work step by step. " * 100},
        {"role": "user", "content": SHORT.format(next(NUMBERS))},
    ]
    for n in range(12):
        function = {"name": f"tool_{n % 10}", "arguments": json.dumps({"path": f"src/{n}.py"})}
        call = {"id": f"c{n}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": f"# {n}\n{RESULT}"})
    return json.dumps({"model": "auto", "messages": messages, "tools": tools, "stream": stream}).encode()


LOADS: dict[str, tuple[Callable[[], bytes], int]] = {
    "short": (short, 2000),
    "agent": (agent, 600),
    "stream": (lambda: short(stream=True), 64),
    "agent turn": (lambda: agent(stream=True), 64),
}

POINTSMAN = """
[upstreams.main]
base_url = "{url}"
api_key = "${{BENCH_KEY}}"
[models]
small = {{ upstream = "main", id = "small-1", input_per_million = 0.10, output_per_million = 0.40 }}
large = {{ upstream = "main", id = "large-3", input_per_million = 3.00, output_per_million = 15.00 }}
[tiers]
simple = "small"
medium = "small"
complex = "large"
reasoning = "large"
[ledger]
path = "{folder}/ledger.sqlite"
"""

SWITCHYARD = """
schema_version = 1
[llm_clients.up]
format = "openai_chat"
base_url = "{url}"
api_key_env = "BENCH_KEY"
[targets.capable]
id = "large-3"
llm_client = "up"
[targets.efficient]
id = "small-1"
llm_client = "up"
[routes.auto]
id = "auto"
type = "stage_router"
capable_target = "capable"
efficient_target = "efficient"
picker = "efficient_first"
confidence_threshold = 0.5
"""
SERVE_SWITCHYARD = """
import sys, time
from switchyard_rust.server import Server
server = Server(sys.argv[1], int(sys.argv[2]))
time.sleep(1e9)
"""

LITELLM = """
model_list:
  - model_name: auto
    litellm_params: {{ model: openai/small-1, api_base: "{url}", api_key: bench }}
general_settings:
  dangerously_permit_weak_or_unset_master_key: true
"""


def commands(arguments: argparse.Namespace, url: str, folder: Path) -> Iterator[tuple[str, list[str], int]]:
    """Yield name, command and port of every server there is."""

    def written(name: str, text: str) -> str:
        (folder / name).write_text(text.format(url=url, folder=folder))
        return str(folder / name)

    port = free_port()
    config = written("pointsman.toml", POINTSMAN)
    yield (
        "pointsman",
        [sys.executable, "-m", "pointsman", "serve", "--config", config, "--port", str(port)],
        port,
    )
    python = arguments.switchyard or (sys.executable if importlib.util.find_spec("switchyard_rust") else None)
    if python:
        port = free_port()
        yield (
            "switchyard",
            [python, "-c", SERVE_SWITCHYARD, written("routes.toml", SWITCHYARD), str(port)],
            port,
        )
    if litellm := arguments.litellm or shutil.which("litellm"):
        port = free_port()
        config = written("litellm.yaml", LITELLM)
        yield "litellm", [litellm, "--config", config, "--port", str(port), "--num_workers", "1"], port


def measure(server: Server, name: str, concurrency: int, scale: float) -> float:
    """Return microseconds of CPU per request; per event for the load "stream"."""
    make, count = LOADS[name]
    bodies = (make() for _ in range(max(int(count * scale), concurrency)))
    before = server.cpu()
    seen = load(server.port, bodies, concurrency)
    spent = server.cpu() - before
    if seen.failed:
        raise SystemExit(f"{server.name}: {seen.failed} requests of the load {name} failed")
    return spent / (seen.events if name == "stream" else len(seen.times)) * 1e6


def latency(port: int) -> float:
    """Return milliseconds one short request takes when nothing else happens (median)."""
    return load(port, (short() for _ in range(200)), 1).p50 * 1e3


def table(
    servers: list[Server], results: dict[tuple[str, str], list[float]], added: dict[str, float]
) -> None:
    units = {"short": "µs/request", "agent": "µs/request", "stream": "µs/event", "agent turn": "µs/request"}
    print(
        "\n| server | "
        + " | ".join(f"{name}, {units[name]}" for name in LOADS)
        + " | added p50, ms | RSS, MB |"
    )
    print("|---|" + "---|" * (len(LOADS) + 2))
    medians = {key: statistics.median(values) for key, values in results.items()}
    for server in servers:
        row = [f"{medians[server.name, name]:.0f}" for name in LOADS]
        print(f"| {server.name} | {' | '.join(row)} | {added[server.name]:.2f} | {server.rss():.0f} |")
    print()
    for server in servers[1:]:
        ratios = (f"{name} {medians['pointsman', name] / medians[server.name, name]:.3f}" for name in LOADS)
        print(f"pointsman / {server.name}: {', '.join(ratios)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--scale", type=float, default=1.0, help="more or fewer requests")
    parser.add_argument("--switchyard", help="interpreter that nemo-switchyard is installed for")
    parser.add_argument("--litellm", help="the litellm command; default: the one on PATH")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = {**os.environ, "BENCH_KEY": "sk-bench"}
        port = free_port()
        script = Path(__file__).parent / "loopback" / "upstream.py"
        command = [sys.executable, str(script), str(port), str(EVENTS), str(GAP)]
        upstream = Server("direct", command, port, env, folder / "upstream.log")
        started = [upstream]
        try:
            upstream.wait()
            url = f"http://127.0.0.1:{port}/v1"
            for server_name, command, its_port in commands(arguments, url, folder):
                log = folder / f"{server_name}.log"
                started.append(Server(server_name, command, its_port, env, log))
                started[-1].wait()
            servers = started[1:]
            results: dict[tuple[str, str], list[float]] = {}
            for round_ in range(-1, arguments.rounds):  # the first round warms up and does not count
                for load_name, server in itertools.product(LOADS, servers):
                    scale = arguments.scale * (0.1 if server.name == "litellm" else 1.0)
                    spent = measure(server, load_name, arguments.concurrency, scale)
                    if round_ >= 0:
                        results.setdefault((server.name, load_name), []).append(spent)
            direct = latency(port)
            table(servers, results, {server.name: latency(server.port) - direct for server in servers})
        finally:
            for server in started:
                server.stop()


if __name__ == "__main__":
    main()

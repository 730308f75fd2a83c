"""Install each extra alone into a clean environment from a built wheel, and run its example.

    .venv/bin/python scripts/extras.py dist/*.whl                 # every extra
    .venv/bin/python scripts/extras.py dist/*.whl batch otel      # some
    PYTHON=python3.13 .venv/bin/python scripts/extras.py …        # with another interpreter

Prints a row for each: packages installed, seconds of the installation, seconds of the example, result. The
exit code is 1 when one fails. Examples are offline: scripted models, or a server on the loopback address. For
PostgreSQL and Valkey the error of a server that is not there is shown. Installing needs an index or a cache;
uv is used where it is present.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"

_EXPLAIN = "from pointsman import Pointsman; print(Pointsman().decide('Hello!').tier.tier)"
_SERVE = """
import re, subprocess, sys, urllib.request
command = [sys.executable, "-m", "pointsman", "serve", "--demo", "--no-traffic", "--port", "0"]
with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as gateway:
    lines = (re.search(r"http://[0-9.]+:[0-9]+", line) for line in gateway.stdout)
    address = next(found[0] for found in lines if found)
    body = b'{"model": "auto", "messages": [{"role": "user", "content": "Hello!"}]}'
    url, headers = address + "/v1/chat/completions", {"content-type": "application/json"}
    request = urllib.request.Request(url, body, headers)
    with urllib.request.urlopen(request) as answer:
        print(answer.status, answer.headers["x-pointsman-tier"])
    gateway.terminate()
"""
_RE2 = """
from pointsman.evidence import PatternSet, SignalTable, build_matcher
from pointsman.factory import default_policy
patterns = PatternSet(SignalTable(default_policy().signals()))
print(type(build_matcher(patterns, engine="re2")).__name__)
"""
_VALKEY = """
from pointsman.errors import StoreUnavailable
from pointsman.stores.sessions import ValkeySessions
try:
    print(ValkeySessions("redis://127.0.0.1:1/0").get("s"))
except StoreUnavailable as error:
    print(error)
"""
_POSTGRES = """
import subprocess, sys
place = "postgresql://nobody@127.0.0.1:1/ledger"
ran = subprocess.run([sys.executable, "-m", "pointsman", "decisions", "list", "--ledger", place],
                     capture_output=True, text=True)
assert ran.returncode == 2 and "Traceback" not in ran.stderr and "extra" not in ran.stderr, ran
print(ran.stderr.splitlines()[0])
"""
_ENCODER = (
    "from pointsman.encoders import load_encoder; print(len(load_encoder({name!r}).encode(['Hello!'])[0]))"
)
_FIT = """
import json, random, subprocess, sys
drawn = random.Random(1)
with open("outcomes.jsonl", "w") as file:
    for number in range(60):
        prompt = f"Prove theorem {number} " * (1 + number % 7)
        file.write(json.dumps({"prompt": prompt, "weak": drawn.random() < 0.5, "strong": True}) + "\\n")
command = [sys.executable, "-m", "pointsman", "eval", "tiers", "--data", "outcomes.jsonl", "--kinds", "off"]
subprocess.run(command, check=True)
"""
_PLOT = """
from pathlib import Path
from pointsman.learning.picture import Picture, draw
points = [(1.0, 0.5), (2.0, 0.9)]
draw(Picture(points, [0.4, 0.8], [0.6, 1.0], points, (2.0, 0.9), "$"), Path("curve.png"))
print(Path("curve.png").stat().st_size > 1000)
"""
_BATCH = """
import subprocess, sys
import pyarrow as pa, pyarrow.parquet as pq
pq.write_table(pa.table({"text": ["Hello!", "Fix the bug in the parser"]}), "prompts.parquet")
command = [sys.executable, "-m", "pointsman", "classify", "--in", "prompts.parquet", "--out", "tiers"]
subprocess.run([*command, *sys.argv[1:]], check=True)
print(pq.read_table("tiers/part-00000-00000.parquet")["tier"].to_pylist())
"""
_OTEL = """
from pointsman.config import Config
from pointsman.telemetry.tracing import open_tracing
print(type(open_tracing(Config(), print, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})).__name__)
"""
_EXTPROC = "import grpc, grpc_health.v1.health_pb2, google.protobuf; print(grpc.__version__)"
_MCP = """
import asyncio, sys
from pathlib import Path
from mcp import ClientSession, StdioServerParameters, stdio_client
async def main():
    Path("pointsman.toml").write_text('[tiers]\\nprofile = "default"\\n')
    arguments = ["-m", "pointsman", "mcp", "--config", "pointsman.toml"]
    server = StdioServerParameters(command=sys.executable, args=arguments)
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        print(sorted(tool.name for tool in (await session.list_tools()).tools))
asyncio.run(main())
"""


class Example(NamedTuple):
    """What shows that an extra is complete: a file of ``examples/``, or a text."""

    code: str
    arguments: tuple[str, ...] = ()


_SAYS = ("start", "state.sqlite", "What is the weather like in Oslo?")
#: By extra; "" is the distribution without any.
RUNS: Final[dict[str, Example]] = {
    "": Example(_EXPLAIN),
    "gateway": Example(_SERVE),
    "re2": Example(_RE2),
    "valkey": Example(_VALKEY),
    "static": Example(_ENCODER.format(name="static")),
    "sentence": Example(_ENCODER.format(name="sentence")),
    "fit": Example(_FIT),
    "plot": Example(_PLOT),
    "postgres": Example(_POSTGRES),
    "batch": Example(_BATCH, ("--workers", "2")),
    "ray": Example(_BATCH, ("--engine", "ray", "--workers", "1")),
    "otel": Example(_OTEL),
    "extproc": Example(_EXTPROC),
    "litellm": Example("litellm_router.py"),
    "mcp": Example(_MCP),
    "pydantic-ai": Example("pydantic_ai_routing.py"),
    "openai-agents": Example("openai_agents_routing.py"),
    "langgraph": Example("langgraph_app.py", _SAYS),
    "langchain": Example("langchain_routing.py"),
    "all": Example(_EXPLAIN),
}


def run(*command: object, **settings: object) -> str:
    """Run a program; its output, or a ``RuntimeError`` with the end of it."""
    done = subprocess.run(  # noqa: PLW1510 - the output is told
        [*map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1_200,
        **settings,
    )  # type: ignore[call-overload]
    if done.returncode:
        raise RuntimeError(done.stdout[-1_500:])
    return str(done.stdout)


def installed(folder: Path, wheel: Path, extra: str) -> tuple[Path, int]:
    """Make an environment of one extra; its interpreter, and the number of packages in it."""
    base, uv = os.environ.get("PYTHON", sys.executable), shutil.which("uv")
    python = folder / "venv" / "bin" / "python"
    wanted = f"{wheel.resolve()}[{extra}]" if extra else wheel.resolve()
    if uv:
        run(uv, "venv", "-q", "--python", base, folder / "venv")
        run(uv, "pip", "install", "-q", "--python", python, wanted)
        listed = run(uv, "pip", "list", "-q", "--python", python)
    else:
        run(base, "-m", "venv", folder / "venv")
        run(python, "-m", "pip", "install", "-q", wanted)
        listed = run(python, "-m", "pip", "list", "-q", "--disable-pip-version-check")
    return python, len(listed.splitlines()) - 2


def example(python: Path, folder: Path, shown: Example) -> str:
    """Run the example away from the source; the last line that it prints."""
    program: tuple[object, ...] = ("-c", shown.code)
    if shown.code.endswith(".py"):
        program = (EXAMPLES / shown.code,)
    names = ("HOME", "PATH", "LANG", "TMPDIR")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    kept |= {"XDG_CONFIG_HOME": str(folder), "XDG_STATE_HOME": str(folder), "RAY_USAGE_STATS_ENABLED": "0"}
    kept |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONWARNINGS": "ignore"}
    said = run(python, *program, *shown.arguments, cwd=folder, env=kept)
    return said.strip().splitlines()[-1] if said.strip() else ""


def main() -> int:
    """Try the extras that are named, or all."""
    wheel, *names = sys.argv[1:]
    failed = 0
    print(f"{'extra':15}{'packages':>9}{'install':>9}{'example':>9}  result")
    for extra in names or RUNS:
        with tempfile.TemporaryDirectory() as made:
            folder, began = Path(made), time.perf_counter()
            try:
                python, count = installed(folder, Path(wheel), extra)
                ready = time.perf_counter()
                result = example(python, folder, RUNS[extra])
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                failed += 1
                print(f"{extra or '(none)':15} failed: {error}", flush=True)
                continue
        times = f"{ready - began:8.0f}s{time.perf_counter() - ready:8.0f}s"
        print(f"{extra or '(none)':15}{count:9}{times}  {result[:80]}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

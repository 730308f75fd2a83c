"""Runs what the documentation prints for each extra, in an environment of that extra alone.

    python scripts/page_examples.py [--only TEXT]

The wheel is built once. A page on another framework gets a fresh environment with what it tells to install,
and its Python blocks run from top to bottom in an empty home; the commands in the head of an example file run
as printed. Every other extra is installed alone, and a few lines show that it is complete: offline, with
scripted models or a server on the loopback address; of PostgreSQL and Valkey the error of a server that is
not there. Printed are the extra, the versions that an installer chose, and the result. Needs uv and an index
or a cache (``make examples``).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
_TIMEOUT: Final = 600.0  # seconds for an installation, or an example
_BLOCK: Final = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INSTALLS: Final = re.compile(r"pip install ([^`\n]+)")
#: What an MCP client sends first, and the question for the tools.
_CLIENT: Final = (
    {
        "method": "initialize",
        "id": 1,
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "page", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {"method": "tools/list", "id": 2},
)


class Page(NamedTuple):
    """A page, its packages whose versions are told, and the files of ``examples`` that belong to it."""

    name: str
    packages: tuple[str, ...]
    examples: tuple[str, ...] = ()


PAGES: Final = (
    Page("openai-agents", ("openai-agents", "openai"), ("openai_agents_routing.py",)),
    Page("langgraph", ("langgraph", "langgraph-checkpoint-sqlite"), ("langgraph_app.py",)),
    Page("langchain", ("langchain", "langchain-core"), ("langchain_routing.py",)),
    Page("pydantic-ai", ("pydantic-ai-slim",), ("pydantic_ai_routing.py",)),
    Page("mcp", ("mcp",)),
    Page("litellm", ("litellm",), ("litellm_router.py",)),
)


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

#: Program and arguments that show an extra without a page of its own; "" is the distribution without any.
EXTRAS: Final[dict[str, tuple[str, ...]]] = {
    "": (_EXPLAIN,),
    "gateway": (_SERVE,),
    "re2": (_RE2,),
    "valkey": (_VALKEY,),
    "static": (_ENCODER.format(name="static"),),
    "sentence": (_ENCODER.format(name="sentence"),),
    "fit": (_FIT,),
    "plot": (_PLOT,),
    "postgres": (_POSTGRES,),
    "batch": (_BATCH, "--workers", "2"),
    "ray": (_BATCH, "--engine", "ray", "--workers", "1"),
    "otel": (_OTEL,),
    "extproc": (_EXTPROC,),
    "all": (_EXPLAIN,),
}


class Environment:
    """A virtual environment with a home of its own, outside the checkout."""

    def __init__(self, folder: Path, wheel: Path, requirements: str) -> None:
        self.folder = folder
        (folder / "work").mkdir(parents=True)
        hidden = ("XDG_", "PYTHON", "POINTSMAN_", "VIRTUAL_ENV")
        shared = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(hidden) and not name.endswith("_API_KEY")
        }
        shared.setdefault("UV_CACHE_DIR", str(Path.home() / ".cache/uv"))
        programs = f"{folder / 'venv/bin'}{os.pathsep}{os.environ['PATH']}"
        self._variables = shared | {"HOME": str(folder), "PATH": programs}
        self.run("uv", "venv", "-q", "--python", sys.executable, str(folder / "venv"))
        wanted = [
            f"{word} @ {wheel.as_uri()}" if word.startswith("pointsman") else word
            for word in re.findall(r"[\w\[\],.-]+", requirements)
        ]
        self.run("uv", "pip", "install", "-q", "--python", str(folder / "venv/bin/python"), *wanted)

    def run(self, *command: str, given: str = "") -> str:
        """Run a command to its end. Raises ``RuntimeError`` with what it printed, if it fails."""
        done = subprocess.run(
            command,
            cwd=self.folder / "work",
            env=self._variables,
            input=given,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"$ {' '.join(command)[:200]}\n{(done.stdout + done.stderr)[-1500:]}")
        return done.stdout

    def versions(self, packages: tuple[str, ...]) -> str:
        """Return the installed versions."""
        asked = (
            f"from importlib.metadata import version\nfor each in {packages!r}: print(each, version(each))"
        )
        return ", ".join(self.run("python", "-c", asked).splitlines())


def try_page(page: Page, environment: Environment) -> list[str]:
    """Run what a page prints; return what was run."""
    text = (ROOT / "docs/how-to" / f"{page.name}.md").read_text(encoding="utf-8")
    done = []
    if code := "".join(_BLOCK.findall(text)):
        environment.run("python", "-", given=code)
        done.append(f"{len(_BLOCK.findall(text))} blocks")
    work = environment.folder / "work" / "examples"
    work.mkdir()
    for name in ("assistant.py", *page.examples):
        (work / name).write_bytes((ROOT / "examples" / name).read_bytes())
    for name in page.examples:
        head = (work / name).read_text(encoding="utf-8").split('"""')[1]
        for line in re.findall(rf"^ *((?:\w+=\S+ )*python examples/{name}.*)$", head, re.MULTILINE):
            environment.run("sh", "-c", line)
            done.append(line)
    if page.name == "mcp":
        [server] = json.loads(text.partition("```json\n")[2].partition("```")[0])["mcpServers"].values()
        file = environment.folder / "pointsman.toml"
        file.write_bytes((ROOT / "examples/litellm/pointsman.toml").read_bytes())
        arguments = [str(file) if each.endswith("/pointsman.toml") else each for each in server["args"]]
        lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in _CLIENT)
        answered = environment.run(server["command"], *arguments, given=lines)
        tools = {tool["name"] for tool in json.loads(answered.splitlines()[-1])["result"]["tools"]}
        if missing := {"decide", "explain", "decisions", "label"} - tools:
            raise RuntimeError(f"tools are missing: {missing}")
        done.append("pointsman mcp: tools/list")
    return done


class Case(NamedTuple):
    """What one environment is for."""

    name: str
    requirements: str
    packages: tuple[str, ...]  # whose versions are told
    run: Callable[[Environment], list[str]]  # returns what was run


def cases() -> Iterator[Case]:
    """Yield the pages, then the extras without one."""
    for page in PAGES:
        text = (ROOT / "docs/how-to" / f"{page.name}.md").read_text(encoding="utf-8")
        yield Case(page.name, _INSTALLS.findall(text)[0], page.packages, partial(try_page, page))
    for extra, program in EXTRAS.items():
        requirements = f"pointsman[{extra}]" if extra else "pointsman"
        yield Case(extra or "(none)", requirements, (), partial(try_extra, program))


def try_extra(program: tuple[str, ...], environment: Environment) -> list[str]:
    """Run the lines of an extra; return the last that they print."""
    return environment.run("python", "-c", *program).splitlines()[-1:]


def main() -> int:
    """Print a row per case; return how many failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="pages and extras whose name holds this")
    only = parser.parse_args().only
    failed = 0
    print("| page or extra | installed | versions | seconds | ran | result |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        subprocess.run(["uv", "build", "-q", "--wheel", "-o", temporary, str(ROOT)], check=True)
        [wheel] = Path(temporary).glob("*.whl")
        for case in cases():
            if only not in case.name:
                continue
            began, versions, ran, result = time.monotonic(), "", [], "done"
            try:
                environment = Environment(Path(temporary) / case.name, wheel, case.requirements)
                versions = environment.versions(case.packages)
                ran = case.run(environment)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                failed += 1
                result = f"FAIL: {str(error)!r}"
            seconds = f"{time.monotonic() - began:.0f}"
            cells = (case.name, case.requirements.replace('"', ""), versions, seconds, "; ".join(ran), result)
            print(f"| {' | '.join(cells)} |", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())

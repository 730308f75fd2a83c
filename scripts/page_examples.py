"""Runs the examples of the pages on other frameworks, each with the extra that its page names.

    python scripts/page_examples.py [--only TEXT]

The wheel is built once. For each page a fresh environment gets what the page tells to install, and its Python
blocks run from top to bottom in an empty home; the commands in the head of an example file run as printed.
Printed are the extra, the versions that an installer chose, and the result. Needs uv and an index or a cache
(``make examples``).
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


def main() -> int:
    """Print a row per page; return how many pages failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="pages whose name holds this")
    only = parser.parse_args().only
    failed = 0
    print("| page | installed | versions | seconds | ran | result |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        subprocess.run(["uv", "build", "-q", "--wheel", "-o", temporary, str(ROOT)], check=True)
        [wheel] = Path(temporary).glob("*.whl")
        for page in PAGES:
            if only not in page.name:
                continue
            text = (ROOT / "docs/how-to" / f"{page.name}.md").read_text(encoding="utf-8")
            requirements = _INSTALLS.findall(text)[0]
            began, versions, ran, result = time.monotonic(), "", [], "done"
            try:
                environment = Environment(Path(temporary) / page.name, wheel, requirements)
                versions = environment.versions(page.packages)
                ran = try_page(page, environment)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                failed += 1
                result = f"FAIL: {str(error)!r}"
            seconds = f"{time.monotonic() - began:.0f}"
            cells = (page.name, requirements.replace('"', ""), versions, seconds, "; ".join(ran), result)
            print(f"| {' | '.join(cells)} |", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())

"""Seconds, CPU and keystrokes from nothing to the first answer, audit, agent and saving: ours and peers.

    uv build --wheel -o dist . && python benchmarks/first_minutes.py dist/*.whl
    python benchmarks/first_minutes.py dist/*.whl --litellm VENV/bin --ccr BIN --ccusage BIN

Each row begins in a fresh home and ends when the answer, the report or the end of the agent is there.
Keystrokes are the characters that a person types, with Enter and the files that have to be written.
Installation is a row of its own, with uv's cache as it is. A peer that is not named is left out. Peers ask a
scripted upstream on this machine, and so do we in the row that is compared; nothing leaves it.
Seconds and CPU depend on the machine: compare the rows of one run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

PATIENCE = 240.0  # seconds for one step
HELLO: dict[str, object] = {"model": "auto", "messages": [{"role": "user", "content": "Hello!"}]}


class Row(NamedTuple):
    """One way to one first thing."""

    what: str
    program: str
    seconds: float
    cpu: float
    keystrokes: int


class Upstream(BaseHTTPRequestHandler):
    """Answers chat completions."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        message = {"role": "assistant", "content": "Hello."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
        whole = {
            "id": "c-1",
            "object": "chat.completion",
            "created": 1,
            "model": "small",
            "choices": [choice],
        }
        body = json.dumps(whole | {"usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def upstream() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Upstream) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def environment(home: Path, programs: Path) -> dict[str, str]:
    hidden = ("XDG_", "PYTHON", "POINTSMAN_", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    kept = {
        name: value for name, value in kept.items() if not name.endswith(("_API_KEY", "_PROXY", "_proxy"))
    }
    kept.setdefault("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv"))
    kept["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would try to fetch its prices
    return kept | {
        "HOME": str(home),
        "PATH": f"{home / 'bin'}{os.pathsep}{programs}{os.pathsep}{kept['PATH']}",
    }


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def answered(url: str, path: str, body: dict[str, object]) -> None:
    """Ask until the answer is there."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    headers = {"content-type": "application/json", "authorization": "Bearer any", "x-api-key": "any"}
    request = urllib.request.Request(f"{url}{path}", json.dumps(body).encode(), headers)
    ends = time.monotonic() + PATIENCE
    while True:
        try:
            with direct.open(request, timeout=PATIENCE) as answer:
                assert answer.status == 200
                return
        except urllib.error.HTTPError:
            raise
        except OSError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.02)


class Home:
    """A fresh home, in which lines are typed."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder, self.typed = folder, 0
        self._environment = environment(folder, programs)
        (folder / "bin").mkdir(parents=True)

    def run(self, line: str, **variables: str) -> str:
        """Type a line; return what it prints."""
        self.typed += len(line) + 1
        done = subprocess.run(
            line, check=False, shell=True, cwd=self.folder, env=self._environment | variables,
            capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{line}: {done.stdout}{done.stderr}")
        return done.stdout

    def write(self, name: str, text: str) -> None:
        """Type a file."""
        self.typed += len(text)
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def serve(self, line: str, url: str, path: str, body: dict[str, object]) -> None:
        """Type a line that serves, and ask it by curl until it answers."""
        curl = f"curl {url}{path} -H 'content-type: application/json' -d '{json.dumps(body)}'"
        self.typed += len(line) + len(curl) + 2
        server = subprocess.Popen(
            ["/bin/sh", "-c", f"exec env {line}"], cwd=self.folder, env=self._environment,
            start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            answered(url, path, body)
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(timeout=PATIENCE)


def measured(what: str, program: str, programs: Path, step: Callable[[Home], None]) -> Row:
    """Take a step in a fresh home."""
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home", programs)
        began, used = time.monotonic(), cpu()
        step(home)
        return Row(what, program, time.monotonic() - began, cpu() - used, home.typed)


def logs(home: Home) -> None:
    """Write a session of Claude Code, as an agent had left it; nobody types that."""
    usage: dict[str, object] = {"input_tokens": 900, "output_tokens": 80, "cache_read_input_tokens": 20_000}
    lines: list[dict[str, object]] = []
    for number in range(40):
        stamp = f"2026-11-20T10:{number:02}:00.000Z"
        shared: dict[str, object] = {
            "sessionId": "s",
            "cwd": "/work/shop",
            "version": "2.1.0",
            "timestamp": stamp,
        }
        lines.append(
            shared
            | {"type": "user", "uuid": f"u{number}", "message": {"role": "user", "content": "Fix the test."}}
        )
        message: dict[str, object] = {
            "id": f"m{number}",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "usage": usage,
        }
        message |= {"content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn"}
        lines.append(
            shared
            | {"type": "assistant", "uuid": f"a{number}", "requestId": f"r{number}", "message": message}
        )
    folder = home.folder / ".claude" / "projects" / "-work-shop"
    folder.mkdir(parents=True)
    (folder / "s.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")


#: Stands for an agent: asks the address in its environment once.
AGENT = f"""#!{sys.executable}
import json, os, urllib.request
body = {{"model": "auto", "max_tokens": 9, "messages": [{{"role": "user", "content": "Hello"}}]}}
headers = {{"content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": "any"}}
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
request = urllib.request.Request(url, json.dumps(body).encode(), headers)
print(json.load(urllib.request.urlopen(request))["role"])
"""


def agent(home: Home) -> None:
    (home.folder / "bin" / "claude").write_text(AGENT)
    (home.folder / "bin" / "claude").chmod(0o755)


def ours(wheel: Path, base_url: str) -> Iterator[Row]:
    name = "Pointsman"
    with tempfile.TemporaryDirectory() as folder:
        tools = Path(folder)
        typed = "uv tool install 'pointsman[gateway]'"
        began, used = time.monotonic(), cpu()
        command = ["uv", "tool", "install", "-q", f"pointsman[gateway] @ {wheel.resolve().as_uri()}"]
        where = {"UV_TOOL_DIR": str(tools / "t"), "UV_TOOL_BIN_DIR": str(tools / "bin")}
        subprocess.run(command, check=True, env=os.environ | where, timeout=PATIENCE)
        yield Row("install", name, time.monotonic() - began, cpu() - used, len(typed) + 1)
        at, port = tools / "bin", free_port()
        url, chat = f"http://127.0.0.1:{port}", "/v1/chat/completions"
        demo = f"pointsman serve --demo --no-traffic --port {port}"
        yield measured("first answer, no key", name, at, lambda home: home.serve(demo, url, chat, HELLO))
        tables = f'[upstreams.main]\nbase_url = "{base_url}"\nformats = ["chat"]\n[models.small]\n'
        tables += 'upstream = "main"\nid = "small"\n[tiers]\nsimple = "small"\n'

        def through(home: Home) -> None:
            home.write("pointsman.toml", tables)
            home.serve(f"pointsman serve --port {port}", url, chat, HELLO)

        yield measured("first answer, own server", name, at, through)

        def audit(home: Home) -> None:
            logs(home)
            assert "$" in home.run("pointsman audit")

        yield measured("first audit", name, at, audit)

        def launched(home: Home) -> None:
            agent(home)
            home.run("pointsman config init")
            assert "assistant" in home.run("pointsman claude")

        yield measured("first agent", name, at, launched)

        def saving(home: Home) -> None:
            agent(home)
            home.run("pointsman config init")
            home.run("pointsman claude")
            assert "saved" in home.run("pointsman report savings").lower()

        yield measured("first saving", name, at, saving)


def peers(given: argparse.Namespace, base_url: str) -> Iterator[Row]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    if given.litellm:
        line = f"litellm --model openai/small --api_base {base_url} --port {port}"
        body = HELLO | {"model": "openai/small"}
        # Without these it asks its maker for prices, and does not start.
        key = "OPENAI_API_KEY=any LITELLM_LOCAL_MODEL_COST_MAP=True "
        key += "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY=true "
        yield measured(
            "first answer, own server", "LiteLLM", given.litellm,
            lambda home: home.serve(key + line, url, "/v1/chat/completions", body),
        )  # fmt: skip
    if given.ccr:
        provider = {"name": "main", "api_base_url": f"{base_url}/chat/completions", "api_key": "any"}
        config = {
            "PORT": port,
            "Providers": [provider | {"models": ["small"]}],
            "Router": {"default": "main,small"},
        }
        body = HELLO | {"max_tokens": 9}

        def router(home: Home) -> None:
            home.write(".claude-code-router/config.json", json.dumps(config))
            home.serve("ccr start", url, "/v1/messages", body)

        yield measured("first answer, own server", "claude-code-router", given.ccr, router)
    if given.ccusage:

        def usage(home: Home) -> None:
            logs(home)
            assert "36,000" in home.run("ccusage daily --offline")  # 40 requests of 900 tokens

        yield measured("audit", "ccusage", given.ccusage, usage)


def main() -> None:
    """Print a row for each step."""
    parser = argparse.ArgumentParser(description="First minutes, of the wheel and of peers.")
    parser.add_argument("wheel", type=Path)
    for peer in ("litellm", "ccr", "ccusage"):
        parser.add_argument(f"--{peer}", type=Path, help="folder of its program")
    given = parser.parse_args()
    assert shutil.which("uv"), "uv is not installed"
    print("| first | program | seconds | CPU s | keystrokes |\n|---|---|---|---|---|", flush=True)
    with upstream() as base_url:
        for rows in (ours(given.wheel, base_url), peers(given, base_url)):
            try:
                for row in rows:
                    measures = f"{row.seconds:.1f} | {row.cpu:.1f} | {row.keystrokes}"
                    print(f"| {row.what} | {row.program} | {measures} |", flush=True)
            except (RuntimeError, OSError, AssertionError, subprocess.SubprocessError) as error:
                print(f"stopped: {error!r}", file=sys.stderr)


if __name__ == "__main__":
    main()

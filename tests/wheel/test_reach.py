"""What one process can reach: every connection, listening socket, written file and child of a real gateway.

Audit hooks of the interpreter record them (PEP 578). libuv connects in C, which no hook sees: it runs on
asyncio's own loop here. The page is docs/reference/reach.md.
"""

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import NamedTuple

import pytest

from support.providers import Provider

pytestmark = [pytest.mark.integration, pytest.mark.slow]

#: Runs ``pointsman`` with the hook; the record is written as it happens, one JSON line each.
PROGRAM = """
import asyncio, json, os, runpy, sys, types
sys.modules["uvloop"] = uvloop = types.ModuleType("uvloop")
uvloop.new_event_loop, uvloop.Loop = asyncio.new_event_loop, asyncio.SelectorEventLoop
record = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT

def hook(event, arguments):
    if event == "open":
        path, mode, flags = arguments
        if not isinstance(path, (str, bytes, os.PathLike)) or not (flags or 0) & WRITES:
            return
        said = os.fsdecode(path)
    elif event in ("socket.connect", "socket.bind"):
        said = list(arguments[1]) if isinstance(arguments[1], tuple) else str(arguments[1])
    elif event in ("socket.getaddrinfo", "sqlite3.connect", "os.mkdir"):
        said = str(arguments[0])
    elif event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.fork", "ctypes.dlopen"):
        said = str(arguments[0]) if arguments else ""
    else:
        return
    os.write(record, (json.dumps([event, said]) + "\\n").encode())

sys.addaudithook(hook)
sys.argv = ["pointsman", *sys.argv[2:]]
runpy.run_module("pointsman", run_name="__main__")
"""
#: Bytecode beside the modules is the interpreter's own.
QUIET = {"PYTHONDONTWRITEBYTECODE": "1"}
CONFIGURATION = """
[upstreams.main]
base_url = "{url}"
api_key = "${{MAIN_API_KEY}}"
formats = ["chat"]
[models.small]
upstream = "main"
id = "small"
[tiers]
simple = "small"
medium = "small"
complex = "small"
reasoning = "small"
[guidance]
mode = "on"
[domains]
mode = "on"
"""


class Reached(NamedTuple):
    """What a process did beyond computing."""

    connections: set[tuple[str, int]]
    binds: set[str]
    names: set[str]
    written: set[Path]
    children: list[str]


def reached(file: Path) -> Reached:
    found = Reached(set(), set(), set(), set(), [])
    for event, said in map(json.loads, file.read_text().splitlines()):
        if event == "socket.connect":
            found.connections.add(tuple(said[:2]) if isinstance(said, list) else (said, 0))
        elif event == "socket.bind":
            found.binds.add(said[0] if isinstance(said, list) else said)
        elif event == "socket.getaddrinfo":
            found.names.add(said)
        elif event in {"open", "sqlite3.connect", "os.mkdir"}:
            found.written.add(Path(re.sub(r"^file:|\?.*$", "", said)))
        elif event != "ctypes.dlopen":
            found.children.append(f"{event} {said}")
    return found


def test_a_gateway_reaches_its_upstream_and_its_own_folders(tmp_path: Path) -> None:
    provider = Provider(["chat"], ["small"], key="sk-canary")
    record = tmp_path / "record"
    folders = [tmp_path / name for name in ("state", "config", "cache")]
    variables = {f"XDG_{folder.name.upper()}_HOME": str(folder) for folder in folders}
    with provider.running() as url:
        file = tmp_path / "pointsman.toml"
        file.write_text(CONFIGURATION.format(url=url))
        command = [sys.executable, "-c", PROGRAM, str(record), "serve", "--config", str(file), "--port", "0"]
        environment = variables | {
            "HOME": str(tmp_path),
            "MAIN_API_KEY": "sk-canary",
            "PATH": "/usr/bin:/bin",
            **QUIET,
        }
        with subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            try:
                found = (re.search(r"http://[0-9.]+:[0-9]+", line) for line in process.stdout)
                ask(next(each[0] for each in found if each))
            finally:
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=120)
    done = reached(record)
    port = int(url.rpartition(":")[2].partition("/")[0])
    assert done.connections == {("127.0.0.1", port)}
    assert done.names <= {"127.0.0.1"}
    assert done.binds == {"127.0.0.1"}
    assert done.children == []
    assert any(path.name.startswith("ledger.sqlite") for path in done.written)
    allowed = (*folders, Path("/dev/null"), Path("/dev/tty"))
    assert [path for path in done.written if not path.absolute().is_relative_to(tmp_path)] == []
    assert [path for path in done.written if not any(path.is_relative_to(each) for each in allowed)] == []


def ask(url: str) -> None:
    body = json.dumps({"model": "auto", "messages": [{"role": "user", "content": "Hello!"}]}).encode()
    request = urllib.request.Request(f"{url}/v1/chat/completions", body, {"content-type": "application/json"})
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=120) as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    "arguments", [(), ("explain", "Hello!"), ("audit",), ("--help",), ("config", "schema")]
)
def test_a_command_opens_no_connection_and_writes_nothing(arguments: tuple[str, ...], tmp_path: Path) -> None:
    record = tmp_path / "record"
    command = [sys.executable, "-c", PROGRAM, str(record), *arguments]
    home = tmp_path / "home"
    home.mkdir()
    environment = {"HOME": str(home), "PATH": "/nowhere"} | QUIET
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=120)
    assert "Traceback" not in done.stderr
    found = reached(record) if record.exists() else Reached(set(), set(), set(), set(), [])
    local = {port for host, port in found.connections if host == "127.0.0.1"}
    assert {host for host, _ in found.connections} <= {"127.0.0.1"}  # is a model server here?
    assert bool(local) is (arguments == ())
    assert found.children == []
    outside = [path for path in found.written if not path.is_relative_to(home / ".cache")]
    assert outside == []

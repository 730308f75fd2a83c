"""Every line of README.md and of the tutorial, run as printed with the installed wheel, outside the checkout.

A page is read from top to bottom, as by a person with two terminals: a line that serves runs in the
background until the next one starts. The output that a page prints is compared. The provider of the
environment's key is scripted: its base URL in the file is replaced for the line that sends requests.
"""

import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from support.agent_logs import ClaudeSession
from support.homes import PATIENCE, environment
from support.providers import Provider
from support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PORT: Final = 4747  # the pages print the default port
KEY: Final = "sk-canary"
PROGRAM: Final = ".venv/bin/pointsman"
#: A fenced block with its language, or code inside a sentence.
CODE: Final = re.compile(r"^```(\w*)\n(.*?)^```$|(?<!`)`([^`]+)`(?!`)", re.MULTILINE | re.DOTALL)
#: Lines that serve until Ctrl-C.
SERVES: Final = ("make run", f"{PROGRAM} serve")
#: An agent that sends one request to the address of its variables, and ends.
AGENT: Final = """#!/bin/sh
exec curl -sf "$ANTHROPIC_BASE_URL/v1/messages" -H 'content-type: application/json' \\
    -H 'anthropic-version: 2023-06-01' \\
    -d '{"model": "auto", "max_tokens": 64, "messages": [{"role": "user", "content": "Hello!"}]}'
"""


class Line(NamedTuple):
    """A command as printed, and the output that is printed below it."""

    command: str
    output: tuple[str, ...] = ()


def console_lines(block: str) -> Iterator[Line]:
    """Split a console block at its prompts. A backslash continues a command."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = re.sub(r"\\\n\s*", "", part).partition("\n")
        yield Line(command, tuple(output.splitlines()))


def test_a_block_is_split_at_its_prompts() -> None:
    block = "$ curl -s x \\\n    -d y\n$ pointsman explain a | tail -1\none\n…\n"
    assert list(console_lines(block)) == [
        Line("curl -s x -d y"),
        Line("pointsman explain a | tail -1", ("one", "…")),
    ]


def missing(printed: tuple[str, ...], shown: str) -> list[str]:
    """Return the printed lines that were not shown in this order. ``…`` stands for any lines."""
    rest = iter(shown.splitlines())
    return [
        line for line in printed if line not in {"", "…"} and line.rstrip() not in (o.rstrip() for o in rest)
    ]


def test_output_is_compared_in_its_order() -> None:
    assert missing(("a", "…", "c"), "a\nb\nc\n") == []
    assert missing(("c", "a"), "a\nb\nc\n") == ["a"]
    assert missing(("d",), "a\n") == ["d"]


class Server:
    """A command at a terminal, which Ctrl-C ends."""

    def __init__(self, command: str, project: Path, variables: dict[str, str]) -> None:
        self._terminal, other = pty.openpty()
        self._process = subprocess.Popen(
            ["sh", "-c", command],
            cwd=project,
            env=variables,
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
        )
        os.close(other)
        self._printed = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def screen(self) -> str:
        """All that it has printed."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", self._printed.decode(errors="replace"))

    @property
    def has_ended(self) -> bool:
        """Whether it ended by itself."""
        return self._process.poll() is not None

    def _read(self) -> None:
        try:
            while part := os.read(self._terminal, 65536):
                self._printed += part
        except OSError:
            pass  # the other side is closed

    def stop(self) -> None:
        """Press Ctrl-C: a terminal sends the signal to all processes of the command."""
        os.killpg(self._process.pid, signal.SIGINT)
        code = self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        os.close(self._terminal)
        assert code in {0, 130, -signal.SIGINT}, self.screen  # make ends by the signal itself
        assert "Traceback" not in self.screen


class Reader:
    """Follows one page in a project of its own."""

    def __init__(self, wheel: Path, home: Path, provider: str) -> None:
        self._home, self._project, self._provider = home, home / "project", provider
        self._project.mkdir()
        self._server: Server | None = None
        self._last = Line("")
        self._shown = ""  # by the last command
        self._id = ""  # of the last decision that was shown
        self._python = ""
        self.done: list[str] = []
        self._browsed, programs = home / "browsed", home / "bin"
        programs.mkdir()
        for name, text in (("claude", AGENT), ("browser", f'#!/bin/sh\necho "$1" >>{self._browsed}\n')):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        self._variables = environment(home) | {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "BROWSER": f"{programs / 'browser'} %s",
            "ANTHROPIC_API_KEY": KEY,
            "MAIN_API_KEY": KEY,
            "NO_PROXY": "127.0.0.1,localhost",
            "TERM": "xterm-256color",
        }
        yesterday = datetime.now(UTC) - timedelta(days=1)
        logged = ClaudeSession(home, day=f"{yesterday:%Y-%m-%d}")  # an agent was used before
        logged.says("Rename the variable x to total.")
        logged.answers("m1", stop="end_turn")
        self._install(wheel)

    def _install(self, wheel: Path) -> None:
        """Install the wheel where the page's checkout has its environment; ``make run`` finds it there."""
        (self._project / "requirements").mkdir()
        for name in ("Makefile", "pyproject.toml", "requirements/run.txt"):
            shutil.copy2(ROOT / name, self._project / name)
        self._run("uv venv -q .venv")
        self._run(f"uv pip install -q --python .venv/bin/python 'pointsman[gateway] @ {wheel.as_uri()}'")
        (self._project / ".venv" / ".ready").touch()
        found = self._run('.venv/bin/python -c "import pointsman; print(pointsman.__file__)"')
        assert found.startswith(str(self._project))

    def _run(self, command: str) -> str:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self._project,
            env=self._variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr, f"$ {command}\n{done.stderr}"
        return done.stdout + done.stderr

    def read(self, page: str) -> None:
        """Run what a page prints, in its order."""
        for found in CODE.finditer(page):
            language, block, inline = found.groups()
            if inline:
                self._inline(" ".join(inline.split()))
            elif language == "console":
                for line in console_lines(block):
                    self._line(line)
            elif language == "python":
                self._python += block  # a later block uses the names of an earlier one
                self._run(f".venv/bin/python - <<'END'\n{self._python}\nEND")
                self.done.append("python")
            elif language == "toml":
                (self._project / "printed.toml").write_text(block)
                assert "no errors" in self._run(f"{PROGRAM} config check --config printed.toml")
                self.done.append("toml")
            else:
                self._on_screen(block)
        if f"{PROGRAM} open" in page:
            assert f"http://127.0.0.1:{PORT}/console" in self._browsed.read_text()

    def stop_server(self) -> None:
        """End the server that runs, if one does."""
        if server := self._server:
            self._server = None
            server.stop()

    def _inline(self, code: str) -> None:
        if code.startswith((f"{PROGRAM} ", "curl ")):
            self._line(Line(code))
        elif code.startswith("pointsman "):
            words = [word for word in code.split()[1:] if word.islower() and word.isalpha()]
            self._run(f"{PROGRAM} {' '.join(words)} --help")
            self.done.append(code)
        elif re.match(r"x-pointsman-[a-z-]+: ", code):
            assert f"\n{code}\n" in self._shown.replace("\r", ""), self._last.command
        elif code.startswith('"') and self._last.command.startswith("curl "):
            command, prompts = re.subn(r'"content": "[^"]*"', f'"content": {code}', self._last.command)
            assert prompts == 1
            self._line(Line(command))

    def _line(self, line: Line) -> None:
        sends = line.command.startswith(f"{PROGRAM} serve") or "router doctor --live" in line.command
        with self._provider_in_place() if sends else nullcontext():
            if line.command.startswith(SERVES):
                self._serve(line.command)
            else:
                self._run_line(line)
        self.done.append(line.command)
        self._last = line

    def _run_line(self, line: Line) -> None:
        self._shown = self._run(self._standing_for(line.command))
        homes = {str(self._project): "/home/you/project", str(self._home): "/home/you"}
        shown = reduce(lambda text, pair: text.replace(*pair), homes.items(), self._shown)
        assert missing(line.output, shown) == [], f"$ {line.command}\n{shown}"
        if line.command.startswith("curl "):
            assert '"error":{' not in shown.replace(" ", ""), shown

    def _standing_for(self, command: str) -> str:
        """Replace the words in capitals that a reader replaces."""
        if identified := re.search(r"x-pointsman-decision-id: (\S+)", self._shown):
            self._id = identified[1]
        return re.sub(r"\bID\b", self._id, command).replace(" MODEL", " sonnet")

    @contextmanager
    def _provider_in_place(self) -> Iterator[None]:
        """Let the file that ``config init`` wrote name the scripted provider."""
        file = self._project / "pointsman.toml"
        written = file.read_text()
        text, count = re.subn(r'base_url = "https://[^"]+"', f'base_url = "{self._provider}"', written)
        assert count == 1
        file.write_text(text)
        self._run(f"{PROGRAM} trust")
        yield
        file.write_text(written)
        self._run(f"{PROGRAM} trust")

    def _serve(self, command: str) -> None:
        self.stop_server()
        until(lambda: not listens(), seconds=PATIENCE)  # another program has the port that the pages print
        server = self._server = Server(command, self._project, self._variables)
        until(lambda: server.has_ended or is_ready(), seconds=PATIENCE)
        assert not server.has_ended, server.screen
        if "Scripted agents" in server.screen:  # a reader has seen the first request in the table
            ledger = self._home / ".local/state/pointsman/demo.sqlite"
            until(ledger.exists, seconds=PATIENCE)
        else:  # the page lets an agent work through it
            self._run(f"ANTHROPIC_BASE_URL=http://127.0.0.1:{PORT} claude")

    def _on_screen(self, block: str) -> None:
        """Wait for the rows of a table on the server's screen."""
        assert self._server is not None
        rows = {steady(row) for row in block.splitlines()}
        deadline = time.monotonic() + PATIENCE
        while absent := rows - {steady(row) for row in self._server.screen.splitlines()}:
            assert time.monotonic() < deadline, f"{absent} not in\n{self._server.screen}"
            time.sleep(0.1)


def steady(row: str) -> str:
    """Return a row of the table of requests without the time of day, the milliseconds and the widths."""
    return re.sub(r"^\d\d:\d\d:\d\d|(?<= )\d+\.\d(?= )| +", " ", row).strip()


def listens() -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", PORT)) == 0


def is_ready() -> bool:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(f"http://127.0.0.1:{PORT}/health/ready", timeout=PATIENCE) as ready:
            return bool(ready.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial/first-gateway.md"])
def test_every_printed_line_runs(page: str, wheel: Path, home: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    models = ["claude-haiku-5-5", "claude-sonnet-5-5", "claude-haiku-4-5"]
    with Provider(["messages"], models, key=KEY, thinks=True).running() as url:
        reader = Reader(wheel, home, url)
        try:
            reader.read(text)
        finally:
            reader.stop_server()
    printed = sum(
        len(list(console_lines(found[2]))) for found in CODE.finditer(text) if found[1] == "console"
    )
    assert len(reader.done) >= printed > 5

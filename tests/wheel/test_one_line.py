"""The wheel in a fresh home, without a checkout: ``uvx``, ``uv tool install``, ``pipx run``; the terminal.

`make one-line` has the installers. Without them only the program of this environment is tried.
"""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pointsman import __version__
from support.homes import PATIENCE, environment

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def run(home: Path, *command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        cwd=home / "work",
        env=environment(home) | variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def test_uvx_runs_the_wheel(wheel: Path, home: Path) -> None:
    said = run(home, "uvx", "--from", wheel, "pointsman")
    assert said.returncode == 0, said.stderr
    assert "Pointsman decides for each request" in said.stdout
    assert "Nothing was sent or written, and nothing is downloaded later." in said.stdout
    assert list((home / "work").iterdir()) == []
    version = run(home, "uvx", "--from", wheel, "pointsman", "--version")
    assert version.stdout == f"pointsman {__version__}\n"


def test_pipx_runs_the_wheel(wheel: Path, home: Path) -> None:
    said = run(home, "pipx", "run", "--spec", wheel, "pointsman", "--version")
    assert said.stdout == f"pointsman {__version__}\n", said.stderr


def test_uv_tool_installs_a_program_that_serves(wheel: Path, home: Path) -> None:
    """The extra ``gateway`` from the wheel: the first answer comes from outside any checkout."""
    done = run(home, "uv", "tool", "install", "-q", f"pointsman[gateway] @ {wheel.as_uri()}")
    assert done.returncode == 0, done.stderr
    program = home / ".local" / "bin" / "pointsman"
    command = [str(program), "serve", "--demo", "--no-traffic", "--port", "0"]
    with subprocess.Popen(
        command, cwd=home / "work", env=environment(home), stdout=subprocess.PIPE, text=True
    ) as gateway:
        assert gateway.stdout is not None
        try:
            url = next(
                found[0] for line in gateway.stdout if (found := re.search(r"http://[0-9.]+:[0-9]+", line))
            )
            direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with direct.open(f"{url}/health/ready", timeout=PATIENCE) as ready:
                assert ready.status == 200
        finally:
            gateway.send_signal(signal.SIGINT)
            rest = gateway.communicate(timeout=PATIENCE)[0]
    assert gateway.returncode in {0, 130}
    assert "Traceback" not in rest
    removed = run(home, "uv", "tool", "uninstall", "pointsman")
    assert removed.returncode == 0
    assert not program.exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--version",), 0),
        (("explain", "Hello!"), 0),
        (("config", "check", "--config", "nowhere.toml"), 1),
        (("nonsense",), 2),
        (("explain", "--nonsense"), 2),
        (("serve", "--config", "nowhere.toml"), 2),
    ],
)
def test_exit_codes(arguments: tuple[str, ...], code: int, home: Path) -> None:
    done = run(home, sys.executable, "-m", "pointsman", *arguments)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert (code == 0) is (done.stderr == ""), done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands(shell: str, home: Path) -> None:
    source = run(home, "pointsman", _POINTSMAN_COMPLETE=f"source_{shell}", **on_path())
    assert source.returncode == 0, source.stderr
    assert "_POINTSMAN_COMPLETE" in source.stdout
    asked = {"_TYPER_COMPLETE_ARGS": "pointsman cla", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    asked |= {"COMP_WORDS": "pointsman cla", "COMP_CWORD": "1", "_POINTSMAN_COMPLETE": f"complete_{shell}"}
    found = run(home, "pointsman", **asked, **on_path())
    assert {"claude", "classify"} <= set(re.findall(r"\w+", found.stdout))
    assert "serve" not in found.stdout.split()


def on_path() -> dict[str, str]:
    return {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.parametrize("no_colour", ["", "1"])
def test_no_color_is_obeyed_on_a_terminal(no_colour: str, home: Path) -> None:
    """Colours begin with an escape; a cursor's do not end in ``m``."""
    said = b"".join(
        on_a_terminal(
            home, ["serve", "--demo", "--port", "0", "--requests"], NO_COLOR=no_colour, until=b"SIMPLE"
        )
    )
    assert bool(re.search(rb"\x1b\[[0-9;]*m", said)) is not bool(no_colour), said


def test_ctrl_c_ends_a_command_without_a_traceback(home: Path) -> None:
    said = b"".join(on_a_terminal(home, ["classify"], until=b"reading standard input"))
    assert b"Traceback" not in said


def on_a_terminal(home: Path, arguments: list[str], *, until: bytes, **variables: str) -> Iterator[bytes]:
    """Run a command at a terminal, press Ctrl-C once it has printed ``until``, and yield its output."""
    child, terminal = pty.fork()
    if child == 0:
        compiled = {"POINTSMAN_CACHE_DIR": os.environ["POINTSMAN_CACHE_DIR"]}  # else 3 s of CPU each time
        env = environment(home) | {"TERM": "xterm-256color"} | compiled | variables
        os.chdir(home / "work")
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # as a shell does: tests in the background ignore it
        os.execve(sys.executable, [sys.executable, "-m", "pointsman", *arguments], env)
    pressed, ends = False, time.monotonic() + PATIENCE
    said = b""
    while time.monotonic() < ends:
        ready, _, _ = select.select([terminal], [], [], 2.0)
        try:
            part = os.read(terminal, 65536) if ready else b""
        except OSError:  # the other side is closed
            break
        if ready and not part:
            break
        yield part
        said += part
        if until in said and not (pressed and part):
            os.write(terminal, b"\x03")  # again where nothing comes for 2 s: a busy machine loses one
            pressed = True
    else:
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(terminal)
    assert pressed
    assert code in {0, 130}

"""A gateway in a process, for agents on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = ["announced", "free_port", "memory", "running"]


def free_port() -> int:
    """A port of loopback that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def running(
    file: Path, port: int, environment: Mapping[str, str] | None = None, *, within: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """Serve a configuration until the block ends; the log is ``gateway.log`` beside it.

    Args:
        file: The configuration.
        port: Where it listens.
        environment: By default this program's.
        within: A command that executes the gateway in its place.
    """
    log = file.with_name("gateway.log")
    serve = [sys.executable, "-m", "pointsman", "serve", "--config", str(file), "--port", str(port)]
    command = [*within, *serve]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=file.parent)
    try:
        while process.poll() is None:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 0.1).close()
                break
            time.sleep(0.05)
        else:
            raise SystemExit(f"the gateway ended with {process.returncode}: {log.read_text()[-2000:]}")
        yield process
    finally:
        process.kill()
        process.wait()


def memory(pid: int) -> float:
    """Return the resident memory of a process in MB (Linux)."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def announced(last: str, *options: str, **settings: Any) -> Iterator[list[str]]:
    """Serve on a free port until the block ends; give its lines up to one that begins so."""
    command = [sys.executable, "-m", "pointsman", "serve", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **settings) as process:
        assert process.stdout is not None
        said: list[str] = []
        try:
            while not (said and said[-1].startswith(last)):
                said.append(next(process.stdout).rstrip("\n"))
            yield said
        finally:
            process.terminate()
            process.communicate(timeout=30)

"""A gateway in a process, for agents on this machine."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["announced", "free_port", "running"]


def free_port() -> int:
    """A port of loopback that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def running(file: Path, port: int, environment: Mapping[str, str] | None = None) -> Iterator[int]:
    """Serve a configuration until the block ends, and give its port; the log is ``gateway.log`` with it."""
    log = file.with_name("gateway.log")
    with log.open("w") as written:
        command = [sys.executable, "-m", "pointsman", "serve", "--config", str(file)]
        process = subprocess.Popen(command, stdout=written, stderr=written, env=environment, cwd=file.parent)
    try:
        while True:
            if process.poll() is not None:
                raise SystemExit(f"the gateway ended with {process.returncode}: {log.read_text()[-2000:]}")
            try:
                socket.create_connection(("127.0.0.1", port), 0.1).close()
            except OSError:
                time.sleep(0.1)
            else:
                break
        yield port
    finally:
        process.terminate()
        process.wait(30)


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

"""What workers run in tests of their supervisor: functions that another process imports."""

import os
import signal
import socket
import sys
import time
from pathlib import Path

from pointsman.errors import ConfigError
from pointsman.gateway.workers import WorkerLink
from pointsman.stores.workers import Worker


def exits(worker: Worker, link: WorkerLink, listening: socket.socket, folder: Path) -> None:
    """End before serving."""
    begun(worker, folder)
    sys.exit(3)


def refuses(worker: Worker, link: WorkerLink, listening: socket.socket, folder: Path) -> None:
    """Say why it does not start."""
    begun(worker, folder)
    if worker.number == 2:
        link.failed(ConfigError("no such file", hint="write it"))
        sys.exit(2)
    serves(worker, link, listening, folder)


def needs_a_file(worker: Worker, link: WorkerLink, listening: socket.socket, folder: Path) -> None:
    """Serve, unless the configuration is wrong by now."""
    if (folder / "wrong").exists():
        (folder / f"accepts-{os.getpid()}").write_text(
            str(listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
        )
        refuses(worker, link, listening, folder)
    serves(worker, link, listening, folder)


def serves(worker: Worker, link: WorkerLink, listening: socket.socket, folder: Path) -> None:
    """Serve until told to end, and say who was told what."""
    link.begin()
    heard = begun(worker, folder)
    stopping: list[int] = []
    signal.signal(signal.SIGHUP, lambda *_: heard.write_text("reloaded"))
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    link.serving()
    while not stopping:
        time.sleep(0.01)
    link.closing()
    link.ended(worker.number)


def begins_late(worker: Worker, link: WorkerLink, listening: socket.socket, folder: Path) -> None:
    """Serve once the file ``go`` is there; until then a signal ends it."""
    heard = begun(worker, folder)
    while not (folder / "go").exists():
        time.sleep(0.01)
    heard.unlink()
    serves(worker, link, listening, folder)


def stays(worker: Worker, link: WorkerLink, listening: socket.socket, folder: Path) -> None:
    """Serve, and do not end."""
    link.begin()
    begun(worker, folder)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    link.serving()
    while True:
        time.sleep(1)


def begun(worker: Worker, folder: Path) -> Path:
    """Note that a worker has begun; return its file."""
    file = folder / f"{worker.number}-{os.getpid()}"
    file.write_text("begun")
    return file

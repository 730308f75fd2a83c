"""The gateway as a process whose stores are on a small disk of their own, and what it holds."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from real_agents.gateway import free_port, memory, running

__all__ = ["DISK_MB", "Gateway", "Sample"]

DISK_MB: Final = 64
_COUNTED: Final = ("fd", "task")  # folders of /proc/PID with an entry for each file, and for each thread

_CONFIG: Final = """
[upstreams.main]
base_url = "{main}"
retries = {retries}
timeouts = {{ first_byte = 2 }}
[upstreams.spare]
base_url = "{spare}"
[models]
small = {{ upstream = "main", id = "small-1" }}
other = {{ upstream = "spare", id = "other-1" }}
[tiers]
simple = ["small", "other"]
medium = ["small", "other"]
complex = ["small", "other"]
reasoning = ["small", "other"]
[guidance]
mode = "on"
[ledger]
path = "{disk}/ledger.sqlite"
max_mb = 16
[sessions]
store = "sqlite"
path = "{disk}/sessions.sqlite"
size = 1000
[server]
limits = {{ unread_seconds = 10 }}
"""


class Sample(NamedTuple):
    """What the process holds at one moment."""

    at: float  # seconds since the beginning
    memory: float  # MB resident
    files: int
    threads: int


class Gateway:
    """``pointsman serve`` in a mount namespace of its own, where its disk is a tmpfs."""

    def __init__(self, folder: Path, main: str, spare: str) -> None:
        self._addresses = {"main": main, "spare": spare, "disk": str(folder / "disk")}
        self._config = folder / "pointsman.toml"
        self._disk = folder / "disk"
        self._disk.mkdir()
        self.has_disk = shutil.which("unshare") is not None
        self.port = 0
        self._process: subprocess.Popen[bytes]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Serve until the block ends."""
        self.configure(retries=1)
        self.port = free_port()
        mount = f'mount -t tmpfs -o size={DISK_MB}m tmpfs "$0" && exec "$@"'
        within = ["unshare", "-rm", "sh", "-c", mount, str(self._disk)] if self.has_disk else []
        with running(self._config, self.port, within=within) as self._process:
            yield

    def configure(self, *, retries: int = 1, wrong: bool = False) -> None:
        """Write the configuration, which the gateway reads again; a wrong one leaves the old in effect."""
        text = _CONFIG.format(retries=retries, **self._addresses)
        replaced = self._config.with_suffix(".new")
        replaced.write_text(text + ("[nonsense]\n" if wrong else ""), encoding="utf-8")
        replaced.replace(self._config)

    def hang_up(self) -> None:
        """Tell it to read its configuration again."""
        self._process.send_signal(signal.SIGHUP)

    def fill_disk(self) -> None:
        """Leave no byte of the disk free."""
        with (self._inside / "filling").open("wb") as file:
            try:
                while True:
                    os.write(file.fileno(), bytes(1 << 16))
            except OSError:
                return

    def free_disk(self) -> None:
        """Give back what ``fill_disk`` took."""
        (self._inside / "filling").unlink()

    def sample(self, at: float) -> Sample:
        """Look at the process (Linux)."""
        files, threads = (len(list(Path(f"/proc/{self._process.pid}/{name}").iterdir())) for name in _COUNTED)
        return Sample(at, memory(self._process.pid), files, threads)

    def stop(self) -> int:
        """End it as an operator does, and return its status."""
        self._process.terminate()
        return self._process.wait(60)

    @property
    def _inside(self) -> Path:
        """The disk, as the process sees it."""
        return Path(f"/proc/{self._process.pid}/root{self._disk}") if self.has_disk else self._disk

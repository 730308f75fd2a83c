"""The gateway as a process whose stores are on a small disk of their own, and what it holds."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Final, NamedTuple

from real_agents.gateway import free_port

__all__ = ["DISK_MB", "Gateway", "Sample"]

DISK_MB: Final = 64

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
        self.logged = 0  # bytes
        self.lines: list[str] = []  # the last ones
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it and wait until it listens."""
        self.configure(retries=1)
        self.port = free_port()
        serve = [sys.executable, "-m", "pointsman", "serve", "--config", str(self._config), "--port"]
        command = [*serve, str(self.port)]
        if self.has_disk:
            mount = f'mount -t tmpfs -o size={DISK_MB}m tmpfs "$0" && exec "$@"'
            command = ["unshare", "-rm", "sh", "-c", mount, str(self._disk), *command]
        self._process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        self._reading = asyncio.create_task(self._read_log())
        for _ in range(600):
            await asyncio.sleep(0.1)
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                continue
            writer.close()
            return
        raise SystemExit("the gateway did not start:\n" + "\n".join(self.lines))

    def configure(self, *, retries: int = 1, wrong: bool = False) -> None:
        """Write the configuration, which the gateway reads again; a wrong one leaves the old in effect."""
        text = _CONFIG.format(retries=retries, **self._addresses)
        replaced = self._config.with_suffix(".new")
        replaced.write_text(text + ("[nonsense]\n" if wrong else ""), encoding="utf-8")
        replaced.replace(self._config)

    def hang_up(self) -> None:
        """Tell it to read its configuration again."""
        self._running.send_signal(signal.SIGHUP)

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
        proc = Path(f"/proc/{self._running.pid}")
        pages = int((proc / "statm").read_text().split()[1])
        memory = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
        return Sample(at, memory, len(list((proc / "fd").iterdir())), len(list((proc / "task").iterdir())))

    async def stop(self) -> int:
        """End it as an operator does, and return its status."""
        self._running.terminate()
        status = await asyncio.wait_for(self._running.wait(), 60)
        await self._reading
        return status

    @property
    def _running(self) -> asyncio.subprocess.Process:
        assert self._process is not None
        return self._process

    @property
    def _inside(self) -> Path:
        """The disk, as the process sees it."""
        return Path(f"/proc/{self._running.pid}/root{self._disk}") if self.has_disk else self._disk

    async def _read_log(self) -> None:
        output = self._running.stdout
        assert output is not None
        while line := await output.readline():
            self.logged += len(line)
            self.lines = [*self.lines[-99:], line.decode("utf-8", "replace").rstrip()]

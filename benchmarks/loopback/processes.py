"""Starting servers, and what their whole process tree costs (Linux: reads /proc)."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

__all__ = ["Server", "free_port"]


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


class Server:
    """One server under test."""

    def __init__(
        self, name: str, command: Sequence[str], port: int, env: Mapping[str, str], log: Path
    ) -> None:
        self.name = name
        self.port = port
        with log.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output, env=dict(env))

    def wait(self, seconds: float = 120) -> None:
        """Wait until it accepts connections."""
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise SystemExit(f"{self.name} did not start")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def cpu(self) -> float:
        """Seconds of CPU its processes and their living threads have used, in nanosecond steps."""
        total = 0
        for pid in self._tree(self.process.pid):
            for task in Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(OSError):
                    total += int((task / "schedstat").read_text().split()[0])
        return total / 1e9

    def rss(self) -> float:
        """Megabytes of resident memory of its processes."""
        pages = sum(
            int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self._tree(self.process.pid)
        )
        return pages * 4096 / 1e6

    def _tree(self, pid: int) -> Iterator[int]:
        yield pid
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from self._tree(int(child))

"""The other workers, as one of them sees them: their sockets, their published figures, and their state."""

from __future__ import annotations

import contextlib
import http.client
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol

import msgspec

from pointsman.gateway._inbound import InboundRequest, Receive
from pointsman.gateway._relay import Send
from pointsman.gateway.workers._forward import TOKEN, Head, WorkerGone, ask, forward
from pointsman.gateway.workers._keepers import Keepers
from pointsman.gateway.workers._sums import Family
from pointsman.stores.workers import Worker

__all__ = ["FORWARDED", "SUPERVISOR", "Peers", "Published", "publish", "read", "socket_of"]

log = logging.getLogger(__name__)

#: Stands in the place of the token in a request that another worker has passed on.
FORWARDED: Final = b"forwarded"
#: Seconds for another worker to write its ledger, or what it has counted.
_PATIENCE: Final = 2.0
#: The supervisor publishes as this one.
SUPERVISOR: Final = 0


class Published(msgspec.Struct, frozen=True):
    """What a worker tells of itself: into a file, every second and when another one asks."""

    metrics: list[Family] = []
    active: int = 0  # requests in progress
    open_circuits: tuple[str, ...] = ()  # names of upstreams
    faults: dict[str, str] = {}  # current error per failing store
    overhead: tuple[int, ...] = ()  # requests by bucket of ``overhead_seconds``
    asked_at: float | None = None  # when readiness was last asked for, in seconds of ``time.monotonic``


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Published).decode


def socket_of(folder: Path, number: int) -> Path:
    """Return where a worker listens for the others."""
    return folder / f"{number}.sock"


class Link(Protocol):
    """A worker's way to its supervisor."""

    def serving(self) -> None:
        """Tell that requests are served."""
        ...

    def closing(self) -> None:
        """Tell that no more connections are accepted."""
        ...


class Peers:
    """Requests of one worker to the others."""

    def __init__(self, worker: Worker, link: Link) -> None:
        self.worker: Final = worker
        self.link: Final = link
        self._keepers: Final = Keepers(worker.folder / "keepers", worker.number)
        self._others: Final = [n for n in range(1, worker.of + 1) if n != worker.number]
        self._threads: Final = ThreadPoolExecutor(max(len(self._others), 1), "workers")

    def close(self) -> None:
        """Release the shared resources."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def ask_all(self, target: str) -> None:
        """Ask the others to do something, all at once, and wait until they have; one that is gone has not."""
        list(self._threads.map(lambda number: self._ask(number, target), self._others))

    def flush(self) -> None:
        """Let the others write what waits for the ledger."""
        self.ask_all("/-/flush")

    def publish(self, mine: Published) -> None:
        """Tell of this worker."""
        publish(self.worker.folder, self.worker.number, mine)

    def published(self) -> Mapping[int, Published]:
        """Return what all have told of themselves, the supervisor too."""
        found = {number: read(self.worker.folder, number) for number in range(self.worker.of + 1)}
        return {number: told for number, told in found.items() if told is not None}

    def others(self) -> list[Published]:
        """Return what the other workers have told of themselves."""
        told = self.published()
        return [told[number] for number in self._others if number in told]

    def note(self, name: str) -> None:
        """Register this worker as the holder of state under a name."""
        if name:
            self._keepers.note(name)

    async def pass_on(self, number: int, head: Head, body: bytes | Receive, send: Send) -> int:
        """Let another worker answer a request, and return the status sent.

        Raises:
            WorkerGone: it cannot, and nothing was sent.
        """
        worker = self.worker
        return await forward(socket_of(worker.folder, number), worker.token, head, body, send)

    async def answer_kept(self, inbound: InboundRequest, names: Sequence[str], send: Send) -> bool:
        """Let the worker that holds state under one of these names answer; False if there is none."""
        if inbound.headers.get(TOKEN) == FORWARDED:
            return False
        number = next(filter(None, (self._keepers.elsewhere(name) for name in names if name)), 0)
        if not number:
            return False
        query = b"?" + inbound.query if inbound.query else b""
        head = Head("POST", b"/v1" + inbound.wire.path + query, inbound.all_headers)
        try:
            await self.pass_on(number, head, inbound.body.raw, send)
        except WorkerGone as gone:  # and what it kept: this one answers as after a restart
            log.info("worker %d is gone: %s", number, gone)
            return False
        return True

    def _ask(self, number: int, target: str) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            ask(socket_of(self.worker.folder, number), self.worker.token, target, _PATIENCE)


def publish(folder: Path, number: int, mine: Published) -> None:
    """Write what a worker tells of itself, in one piece."""
    fresh = folder / f"{number}.fresh"
    fresh.write_bytes(_encode(mine))
    fresh.replace(folder / f"{number}.json")


def read(folder: Path, number: int) -> Published | None:
    """Return what a worker has told; None where it has told nothing yet."""
    try:
        return _decode((folder / f"{number}.json").read_bytes())
    except (OSError, msgspec.DecodeError):
        return None

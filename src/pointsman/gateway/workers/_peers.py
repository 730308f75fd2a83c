"""The other workers, as one of them sees them: their sockets, their published figures, and their state.

A table of digests in shared memory names the worker that holds each state.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import http.client
import logging
import mmap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec

from pointsman.gateway._agent_endpoint import of_session
from pointsman.gateway._inbound import InboundRequest, Receive, Send
from pointsman.gateway._live_state import LiveState, Published
from pointsman.gateway.workers._figures import publish, read
from pointsman.gateway.workers._forward import FORWARDED, READ, Head, WorkerGone, ask, forward
from pointsman.gateway.workers._supervisor import WorkerLink
from pointsman.stores.sessions import MemorySessions
from pointsman.stores.workers import Worker

__all__ = ["Holders", "WorkerPeers", "memories_of", "socket_of"]

log = logging.getLogger(__name__)

#: Seconds for another worker to write its ledger, or what it has counted.
_PATIENCE: Final = 2.0
#: Entries of the table, of 8 bytes each, and those among which one displaces another if all are taken: the
#: displaced state then counts as unknown.
_PLACES: Final = 1 << 17
_CHOICES: Final = 4
_WORD: Final = 8
#: A worker's number takes the lowest byte of an entry.
_NUMBER: Final = 0xFF

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[bytes | None]).decode


class Holders:
    """A name's worker is the one that noted it last. Reading and writing take a microsecond and no lock.

    Args:
        file: Of the table; created if missing.
        number: Of this worker.
    """

    def __init__(self, file: Path, number: int) -> None:
        with file.open("a+b") as opened:
            opened.truncate(_PLACES * _WORD)
            self._map: Final = mmap.mmap(opened.fileno(), _PLACES * _WORD)
        self._entries: Final = memoryview(self._map).cast("Q")
        self._number: Final = number

    def note(self, name: str) -> None:
        """Register this worker as the holder of state under a name."""
        digest = _digest(name)
        self._write(digest, self._find(digest))

    def claim(self, name: str) -> int:
        """Do so unless another worker holds that state: return its number then, else 0."""
        digest = _digest(name)
        found = self._find(digest)
        number = 0 if found is None else self._entries[found] & _NUMBER
        if number == self._number:
            return 0
        if not number:
            self._write(digest, found)
        return number

    def elsewhere(self, name: str) -> int:
        """Return the number of the other worker that holds state under a name; 0 if none does."""
        found = self._find(_digest(name))
        number = 0 if found is None else self._entries[found] & _NUMBER
        return 0 if number == self._number else number

    def close(self) -> None:
        """Release the table."""
        self._entries.release()
        self._map.close()

    def _write(self, digest: int, place: int | None) -> None:
        """Register this worker at a place; None: others take all, and one makes room."""
        if place is None:
            place = _places(digest)[digest >> 32 & (_CHOICES - 1)]
        self._entries[place] = digest & ~_NUMBER | self._number

    def _find(self, digest: int) -> int | None:
        """Return the place of a digest, or the one free for it; None if other digests take all."""
        for place in _places(digest):
            entry = self._entries[place]
            if not entry or entry & ~_NUMBER == digest & ~_NUMBER:
                return place
        return None


def _digest(name: str) -> int:
    encoded = name.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(encoded, digest_size=_WORD).digest(), "big")


def _places(digest: int) -> range:
    first = digest % (_PLACES // _CHOICES) * _CHOICES
    return range(first, first + _CHOICES)


def socket_of(folder: Path, number: int) -> Path:
    """Return where a worker listens for the others."""
    return folder / f"{number}.sock"


class WorkerPeers:
    """Requests of one worker to the others."""

    def __init__(self, worker: Worker, link: WorkerLink) -> None:
        self.worker: Final = worker
        self.link: Final = link
        self._holders: Final = Holders(worker.folder / "holders", worker.number)
        self.answering = 0  # requests in progress that came to this worker and that others answer
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
        """Return the published states of all workers and of the supervisor."""
        found = {number: read(self.worker.folder, number) for number in range(self.worker.of + 1)}
        return {number: told for number, told in found.items() if told is not None}

    def others(self) -> list[Published]:
        """Return the published states of the other workers."""
        told = self.published()
        return [told[number] for number in self._others if number in told]

    def note(self, name: str) -> None:
        """Register this worker as the holder of state under a name."""
        if name:
            self._holders.note(name)

    async def pass_on(self, number: int, head: Head, body: bytes | Receive, send: Send) -> int:
        """Let another worker answer a request, and return the status sent.

        Raises:
            WorkerGone: it cannot, and nothing was sent.
        """
        return await forward(socket_of(self.worker.folder, number), head, body, send)

    async def answer_kept(self, inbound: InboundRequest, names: Sequence[str], send: Send) -> bool:
        """Let the worker that holds state under one of these names answer; False if there is none."""
        if inbound.headers.get(FORWARDED) == READ:
            return False
        number = next(filter(None, (self._holders.elsewhere(name) for name in names if name)), 0)
        if not number:
            return False
        query = b"?" + inbound.query if inbound.query else b""
        head = Head("POST", b"/v1" + inbound.wire.path + query, inbound.all_headers)
        self.answering += 1
        try:
            await self.pass_on(number, head, inbound.body.raw, send)
        except WorkerGone as gone:  # and what it kept: this one answers as after a restart
            log.info("worker %d is gone: %s", number, gone)
            return False
        finally:
            self.answering -= 1
        return True

    async def take_over(self, state: LiveState, session: str) -> None:
        """Fetch the memory of a session from the worker that has served it last, and register this one.

        If that worker does not answer, this one uses the memory it has, which may be older.
        """
        name = of_session(session)
        if not name:
            return
        if not (number := self._holders.claim(name)):
            return
        for store, memory in zip(_stores(state), await self._fetch(number, session), strict=False):
            if memory is not None:
                store.put(session, memory)
        self._holders.note(name)

    async def _fetch(self, number: int, session: str) -> list[bytes | None]:
        """Return a session's memory in each store of another worker; nothing if that one does not answer."""
        parts: list[bytes] = []

        async def collect(message: MutableMapping[str, Any]) -> None:
            parts.append(message.get("body", b""))

        try:
            async with asyncio.timeout(_PATIENCE):
                wanted = session.encode("utf-8", "surrogatepass")
                await self.pass_on(number, Head("POST", b"/-/session", []), wanted, collect)
            return _decode(b"".join(parts))
        except (WorkerGone, OSError, TimeoutError, msgspec.DecodeError) as error:
            log.info("worker %d does not hand over the memory of a session: %s", number, error)
            return []

    def _ask(self, number: int, target: str) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            ask(socket_of(self.worker.folder, number), target, _PATIENCE)


def memories_of(state: LiveState, session: bytes) -> bytes:
    """Return the answer to a worker that takes over a session."""
    name = session.decode("utf-8", "surrogatepass")
    return _encode([store.get(name) for store in _stores(state)])


def _stores(state: LiveState) -> Iterator[MemorySessions]:
    """Yield the stores of sessions that are in this process."""
    for store in (state.runtime.sessions, state.shadow_policy.sessions if state.shadow_policy else None):
        if isinstance(store, MemorySessions):
            yield store

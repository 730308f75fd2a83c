"""Which caller made what an upstream keeps: stored answers, conversations, files, batches.

An upstream knows the operator's key alone, and would give any of it to whoever knows an id.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from typing import Final

from pointsman.stores.ledger.port import Ledger, Owner

__all__ = ["Ownership"]

#: Characters of an id that are looked at; those of providers have 30 to 70.
_LONGEST: Final = 1_000


class Ownership:
    """Claims and looks up objects by their ids, in the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def claim(self, caller: str, name: str, at: float) -> None:
        """Note that a caller made an object; who made it first keeps it. ``at``: seconds since the epoch."""
        self._ledger.append(Owner(object=_digest(name), caller=caller, at=at))

    async def belongs(self, caller: str, name: str) -> bool:
        """Whether a caller made an object.

        Raises:
            StoreUnavailable: that cannot be read.
        """
        return await asyncio.to_thread(self._ledger.owner, _digest(name)) == caller

    async def is_anothers(self, caller: str, names: Iterable[str]) -> bool:
        """Whether another caller made one of these objects.

        Raises:
            StoreUnavailable: that cannot be read.
        """
        return await asyncio.to_thread(self._any_of_others, caller, tuple(names))

    def _any_of_others(self, caller: str, names: Iterable[str]) -> bool:
        return any(self._ledger.owner(_digest(name)) not in {None, caller} for name in names)


def _digest(name: str) -> str:
    encoded = name[:_LONGEST].encode("utf-8", "surrogatepass")
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()

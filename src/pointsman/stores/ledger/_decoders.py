"""What the rows of a database hold: entries as JSON, read back; a damaged one is reported."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final, ParamSpec, TypeVar

import msgspec

from pointsman.errors import StoreUnavailable
from pointsman.stores.ledger._earlier import decision_in
from pointsman.stores.ledger.port import Attempt, Outcome, PassedRequest, RunEntry, Shadow

__all__ = [
    "encode",
    "grouped",
    "read_attempt",
    "read_decision",
    "read_outcome",
    "read_passed",
    "read_run_entry",
    "read_shadow",
]

Decoded = TypeVar("Decoded")
Body = ParamSpec("Body")


def _undamaged(decode: Callable[Body, Decoded]) -> Callable[Body, Decoded]:
    """Report a damaged row as ``StoreUnavailable``."""

    def decoded(*args: Body.args, **kwargs: Body.kwargs) -> Decoded:
        try:
            return decode(*args, **kwargs)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise StoreUnavailable(f"a row of the ledger is damaged: {error}") from error

    return decoded


encode: Final = msgspec.json.Encoder().encode
read_decision: Final = _undamaged(decision_in)
read_attempt: Final = _undamaged(msgspec.json.Decoder(Attempt).decode)
read_outcome: Final = _undamaged(msgspec.json.Decoder(Outcome).decode)
read_passed: Final = _undamaged(msgspec.json.Decoder(PassedRequest).decode)
read_run_entry: Final = _undamaged(msgspec.json.Decoder(RunEntry).decode)
read_shadow: Final = _undamaged(msgspec.json.Decoder(Shadow).decode)


def grouped(
    rows: Iterable[tuple[str, bytes]], decode: Callable[[bytes], Decoded]
) -> defaultdict[str, list[Decoded]]:
    """What was read for several decisions or runs, by their ids."""
    found: defaultdict[str, list[Decoded]] = defaultdict(list)
    for owner, body in rows:
        found[owner].append(decode(body))
    return found

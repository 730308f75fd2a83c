"""Names of sessions: the program's name for it, the first words if they are stored, else program and time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from pointsman.decision.decision import Decision
from pointsman.reports.usage import kept_words
from pointsman.stores.ledger import Search

#: Characters of the first words.
_LONGEST: Final = 60
#: What no person reads: a UUID, or sixteen letters and digits in a run.
_MADE_UP: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-|(?=[a-zA-Z]*[0-9])[0-9a-zA-Z]{16}")


class SessionName(NamedTuple):
    """The name of a session on a page; its id stays in the address and the title."""

    text: str
    at: float | None = (
        None  # seconds since the epoch of its first request, where the text names many sessions
    )


def name_of(session: str, first: Decision, words: str | None) -> SessionName:
    """Return the name of a session.

    Args:
        session: Its id.
        first: Its first stored decision.
        words: The stored words of that decision.
    """
    if not _MADE_UP.search(session):
        return SessionName(session)
    if (kept := kept_words(words)) and kept.strip():
        line = " ".join(kept[: 10 * _LONGEST].split())
        return SessionName(line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…")
    return SessionName(first.input.client or "session", first.input.arrived_at)


def names_of(ledger: Search, sessions: Iterable[str]) -> dict[str, SessionName]:
    """Return the names of some sessions; two reads for each that is a hash."""
    found: dict[str, SessionName] = {}
    for session in dict.fromkeys(filter(None, sessions)):
        first = None
        if _MADE_UP.search(session):
            first = next(ledger.decisions(limit=1, session=session, newest_first=False), None)
        found[session] = name_of(session, first, ledger.text(first.id)) if first else SessionName(session)
    return found

"""Pointsman's own ledger in SQLite: every attempt that a model answered is a request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

from pointsman.audit.session import Certainty, Request, Session, Usage
from pointsman.audit.sources.base import Log, Named
from pointsman.stores.ledger import Attempt, Record, Retention, SqliteLedger
from pointsman.vocabulary import AgentRole, Purpose

__all__ = ["OwnLedger"]

#: Reading deletes nothing.
_KEEP: Final = Retention(None, None)


class OwnLedger(Named):
    """Reads a ledger that is named on the command line."""

    name: Final = "pointsman"
    versions: Final = ""

    def read(self, log: Log) -> Iterator[Session]:
        """Yield the sessions.

        Raises:
            StoreUnavailable: it is no ledger, or cannot be read.
        """
        (file,) = log.files
        sessions: dict[str, list[Request]] = {}
        facts: dict[str, str] = {}
        with closing(SqliteLedger(file, text="full", retention=_KEEP)) as ledger:
            for record in ledger.records():
                asked = record.decision.input
                facts.setdefault(asked.session, asked.project)
                sessions.setdefault(asked.session, []).extend(_requests(record))
        for session, requests in sessions.items():
            if requests:
                project = facts[session]
                yield Session(
                    id=session,
                    client=self.name,
                    project=project,
                    files=(str(file),),
                    requests=tuple(requests),
                )


def _requests(record: Record) -> Iterator[Request]:
    asked = record.decision.input
    answered = [each for each in record.attempts if each.output_tokens is not None]
    for attempt in answered:
        yield Request(
            id=f"{attempt.decision}:{attempt.number}",
            at=attempt.started_at,
            model=attempt.model,
            provider=attempt.upstream,
            purpose=asked.purpose or Purpose.MESSAGE,
            agent=asked.session if asked.role is AgentRole.SUBAGENT else "",
            usage=_usage(attempt),
        )


def _usage(attempt: Attempt) -> Usage:
    certainty = Certainty.ESTIMATED if attempt.estimated else Certainty.LOGGED
    output = attempt.output_tokens or 0
    return Usage(
        input_tokens=attempt.input_tokens or 0,
        cached_tokens=attempt.cached_tokens or 0,
        output_tokens=output,
        output_at_most=output,
        input_certainty=certainty,
        output_certainty=certainty,
    )

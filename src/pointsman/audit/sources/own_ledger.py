"""Pointsman's own ledger in SQLite: every attempt that a model answered is a request."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from pointsman.audit.caches import paid
from pointsman.audit.session import OWN_LEDGER, Certainty, Request, Session, Usage
from pointsman.audit.sources.base import Log, Named, read_only
from pointsman.catalogue import CatalogueEntry
from pointsman.config import AnyKey, Config, load
from pointsman.decision.decision import RequestInput
from pointsman.errors import ConfigError
from pointsman.prices import PRICES
from pointsman.printable import counted
from pointsman.stores.ledger import Attempt, Retention, ShadowAnswer, SqliteLedger
from pointsman.stores.ledger.port import may_be_paid
from pointsman.stores.ledger.turns import usage
from pointsman.vocabulary import AgentRole, Purpose

__all__ = ["OwnLedger"]

#: Reading deletes nothing.
_KEEP: Final = Retention(None, None)
_NOT_LOGGED: Final = ("questions of verification, guidance and capabilities",)
#: Tables of a policy's text that are read: the ledger may be another's, and others name code and files.
_PRICED: Final = ("upstreams", "models")


class OwnLedger(Named):
    """Reads a ledger that is named on the command line."""

    name: Final = OWN_LEDGER
    versions: Final = ""

    def read(self, log: Log) -> Iterator[Session]:
        """Yield the sessions.

        Raises:
            StoreUnavailable: it is no ledger, or cannot be read.
        """
        (file,) = log.files
        sessions: dict[str, list[Request]] = {}
        projects: dict[str, str] = {}
        policies: dict[str, Config] = {}
        prices: dict[tuple[str, str], CatalogueEntry] = {}
        unknown = shadows = 0
        with _opened(file) as ledger:
            for record in ledger.records():
                asked, version = record.decision.input, record.decision.policy
                if version not in policies:
                    policies[version] = _policy(ledger.policy(version))
                    prices.update(((each.provider, each.id), each) for each in _prices(policies[version]))
                name = asked.project_name or asked.client  # where no folder is named, as elsewhere
                projects.setdefault(
                    asked.session, "/".join(filter(None, (asked.project, asked.project and name)))
                )
                unknown += sum(each.output_tokens is None and not each.error for each in record.attempts)
                shadows += sum(
                    isinstance(each, ShadowAnswer) and may_be_paid(each) for each in record.shadows
                )
                sessions.setdefault(asked.session, []).extend(
                    _request(asked, attempt, policies[version])
                    for attempt in record.attempts
                    if attempt.output_tokens is not None
                )
        left_out = (unknown, "without usage"), (shadows, "of a shadow model")
        notes = tuple(f"{file}: {counted(of, 'answer')} {why}, so in no figure" for of, why in left_out if of)
        if notes and not any(sessions.values()):
            yield Session(id="", client=self.name, requests=(), notes=notes)
        for session, requests in sessions.items():
            used = dict.fromkeys((each.provider, each.model) for each in requests)
            if requests:
                yield Session(
                    id=session,
                    client=self.name,
                    project=projects[session],
                    files=(str(file),),
                    requests=tuple(requests),
                    not_logged=_NOT_LOGGED,
                    notes=notes,
                    prices=tuple(prices[each] for each in used if each in prices),
                )
                notes = ()


@contextmanager
def _opened(file: Path) -> Iterator[SqliteLedger]:
    """Open a ledger; of one of an earlier version a copy, which is brought up to date in its place."""
    with TemporaryDirectory(prefix="pointsman-audit-") as folder, ExitStack() as stack:
        ledger = stack.enter_context(closing(SqliteLedger(file, text="full", retention=_KEEP)))
        if 0 < ledger.schema_state().number < ledger.schema.number:
            copy = Path(folder) / file.name
            with closing(read_only(file)) as source, closing(sqlite3.connect(copy)) as target:
                source.backup(target)
            ledger = stack.enter_context(closing(SqliteLedger(copy, text="full", retention=_KEEP)))
        yield ledger


def _policy(text: str | None) -> Config:
    """The configuration that decided; an empty one where the ledger lacks it, or this version refuses it."""
    try:
        return load(Path("pointsman.toml"), AnyKey({}), text=text, only=_PRICED) if text else Config()
    except ConfigError:
        return Config()


def _prices(policy: Config) -> Iterator[CatalogueEntry]:
    """The prices of a configuration's models; the catalogue's if it states none."""
    for each in filter(attrgetter("is_priced"), policy.models.values()):
        with suppress(ValueError):  # a price that no model has
            yield CatalogueEntry(
                id=each.id,
                provider=_provider(policy, each.upstream),
                context_window=each.context_window,
                cache_seconds=each.cache_seconds,
                **{name: getattr(each, name) for name in PRICES},
            )


def _provider(policy: Config, upstream: str) -> str:
    found = policy.upstreams.get(upstream)
    return (found.provider if found else "") or upstream


def _request(asked: RequestInput, attempt: Attempt, policy: Config) -> Request:
    """The request of an attempt, by the id and at the prices of its model then."""
    model = policy.models.get(attempt.model)
    used = _usage(attempt)
    cost = paid(used, model) if model else None
    return Request(
        id=f"{attempt.decision}:{attempt.number}",
        at=attempt.started_at,
        model=model.id if model else attempt.model,
        provider=_provider(policy, attempt.upstream),
        purpose=asked.purpose or Purpose.MESSAGE,
        agent=asked.session if asked.role is AgentRole.SUBAGENT else "",
        usage=used,
        cost=cost,
    )


def _usage(attempt: Attempt) -> Usage:
    certainty = Certainty.ESTIMATED if attempt.estimated else Certainty.LOGGED
    read, cached, output, written, written_1h = usage(attempt) or (0, 0, attempt.output_tokens or 0, 0, 0)
    return Usage(
        input_tokens=read,
        cached_tokens=cached,
        written_tokens=written,
        written_1h_tokens=written_1h,
        output_tokens=output,
        output_at_most=output,
        input_certainty=certainty,
        output_certainty=certainty,
    )

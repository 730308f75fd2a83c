"""Checks of keys and teams: names, hashes, references, and limits that contradict each other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from pointsman.config.convert import Problem
from pointsman.config.serving import HASH, KEY_NAME, MOST_KEYS, KeySpec, TeamSpec
from pointsman.config.shapes import File
from pointsman.decision.aliases import matches
from pointsman.errors import did_you_mean
from pointsman.toml_source import KeyPath

#: How an operator makes the hash of a key.
HASHED_BY: Final = "printf %s KEY | sha256sum, or pointsman keys new NAME"
_NAME: Final = re.compile(KEY_NAME)
_WHAT: Final = {"keys": "a key", "teams": "a team"}


def check_access(file: File, listed: Iterable[bytes]) -> Iterator[Problem]:
    """Yield the problems of the tables of keys and teams.

    Args:
        file: The configuration.
        listed: Digests of the keys under [server].
    """
    for table, entries in (("keys", file.keys), ("teams", file.teams)):
        if len(entries) > MOST_KEYS:
            yield Problem((table,), f"[{table}] has {len(entries)} entries; {MOST_KEYS} is the most")
        for name, entry in entries.items():
            if not _NAME.fullmatch(name):
                message = f'"{name}" cannot name {_WHAT[table]}'
                yield Problem((table, name), message, "letters, digits, '.', '_' and '-', at most 64")
            yield from _limits(file, (table, name), entry)
            yield from _vouched(file, (table, name), entry)
    yield from _hashes(file, listed)
    for name, key in file.keys.items():
        if key.team and key.team not in file.teams:
            yield Problem.unknown(("keys", name, "team"), "team", key.team, file.teams)
        if key.role == "caller" and name in file.console.callers:
            message = f'[console] callers names "{name}", whose role is "caller"'
            yield Problem(("keys", name, "role"), message, 'role = "viewer" or "admin"')


def _limits(file: File, path: KeyPath, entry: KeySpec | TeamSpec) -> Iterator[Problem]:
    for place, pattern in enumerate(entry.models):
        if not any(matches(pattern, model) for model in file.models):
            near = did_you_mean(pattern, file.models)
            there_are = f"there are: {', '.join(file.models) or 'none'}"
            message = f'"{pattern}" is no configured model{near}'
            yield Problem((*path, "models", place), message, "" if near else there_are)
    if entry.when_low == "lower_tier" and entry.budget is None:
        hint = 'budget = { money = 10, per = "day" }'
        yield Problem((*path, "when_low"), "there is no budget that could be low", hint)


def _vouched(file: File, path: KeyPath, entry: KeySpec | TeamSpec) -> Iterator[Problem]:
    """A budget is for a store that outlives the process."""
    if entry.budget is not None and file.access.store == "memory":
        message = 'no store can vouch for this budget: [access] store = "memory" begins at 0 with each start'
        yield Problem((*path, "budget"), message, '[access] store = "sqlite" keeps what is spent in a file')


def _hashes(file: File, listed: Iterable[bytes]) -> Iterator[Problem]:
    """A key has one name."""
    known = dict.fromkeys(listed, "[server]")
    for name, key in file.keys.items():
        places: list[tuple[KeyPath, str]] = [(("keys", name, "sha256"), key.sha256)]
        places += [(("keys", name, "more_sha256", i), each) for i, each in enumerate(key.more_sha256)]
        for path, digits in places:
            if not HASH.fullmatch(digits):  # not shown: it may be the key itself
                yield Problem(path, "a SHA-256 hash has 64 hexadecimals", HASHED_BY)
                continue
            digest = bytes.fromhex(digits)
            if digest in known:
                yield Problem(path, f"this key is that of {known[digest]} too")
            known[digest] = f"[keys.{name}]"

"""Builds the live state from a configuration, at start and at hot reload."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import msgspec

from pointsman.access import Access, Budgets, build_access, open_budgets, store_kind, vouching
from pointsman.catalogue import user_file
from pointsman.config import Config, SessionsSpec, ShadowSpec
from pointsman.config.files import record_of
from pointsman.decision.engine import Engine
from pointsman.diagnostics import answer_in_band
from pointsman.errors import ConfigError
from pointsman.factory import (
    build_ask,
    build_asked_model,
    build_engine,
    build_policy,
    build_runtime,
    build_shadow,
    keep_policy,
    open_sessions,
)
from pointsman.gateway._live_state import LiveState, build_live_state
from pointsman.model_calls import Questions, build_questions
from pointsman.model_choice.chains import shortfalls
from pointsman.runtime import Runtime
from pointsman.shadow_policy import ShadowPolicy
from pointsman.stores.ledger import Ledger, QueuedLedger
from pointsman.stores.workers import ALONE, Worker
from pointsman.upstreams.connections import Connections

__all__ = ["Builder", "WatchedFile", "check_shared"]

log = logging.getLogger(__name__)


class WatchedFile:
    """A file and the files it reads: whether any has changed since the last look; the first is now."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        self._seen = self._stamps()

    def has_changed(self) -> bool:
        """Look again."""
        before, self._seen = self._seen, self._stamps()
        return self._seen != before

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None  # being replaced just now, or gone: the old configuration stays
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


class Builder:
    """Builds live states around one ledger and one session store, which stay open over reloads."""

    def __init__(
        self,
        load: Callable[[], Config],
        file: Path | None = None,
        worker: Worker = ALONE,
        flush_others: Callable[[], None] | None = None,
    ) -> None:
        """Read the configuration.

        Args:
            load: Reads it.
            file: Its path; commands may change the file. It is watched since before it was read.
            worker: Which of several processes this one is.
            flush_others: Asks the others to write their pending ledger rows; None if there are no others.

        Raises:
            ConfigError: the configuration is wrong.
        """
        self._worker = worker
        self._flush_others = flush_others
        self._load = load
        self._file = file
        self.watch = WatchedFile(file, user_file(), record_of(file)) if file else None
        self.config = load()  # the one read last
        self._runtime: Runtime | None = None  # the first one, whose stores all others share
        self._budgets: Budgets | None = None  # what keys have used, over reloads
        self._periods: Mapping[str, str] = {}  # of budgets, by key and team
        self._vouching = ""  # where spent money is recorded, as the log has told
        self._at_start: Mapping[str, object] = {}  # see _opened_once

    def __call__(self, previous: LiveState | None = None) -> LiveState:
        """Build a live state; with ``previous``, which stays unchanged, for the configuration read again.

        Raises:
            ConfigError: the configuration is wrong.
        """
        if previous is not None:
            self.config = self._load()
        config = self.config
        if not self._worker.is_alone:  # also of one that follows another: the file may have changed since
            check_shared(config)
        if not config.models:
            raise ConfigError(
                "no model is configured",
                hint="configure [models] and [tiers]; pointsman config init writes both",
            )
        specs = config.upstreams.values()
        connections = previous.connections.carried_over(specs) if previous else Connections()
        on_trial = build_shadow(config)
        ask = build_ask(config, connections)
        runtime, engine, questions = self._compile(config)
        before = previous.shadow_policy if previous else None
        shadow_policy = self._shadow_policy(on_trial, runtime.ledger, before)
        command = partial(_answer_command, config, self._file) if config.server.router_command else None
        state = build_live_state(
            runtime.with_policy(engine, ask=ask, questions=questions, observe=shadow_policy),
            config,
            connections=connections,
            shadow_policy=shadow_policy,
            shadow_model=_part_of(config.shadow, self._worker),
            command=command,
            names=engine.names,
            access=self._access(config),
            asked_model=build_asked_model(config),
            previous=previous,
        )
        keep_policy(state.runtime, config)
        self._warn_of_restart(config)
        for shortfall in shortfalls(config.tiers.pools, config.models):
            log.warning("%s", shortfall)
        return state

    def flush(self) -> None:
        """Write what waits for the ledger."""
        if self._runtime is not None:
            self._runtime.ledger.flush()

    def close(self) -> None:
        """Write what waits and close the stores."""
        if self._budgets is not None:
            self._budgets.close()
        if self._runtime is not None:
            self._runtime.close()

    def _compile(self, config: Config) -> tuple[Runtime, Engine, Questions]:
        """Return the runtime with the open stores, and the policy of a configuration."""
        if self._runtime is None:
            runtime = build_runtime(config, self._worker)
            if isinstance(runtime.ledger, QueuedLedger):
                if self._flush_others is not None:
                    runtime.ledger.share(self._flush_others, self._worker.of)
                runtime.ledger.start()
            self._runtime, self._at_start = runtime, _opened_once(config)
            return runtime, runtime.engine, runtime.questions
        policy = build_policy(config)
        return self._runtime, build_engine(policy), build_questions(policy, self._worker)

    def _shadow_policy(
        self, engine: Engine | None, ledger: Ledger, before: ShadowPolicy | None
    ) -> ShadowPolicy | None:
        """Return the policy on trial; it takes over the sessions and counts of the one before."""
        if engine is None:
            return None
        if before is not None:
            return before.with_engine(engine)
        return ShadowPolicy(engine, ledger, open_sessions(SessionsSpec()))

    def _access(self, config: Config) -> Access | None:
        """Return what keys may do; the counters of the first configuration with limits stay."""
        if self._budgets is None:
            self._budgets = open_budgets(config)
        budgets = {
            f'{kind} "{name}"': entry.budget.per
            for kind, entries in (("key", config.keys), ("team", config.teams))
            for name, entry in entries.items()
            if entry.budget is not None
        }
        for owner, period in budgets.items():
            if self._periods.get(owner, period) != period:
                log.warning("the budget of %s is now per %s and begins with nothing spent", owner, period)
        self._periods = budgets
        self._budgets.fails_open = config.access.on_outage == "open"
        access = build_access(config, self._budgets)
        if access is not None:
            self._budgets.start()
        if (where := vouching(config)) and where != self._vouching:
            log.info("spent money is recorded in %s", where)
            self._vouching = where
        return access

    def _warn_of_restart(self, config: Config) -> None:
        """Name the changes of the configuration that take effect at the next start only."""
        changed = [key for key, value in _opened_once(config).items() if value != self._at_start[key]]
        if changed:
            log.warning("changed, takes effect at the next start: %s", ", ".join(changed))


def _part_of(spec: ShadowSpec, worker: Worker) -> ShadowSpec:
    """Return the share of one of several processes in the bounds of the shadow model."""
    if worker.is_alone:
        return spec
    money = spec.money_per_day
    return msgspec.structs.replace(
        spec,
        concurrent=worker.part(spec.concurrent),
        per_minute=worker.part(spec.per_minute),
        money_per_day=None if money is None else money / worker.of,
    )


def _opened_once(config: Config) -> dict[str, object]:
    """Settings of resources opened once at the start, by their place in the file.

    A ledger or a session store that changed its file in between would leave answers in progress without a
    record, and sessions without a memory; a restart drains first.
    """
    tables = {"ledger": config.ledger, "sessions": config.sessions, "telemetry": config.telemetry}
    found = {
        f"[{name}] {field}": getattr(table, field)
        for name, table in tables.items()
        for field in table.__struct_fields__
    }
    found |= {f"[server] {field}": getattr(config.server, field) for field in ("host", "port", "drain")}
    found |= {f"[access] {field}": getattr(config.access, field) for field in ("store", "path")}
    return found | {"[server.limits] header_bytes": config.server.limits.header_bytes}


def check_shared(config: Config) -> None:
    """Refuse settings that several processes cannot share.

    Raises:
        ConfigError: a setting needs the memory of a single process.
    """
    limited = any(
        (each.budget, each.requests_per_minute, each.tokens_per_minute) != (None, None, None)
        for each in (*config.keys.values(), *config.teams.values())
    )
    if limited and store_kind(config) == "memory":
        raise ConfigError(
            "budgets and limits of keys are counted in the memory of one process, and several are to serve",
            hint='[access] store = "sqlite", or "valkey", counts for all; or workers = 1',
        )
    if config.ledger.url is None and config.ledger.jsonl is not None:
        raise ConfigError(
            "a ledger of JSON lines is read from the memory of one process, and several are to serve",
            hint="[ledger] path, a SQLite file, or url, PostgreSQL, is read by all; or workers = 1",
        )


def _answer_command(config: Config, file: Path | None, text: str, caller: str) -> str:
    """Answer ``/router`` in words, also if its arguments are wrong, or the caller may not change the file."""
    from pointsman.console import console_role  # its pages are loaded when somebody asks for them

    if text.split()[:1] == ["classifier"] and console_role(config, caller) != "admin":
        named = 'role = "admin" in [keys.NAME], or [console] callers,'
        return f"this key may not change the configuration; {named} lets a key do that"
    try:
        return answer_in_band(text, config, file)
    except ConfigError as error:
        return str(error)

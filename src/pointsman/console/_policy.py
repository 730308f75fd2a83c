"""The page Policy: what is in force, which versions served when, and the replay of a period under another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from pointsman.config import Config
from pointsman.config.shapes import File
from pointsman.config.show import as_toml, plain
from pointsman.console._filters import PERIODS, period_of
from pointsman.console._policy_text import engine_of
from pointsman.console._replays import Replays
from pointsman.console._view import GatewayView, Missing, Page, Redirect, Table, Visit
from pointsman.decision.engine import Engine
from pointsman.errors import PointsmanError
from pointsman.reports.replay import Replayed
from pointsman.upstreams.port import UpstreamSpec
from pointsman.vocabulary import ModelSpec, Tier

__all__ = ["Policies"]

_COLUMNS: Final = ("decision", "tier_then", "tier_now", "model_then", "model_now", "cost_then", "cost_now")
#: Tables that decide, beside upstreams and models; and what of an upstream does not.
_DECIDE: Final = ("tiers", "aliases", "guidance", "domains", "capabilities")
_MAY_BE_SECRET: Final = ("api_key", "headers", "query", "body", "proxy", "ca_file")
#: Newest decisions among which versions are looked for.
_LOOKED_AT: Final = 1_000


class Version(NamedTuple):
    """A policy that served."""

    version: str
    first: float  # seconds since the epoch
    last: float
    decisions: int
    is_current: bool


class Policies:
    """The pages about policies, and the replays of one gateway."""

    def __init__(self, replays: Replays) -> None:
        self._replays: Final = replays

    def page(self, visit: Visit) -> Page:
        """Show the policy in force."""
        return self._page(visit)

    def replay(self, visit: Visit) -> Page | Redirect:
        """Begin a replay."""
        text = visit.form.get("policy", "")
        try:
            since, until = period_of(replace(visit, query=tuple(visit.form.items())))
            engine = engine_of(visit.view, text, visit.form.get("version", ""))
            job = self._replays.begin(visit.view.ledger, engine, since, until)
        except PointsmanError as error:
            return self._page(visit, text, error)
        return Redirect(f"/console/policy/replays/{job}")

    def progress(self, visit: Visit) -> Page:
        """Show how far a replay is, and what it found."""
        job = self._replays.get(visit.parts["id"])
        if job is None:
            raise Missing("there is no such replay (any more)", hint="begin it again on the page Policy")
        found = job.found
        data = {
            "state": job.state,
            "done": job.done,
            "total": job.total,
            "error": job.error,
            "summary": found.summary if found else None,
            "changes": found.biggest if found else (),
        }
        rows = [_row(line) for line in found.biggest] if found else []
        return Page("replay.html", {"job": job, "found": found}, data, Table(_COLUMNS, rows))

    def cancel(self, visit: Visit) -> Redirect:
        """End a replay."""
        self._replays.cancel(visit.parts["id"])
        return Redirect(f"/console/policy/replays/{visit.parts['id']}")

    def _page(self, visit: Visit, text: str = "", error: PointsmanError | None = None) -> Page:
        view = visit.view
        written = written_policy(view.config)
        versions = list(_versions(view))
        context = {
            "engine": view.engine,
            "tiers": list(_tiers(view.config, view.engine)),
            "config": view.config,
            "written": written,
            "versions": versions,
            "looked_at": _LOOKED_AT,
            "periods": list(PERIODS),
            "choices": [view.engine.version, *reversed(tuple(view.earlier))],
            "form": visit.form,
            "policy_text": text or written,
            "error": error,
            "jobs": self._replays.all(),
        }
        data = {
            "policy": view.engine.version,
            "versions": [each._asdict() for each in versions],
            "toml": written,
        }
        table = Table(Version._fields, versions)
        return Page("policy.html", context, data, table, 400 if error else 200)


def written_policy(config: Config) -> str:
    """Return the tables of a configuration that decide, as TOML, without what is as by default.

    What may hold a secret is left out: it decides nothing.
    """
    decides = {name: getattr(config, name) for name in _DECIDE}
    tables = plain(File(upstreams=config.upstreams, models=config.models, **decides))
    plainest = {name: UpstreamSpec(name, "") for name in config.upstreams}
    usual = plain(File(upstreams=plainest, models={name: ModelSpec(name, "", "") for name in config.models}))
    for table in tables["upstreams"].values():
        for key in _MAY_BE_SECRET:
            table.pop(key, None)
    kept = {
        name: _apart(tables.get(name, {}), usual.get(name, {})) for name in ("upstreams", "models", *_DECIDE)
    }
    return as_toml({name: value for name, value in kept.items() if value})


def _apart(value: Mapping[str, object], usual: Mapping[str, object]) -> dict[str, object]:
    """What differs from the default, table by table."""
    found: dict[str, object] = {}
    for key, item in value.items():
        known = usual.get(key)
        if isinstance(item, dict) and isinstance(known, dict):
            if inner := _apart(item, known):
                found[key] = inner
        elif item != known:
            found[key] = item
    return found


def _row(line: Replayed) -> tuple[object, ...]:
    then, now = line.then, line.now
    return line.id, then.tier, now.tier, then.model, now.model, then.cost, now.cost


def _tiers(config: Config, engine: Engine) -> Iterator[dict[str, object]]:
    low = None
    ends = (*engine.policy.profile.boundaries, None)
    for tier, end in zip(Tier, ends, strict=True):
        pool = config.tiers.pools.get(tier, ())
        models = [config.models[entry.model] for entry in pool if entry.model in config.models]
        yield {"tier": tier, "low": low, "high": end, "models": models}
        low = end


def _versions(view: GatewayView) -> Iterator[Version]:
    """The policies of the newest decisions, the latest first."""
    seen: dict[str, list[float]] = {}
    for decision in view.ledger.decisions(limit=_LOOKED_AT):
        seen.setdefault(decision.policy, []).append(decision.input.arrived_at)
    for version, times in seen.items():
        yield Version(version, min(times), max(times), len(times), version == view.engine.version)

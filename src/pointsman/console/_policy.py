"""The page Policy: the policy in force, the times of its versions, and replays under another."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import msgspec

from pointsman.config import Config
from pointsman.console._filters import PERIODS, period_of
from pointsman.console._policy_text import engine_of, version_choices
from pointsman.console._replays import Replays
from pointsman.console._view import GatewayView, Missing, Page, Redirect, Visit
from pointsman.decision.engine import Engine
from pointsman.errors import PointsmanError
from pointsman.factory import policy_toml
from pointsman.printable import TextTable
from pointsman.reports.replay import Replayed
from pointsman.stores.ledger import PolicyUse
from pointsman.vocabulary import Tier

__all__ = ["Policies"]

_COLUMNS: Final = ("decision", "tier_then", "tier_now", "model_then", "model_now", "cost_then", "cost_now")
_VERSIONS: Final = PolicyUse.__struct_fields__


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
        """Show the progress of a replay, and its result."""
        job = self._replays.get(visit.parts["id"])
        if job is None:
            raise Missing("there is no such replay (any more)", hint="begin it again on the page Policy")
        state = job.state  # before what it found, because the thread of the replay sets the state last
        found = job.found
        data = {
            "state": state,
            "done": job.done,
            "total": job.total,
            "error": job.error,
            "summary": found.summary if found else None,
            "changes": found.biggest if found else (),
        }
        rows = [_row(line) for line in found.biggest] if found else []
        return Page(
            "replay.html", {"job": job, "state": state, "found": found}, data, TextTable.of(_COLUMNS, rows)
        )

    def cancel(self, visit: Visit) -> Redirect:
        """End a replay."""
        self._replays.cancel(visit.parts["id"])
        return Redirect(f"/console/policy/replays/{visit.parts['id']}")

    def _page(self, visit: Visit, text: str = "", error: PointsmanError | None = None) -> Page:
        view = visit.view
        written = policy_toml(view.config)
        versions = view.ledger.policies()
        asked = visit.asked("version")
        shown = _text_of(view, asked, written)
        context = {
            "engine": view.engine,
            "tiers": list(_tiers(view.config, view.engine)),
            "config": view.config,
            "written": written,
            "versions": versions,
            "asked": asked or view.engine.version,
            "shown": shown,
            "changes": list(_changes(shown, written)),
            "periods": list(PERIODS),
            "choices": version_choices(view),
            "form": visit.form,
            "policy_text": text or written,
            "error": error,
            "jobs": self._replays.all(),
        }
        data = {
            "policy": asked or view.engine.version,
            "in_force": view.engine.version,
            "versions": versions,
            "toml": shown,
        }
        table = TextTable.of(_VERSIONS, [msgspec.structs.astuple(each) for each in versions])
        return Page("policy.html", context, data, table, 400 if error else 200)


def _text_of(view: GatewayView, version: str, written: str) -> str:
    """Return the text of a policy; by default of the one in force.

    Raises:
        Missing: it is not stored.
    """
    if version in {"", view.engine.version}:
        return written
    text = view.ledger.policy(version)
    if text is None:
        raise Missing(
            f'the text of policy "{version[:40]}" is not kept',
            hint="texts are kept with the first decision by a policy, since version 0.1.0",
        )
    return text


def _changes(then: str, now: str) -> Iterator[str]:
    """The lines in which two policies differ."""
    found = difflib.unified_diff(then.splitlines(), now.splitlines(), lineterm="", n=1)
    return (line for line in found if not line.startswith(("---", "+++", "@@")))


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

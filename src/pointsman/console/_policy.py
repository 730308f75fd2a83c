"""The page Policy: the policy in force, its versions, replays under another; entered policies."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from pointsman.config import AnyKey, Config, is_profile
from pointsman.config.files import names_code
from pointsman.console._filters import PERIODS, period_of
from pointsman.console._jobs import Replays
from pointsman.console._view import GatewayView, Missing, Page, Redirect, Unusable, Visit
from pointsman.decision.engine import Engine
from pointsman.decoding import parse_toml
from pointsman.errors import ConfigError, PointsmanError
from pointsman.factory import build_engine, policy_toml, read_policy_text
from pointsman.printable import TextTable
from pointsman.reports.replay import Replayed
from pointsman.stores.ledger import PolicyUse
from pointsman.tiers import BUILTIN_KINDS, BUILTIN_PROFILES
from pointsman.vocabulary import Tier

#: Earlier policies that a page offers, the latest.
_OFFERED: Final = 20

#: Tables without which a text decides nothing.
_WHOLE: Final = ("upstreams", "models", "tiers")

#: Tables that decide nothing, with paths that are in the text of the policy in force and not in its file.
_STORES: Final = frozenset({"ledger", "sessions"})

#: Keys that name a file, or Python that would be run.
_NAMING: Final = frozenset({
    "application", "ca_file", "calibration", "certificate", "client_ca", "curve", "entry_point", "file",
    "path", "policy", "private_key", "profiles",
})  # fmt: skip
#: Keys with the name of something shipped, or of a file.
_SHIPPED: Final = {"tiers.profile": BUILTIN_PROFILES, "tiers.kinds": BUILTIN_KINDS}


def engine_of(view: GatewayView, text: str, version: str = "") -> Engine:
    """Return the engine of a policy that was chosen or entered; by default of the one in force.

    Args:
        view: The gateway.
        text: A policy, which counts where no version is chosen.
        version: Of the policy in force, or of one with a stored text.

    Raises:
        ConfigError: it is wrong; the message names line and key.
        Unusable: it names a file that the configuration in force does not, or there is no such version.
    """
    if version == view.engine.version or not (version or text.strip()):
        return view.engine
    place = Path(view.config.source) if view.config.source else Path.cwd() / "pointsman.toml"
    if version:
        kept = view.ledger.policy(version)
        if kept is None:
            raise Unusable(f'the text of policy "{version[:40]}" is not kept')
        if names_code(kept):  # the ledger may be another's; other files were configured once
            _check_files(kept, place)
        return build_engine(read_policy_text(kept, place, view.engine.policy))
    tables = _check_files(text, place)
    try:  # a viewer may enter one, and errors repeat values: no variable of the environment is one of them
        return build_engine(read_policy_text(text, place, view.engine.policy, AnyKey({}), only=tables))
    except ConfigError as error:
        raise _of_text(error, text, place) from None


def version_choices(view: GatewayView) -> list[str]:
    """Return the policy in force, and those before it with a stored text, the latest first."""
    current = view.engine.version
    kept = [each.version for each in view.ledger.policies() if each.has_text and each.version != current]
    return [current, *kept[:_OFFERED]]


def _of_text(error: ConfigError, text: str, place: Path) -> ConfigError:
    """Name the place of an error in the text: it was read as the gateway's file."""
    file, _, line = error.place.rpartition(":")
    if str(place) not in {file, error.place}:
        return error  # of a file that the text names
    where = f"line {line} of the text" if file == str(place) else "the text"
    has_all = all(re.search(rf"^\s*\[+{table}\b", text, re.MULTILINE) for table in _WHOLE)
    hint = error.hint if has_all or is_profile(text) else f"the text must be whole: {', '.join(_WHOLE)}"
    if "${" in text:
        hint += f"{'; ' if hint else ''}variables of the environment are not read here: write addresses out"
    return ConfigError(error.message.removeprefix(f"{error.place}: "), place=where, hint=hint)


def _check_files(text: str, place: Path) -> Collection[str] | None:
    """Whoever may look at the console is not thereby allowed to have files read or found, or code run.

    Returns:
        The tables to read; None if it is no TOML, and its reader names the line.
    """
    try:
        entered = parse_toml(text)
    except tomllib.TOMLDecodeError:
        return None
    try:
        configured = parse_toml(place.read_text("utf-8"))
    except (OSError, ValueError):
        configured = {}
    folder = place.resolve().parent
    known = {(key, _placed(value, folder)) for key, value in _named(configured)}
    for key, value in _named(entered):
        if (key, _placed(value, folder)) not in known:
            raise Unusable(
                f'{key} = "{value}": '
                "a policy here may name only files and classes that the configuration names",
                hint="pointsman replay --policy FILE takes any file",
            )
    return entered.keys() - _STORES


def _placed(value: str, folder: Path) -> str:
    """A file as both texts mean it: the policy in force is printed with absolute paths."""
    try:
        return str((folder / value).resolve())
    except ValueError:  # a NUL
        return value


def _named(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Every key that names a file, and its value."""
    for key, value in table.items():
        place = f"{path}.{key}" if path else key
        if isinstance(value, dict):
            yield from _named(value, place)
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, dict):
                    yield from _named(each, place)
        elif isinstance(value, str):
            is_file = key in _NAMING and path not in _STORES
            if is_file or value not in _SHIPPED.get(place, (value,)):
                yield place, value


_COLUMNS: Final = ("decision", "tier_then", "tier_now", "model_then", "model_now", "cost_then", "cost_now")
_VERSIONS: Final = PolicyUse.__struct_fields__


def replay(visit: Visit, replays: Replays) -> Page | Redirect:
    """Begin a replay."""
    text = visit.form.get("policy", "")
    try:
        since, until = period_of(replace(visit, query=tuple(visit.form.items())))
        engine = engine_of(visit.view, text, visit.form.get("version", ""))
        job = replays.begin(visit.view.ledger, engine, since, until)
    except PointsmanError as error:
        return policy(visit, replays, text, error)
    return Redirect(f"/console/policy/replays/{job}")


def progress(visit: Visit, replays: Replays) -> Page:
    """Show the progress of a replay, and its result."""
    job = replays.get(visit.parts["id"])
    state = job.state  # before what it found, because the thread of the replay sets the state last
    found = job.found
    unpriced = [name for name, model in job.engine.policy.models.items() if not model.is_priced]
    data = {
        "state": state,
        "done": job.done,
        "total": job.total,
        "error": job.error,
        "summary": found.summary if found else None,
        "changes": found.biggest if found else (),
        "unpriced": unpriced,
    }
    rows = [_row(line) for line in found.biggest] if found else []
    return Page(
        "replay.html",
        {"job": job, "state": state, "found": found, "unpriced": unpriced},
        data,
        TextTable.of(_COLUMNS, rows),
    )


def cancel(visit: Visit, replays: Replays) -> Redirect:
    """End a replay."""
    replays.cancel(visit.parts["id"])
    return Redirect(f"/console/policy/replays/{visit.parts['id']}")


def policy(visit: Visit, replays: Replays, text: str = "", error: PointsmanError | None = None) -> Page:
    """Show the policy in force; after a form, its text and why it cannot be used."""
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
        "jobs": replays.all(),
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

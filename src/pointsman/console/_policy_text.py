"""A policy that is entered in a page: read, and refused if it names files that the configuration does not."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pointsman.config import is_profile
from pointsman.console._view import GatewayView, Unusable
from pointsman.decision.engine import Engine
from pointsman.errors import ConfigError
from pointsman.reports import replay_period
from pointsman.tiers import BUILTIN_PROFILES

__all__ = ["engine_of", "version_choices"]

#: Earlier policies that a page offers, the latest.
_OFFERED: Final = 20

#: Tables without which a text decides nothing.
_WHOLE: Final = ("upstreams", "models", "tiers")

#: Keys that name a file, or Python that would be run.
_NAMING: Final = frozenset(
    {"file", "profiles", "application", "calibration", "ca_file", "class", "policy", "path"}
)


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
        return replay_period.engine_of(kept, place, view.engine.policy)  # what it names was configured once
    _check_files(text, place)
    try:
        return replay_period.engine_of(text, place, view.engine.policy)
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
    return ConfigError(error.message.removeprefix(f"{error.place}: "), place=where, hint=hint)


def _check_files(text: str, place: Path) -> None:
    """Whoever may look at the console is not thereby allowed to have files read, or code run."""
    try:
        entered = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return  # the reader says where
    try:
        configured = tomllib.loads(place.read_text("utf-8"))
    except (OSError, ValueError):
        configured = {}
    folder = place.resolve().parent
    known = {(key, _placed(value, folder)) for key, value in _named(configured)}
    for key, value in _named(entered):
        if (key, _placed(value, folder)) not in known:
            raise Unusable(
                f'{key} = "{value}": a policy entered here may name only files that the configuration names',
                hint="pointsman replay --policy FILE takes any file",
            )


def _placed(value: str, folder: Path) -> str:
    """A file as both texts mean it: the policy in force is printed with absolute paths."""
    return str((folder / value).resolve())


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
            is_profile = place == "tiers.profile" and value not in BUILTIN_PROFILES
            if is_profile or (key in _NAMING and place not in {"ledger.path", "sessions.path"}):
                yield place, value

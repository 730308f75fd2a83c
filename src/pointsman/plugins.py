"""Plug-ins of installed packages, by entry point: looked up only for unknown names.

A configuration that names no plug-in does not read the metadata of the installed packages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pointsman.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUPS", "Plugin", "installed", "load", "load_all", "names"]

#: Kind of plug-in -> its group of entry points. What each offers: docs/reference/plugins.md.
GROUPS: Final = {
    "upstream": "pointsman.upstreams",
    "store": "pointsman.stores",
    "encoder": "pointsman.encoders",
    "detector": "pointsman.detectors",
    "provider": "pointsman.providers",
    "report": "pointsman.reports",
    "command": "pointsman.commands",
    "source": "pointsman.audit.sources",
    "capability": "pointsman.capabilities",
}


class Plugin(NamedTuple):
    """One entry point of an installed package."""

    kind: str  # a key of ``GROUPS``
    name: str
    value: str  # ``package.module:object``
    package: str  # its distribution with the version; empty: not known


def installed() -> list[Plugin]:
    """Return every plug-in of every kind, by kind and name; none is imported."""
    return [
        Plugin(kind, entry.name, entry.value, f"{entry.dist.name} {entry.dist.version}" if entry.dist else "")
        for kind in GROUPS
        for entry in _entries(kind)
    ]


def names(kind: str) -> list[str]:
    """Return the names of the plug-ins of a kind."""
    return [entry.name for entry in _entries(kind)]


def load(kind: str, name: str) -> Any:
    """Import a plug-in; None where no package offers one of this name.

    Raises:
        ConfigError: It cannot be imported, or two packages offer one of this name.
    """
    found = [entry for entry in _entries(kind) if entry.name == name]
    if len(found) > 1:
        offered = ", ".join(entry.value for entry in found)
        raise ConfigError(
            f'several packages offer the {kind} "{name}": {offered}', hint="uninstall all but one of them"
        )
    return _imported(found[0]) if found else None


def load_all(kind: str) -> list[tuple[EntryPoint, Any]]:
    """Import every plug-in of a kind, by name.

    Raises:
        ConfigError: One cannot be imported.
    """
    return [(entry, _imported(entry)) for entry in _entries(kind)]


def _entries(kind: str) -> list[EntryPoint]:
    from importlib.metadata import entry_points

    found: Iterable[EntryPoint] = entry_points(group=GROUPS[kind])
    return sorted(found, key=lambda entry: entry.name)


def _imported(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as error:  # a package's own code
        raise ConfigError(
            f'the entry point "{entry.name}" ({entry.value}) cannot be loaded: {error}'
        ) from error

"""Capabilities from outside the program: JSON files, installed packages, application files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pointsman.capabilities import Capability, CapabilityRegistry, parse_capabilities
from pointsman.config.applications import load_named
from pointsman.errors import ConfigError
from pointsman.orchestrator._application import Application

__all__ = ["ENTRY_POINTS", "installed_capabilities", "load_application", "load_capabilities"]

#: Group under which a package offers capabilities: each entry names a ``Capability`` or a list of them.
ENTRY_POINTS: Final = "pointsman.capabilities"


def load_capabilities(file: Path) -> CapabilityRegistry:
    """Read a JSON list of capabilities.

    Raises:
        ConfigError: the file cannot be read, or an entry is wrong; the message names file and entry.
    """
    try:
        return parse_capabilities(file.read_bytes(), str(file))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", place=str(file)) from error


def installed_capabilities() -> list[Capability]:
    """Capabilities that installed packages offer under ``pointsman.capabilities``, by entry point name.

    Raises:
        ConfigError: an entry cannot be loaded, or is no capability; the message names it.
    """
    from importlib.metadata import entry_points

    found: list[Capability] = []
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        try:
            offered = entry.load()
        except Exception as error:
            raise ConfigError(
                f'the entry point "{entry.name}" ({entry.value}) cannot be loaded: {error}'
            ) from error
        several = [offered] if isinstance(offered, Capability) else list(offered)
        if not all(isinstance(each, Capability) for each in several):
            raise ConfigError(f'the entry point "{entry.name}" ({entry.value}) offers something else')
        found += several
    return found


def load_application(named: Path | str) -> Application:
    """Run a Python file and return what it calls ``application``, or import an entry point.

    Raises:
        ConfigError: there is no such file or entry point, or no application there.
    """
    application = load_named(str(named))
    if not isinstance(application, Application):
        raise ConfigError("defines no `application`", place=str(named), hint="see examples/assistant.py")
    return application

"""Capabilities from outside the program: JSON files, installed packages, application files."""

from __future__ import annotations

from pathlib import Path

from pointsman.capabilities import Capability, CapabilityRegistry, parse_capabilities
from pointsman.config.applications import load_named
from pointsman.errors import ConfigError
from pointsman.orchestrator._application import Application
from pointsman.plugins import load_all


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
    """Capabilities that installed packages offer, by entry point name: each names one, or a list of them.

    Raises:
        ConfigError: an entry cannot be loaded, or is no capability; the message names it.
    """
    found: list[Capability] = []
    for entry, offered in load_all("capability"):
        several = [offered] if isinstance(offered, Capability) else list(offered)
        if not all(isinstance(each, Capability) for each in several):
            raise ConfigError(f'the entry point "{entry.name}" ({entry.value}) offers something else')
        found += several
    return found


def load_application(named: Path | str) -> Application:
    """Run a Python file and return its ``application``, or import an entry point.

    Raises:
        ConfigError: there is no such file or entry point, or no application there.
    """
    application = load_named(str(named))
    if not isinstance(application, Application):
        raise ConfigError("defines no `application`", place=str(named), hint="see examples/assistant.py")
    return application

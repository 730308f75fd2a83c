"""Loads the application that a configuration names, by Python file or entry point."""

from __future__ import annotations

import importlib
import importlib.util
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from pointsman.capabilities import CapabilityRegistry
from pointsman.errors import ConfigError
from pointsman.guidance import GuidancePolicy, OwnClasses, classes_of
from pointsman.plugins import load

__all__ = ["application_at", "load_class", "load_classes", "load_named", "load_registry", "with_versions"]

#: What a Python file calls its application.
_NAME: Final = "application"
#: Applications kept in memory. Checking a configuration and building its policy each ask for the same one.
_KEPT: Final = 8


def application_at(named: str, directory: Path) -> str:
    """Return the name with a file's path made absolute, seen from the configuration's directory."""
    return str(directory / named) if _is_file(named) else named


def load_named(named: str) -> object:
    """Run a Python file, or import a module, and return the application in it.

    Args:
        named: A path ending in ``.py``, whose ``application`` is returned, or ``"package.module:name"``.

    Raises:
        ConfigError: there is no such file or module, it cannot be run, or has no such name.
    """
    if _is_file(named):
        return _run(Path(named))
    module, _, name = named.partition(":")
    if not module or not name:
        raise ConfigError(f'"{named}" names no application', hint='"app.py", or "package.module:name"')
    try:
        found = importlib.import_module(module)
    except Exception as error:  # noqa: BLE001 - a foreign module may raise anything when it is imported
        raise ConfigError(f'cannot import "{module}": {type(error).__name__}: {error}') from None
    if not hasattr(found, name):
        raise ConfigError(f'"{module}" has no "{name}"')
    return getattr(found, name)


def load_registry(named: str) -> CapabilityRegistry:
    """Return the capabilities of an application; a file runs once, until it changes.

    Raises:
        ConfigError: as ``load_named``, and where the application has no capabilities.
    """
    return _registry(named, _changed(Path(named)) if _is_file(named) else None)


@lru_cache(_KEPT)
def _registry(named: str, changed: tuple[int, int] | None) -> CapabilityRegistry:  # noqa: ARG001 - part of the key
    found = load_named(named)
    registry = getattr(found, "registry", found)
    if not isinstance(registry, CapabilityRegistry):
        raise ConfigError(
            f'"{named}" is no application: a {type(found).__name__}',
            hint="an Application, or a CapabilityRegistry; see examples/assistant.py",
        )
    return registry


def _changed(file: Path) -> tuple[int, int] | None:
    """State of a file that changes with its content; None without a file."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _run(file: Path) -> object:
    spec = importlib.util.spec_from_file_location(f"pointsman_application_{file.stem}", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise ConfigError("no such Python file", place=str(file), hint="--app names one")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001 - a foreign file may raise anything when it is run
        raise ConfigError(f"cannot be run: {type(error).__name__}: {error}", place=str(file)) from None
    if not hasattr(module, _NAME):
        raise ConfigError(f"defines no `{_NAME}`", place=str(file), hint="see examples/assistant.py")
    return getattr(module, _NAME)


def _is_file(named: str) -> bool:
    return named.endswith(".py")


# Loads the classes of guidance that a configuration names by entry point.


def load_class(entry_point: str) -> type:
    """Import the class that an entry point names: ``package.module:Class``, or the name of a plug-in.

    Raises:
        ConfigError: The module cannot be imported, or has no such class.
    """
    import importlib  # most configurations name none

    module, _, name = entry_point.partition(":")
    if module and not name:
        offered = [of for of in (load("provider", module), load("detector", module)) if isinstance(of, type)]
        if len(offered) > 1:
            raise ConfigError(f'"{module}" names an installed provider and an installed detector')
        if offered:
            return offered[0]
    if not module or not name:
        raise ConfigError(
            f'"{entry_point}" is not an entry point, nor the name of an installed provider or detector',
            hint='as in "package.module:Class"',
        )
    try:
        found = getattr(importlib.import_module(module), name, None)
    except Exception as error:  # noqa: BLE001 - a foreign module may raise anything when it is imported
        raise ConfigError(
            f'cannot import "{module}": {type(error).__name__}: {error}',
            hint="install it beside Pointsman, or set PYTHONPATH",
        ) from None
    if not isinstance(found, type):
        raise ConfigError(f'"{module}" has no class "{name}"')
    return found


def load_classes(policy: GuidancePolicy | None) -> OwnClasses:
    """Import all classes that the providers of a policy name; raises as ``load_class``."""
    if policy is None or not policy.providers:
        return {}
    named = {entry_point for spec in policy.providers for _, entry_point in classes_of(spec)}
    return {entry_point: load_class(entry_point) for entry_point in sorted(named)}


def with_versions(policy: GuidancePolicy, own: OwnClasses) -> GuidancePolicy:
    """Return the policy with the versions that custom classes state, which are part of the policy version."""
    if not own:
        return policy
    specs = tuple(spec.with_classes(own) for spec in policy.providers)
    return msgspec.structs.replace(policy, providers=specs)

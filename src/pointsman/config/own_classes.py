"""Loads the classes of guidance that a configuration names by entry point."""

from __future__ import annotations

import msgspec

from pointsman.errors import ConfigError
from pointsman.guidance import GuidancePolicy, OwnClasses, classes_of

__all__ = ["load_class", "load_classes", "with_versions"]


def load_class(entry_point: str) -> type:
    """Import the class that an entry point names, ``package.module:Class``.

    Raises:
        ConfigError: The module cannot be imported, or has no such class.
    """
    import importlib  # most configurations name none

    module, _, name = entry_point.partition(":")
    if not module or not name:
        raise ConfigError(f'"{entry_point}" is not an entry point', hint='as in "package.module:Class"')
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
    """Return the policy with the versions that its own classes state, which are part of its own version."""
    if not own:
        return policy
    specs = tuple(spec.with_classes(own) for spec in policy.providers)
    return msgspec.structs.replace(policy, providers=specs)

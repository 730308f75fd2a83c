"""The guidance of a configuration, for commands that run without a gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from pointsman.guidance import GuidancePolicy, Mode, OwnClasses

__all__ = ["GuidanceOption", "own_classes", "policy_of"]

GuidanceOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", help="File whose [guidance] holds; default: the built-in policy, switched on."),
]
_DEFAULT: Final = GuidancePolicy(mode=Mode.ON)


def policy_of(file: Path | None) -> GuidancePolicy:
    """Return the policy of a file, else the default one.

    Raises:
        ConfigError: The file cannot be read, or is wrong.
    """
    if file is None:
        return _DEFAULT
    from pointsman.config import AnyKey, load  # the hook runs after every call: most read no file

    return load(file, AnyKey()).guidance


def own_classes(policy: GuidancePolicy) -> OwnClasses:
    """Import the classes that a policy names."""
    if not policy.providers:
        return {}
    from pointsman.config.own_classes import load_classes

    return load_classes(policy)

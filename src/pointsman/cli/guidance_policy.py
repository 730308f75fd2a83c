"""The guidance of a configuration, for commands that run without a gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import msgspec
import typer

from pointsman.cli.output import echo
from pointsman.drivers import no_model
from pointsman.errors import ConfigError
from pointsman.guidance import GuidancePolicy, Mode, OwnClasses
from pointsman.vocabulary import ModelQuery, ModelReply

if TYPE_CHECKING:
    from pointsman.config import Config


GuidanceOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", help="File with a [guidance] table; default: the built-in policy, switched on."),
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
    from pointsman.config.applications import load_classes

    return load_classes(policy)


@contextmanager
def asking(config: Config, file: Path) -> Iterator[Callable[[ModelQuery], ModelReply]]:
    """Yield a function that answers the questions of a policy by the models of its file, if it asks any.

    Without their keys no model is asked: a message reports it, and decisions without a model are made.
    """
    from pointsman.config import load
    from pointsman.factory import asks_somebody, build_ask
    from pointsman.model_calls import AskingThread
    from pointsman.upstreams.connections import Connections

    if not asks_somebody(config):
        yield no_model
        return
    try:
        config = msgspec.structs.replace(load(file), guidance=config.guidance)
    except ConfigError as error:
        echo(f"pointsman: no model is asked: {error}", err=True)
        yield no_model
        return
    connections = Connections()
    thread = AskingThread(build_ask(config, connections), connections.close)
    try:
        yield thread.ask
    finally:
        thread.close()

"""The application that the module-level names of ``pointsman.compat.routing`` work on."""

from __future__ import annotations

from typing import Final

from pointsman.capabilities import Capability
from pointsman.errors import ConfigError
from pointsman.model_calls import ask_nobody
from pointsman.orchestrator import Application, ClassificationNode
from pointsman.upstreams.chat_model_port import ChatModel


class _Current:
    """The source has one registry and one model for the process, and so has code written against it."""

    def __init__(self) -> None:
        self.application: Application | None = None
        self.classifier: ClassificationNode | None = None


_current: Final = _Current()


def use(application: Application | None) -> None:
    """Set the application of this process; None leaves it without one."""
    _current.application, _current.classifier = application, None


def application() -> Application:
    """Return the application in use.

    Raises:
        ConfigError: there is none.
    """
    if _current.application is None:
        raise ConfigError(
            "no application is in use", hint="call pointsman.compat.routing.use(Application(registry, model))"
        )
    return _current.application


def model() -> ChatModel | None:
    """Return the model that judges capabilities, where an application with one is in use."""
    used = _current.application
    return (used.judge_model or used.model) if used else None


def classifier() -> ClassificationNode:
    """Return the classification node of the application in use; its selector is built once."""
    if _current.classifier is None:
        judge = model() or ask_nobody
        _current.classifier = ClassificationNode(application().selector(), judge)
    return _current.classifier


class CurrentRegistry:
    """The registry of the application in use, under the methods that the source calls."""

    def get_all_capabilities(self) -> list[Capability]:
        """Every capability in registry order."""
        return application().registry.get_all_capabilities()

    def get_always_active_capability_names(self) -> list[str]:
        """Names of the capabilities every task gets, in registry order."""
        return application().registry.get_always_active_capability_names()

    def get_capability(self, name: str) -> Capability | None:
        """The capability called ``name``, or None."""
        return application().registry.get_capability(name)

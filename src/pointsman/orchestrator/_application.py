"""An application: its capabilities, models, limits and nodes, and how it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec.structs import asdict

from pointsman.capabilities import (
    Capability,
    CapabilityRegistry,
    ClassificationPromptBuilder,
    LocalScorer,
    SelectionPolicy,
    Selector,
    Switches,
    parse_capabilities,
)
from pointsman.config import CapabilitiesSpec, Config
from pointsman.config.applications import load_named
from pointsman.encoders import load_encoder
from pointsman.errors import ConfigError
from pointsman.orchestrator._nodes import (
    CapabilityNode,
    ClarifyNode,
    ClassificationNode,
    ErrorNode,
    Node,
    OrchestratorNode,
    RespondNode,
    TaskExtractionNode,
)
from pointsman.orchestrator._plan import NodePrompts
from pointsman.orchestrator._tiered_model import TieredModel
from pointsman.orchestrator.machine import Limits
from pointsman.orchestrator.state import INFRASTRUCTURE
from pointsman.plugins import load_all
from pointsman.remembering import Bounded
from pointsman.runtime import Runtime
from pointsman.stores.ledger.port import Writes
from pointsman.upstreams import ChatModel
from pointsman.vocabulary import Encoder

_NO_MODELS: Final[Mapping[str, ChatModel]] = MappingProxyType({})
#: Selections that are remembered: among 200 capabilities they take some 10 MB.
_SELECTIONS: Final = 1_024
_SELECTION: Final = SelectionPolicy.__struct_fields__


@dataclass(frozen=True)
class Application:
    """Everything a run needs. Drivers take an application and nothing else."""

    registry: CapabilityRegistry
    model: ChatModel | None = None  # default: the configured one of each question's tier
    judge_model: ChatModel | None = None  # judges capabilities; default: ``model``
    policy: SelectionPolicy = field(default_factory=SelectionPolicy)
    limits: Limits = field(default_factory=Limits)
    prompts: NodePrompts = field(default_factory=NodePrompts)
    judge_prompts: ClassificationPromptBuilder = field(default_factory=ClassificationPromptBuilder)
    encoder: Encoder | None = None
    switches: Switches = field(default_factory=Switches)  # configured bypasses; commands go over them
    runtime: Runtime | None = None  # where runs and the questions of ``model`` are recorded

    def __post_init__(self) -> None:
        """Refuse capabilities that would shadow a node of the router.

        Raises:
            ConfigError: a capability that does work is called like a node.
        """
        for each in self.registry.get_all_capabilities():
            if each.name in INFRASTRUCTURE and each.work is not None:
                raise ConfigError(
                    f'the capability "{each.name}" has the same name as a router node', hint="rename it"
                )

    def configured(
        self, runtime: Runtime, models: Mapping[str, ChatModel] = _NO_MODELS, config: Config | None = None
    ) -> Application:
        """The application with its open settings: ``Pointsman.application`` calls this.

        Args:
            runtime: decides which model is asked; its ledger records the runs.
            models: by configured name.
            config: its ``[run]`` and ``[capabilities]`` hold where the application has the defaults.

        Raises:
            MissingExtra: the configured encoder is not installed.
        """
        model = self.model or (TieredModel(runtime, models) if models else None)
        found = replace(self, runtime=runtime, model=model)
        if config is None:
            return found
        if self.limits == Limits():
            found = replace(found, limits=Limits(**asdict(config.run)))
        if self.policy == SelectionPolicy() and config.capabilities != CapabilitiesSpec():
            found = found._selecting(config.capabilities, models)
        return found

    def _selecting(self, table: CapabilitiesSpec, models: Mapping[str, ChatModel]) -> Application:
        return replace(
            self,
            registry=self.registry.activated(table.always_active),
            policy=SelectionPolicy(**{name: getattr(table, name) for name in _SELECTION}),
            judge_model=self.judge_model or models.get(table.model),
            encoder=self.encoder or load_encoder(table.encoder),
        )

    @property
    def ledger(self) -> Writes | None:
        """Where runs are recorded."""
        return self.runtime.ledger if self.runtime else None

    def selector(self) -> Selector:
        """Selector of capabilities; reads every guide, so create it once."""
        scorer = LocalScorer(self.registry, self.encoder)
        policy = msgspec.structs.replace(self.policy, model="judge")
        return Selector(self.registry, scorer, policy, self.judge_prompts, Bounded(_SELECTIONS))

    def nodes(self) -> dict[str, Node]:
        """Every node by name.

        Raises:
            ConfigError: there is no model.
        """
        model = self.model
        if model is None:
            raise ConfigError(
                "the application has no model",
                hint="give it one, or a pointsman.toml: Pointsman.from_config().application(…)",
            )
        nodes: list[Node] = [
            TaskExtractionNode(model, self.prompts),
            ClassificationNode(self.selector(), self.judge_model or model),
            OrchestratorNode(self.registry, model, self.prompts),
            RespondNode(model, self.prompts),
            ClarifyNode(model, self.prompts),
            ErrorNode(),
        ]
        nodes += [CapabilityNode(each) for each in self.registry.get_all_capabilities() if each.work]
        return {node.name: node for node in nodes}


# Capabilities from outside the program: JSON files, installed packages, application files.


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

"""An application: its capabilities, its models and its limits, and the nodes they make."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from pointsman.capabilities import (
    CapabilityRegistry,
    ClassificationPromptBuilder,
    LocalScorer,
    LruCache,
    SelectionPolicy,
    Selector,
    Switches,
)
from pointsman.errors import ConfigError
from pointsman.model_calls import ask_models
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
from pointsman.orchestrator._prompts import NodePrompts
from pointsman.orchestrator.machine import Limits
from pointsman.orchestrator.state import INFRASTRUCTURE
from pointsman.upstreams.chat_model_port import ChatModel
from pointsman.vocabulary import Encoder

__all__ = ["Application"]


@dataclass(frozen=True)
class Application:
    """Everything a run needs. Drivers take an application and nothing else."""

    registry: CapabilityRegistry
    model: ChatModel
    judge_model: ChatModel | None = None  # judges capabilities; default: ``model``
    policy: SelectionPolicy = field(default_factory=SelectionPolicy)
    limits: Limits = field(default_factory=Limits)
    prompts: NodePrompts = field(default_factory=NodePrompts)
    judge_prompts: ClassificationPromptBuilder = field(default_factory=ClassificationPromptBuilder)
    encoder: Encoder | None = None
    switches: Switches = field(default_factory=Switches)  # configured bypasses; commands go over them

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

    def selector(self) -> Selector:
        """What selects capabilities; reads every guide, so make one and keep it."""
        scorer = LocalScorer(self.registry, self.encoder)
        policy = msgspec.structs.replace(self.policy, model="judge")
        return Selector(self.registry, scorer, policy, self.judge_prompts, LruCache())

    def nodes(self) -> dict[str, Node]:
        """Every node by name."""
        ask = ask_models({"judge": self.judge_model or self.model})
        nodes: list[Node] = [
            TaskExtractionNode(self.model, self.prompts),
            ClassificationNode(self.selector(), ask),
            OrchestratorNode(self.registry, self.model, self.prompts),
            RespondNode(self.model, self.prompts),
            ClarifyNode(self.model, self.prompts),
            ErrorNode(),
        ]
        nodes += [CapabilityNode(each) for each in self.registry.get_all_capabilities() if each.work]
        return {node.name: node for node in nodes}

"""Floor 7: an agent around the router: nodes, state machine, and the asyncio driver."""

from __future__ import annotations

from pointsman.model_calls import MAX_PARALLEL
from pointsman.orchestrator._application import (
    Application,
    installed_capabilities,
    load_application,
    load_capabilities,
)
from pointsman.orchestrator._driver import Agent, Approve, Progress
from pointsman.orchestrator._nodes import (
    CapabilityNode,
    ClarifyNode,
    ClassificationNode,
    ErrorNode,
    Node,
    OrchestratorNode,
    RespondNode,
    TaskExtractionNode,
    answer_batches,
)
from pointsman.orchestrator._plan import NodePrompts

__all__ = [
    "MAX_PARALLEL",
    "Agent",
    "Application",
    "Approve",
    "CapabilityNode",
    "ClarifyNode",
    "ClassificationNode",
    "ErrorNode",
    "Node",
    "NodePrompts",
    "OrchestratorNode",
    "Progress",
    "RespondNode",
    "TaskExtractionNode",
    "answer_batches",
    "installed_capabilities",
    "load_application",
    "load_capabilities",
]

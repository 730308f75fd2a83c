"""Floor 6: an agent around the router: its nodes over a chat model, and the asyncio driver."""

from __future__ import annotations

from pointsman.agent.application import Application
from pointsman.agent.driver import Agent, Approve, Progress
from pointsman.agent.loading import installed_capabilities, load_application, load_capabilities
from pointsman.agent.nodes import (
    CapabilityNode,
    ClarifyNode,
    ClassificationNode,
    ErrorNode,
    Node,
    OrchestratorNode,
    RespondNode,
    TaskExtractionNode,
)
from pointsman.agent.prompts import NodePrompts
from pointsman.agent.selecting import MAX_PARALLEL, answer_batches, select_capabilities

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
    "select_capabilities",
]

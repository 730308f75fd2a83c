"""Diagnostics for the operator: show the routing, run the doctor, change the verifying model."""

from __future__ import annotations

from pointsman.diagnostics._doctor import (
    Check,
    answer_in_band,
    choose_classifier,
    describe_check,
    describe_routing,
    diagnose,
    install_command,
)
from pointsman.diagnostics.clients import (
    AliasRow,
    Client,
    TakenId,
    Verdict,
    describe_aliases,
    describe_taken_ids,
    describe_verdict,
    judge_clients,
    list_aliases,
    taken_ids,
)

__all__ = [
    "AliasRow",
    "Check",
    "Client",
    "TakenId",
    "Verdict",
    "answer_in_band",
    "choose_classifier",
    "describe_aliases",
    "describe_check",
    "describe_routing",
    "describe_taken_ids",
    "describe_verdict",
    "diagnose",
    "install_command",
    "judge_clients",
    "list_aliases",
    "taken_ids",
]

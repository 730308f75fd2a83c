"""Diagnostics for the operator: show the routing, run the doctor, change the verifying model."""

from __future__ import annotations

from pointsman.diagnostics._doctor import Check, diagnose
from pointsman.diagnostics.router import answer_in_band, choose_classifier, describe_check, describe_routing

__all__ = ["Check", "answer_in_band", "choose_classifier", "describe_check", "describe_routing", "diagnose"]

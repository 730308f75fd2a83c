"""What an operator asks: how requests are routed, whether all is well, another model to verify with."""

from __future__ import annotations

from pointsman.diagnostics.doctor import Check, diagnose
from pointsman.diagnostics.router import answer_in_band, choose_classifier, describe_check, describe_routing

__all__ = ["Check", "answer_in_band", "choose_classifier", "describe_check", "describe_routing", "diagnose"]

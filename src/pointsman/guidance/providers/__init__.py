"""The built-in providers, one a file: when each speaks by itself, and what it says."""

from __future__ import annotations

from pointsman.guidance.providers._base import (
    GuidanceInjection,
    GuidanceProvider,
    GuidanceProviderConfig,
)
from pointsman.guidance.providers._consultation import ConsultationPromptProvider
from pointsman.guidance.providers._diagnostic import DiagnosticSignalProvider
from pointsman.guidance.providers._done_gate import DoneGateProvider
from pointsman.guidance.providers._loop_breaker import DoomLoopBreaker
from pointsman.guidance.providers._parallel import ParallelToolReminder

__all__ = [
    "ConsultationPromptProvider",
    "DiagnosticSignalProvider",
    "DoneGateProvider",
    "DoomLoopBreaker",
    "GuidanceInjection",
    "GuidanceProvider",
    "GuidanceProviderConfig",
    "ParallelToolReminder",
]

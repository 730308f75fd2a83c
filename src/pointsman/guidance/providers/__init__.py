"""The built-in providers, one a file: when each speaks by itself, and what it says."""

from __future__ import annotations

from pointsman.guidance.providers.base import (
    GuidanceInjection,
    GuidanceProvider,
    GuidanceProviderConfig,
)
from pointsman.guidance.providers.consultation import ConsultationPromptProvider
from pointsman.guidance.providers.diagnostic import DiagnosticSignalProvider
from pointsman.guidance.providers.loop_breaker import DoomLoopBreaker
from pointsman.guidance.providers.parallel import ParallelToolReminder

__all__ = [
    "ConsultationPromptProvider",
    "DiagnosticSignalProvider",
    "DoomLoopBreaker",
    "GuidanceInjection",
    "GuidanceProvider",
    "GuidanceProviderConfig",
    "ParallelToolReminder",
]

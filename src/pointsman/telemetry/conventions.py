"""Every name of an attribute that a span may have.

Those of OpenTelemetry follow its semantic conventions in the version of ``SCHEMA_URL``. The GenAI conventions
are in development and move: names are defined here alone, and a test compares them with the package
``opentelemetry-semantic-conventions``.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ADDED", "ATTEMPT", "ATTEMPTS", "CACHED_TOKENS", "CALLER", "CHAT", "COST", "DECISION", "DOMAIN",
    "ERROR_TYPE", "FIRST_CHUNK", "FORMAT", "GUIDANCE", "GUIDANCE_ARM", "INPUT_TOKENS", "METHOD", "MODEL",
    "OPERATION", "OUTPUT_TOKENS", "PATH", "POLICY", "PROVIDER", "REASONS", "REQUEST_MODEL", "RESPONSE_MODEL",
    "ROLE", "SCHEMA_URL", "SESSION", "STAGE", "STATUS", "TIER", "UPSTREAM",
]  # fmt: skip

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"

OPERATION: Final = "gen_ai.operation.name"
CHAT: Final = "chat"  # a value of it, for all three formats
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
SESSION: Final = "gen_ai.conversation.id"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHED_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"  # seconds
ERROR_TYPE: Final = "error.type"
METHOD: Final = "http.request.method"
STATUS: Final = "http.response.status_code"
PATH: Final = "url.path"

DECISION: Final = "pointsman.decision.id"
POLICY: Final = "pointsman.policy"
FORMAT: Final = "pointsman.format"
TIER: Final = "pointsman.tier"
STAGE: Final = "pointsman.stage"
ROLE: Final = "pointsman.role"
DOMAIN: Final = "pointsman.domain"
GUIDANCE: Final = "pointsman.guidance.classifiers"
GUIDANCE_ARM: Final = "pointsman.guidance.arm"
ADDED: Final = "pointsman.added"
REASONS: Final = "pointsman.reasons"
MODEL: Final = "pointsman.model"  # configured name
UPSTREAM: Final = "pointsman.upstream"
CALLER: Final = "pointsman.caller"
ATTEMPTS: Final = "pointsman.attempts"
COST: Final = "pointsman.cost"

#: The event of a try that did not answer.
ATTEMPT: Final = "pointsman.attempt"

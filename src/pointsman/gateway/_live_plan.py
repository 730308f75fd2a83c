"""The live requests of the doctor: which are sent, and their bodies."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from pointsman.config import Config
from pointsman.errors import ConfigError
from pointsman.vocabulary import WireFormat

__all__ = ["OUTPUT_TOKENS", "Feature", "LiveRequest", "plan", "write_request"]

#: The most an answer may have: enough for a reasoning model to reach a word, a fraction of a cent elsewhere.
OUTPUT_TOKENS: Final = 256
_PROMPT: Final = "Reply with the single word ready."
_TOOL_PROMPT: Final = "Call the tool report with status ready."
_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"status": {"type": "string"}},
    "required": ["status"],
}
_TOOL: Final[Mapping[str, Any]] = {"name": "report", "description": "Report a status."}


class Feature(StrEnum):
    """Feature that a request tries."""

    PLAIN = "plain"
    STREAM = "stream"
    TOOLS = "tools"


class LiveRequest(NamedTuple):
    """One request to send."""

    model: str  # configured name
    upstream: str
    format: WireFormat
    is_native: bool  # else it is translated
    feature: Feature


def plan(config: Config, model: str = "") -> list[LiveRequest]:
    """Return the requests to send: those that the configuration lets a model serve.

    None goes to an upstream with ``forward_auth``: only a caller has the credential.

    Args:
        config: The configuration.
        model: Configured name of the only model to ask; empty for all.

    Raises:
        ConfigError: it is not configured.
    """
    if model and model not in config.models:
        raise ConfigError(
            f'unknown model "{model}"', hint=f"configured: {', '.join(config.models) or 'none'}"
        )
    models = [config.models[model]] if model else config.models.values()
    asked = [each for each in models if not config.upstreams[each.upstream].forward_auth]
    return [
        LiveRequest(each.name, each.upstream, wire, wire in each.formats, feature)
        for each in asked
        for wire in WireFormat
        if each.takes(wire)
        for feature in Feature
        if feature is not Feature.TOOLS or each.features is None or "tools" in each.features
    ]


def write_request(request: LiveRequest) -> bytes:
    """Return the body of a request."""
    prompt = _TOOL_PROMPT if request.feature is Feature.TOOLS else _PROMPT
    said = {"messages": [{"role": "user", "content": prompt}]}
    match request.format:
        case WireFormat.CHAT:
            body = {**said, "max_completion_tokens": OUTPUT_TOKENS}
            tools = {"tools": [{"type": "function", "function": {**_TOOL, "parameters": _SCHEMA}}]}
            choice: object = "required"
        case WireFormat.RESPONSES:
            body = {"input": prompt, "max_output_tokens": OUTPUT_TOKENS, "store": False}
            tools = {"tools": [{"type": "function", **_TOOL, "parameters": _SCHEMA}]}
            choice = "required"
        case WireFormat.MESSAGES:
            body = {**said, "max_tokens": OUTPUT_TOKENS}
            tools = {"tools": [{**_TOOL, "input_schema": _SCHEMA}]}
            choice = {"type": "any"}
    if request.feature is Feature.TOOLS:
        body |= {**tools, "tool_choice": choice}
    if request.feature is Feature.STREAM:
        body["stream"] = True
    return msgspec.json.encode({"model": request.model, **body})

"""OpenTelemetry spans of generative AI in OTLP JSON, as the collector's file exporter writes them.

Source of the names: OpenTelemetry semantic conventions for generative AI, and OpenInference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pointsman.audit.session import Certainty, Request, Usage
from pointsman.vocabulary import Purpose

__all__ = ["span_requests"]

#: Operations that ask a model. Spans of agents and tools contain them and would count twice.
_OPERATIONS: Final = frozenset({"chat", "text_completion", "generate_content", "responses", "completion"})
_INPUT: Final = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_OUTPUT: Final = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
)
_READ: Final = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.cached_tokens",
    "llm.token_count.prompt_details.cache_read",
)
_WRITTEN: Final = (
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "llm.token_count.prompt_details.cache_write",
)
_MODEL: Final = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
_PROVIDER: Final = ("gen_ai.provider.name", "gen_ai.system", "llm.provider")
#: Providers by the names of the conventions, where the catalogue has others.
_PROVIDERS: Final = {
    "gcp.gemini": "google",
    "gemini": "google",
    "gcp.gen_ai": "google",
    "mistral_ai": "mistral",
    "x_ai": "xai",
}
_SESSION: Final = ("gen_ai.conversation.id", "session.id", "langfuse.session.id")
#: Before the conventions said that input includes cached tokens, instrumentations of Anthropic left them out.
_EXCLUSIVE: Final = ("gen_ai.usage.cache_read_input_tokens", "gen_ai.usage.cache_creation_input_tokens")


def span_requests(row: Mapping[str, Any]) -> Iterator[tuple[str, str, Request]]:
    """Yield session, project and request of every span that asked a model."""
    for resource in _list(row, "resourceSpans"):
        service = str(_attributes(resource.get("resource") or {}).get("service.name", ""))
        for scope in _list(resource, "scopeSpans"):
            for span in _list(scope, "spans"):
                attributes = _attributes(span)
                if _asks_model(attributes) and not _failed(span):
                    session = _first(attributes, _SESSION) or span.get("traceId", "")
                    yield str(session), service, _request(span, attributes)


def _list(value: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = value.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _attributes(of: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in _list(of, "attributes"):
        value = each.get("value")
        if isinstance(value, dict) and value:
            kind, plain = next(iter(value.items()))
            found[str(each.get("key"))] = int(plain) if kind == "intValue" else plain
    return found


def _first(attributes: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((attributes[name] for name in names if attributes.get(name) not in (None, "")), None)


def _asks_model(attributes: Mapping[str, Any]) -> bool:
    operation = attributes.get("gen_ai.operation.name") or attributes.get("llm.request.type")
    if operation is not None:
        return str(operation) in _OPERATIONS
    return attributes.get("openinference.span.kind") == "LLM" or _first(attributes, _INPUT) is not None


def _failed(span: Mapping[str, Any]) -> bool:
    status = span.get("status")
    return isinstance(status, dict) and status.get("code") in (2, "STATUS_CODE_ERROR")


def _request(span: Mapping[str, Any], attributes: Mapping[str, Any]) -> Request:
    provider = str(_first(attributes, _PROVIDER) or "").lower()
    return Request(
        id=str(attributes.get("gen_ai.response.id") or span.get("spanId", "")),
        at=int(span.get("endTimeUnixNano") or span.get("startTimeUnixNano") or 0) / 1e9,
        model=str(_first(attributes, _MODEL) or ""),
        provider={"gcp.gemini": "google", "gemini": "google", "mistral_ai": "mistral"}.get(
            provider, provider
        ),
        purpose=Purpose.MESSAGE,
        usage=_usage(attributes, provider),
    )


def _usage(attributes: Mapping[str, Any], provider: str) -> Usage:
    plain, read, written, output = (
        int(_first(attributes, names) or 0) for names in (_INPUT, _READ, _WRITTEN, _OUTPUT)
    )
    apart = provider == "anthropic" and any(name in attributes for name in _EXCLUSIVE)
    whole = plain + read + written if apart or plain < read + written else plain
    known = Certainty.LOGGED if _first(attributes, _OUTPUT) is not None else Certainty.UNKNOWN
    return Usage(
        input_tokens=whole,
        cached_tokens=read,
        written_tokens=written,
        output_tokens=output,
        output_at_most=output,
        input_certainty=known,
        output_certainty=known,
    )

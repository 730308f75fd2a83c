"""Exports of gateways and observability services, recognised by the names of their fields."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC
from math import isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from pointsman.audit.session import Certainty, Request, Session, Usage
from pointsman.audit.sources.base import Lines, Log, Named, Row, rows, seconds
from pointsman.errors import PointsmanError
from pointsman.vocabulary import Purpose

__all__ = ["Export", "kind_of", "rows"]


def fields(row: Row) -> frozenset[str]:
    """Names of the fields of a row, without capitals, spaces and underscores."""
    return frozenset(map(_plain, filter(None, row)))  # a row of CSV may be longer than the first


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace(" ", "").replace(".", "")


def _get(row: Row, name: str) -> Any:
    """A field by its name, however it is written; ``a/b`` is field b of field a, which may be JSON text."""
    head, _, rest = name.partition("/")
    wanted = _plain(head)
    value = next((each for key, each in row.items() if key and _plain(key) == wanted), None)
    if not rest:
        return value
    inner = nested(value)
    return _get(inner, rest) if inner else None


def nested(value: object) -> Row:
    """An object, also if written as text."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def text(row: Row, *names: str) -> str:
    """The first of these fields that is not empty."""
    for name in names:
        value = _get(row, name)
        if value not in (None, "", "null"):
            return value if isinstance(value, str) else str(value)
    return ""


def number(row: Row, *names: str) -> float | None:
    """The first of these fields that is a number; else None."""
    found = (_number(_get(row, name)) for name in names)
    return next((each for each in found if each is not None), None)


def _number(value: Any) -> float | None:
    """A finite number, also one written as text; else None."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if isfinite(found) and not isinstance(value, bool) else None


def count(row: Row, *names: str) -> int:
    """The first of these fields that is a number, as a count of tokens; else 0."""
    return max(int(number(row, *names) or 0), 0)


#: Rows of one session are apart from each other by at most this long, where an export names no sessions.
_PAUSE: Final = 1_800.0


class Found(NamedTuple):
    """One request of an export."""

    session: str  # "" where the export does not name one
    project: str
    request: Request


class Export(Named):
    """One kind of export.

    Args:
        name: Its name, which sessions carry as their client.
        versions: Versions in tests; "schema…": built from documentation alone.
        needs: Names of fields by which it is recognised.
        read: The requests of a row; none for rows that are no requests.
    """

    def __init__(
        self, name: str, versions: str, needs: tuple[str, ...], read: Callable[[Row], Iterator[Found]]
    ) -> None:
        self.name: Final = name
        self.versions: Final = versions
        self.needs: Final = frozenset(needs)
        self._read = read

    def read(self, log: Log) -> Iterator[Session]:
        """Yield the sessions of an export. All its requests are in memory meanwhile, without texts."""
        lines = Lines()
        groups: dict[tuple[str, str], list[Request]] = {}
        left_out = number = 0
        for file in log.files:
            for row in rows(file, lines):
                found = list(self._read(row))
                left_out += not found
                for each in found:
                    number += 1
                    request = each.request
                    if not request.id:
                        request = msgspec.structs.replace(request, id=f"{file}:{number}")
                    groups.setdefault((each.session, each.project), []).append(request)
        notes = [*lines.notes]
        if left_out:
            notes.append(f"{log.files[0]}: {left_out:,} rows are no answered request to a language model")
        for (session, project), requests in groups.items():
            requests.sort(key=lambda each: each.at)
            for id_, some in [(session, requests)] if session else _by_pause(project, requests):
                yield Session(
                    id=id_,
                    client=self.name,
                    project=project,
                    files=tuple(map(str, log.files)),
                    requests=tuple(some),
                    notes=tuple(notes),
                )
                notes = []


def _by_pause(project: str, requests: list[Request]) -> Iterator[tuple[str, list[Request]]]:
    some: list[Request] = []
    for request in requests:
        if some and request.at - some[-1].at > _PAUSE:
            yield f"{project or 'requests'}@{some[0].id}", some
            some = []
        some.append(request)
    if some:
        yield f"{project or 'requests'}@{some[0].id}", some


def _usage(whole: int, cached: int, written: int, output: int, *, known: bool | None = None) -> Usage:
    """Usage of one request; by default its counts are known where there are any."""
    known = bool(whole or output) if known is None else known
    certainty = Certainty.LOGGED if known else Certainty.UNKNOWN
    return Usage(
        input_tokens=whole,
        cached_tokens=min(cached, whole),
        written_tokens=min(written, max(whole - cached, 0)),
        output_tokens=output,
        output_at_most=output,
        input_certainty=certainty,
        output_certainty=certainty,
    )


def _time(row: Row, *names: str) -> float:
    """A time in a field. Services write UTC, some of them without saying so."""
    return seconds(text(row, *names), UTC) or seconds(number(row, *names))


def _request(
    *, id_: str, at: float, model: str, provider: str, usage: Usage, cost: float | None = None
) -> Request:
    return Request(
        id=id_,
        at=at,
        model=model,
        provider=provider.lower(),
        usage=usage,
        cost=cost,
        purpose=Purpose.MESSAGE,
    )


#: Calls of LiteLLM that ask a language model.
_LITELLM_CALLS: Final = ("completion", "responses", "anthropic_messages", "generate_content")
#: Calls about an earlier answer: no model is asked, though their rows have its tokens and a cost.
_LITELLM_OTHERS: Final = ("get_responses", "delete_responses", "cancel_responses")
_DETAILS: Final = "metadata/usage_object"


def _litellm(row: Row) -> Iterator[Found]:
    call, status = text(row, "call_type"), text(row, "status")
    own_cache = text(row, "cache_hit").lower() == "true"  # LiteLLM answered without asking a model
    asks = any(name in call for name in _LITELLM_CALLS) and not any(name in call for name in _LITELLM_OTHERS)
    if not asks or status == "failure" or own_cache:
        return
    cached = count(
        row,
        f"{_DETAILS}/cache_read_input_tokens",
        f"{_DETAILS}/prompt_tokens_details/cached_tokens",
        "metadata/additional_usage_values/cache_read_input_tokens",
    )
    written = count(
        row,
        f"{_DETAILS}/cache_creation_input_tokens",
        "metadata/additional_usage_values/cache_creation_input_tokens",
    )
    usage = _usage(
        count(row, "prompt_tokens"),
        cached,
        written,
        count(row, "completion_tokens"),
    )
    request = _request(
        id_=text(row, "request_id"),
        at=_time(row, "endTime", "startTime"),
        model=text(row, "model").rpartition("/")[2],
        provider=text(row, "custom_llm_provider"),
        usage=usage,
        cost=number(row, "spend"),
    )
    project = text(
        row, "metadata/user_api_key_team_alias", "team_id", "metadata/user_api_key_alias", "end_user", "user"
    )
    yield Found(text(row, "session_id"), project, request)


def _openrouter(row: Row) -> Iterator[Found]:
    # "openai/gpt-5:free" by provider OpenAI: what it charged is in the row.
    model = text(row, "model_permaslug", "model").rpartition("/")[2]
    usage = _usage(
        count(row, "tokens_prompt"),
        count(row, "tokens_cached"),
        0,
        count(row, "tokens_completion"),
    )
    costs = [number(row, *names) for names in (("cost_total", "total_cost"), ("byok_usage_inference",))]
    known = [each for each in costs if each is not None]
    request = _request(
        id_=text(row, "generation_id", "id"),
        at=_time(row, "created_at"),
        model=model,
        provider=text(row, "provider_name"),
        usage=usage,
        cost=sum(known) if known else None,
    )
    yield Found("", text(row, "app_name", "api_key_name", "user"), request)


def _langfuse(row: Row) -> Iterator[Found]:
    if text(row, "type").upper() != "GENERATION":
        return
    whole, cached, written, output = _langfuse_counts(row)
    request = _request(
        id_=text(row, "id"),
        at=_time(row, "end_time", "start_time"),
        model=text(row, "provided_model_name", "model", "model_name"),
        provider="",
        usage=_usage(whole, cached, written, output),
        cost=number(row, "total_cost", "calculated_total_cost", "cost_details/total"),
    )
    yield Found(text(row, "session_id", "trace_id"), text(row, "trace_name", "environment"), request)


def _langfuse_counts(row: Row) -> tuple[int, int, int, int]:
    """Input, of it read from a cache and written to it, and output.

    Usage types are free text and apart from each other: those with "input" in their names are parts of the
    input, those with "output" of the output.
    """
    details = nested(_get(row, "usage_details"))
    if not details:
        output = count(row, "usage/output", "output_usage", "completion_tokens")
        return count(row, "usage/input", "input_usage", "prompt_tokens"), 0, 0, output
    parts = {name.lower(): count(details, name) for name in details if "total" not in name.lower()}
    into = {name: tokens for name, tokens in parts.items() if "input" in name}
    cached = sum(tokens for name, tokens in into.items() if "cached" in name or "cache_read" in name)
    written = sum(
        tokens for name, tokens in into.items() if "cache_creation" in name or "cache_write" in name
    )
    output = sum(tokens for name, tokens in parts.items() if "output" in name)
    return sum(into.values()), cached, written, output


def _helicone(row: Row) -> Iterator[Found]:
    if (number(row, "response_status", "status") or 200) >= 400:
        return
    cached = count(row, "prompt_cache_read_tokens")
    written = count(row, "prompt_cache_write_tokens")
    plain = count(row, "prompt_tokens")
    provider = text(row, "provider")
    # Anthropic counts cached tokens apart, OpenAI as part of the prompt.
    whole = plain + cached + written if provider.upper() == "ANTHROPIC" or plain < cached else plain
    request = _request(
        id_=text(row, "request_id"),
        at=_time(row, "response_created_at", "request_created_at"),
        model=text(row, "response_model", "request_model", "model_override", "model"),
        provider=provider,
        usage=_usage(whole, cached, written, count(row, "completion_tokens")),
        cost=number(row, "cost_usd", "costUSD", "cost"),
    )
    project = text(row, "request_properties/App", "request_user_id", "helicone_user")
    yield Found(text(row, "request_properties/Helicone-Session-Id"), project, request)


# OpenTelemetry spans in OTLP JSON, as the collector's file exporter writes them. Source of the names:
# semantic conventions for generative AI, and OpenInference.

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
_PROVIDERS: Final = {"gcp.gemini": "google", "gemini": "google", "mistral_ai": "mistral"}
_SESSION: Final = ("gen_ai.conversation.id", "session.id", "langfuse.session.id")
#: Before the conventions said that input includes cached tokens, instrumentations of Anthropic left them out.
_EXCLUSIVE: Final = ("gen_ai.usage.cache_read_input_tokens", "gen_ai.usage.cache_creation_input_tokens")


def _otel(row: Row) -> Iterator[Found]:
    """Yield the request of every span that asked a model."""
    for resource in _list(row, "resourceSpans"):
        service = str(_attributes(nested(resource.get("resource"))).get("service.name", ""))
        for scope in _list(resource, "scopeSpans"):
            for span in _list(scope, "spans"):
                attributes = _attributes(span)
                if _asks_model(attributes) and not _failed(span):
                    session = _first(attributes, _SESSION) or span.get("traceId", "")
                    yield Found(str(session), service, _span_request(span, attributes))


def _list(value: Row, name: str) -> list[dict[str, Any]]:
    found = value.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _attributes(of: Row) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in _list(of, "attributes"):
        value = each.get("value")
        if isinstance(value, dict) and value:
            found[str(each.get("key"))] = next(iter(value.values()))
    return found


def _first(attributes: Row, names: tuple[str, ...]) -> Any:
    return next((attributes[name] for name in names if attributes.get(name) not in (None, "")), None)


def _asks_model(attributes: Row) -> bool:
    operation = attributes.get("gen_ai.operation.name") or attributes.get("llm.request.type")
    if operation is not None:
        return str(operation) in _OPERATIONS
    kind = attributes.get("openinference.span.kind")
    if kind is not None:  # agents and chains may have the sums of the spans within
        return str(kind) == "LLM"
    return _first(attributes, _INPUT) is not None and _first(attributes, _MODEL) is not None


def _failed(span: Row) -> bool:
    status = span.get("status")
    return isinstance(status, dict) and status.get("code") in (2, "STATUS_CODE_ERROR")


def _span_request(span: Row, attributes: Row) -> Request:
    provider = str(_first(attributes, _PROVIDER) or "").lower()
    plain, read, written, output = (
        int(_number(_first(attributes, names)) or 0) for names in (_INPUT, _READ, _WRITTEN, _OUTPUT)
    )
    apart = provider == "anthropic" and any(name in attributes for name in _EXCLUSIVE)
    whole = plain + read + written if apart or plain < read + written else plain
    return _request(
        id_=_span_id(span, attributes, output),
        at=(number(span, "endTimeUnixNano", "startTimeUnixNano") or 0.0) / 1e9,
        model=str(_first(attributes, _MODEL) or ""),
        provider=_PROVIDERS.get(provider, provider),
        usage=_usage(whole, read, written, output, known=_first(attributes, _OUTPUT) is not None),
    )


def _span_id(span: Row, attributes: Row, output: int) -> str:
    """The answer's id, which spans of several layers share. Local servers give short ones again."""
    id_ = attributes.get("gen_ai.response.id")
    return f"{id_}:{output}" if id_ else str(span.get("spanId", ""))


def exports() -> tuple[Export, ...]:
    """All kinds, the most particular first."""
    return (
        Export("litellm", "1.106.2", ("calltype", "prompttokens", "spend", "requestid"), _litellm),
        Export(
            "openrouter",
            "schema of October 2026",
            ("generationid", "tokensprompt", "modelpermaslug"),
            _openrouter,
        ),
        Export("langfuse", "schema of October 2026", ("traceid", "type", "starttime", "id"), _langfuse),
        Export(
            "helicone", "schema of October 2026", ("requestid", "requestcreatedat", "prompttokens"), _helicone
        ),
        Export("opentelemetry", "OTLP JSON; semantic conventions 1.27 to 1.38", ("resourcespans",), _otel),
    )


def kind_of(file: Path) -> Export:
    """Recognise an export by its first row.

    Raises:
        PointsmanError: it is of no known kind; names the fields of each kind, and those found.
    """
    first = next(iter(rows(file, Lines())), None)
    if first is None:
        raise PointsmanError(f"{file} has no rows", hint="an export as CSV, JSON or JSON lines is expected")
    have = fields(first)
    for kind in exports():
        if kind.needs <= have:
            return kind
    if {"version", "row"} <= have:
        raise PointsmanError(
            f"{file} is a copy of a ledger",
            hint=f"pointsman ledger copy {file} FILE.sqlite makes one that is read",
        )
    if {"date", "requests"} <= have:
        raise PointsmanError(
            f"{file} has sums of days, not requests", hint="export the single requests instead"
        )
    expected = "; ".join(f"{kind.name}: {', '.join(sorted(kind.needs))}" for kind in exports())
    seen = ", ".join(sorted(map(str, first))[:12])
    raise PointsmanError(f"{file} is no export that is known: it has {seen}", hint=f"expected are {expected}")

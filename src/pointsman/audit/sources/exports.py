"""Exports of gateways and observability services, recognised by the names of their fields."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from pointsman.audit.session import Certainty, Request, Session, Usage
from pointsman.audit.sources.base import Home, Lines, Log, seconds
from pointsman.audit.sources.otel import span_requests
from pointsman.errors import PointsmanError
from pointsman.vocabulary import Purpose

__all__ = [
    "Export",
    "Found",
    "Row",
    "count",
    "exports",
    "fields",
    "kind_of",
    "nested",
    "number",
    "rows",
    "text",
]


# Rows of an export, read by the names of fields: CSV, a JSON document, or JSON lines.

Row: TypeAlias = Mapping[str, Any]

#: Under these names services put their rows into one JSON document.
_LISTS: Final = ("data", "observations", "results", "requests", "logs")
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
#: Bytes of a JSON document that is read at once; JSON lines and CSV are read line by line.
_LARGEST: Final = 1_000_000_000


def rows(file: Path, lines: Lines) -> Iterator[Row]:
    """Yield the rows of an export.

    Raises:
        PointsmanError: the file cannot be read, or is too large to be read at once.
    """
    try:
        with file.open("rb") as opened:
            begin = opened.read(4_096).lstrip(b"\xef\xbb\xbf \r\n\t")
        if begin.startswith(b"[") or (begin.startswith(b"{") and not _is_lines(file)):
            yield from _document(file)
        elif begin.startswith(b"{"):
            yield from lines.read(file, _decode)
        else:
            with file.open(encoding="utf-8-sig", errors="replace", newline="") as opened_text:
                yield from csv.DictReader(opened_text)
    except (OSError, csv.Error) as error:
        raise PointsmanError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from error


def _is_lines(file: Path) -> bool:
    """Whether the first line is a complete document."""
    with file.open("rb") as opened:
        first = opened.readline(_LARGEST)
    try:
        msgspec.json.decode(first)
    except msgspec.DecodeError:
        return False
    return b'"resourceSpans"' in first or not any(f'"{name}":['.encode() in first for name in _LISTS)


def _document(file: Path) -> Iterator[Row]:
    if file.stat().st_size > _LARGEST:
        raise PointsmanError(
            f"{file} is one JSON document of {file.stat().st_size:,} bytes", hint="export JSON lines or CSV"
        )
    try:
        value = msgspec.json.decode(file.read_bytes())
    except msgspec.DecodeError as error:
        raise PointsmanError(f"{file}: not JSON: {error}") from error
    if isinstance(value, dict):
        value = next((value[name] for name in _LISTS if isinstance(value.get(name), list)), [value])
    yield from (each for each in value if isinstance(each, dict))


def fields(row: Row) -> frozenset[str]:
    """Names of the fields of a row, without capitals, spaces and underscores."""
    return frozenset(map(_plain, row))


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
        except ValueError:
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
    for name in names:
        value = _get(row, name)
        if isinstance(value, bool) or value in (None, ""):
            continue
        try:
            return float(value)
        except (TypeError, ValueError):
            continue
    return None


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


class Export:
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

    def places(self, home: Home) -> tuple[Path, ...]:
        """Nowhere: an export is named on the command line."""
        del home
        return ()

    def find(self, home: Home) -> Iterator[Log]:
        """Nothing lies in a home directory."""
        del home
        yield from ()

    def read(self, log: Log) -> Iterator[Session]:
        """Yield the sessions of an export. All its requests are in memory meanwhile, without texts."""
        lines = Lines()
        groups: dict[tuple[str, str], list[Request]] = {}
        left_out = 0
        for file in log.files:
            for row in rows(file, lines):
                found = list(self._read(row))
                left_out += not found
                for each in found:
                    groups.setdefault((each.session, each.project), []).append(each.request)
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


def _request(
    *,
    id_: str,
    at: float,
    model: str,
    provider: str,
    usage: Usage,
    cost: float | None,
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


def _usage(whole: int, cached: int, written: int, output: int, reasoning: int = 0) -> Usage:
    certainty = Certainty.LOGGED if whole or output else Certainty.UNKNOWN
    return Usage(
        input_tokens=whole,
        cached_tokens=min(cached, whole),
        written_tokens=min(written, max(whole - cached, 0)),
        output_tokens=output,
        output_at_most=output,
        reasoning_tokens=reasoning,
        input_certainty=certainty,
        output_certainty=certainty,
    )


def _time(row: Row, *names: str) -> float:
    """A time in a field. Services write UTC, some of them without saying so."""
    value = text(row, *names)
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        plain = number(row, *names)
        return seconds(plain)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


#: Calls of LiteLLM that ask a language model.
_LITELLM_CALLS: Final = ("completion", "responses", "anthropic_messages", "generate_content")
_DETAILS: Final = "metadata/usage_object"


def _litellm(row: Row) -> Iterator[Found]:
    call, status = text(row, "call_type"), text(row, "status")
    own_cache = text(row, "cache_hit").lower() == "true"  # LiteLLM answered without asking a model
    if not any(name in call for name in _LITELLM_CALLS) or status == "failure" or own_cache:
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
        count(row, f"{_DETAILS}/completion_tokens_details/reasoning_tokens"),
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
        count(row, "tokens_reasoning"),
    )
    own_key = number(row, "byok_usage_inference") or 0.0
    request = _request(
        id_=text(row, "generation_id", "id"),
        at=_time(row, "created_at"),
        model=model,
        provider=text(row, "provider_name"),
        usage=usage,
        cost=(number(row, "cost_total", "total_cost") or 0.0) + own_key,
    )
    yield Found("", text(row, "app_name", "api_key_name", "user"), request)


def _langfuse(row: Row) -> Iterator[Found]:
    if text(row, "type").upper() != "GENERATION":
        return
    used = "usage_details" if text(row, "usage_details") else "usage"
    cached = count(row, f"{used}/input_cached_tokens", f"{used}/cache_read_input_tokens")
    written = count(row, f"{used}/cache_creation_input_tokens", f"{used}/input_cache_creation")
    plain = count(row, f"{used}/input", "input_usage", "prompt_tokens")
    reasoning = count(row, f"{used}/output_reasoning_tokens")
    output = count(row, f"{used}/output", "output_usage", "completion_tokens") + reasoning
    request = _request(
        id_=text(row, "id"),
        at=_time(row, "end_time", "start_time"),
        model=text(row, "provided_model_name", "model", "model_name"),
        provider="",
        usage=_usage(plain + cached + written, cached, written, output, reasoning),
        cost=number(row, "total_cost", "calculated_total_cost", "cost_details/total"),
    )
    yield Found(text(row, "session_id", "trace_id"), text(row, "trace_name", "environment"), request)


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


def _otel(row: Row) -> Iterator[Found]:
    for session, project, request in span_requests(row):
        yield Found(session, project, request)


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
    if {"date", "requests"} <= have:
        raise PointsmanError(
            f"{file} has sums of days, not requests", hint="export the single requests instead"
        )
    expected = "; ".join(f"{kind.name}: {', '.join(sorted(kind.needs))}" for kind in exports())
    seen = ", ".join(sorted(map(str, first))[:12])
    raise PointsmanError(f"{file} is no export that is known: it has {seen}", hint=f"expected are {expected}")

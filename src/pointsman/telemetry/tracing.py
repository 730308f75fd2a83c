"""Sends a span for each request to a collector, with OpenTelemetry's SDK and its OTLP exporter over HTTP.

A span is made from the ledger's entries, after the answer: no request waits for it. The sampler is
OpenTelemetry's: a caller's ``traceparent`` decides, else a ratio of the trace ids. An exporter that fails
loses the spans of its batch; they are counted, and the log reports begin and end.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import urlsplit

from pointsman.config import Config
from pointsman.config.load import provider
from pointsman.config.serving import TelemetrySpec
from pointsman.decision.decision import Decision
from pointsman.errors import ConfigError, MissingExtra
from pointsman.printable import printable
from pointsman.stores.ledger.port import Attempt
from pointsman.telemetry.request_record import RequestRecord, ServedRequest, request_record
from pointsman.wire.project import traceparent_of

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

__all__ = ["Tracing", "is_configured", "open_tracing"]


# The attributes, events and error of a request's span, as plain values.

#: Those of OpenTelemetry follow its semantic conventions in this version.
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"
CHAT: Final = "chat"  # the operation, for all three formats
#: The event of a try that did not answer.
ATTEMPT: Final = "pointsman.attempt"
#: Every name of an attribute that a span may have. The GenAI conventions are in development and move: a test
#: compares the names with the package ``opentelemetry-semantic-conventions``.
NAMES: Final = {
    "operation": "gen_ai.operation.name",
    "provider": "gen_ai.provider.name",
    "request_model": "gen_ai.request.model",
    "response_model": "gen_ai.response.model",
    "session": "gen_ai.conversation.id",
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "written_tokens": "gen_ai.usage.cache_creation.input_tokens",
    "first_chunk": "gen_ai.response.time_to_first_chunk",  # seconds
    "error_type": "error.type",
    "method": "http.request.method",
    "status": "http.response.status_code",
    "path": "url.path",
    "decision": "pointsman.decision.id",
    "policy": "pointsman.policy",
    "format": "pointsman.format",
    "tier": "pointsman.tier",
    "stage": "pointsman.stage",
    "role": "pointsman.role",
    "domain": "pointsman.domain",
    "guidance": "pointsman.guidance.classifiers",
    "guidance_arm": "pointsman.guidance.arm",
    "added": "pointsman.added",
    "reasons": "pointsman.reasons",
    "model": "pointsman.model",  # configured name
    "upstream": "pointsman.upstream",
    "caller": "pointsman.caller",
    "attempts": "pointsman.attempts",
    "cost": "pointsman.cost",
}

Value: TypeAlias = str | int | float | tuple[str, ...]

#: Characters of a value that a caller chose, and reasons that are told.
_SHOWN: Final = 200
_MOST_REASONS: Final = 32
_FAILED: Final = 500


def span_name(ended: ServedRequest) -> str:
    """Return the name of the span: the operation and the model, or the method without a decision."""
    if ended.decision is None:
        return printable(ended.method[:_SHOWN])
    return f"{CHAT} {ended.decision.input.model_asked[:_SHOWN]}"


def attributes(
    ended: ServedRequest, record: RequestRecord, providers: Mapping[str, str], ids: Mapping[str, str]
) -> dict[str, Value]:
    """Return the attributes of the span.

    Args:
        ended: The request.
        record: Its fields.
        providers: Of each upstream, by its name.
        ids: Upstream id of a model, by its configured name.
    """
    found: dict[str, Value | None] = {
        "method": record.method,
        "path": record.path,
        "status": record.status or None,
        "caller": record.caller,
        "attempts": record.attempts,
        "error_type": error_of(ended),
        "first_chunk": None if ended.first_byte is None else round(ended.first_byte, 6),
    }
    if ended.decision is not None:
        found |= _decided(ended.decision)
        found |= _answered(record, providers, ids)
    return {NAMES[name]: value for name, value in found.items() if value is not None}


def _decided(decision: Decision) -> dict[str, Value | None]:
    asked, tier, guidance, domains = decision.input, decision.tier, decision.guidance, decision.domains
    firings = guidance.firings if guidance else ()
    return {
        "operation": CHAT,
        "request_model": asked.model_asked[:_SHOWN],
        "session": asked.session[:_SHOWN] or None,
        "decision": decision.id,
        "policy": decision.policy,
        "format": str(asked.format),
        "role": str(asked.role) if asked.role else None,
        "tier": str(tier.tier) if tier else None,
        "stage": str(tier.stage) if tier else None,
        "domain": (domains.effective.primary.domain or None) if domains else None,
        "guidance": tuple(firing.classifier for firing in firings) or None,
        "guidance_arm": str(guidance.arm) if guidance and firings else None,
        "reasons": tuple(reason.code for reason in decision.reasons[:_MOST_REASONS]) or None,
    }


def _answered(
    record: RequestRecord, providers: Mapping[str, str], ids: Mapping[str, str]
) -> dict[str, Value | None]:
    upstream, used = record.upstream, record.spent
    return {
        "provider": (providers.get(upstream) or upstream) if upstream else None,
        "upstream": upstream,
        "model": record.model,
        "response_model": ids.get(record.model, record.model) if upstream else None,
        "input_tokens": used.input,
        "cached_tokens": used.cached,
        "written_tokens": used.written,
        "output_tokens": used.output,
        "cost": used.cost,
        "added": record.added or None,
    }


def error_of(ended: ServedRequest) -> str | None:
    """Return the class of failure; None without one, or the request itself was wrong (4xx)."""
    last = ended.attempts[-1].error if ended.attempts else ""
    if ended.status >= _FAILED:
        return last or str(ended.status)
    return last or None if ended.status and ended.status // 100 == 2 else None  # a stream that broke off


def failed_attempts(ended: ServedRequest) -> Iterator[tuple[float, dict[str, Value]]]:
    """Yield each try that did not answer: when it began, in seconds since the epoch, and its attributes."""
    for attempt in ended.attempts:
        if attempt.error or attempt.status // 100 != 2:
            yield attempt.started_at, _tried(attempt)


def _tried(attempt: Attempt) -> dict[str, Value]:
    found: dict[str, Value] = {
        NAMES["model"]: attempt.model,
        NAMES["upstream"]: attempt.upstream,
        NAMES["error_type"]: attempt.error or str(attempt.status),
    }
    return found | ({NAMES["status"]: attempt.status} if attempt.status else {})


log = logging.getLogger(__name__)

_NAME: Final = "pointsman"
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HTTP: Final = "http/protobuf"
_PATH: Final = "/v1/traces"
#: Its lines repeat with every batch; what they say is said once here.
_EXPORTERS_LOG: Final = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
#: Characters of an attribute, and attributes and events of a span.
_LONGEST: Final = 500
_MOST: Final = 64

#: Is told which trace a request is recorded in, by its id in hexadecimal.
Recorded = Callable[[ServedRequest, str], None]


def is_configured(spec: TelemetrySpec, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether spans are sent: an endpoint is set, here or by a variable, and the SDK is not off."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    return bool(spec.endpoint or any(environ.get(name, "").strip() for name in _ENDPOINTS))


def open_tracing(config: Config, recorded: Recorded, environ: Mapping[str, str] = os.environ) -> Tracing:
    """Return what sends spans.

    Args:
        config: Models, upstreams and ``[telemetry]``.
        recorded: Called for each request with a sent span.
        environ: The variables of OpenTelemetry.

    Raises:
        MissingExtra: the extra ``otel`` is not installed.
        ConfigError: a setting cannot be used.
    """
    spec = config.telemetry
    protocol = next((found for name in _PROTOCOLS if (found := environ.get(name, "").strip())), _HTTP)
    if protocol != _HTTP:
        raise ConfigError(
            f'traces are sent by "{_HTTP}" alone, not by "{protocol}"', hint=f"set {_PROTOCOLS[1]}={_HTTP}"
        )
    try:
        return Tracing(config, _exporter(spec), _provider(spec, environ), recorded)
    except ImportError as error:
        raise MissingExtra("otel", needed_for="sending traces") from error
    except ValueError as error:  # of a variable that the SDK reads
        raise ConfigError(f"traces cannot be sent: {error}") from error


def _exporter(spec: TelemetrySpec) -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    logging.getLogger(_EXPORTERS_LOG).setLevel(logging.CRITICAL)
    endpoint = spec.endpoint.rstrip("/") if spec.endpoint else None
    if endpoint and not urlsplit(endpoint).path.endswith(_PATH):
        endpoint += _PATH
    headers = {name: value.reveal() for name, value in spec.headers.items()} or None
    return OTLPSpanExporter(endpoint=endpoint, headers=headers, timeout=spec.timeout)


def _provider(spec: TelemetrySpec, environ: Mapping[str, str]) -> TracerProvider:
    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    name = spec.service_name or environ.get("OTEL_SERVICE_NAME") or _NAME
    return TracerProvider(
        sampler=None if spec.ratio is None else ParentBased(TraceIdRatioBased(spec.ratio)),
        resource=Resource.create({SERVICE_NAME: name, SERVICE_VERSION: version(_NAME)}),
        shutdown_on_exit=False,
        span_limits=SpanLimits(
            max_span_attributes=_MOST, max_events=_MOST, max_span_attribute_length=_LONGEST
        ),
    )


class Tracing:
    """Makes spans of requests and sends them. Used by one thread alone, but for ``close`` and the counts."""

    def __init__(
        self, config: Config, exporter: SpanExporter, provider_: TracerProvider, recorded: Recorded
    ) -> None:
        """Take the models, the destination of spans, and the listener."""
        from opentelemetry.sdk.trace import SpanProcessor

        made: list[ReadableSpan] = []

        class Collect(SpanProcessor):
            def on_end(self, span: ReadableSpan) -> None:
                made.append(span)

        provider_.add_span_processor(Collect())
        self.sent = self.lost = 0  # spans
        self.fault = ""  # why the last batch was lost; empty after one that was sent
        self._made = made
        self._told: set[type[Exception]] = set()
        self._exporter = exporter
        self._tracer = provider_.get_tracer(_NAME, version(_NAME), schema_url=SCHEMA_URL)
        self._recorded = recorded
        self._models = config.models
        self._ids = {name: model.id for name, model in config.models.items()}
        self._providers = {name: provider(spec) or name for name, spec in config.upstreams.items()}

    def write(self, batch: Sequence[ServedRequest], left_out: int = 0) -> None:
        """Send the spans of some requests; waits for the collector."""
        del left_out  # ``counts`` reads it where it is counted
        traces = [self._span(ended) for ended in batch]
        made = self._made[:]
        self._made.clear()
        if made and self._export(made):
            for ended, trace in zip(batch, traces, strict=True):
                if trace:
                    self._recorded(ended, trace)

    def close(self) -> None:
        """End a batch that waits for the collector."""
        self._exporter.shutdown()

    def _span(self, ended: ServedRequest) -> str:
        """Make the span of a request; return the id of its trace, empty if it is not recorded."""
        try:
            return self._make(ended)
        except Exception as error:
            # One request whose span cannot be made costs no other its span; counted as lost.
            self.lost += 1
            if type(error) not in self._told:
                self._told.add(type(error))
                log.exception("a span cannot be made; not logged again")
            return ""

    def _make(self, ended: ServedRequest) -> str:
        from opentelemetry.trace import SpanKind, Status, StatusCode, format_trace_id

        end = int(ended.ended_at * 1e9)
        span = self._tracer.start_span(
            span_name(ended),
            _parent(ended.traceparent),
            SpanKind.SERVER,
            start_time=end - int(ended.total * 1e9),
        )
        if not span.is_recording():
            return ""
        record = request_record(ended, self._models)
        span.set_attributes(attributes(ended, record, self._providers, self._ids))
        for at, tried in failed_attempts(ended):
            span.add_event(ATTEMPT, tried, int(at * 1e9))
        if error_of(ended) is not None:
            span.set_status(Status(StatusCode.ERROR))
        span.end(end)
        return format_trace_id(span.get_span_context().trace_id)

    def _export(self, made: Sequence[ReadableSpan]) -> bool:
        from opentelemetry.sdk.trace.export import SpanExportResult

        try:
            is_sent = self._exporter.export(made) is SpanExportResult.SUCCESS
        except Exception as error:  # noqa: BLE001 - whatever an exporter raises: its batch is lost and counted
            is_sent, fault = False, f"{type(error).__name__}: {error}"
        else:
            fault = "the collector cannot be reached, or refused them"
        if is_sent:
            self.sent += len(made)
            if self.fault:
                log.warning("spans are sent again; lost meanwhile: %d", self.lost)
            self.fault = ""
            return True
        self.lost += len(made)
        if not self.fault:
            log.warning("spans are lost and counted: %s; requests are served as before", fault)
        self.fault = fault
        return False


def _parent(traceparent: str) -> Context:
    """Return the context of the caller's span; an empty one otherwise."""
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    found = traceparent_of(traceparent)
    if found is None:
        return Context()
    flags = TraceFlags(TraceFlags.SAMPLED if found.is_sampled else TraceFlags.DEFAULT)
    caller = SpanContext(int(found.trace_id, 16), int(found.span_id, 16), is_remote=True, trace_flags=flags)
    return set_span_in_context(NonRecordingSpan(caller), Context())

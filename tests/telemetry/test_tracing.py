"""Spans of requests, received and decoded by a collector of the test."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pointsman import ConfigError, MissingExtra
from pointsman.cli._listening import LogFormat
from pointsman.cli._served import told_requests
from pointsman.config import Config
from pointsman.config.serving import TelemetrySpec
from pointsman.config.shapes import demo_config
from pointsman.gateway import request_feed
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from pointsman.gateway.request_log import RequestLog
from pointsman.stores.ledger import Attempt
from pointsman.telemetry.tracing import ATTEMPT, CHAT, NAMES, SCHEMA_URL, is_configured, open_tracing
from pointsman.upstreams.port import Template
from support.in_process import ask
from support.otlp_receiver import Collector, values

pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter", exc_type=ImportError)

pytestmark = pytest.mark.integration

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
WORDS = "Where does the grey heron sleep?"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_SAMPLER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(request_feed, "_PATIENCE", 60.0)  # what waits is sent on any machine
    name = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    level = logging.getLogger(name).level
    yield
    logging.getLogger(name).setLevel(level)


class Traced:
    """A gateway of the demo with spans; ``told`` ends when everything is sent."""

    def __init__(self, folder: Path, spec: TelemetrySpec) -> None:
        def config() -> Config:
            found = demo_config()
            ledger = msgspec.structs.replace(found.ledger, path=folder / "demo.sqlite")
            return msgspec.structs.replace(found, ledger=ledger, telemetry=spec)

        self._builder = Builder(config)
        self.gateway = Gateway(self._builder())

    def ask(self, *requests: tuple[str, Any, dict[str, str]]) -> str:
        """Send requests, and return the metrics page when all spans are sent or lost."""
        with closing(self._builder), ExitStack() as told:
            tell = told.enter_context(
                told_requests(
                    self._builder,
                    self.gateway.metrics,
                    requests=False,
                    log_format=LogFormat.TEXT,
                    demo=False,
                )
            )
            application: Any = RequestLog(self.gateway, tell) if tell else self.gateway

            async def send() -> None:
                for path, body, headers in requests:
                    await ask(application, path, body, headers)

            asyncio.run(send())
        return self.gateway.metrics.page_for("application/openmetrics-text")[0].decode()


def chat(model: str = "auto", text: str = WORDS) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}]}


PATH = "/v1/chat/completions"


def test_a_request_is_a_span_below_its_callers(tmp_path: Path) -> None:
    with Collector() as collector:
        headers = {"authorization": Template("Bearer very-secret", reference="Bearer ${KEY}")}
        spec = TelemetrySpec(endpoint=collector.url, service_name="router", headers=headers)
        sent = {"x-session-id": "s-1", "traceparent": f"00-{TRACE}-{SPAN}-01"}
        page = Traced(tmp_path, spec).ask((PATH, chat(), sent))
    (span,) = collector.spans
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, SPAN)
    assert (span.name, span.kind, span.status.code) == ("chat auto", 2, 0)  # SERVER
    assert 0 < span.end_time_unix_nano - span.start_time_unix_nano < 60e9
    found = values(span.attributes)
    assert found.pop("pointsman.decision.id").startswith("d-")
    assert found.pop("gen_ai.response.time_to_first_chunk") > 0
    assert found.pop("gen_ai.usage.input_tokens") > 0
    assert found.pop("gen_ai.usage.output_tokens") > 0
    assert found.pop("pointsman.cost") > 0
    assert len(found.pop("pointsman.policy")) > 8
    assert found.pop("gen_ai.usage.cache_read.input_tokens") == 0
    assert found.pop("gen_ai.usage.cache_creation.input_tokens") == 0
    assert found == {
        "http.request.method": "POST",
        "url.path": PATH,
        "http.response.status_code": 200,
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "demo",
        "gen_ai.request.model": "auto",
        "gen_ai.response.model": "demo-small",
        "gen_ai.conversation.id": "s-1",
        "pointsman.format": "chat",
        "pointsman.tier": "MEDIUM",
        "pointsman.stage": "rules",
        "pointsman.domain": "conversation",
        "pointsman.model": "demo-small",
        "pointsman.upstream": "demo",
        "pointsman.attempts": 1,
    }
    (resource,) = collector.exports[0].resource_spans
    assert values(resource.resource.attributes)["service.name"] == "router"
    assert resource.scope_spans[0].schema_url == SCHEMA_URL
    assert collector.paths == ["/v1/traces"]
    assert collector.headers[0]["authorization"] == "Bearer very-secret"
    assert 'pointsman_spans_total{result="sent"} 1.0' in page
    assert f'# {{trace_id="{TRACE}"}}' in page
    assert "heron" not in str(collector.exports)


def test_refusals_and_failures_are_spans_too(tmp_path: Path) -> None:
    with Collector() as collector:
        traced = Traced(tmp_path, TelemetrySpec(endpoint=collector.url))
        parent = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
        traced.ask((PATH, chat("gtp"), parent), (PATH, b"{", {}))
    unknown, malformed = collector.spans
    assert (unknown.name, unknown.trace_id.hex()) == ("POST", TRACE)
    assert values(unknown.attributes)["http.response.status_code"] == 404
    assert unknown.status.code == 0  # the caller's fault is no error of a server (HTTP conventions)
    assert not malformed.parent_span_id
    assert values(malformed.attributes)["http.response.status_code"] == 400


@pytest.mark.parametrize(
    ("ratio", "flags", "expected"),
    [(0.0, "", 0), (1.0, "", 1), (0.0, "01", 1), (1.0, "00", 0), (None, "", 1), (None, "00", 0)],
)
def test_the_caller_decides_and_else_the_ratio(
    tmp_path: Path, ratio: float | None, flags: str, expected: int
) -> None:
    headers = {"traceparent": f"00-{TRACE}-{SPAN}-{flags}"} if flags else {}
    with Collector() as collector:
        page = Traced(tmp_path, TelemetrySpec(endpoint=collector.url, ratio=ratio)).ask(
            (PATH, chat(), headers)
        )
    assert len(collector.spans) == expected
    assert [f'trace_id="{span.trace_id.hex()}"' in page for span in collector.spans] == [True] * expected
    assert f'pointsman_spans_total{{result="sent"}} {expected}.0' in page


def test_about_a_share_of_all_is_recorded(tmp_path: Path) -> None:
    with Collector() as collector:
        traced = Traced(tmp_path, TelemetrySpec(endpoint=collector.url, ratio=0.5))
        traced.ask(*[(PATH, chat(), {})] * 64)
    assert 8 < len(collector.spans) < 56  # beyond once in 10^10 runs


@pytest.mark.parametrize("status", [400, 500])
def test_a_collector_that_refuses_loses_spans_and_no_request(
    tmp_path: Path, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with Collector(status) as collector:
        traced = Traced(tmp_path, TelemetrySpec(endpoint=collector.url, timeout=1))
        page = traced.ask(*[(PATH, chat(), {})] * 3)
    assert 'pointsman_spans_total{result="lost"} 3.0' in page
    assert "trace_id" not in page
    assert 'pointsman_requests_total{format="chat",status="2xx"} 3.0' in page
    said = [record for record in caplog.records if record.name.startswith(("pointsman.tel", "opentel"))]
    assert [record.getMessage().partition(":")[0] for record in said] == ["spans are lost and counted"]


def test_an_outage_is_said_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    with Collector(400) as collector:
        config = msgspec.structs.replace(demo_config(), telemetry=TelemetrySpec(endpoint=collector.url))
        told: list[str] = []
        tracing = open_tracing(config, lambda _, trace: told.append(trace), {})
        for _ in range(3):
            tracing.write([ended()])
        collector.status = 200
        tracing.write([ended()])
        tracing.write([ended()])
        tracing.close()
    assert (tracing.sent, tracing.lost, len(told)) == (2, 3, 2)
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("pointsman.tel")]
    assert [line.partition(":")[0].partition(";")[0] for line in lines] == [
        "spans are lost and counted",
        "spans are sent again",
    ]


def test_a_request_without_a_span_costs_no_other_its_span(caplog: pytest.LogCaptureFixture) -> None:
    with Collector() as collector:
        config = msgspec.structs.replace(demo_config(), telemetry=TelemetrySpec(endpoint=collector.url))
        tracing = open_tracing(config, lambda *_: None, {})
        tracing.write([object(), ended(), object()])  # type: ignore[list-item]
        tracing.close()
    assert (len(collector.spans), tracing.sent, tracing.lost) == (1, 1, 2)
    assert [record.getMessage() for record in caplog.records] == ["a span cannot be made; not logged again"]


def test_tries_that_failed_are_events() -> None:
    first = attempt(1, "large", 503, "status")
    with Collector() as collector:
        config = msgspec.structs.replace(demo_config(), telemetry=TelemetrySpec(endpoint=collector.url))
        tracing = open_tracing(config, lambda *_: None, {})
        tracing.write([ended(200, first, attempt(2, "small", 200)), ended(503, first)])
        tracing.close()
    recovered, failed = collector.spans
    (event,) = recovered.events
    assert event.name == "pointsman.attempt"
    assert values(event.attributes) == {
        "pointsman.model": "large",
        "pointsman.upstream": "main",
        "error.type": "status",
        "http.response.status_code": 503,
    }
    assert recovered.status.code == 0
    assert failed.status.code == 2
    assert values(failed.attributes)["error.type"] == "status"


def attempt(number: int, model: str, status: int, error: str = "") -> Attempt:
    return Attempt(
        decision="d-1",
        number=number,
        model=model,
        upstream="main",
        status=status,
        error=error,
        started_at=1_700_000_000.0,
        total_ms=5.0,
    )


def ended(status: int = 200, *attempts: Attempt) -> Any:
    from pointsman.gateway.request_log import ServedRequest

    served = ServedRequest("POST", PATH.encode())
    served.status, served.ended_at, served.total = status, 1_700_000_001.0, 0.5
    served.attempts.extend(attempts)
    return served


@pytest.mark.parametrize(
    ("endpoint", "environ", "expected"),
    [
        (None, {}, False),
        ("http://c:4318", {}, True),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        (None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/x"}, True),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
        ("http://c:4318", {"OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_when_it_is_on(endpoint: str | None, environ: dict[str, str], expected: bool) -> None:
    assert is_configured(TelemetrySpec(endpoint=endpoint), environ) == expected


def test_the_variables_of_opentelemetry_name_the_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=blue")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
        Traced(tmp_path, TelemetrySpec()).ask((PATH, chat(), {}))
    assert len(collector.spans) == 1
    assert collector.headers[0]["x-tenant"] == "blue"
    resource = values(collector.exports[0].resource_spans[0].resource.attributes)
    assert resource["deployment.environment.name"] == "test"
    assert resource["service.name"] == "pointsman"


def test_another_protocol_is_an_error() -> None:
    with pytest.raises(ConfigError, match='not by "grpc"'):
        open_tracing(demo_config(), lambda *_: None, {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})


def test_without_the_extra_requests_are_served_and_the_log_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(
        __import__("sys").modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None
    )
    with pytest.raises(MissingExtra, match="sending traces"):
        open_tracing(demo_config(), lambda *_: None, {})
    page = Traced(tmp_path, TelemetrySpec(endpoint="http://127.0.0.1:9")).ask((PATH, chat(), {}))
    assert 'pointsman_requests_total{format="chat",status="2xx"} 1.0' in page
    (said,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert said == (
        "sending traces needs an optional dependency; pip install 'pointsman[otel]'; no spans are sent"
    )


def test_the_names_are_those_of_the_conventions() -> None:
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
    from opentelemetry.semconv.attributes import error_attributes, http_attributes, url_attributes
    from opentelemetry.semconv.schemas import Schemas

    known = {
        value
        for module in (gen_ai_attributes, error_attributes, http_attributes, url_attributes)
        for value in vars(module).values()
        if isinstance(value, str)
    }
    ours = {ATTEMPT, *NAMES.values()}
    assert {name for name in ours if not name.startswith("pointsman.")} <= known
    assert SCHEMA_URL in {schema.value for schema in Schemas}
    assert gen_ai_attributes.GenAiOperationNameValues.CHAT.value == CHAT

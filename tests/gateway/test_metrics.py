"""The metrics page: kinds, labels, bounds, OpenMetrics with exemplars."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from pointsman import Decision, Reason
from pointsman.config import Config
from pointsman.config.shapes import demo_config
from pointsman.gateway import _metrics
from pointsman.gateway._metrics import Metrics
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from pointsman.gateway.metric_table import METRICS, PROCESS, sample_names
from pointsman.stores.ledger.turns import MOST, cost, usage
from pointsman.testing import a_decision, an_attempt
from pointsman.vocabulary import ModelSpec
from support.in_process import Received, ask

TRACE = "0af7651916cd43dd8448eb211c80319c"
OPENMETRICS = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.1"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    def config() -> Config:
        found = demo_config()
        ledger = msgspec.structs.replace(found.ledger, path=tmp_path / "demo.sqlite")
        return msgspec.structs.replace(found, ledger=ledger)

    with closing(Builder(config)) as built:
        yield Gateway(built())


def samples(page: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return samples(metrics.page())[name, tuple(sorted(labels.items()))]


async def chat(gateway: Gateway, headers: dict[str, str], text: str = "Hello!") -> Received:
    body = {"model": "auto", "messages": [{"role": "user", "content": text}]}
    return await ask(gateway, "/v1/chat/completions", body, headers)


async def page(gateway: Gateway, accept: str) -> Received:
    return await ask(gateway, "/metrics", b"", {"accept": accept}, method="GET")


def test_a_page_in_openmetrics_names_the_trace_of_a_request(gateway: Gateway) -> None:
    async def traced() -> Received:
        await chat(gateway, {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"})
        return await page(gateway, OPENMETRICS)

    shown = asyncio.run(traced())
    assert shown.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    text = shown.body.decode()
    families = {family.name: family for family in openmetrics_families(text)}  # type: ignore[no-untyped-call]
    duration = families["pointsman_request_duration_seconds"]
    named = [sample.exemplar for sample in duration.samples if sample.exemplar]
    assert [exemplar.labels for exemplar in named] == [{"trace_id": TRACE}]
    counted = [sample for sample in duration.samples if sample.value]
    assert {sample.labels["model"] for sample in counted} == {"demo-small"}
    assert {sample.labels["status"] for sample in counted} == {"2xx"}


@pytest.mark.parametrize(
    "traceparent", ["", f"00-{TRACE}-b7ad6b7169203331-00", f"00-{'0' * 32}-b7ad6b7169203331-01", "é"]
)
def test_a_trace_that_nobody_records_is_no_exemplar(gateway: Gateway, traceparent: str) -> None:
    async def untraced() -> Received:
        await chat(gateway, {"traceparent": traceparent} if traceparent else {})
        return await page(gateway, OPENMETRICS)

    assert b"trace_id" not in asyncio.run(untraced()).body


@pytest.mark.parametrize("accept", ["", "*/*", "text/plain;version=0.0.4", "application/json"])
def test_others_get_the_text_format(gateway: Gateway, accept: str) -> None:
    shown = asyncio.run(page(gateway, accept))
    assert shown.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert b"# EOF" not in shown.body


def test_what_is_shown_is_in_the_table(gateway: Gateway) -> None:
    asyncio.run(chat(gateway, {}))
    shown = {name for name, _ in samples(gateway.metrics.page())}
    assert shown - {f"pointsman_{name}_created" for name in METRICS} <= sample_names()
    assert {f"pointsman_{name}" for name in ("build_info", "circuit_open", "requests_total")} <= shown
    assert set(PROCESS) <= shown or not Path("/proc/self/stat").exists()


def test_a_closed_and_an_open_circuit(gateway: Gateway) -> None:
    assert value(gateway.metrics, "pointsman_circuit_open", upstream="demo") == 0.0
    for _ in range(10):
        gateway.state.upstreams["demo"].breaker.record_failure(time.monotonic())
    assert value(gateway.metrics, "pointsman_circuit_open", upstream="demo") == 1.0


def test_a_say_of_projects_or_escalation_is_counted_by_reason() -> None:
    metrics = Metrics()
    metrics.seen(decided(Reason("projects.observe", ""), Reason("escalation.long", "")))
    assert value(metrics, "pointsman_projects_total", reason="observe") == 1.0
    assert value(metrics, "pointsman_escalations_total", reason="long") == 1.0


@pytest.mark.parametrize(
    ("code", "reason"), [("routing.up", "up"), ("routing.down", "down"), ("routing.unable", "unable")]
)
def test_a_change_of_model_is_counted_by_reason(code: str, reason: str) -> None:
    metrics = Metrics()
    metrics.seen(decided(Reason("routing.first", ""), Reason(code, "")))
    assert value(metrics, "pointsman_switches_total", reason=reason) == 1.0


def test_another_model_than_planned_is_a_fallback() -> None:
    metrics = Metrics()
    for model, status in (("small", 200), ("large", 200), ("", 502), ("large", 0)):
        metrics.served(decided(), model, status, 0.2)
    assert value(metrics, "pointsman_switches_total", reason="fallback") == 2.0
    name = "pointsman_request_duration_seconds_count"
    assert value(metrics, name, model="none", status="5xx") == 1.0
    assert value(metrics, name, model="large", status="none") == 1.0


def test_a_metric_has_a_bounded_number_of_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_metrics, "_MOST_SERIES", 3)
    metrics = Metrics()
    for number in range(10):
        metrics.count("unpriced", f"model-{number}")
        metrics.served(decided(), f"model-{number}", 200, 0.1)
    metrics.count("unpriced", "model-1")
    assert value(metrics, "pointsman_unpriced_total", model="model-1") == 2.0
    assert value(metrics, "pointsman_unpriced_total", model="other") == 7.0
    assert value(metrics, "pointsman_request_duration_seconds_count", model="other", status="other") == 7.0
    assert value(metrics, "pointsman_series_dropped_total") > 7.0


def test_no_other_metric_can_be_read() -> None:
    with pytest.raises(KeyError, match="unheard"):
        Metrics().watch("unheard", lambda: 0.0)


def decided(*reasons: Reason) -> Decision:
    return msgspec.structs.replace(a_decision("d-1"), chain=("small", "large"), reasons=reasons)


def test_absurd_counts_of_tokens_cost_what_the_ledger_says() -> None:
    model = ModelSpec("large", "large-1", "main", input_per_million=1.0, output_per_million=1.0)
    answer = msgspec.structs.replace(an_attempt("d-1"), input_tokens=1 << 53, output_tokens=0)
    metrics = Metrics()
    metrics.price({"large": model})
    metrics.seen(answer)
    spent = cost(model, usage(answer))
    assert spent == MOST / 1e6
    assert value(metrics, "pointsman_cost_total", model="large") == spent

"""The table ``[telemetry]``: where spans of requests are sent."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, field

from pointsman.upstreams.port import Template

__all__ = ["TelemetrySpec"]


class TelemetrySpec(msgspec.Struct, frozen=True, kw_only=True):
    """Traces for OpenTelemetry; they need the extra `otel`. What is not set here is as its variables say."""

    endpoint: Annotated[
        str | None,
        Meta(
            description="Base URL of a collector that takes OTLP over HTTP: `http://localhost:4318`. "
            "Default: `OTEL_EXPORTER_OTLP_ENDPOINT`; without either, nothing is sent."
        ),
    ] = None
    ratio: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        Meta(
            description="Share of requests that are recorded, where no caller's `traceparent` says whether. "
            "Default: `OTEL_TRACES_SAMPLER`, else all."
        ),
    ] = None
    service_name: Annotated[
        str | None, Meta(description="`service.name`. Default: `OTEL_SERVICE_NAME`, else `pointsman`.")
    ] = None
    headers: Annotated[
        dict[str, Template],
        Meta(description='Headers for the collector: `authorization = "Bearer ${COLLECTOR_KEY}"`.'),
    ] = field(default_factory=dict)
    timeout: Annotated[
        float, Meta(gt=0, description="Seconds that sending a batch may take, its retries included.")
    ] = 10.0
    queue: Annotated[
        int,
        Meta(ge=1, description="Requests that may wait for their span; those beyond are lost and counted."),
    ] = 10_000

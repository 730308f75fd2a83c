"""Telemetry of finished requests: the fields of their log lines, and spans for OpenTelemetry.

Everything here runs after the answer, in a thread, on the decision and the attempts that the ledger gets too.
``opentelemetry`` (the extra ``otel``) is imported by ``tracing`` alone.
"""

from __future__ import annotations

from pointsman.telemetry.request_record import Models, RequestRecord, ServedRequest, request_record, spent

__all__ = ["Models", "RequestRecord", "ServedRequest", "request_record", "spent"]

"""The OpenAPI document of the gateway's own endpoints, as ``/openapi.json`` sends it.

Schemas come from the structs that the handlers read and write; ``tests/gateway/test_openapi.py`` compares the
paths with the routes, and real answers with the schemas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from pointsman import __version__
from pointsman.gateway._decide import CONVERSATIONS, DecisionPage, TextRequest
from pointsman.stores.ledger.outcome_reports import ReportedOutcome
from pointsman.stores.ledger.port import Attempt, Outcome, ShadowAnswer, ShadowDecision
from pointsman.stores.ledger.runs import RunRecord
from pointsman.tiers import Explanation
from pointsman.wire import FORMATS

__all__ = ["openapi_document", "openapi_json"]

_JSON: Final = "application/json"
_OBJECT: Final[Mapping[str, Any]] = {"type": "object"}
_TEXT: Final[Mapping[str, Any]] = {"type": "string"}
_REF: Final = "#/components/schemas/"
_STRUCTS: Final = (DecisionPage, TextRequest, Explanation, ReportedOutcome, Attempt, Outcome, ShadowAnswer,
                   ShadowDecision, RunRecord)  # fmt: skip
_BY_KEY: Final[list[dict[str, list[str]]]] = [{"bearer": []}, {"x-api-key": []}, {"x-pointsman-key": []}]
_FAILED: Final = "Refused: the error in the shape of the caller's format."


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": _REF + name}


def _either(*choices: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": list(choices)}


def _record(required: Sequence[str], **properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": properties}


def _list_of(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


#: Shapes that no struct has: the handlers write plain mappings.
_WRITTEN: Final[Mapping[str, Mapping[str, Any]]] = {
    "RequestBody": {
        "type": "object",
        "description": "A request of chat completions, Responses or Messages, as an agent sends it. "
        "Without a model it is for auto.",
        "properties": {
            "model": {"type": "string"},
            "dry_run": {
                "type": "boolean",
                "default": False,
                "description": "No model is asked, and nothing is recorded or remembered.",
            },
            "format": {
                "enum": [str(wire) for wire in FORMATS],
                "description": "Format of the body; by default it is found by its members.",
            },
        },
        "anyOf": [{"required": [name]} for name in CONVERSATIONS],
    },
    "Explained": {
        "allOf": [
            _ref("Explanation"),
            _record(
                ("text", "extraction", "domains", "capabilities"),
                text={"type": "string", "description": "The person's words that were classified."},
                extraction=_list_of(_TEXT),
                domains=_either(_OBJECT, {"type": "null"}),
                capabilities=_either(_ref("CapabilityDecision"), {"type": "null"}),
                served=_ref("Served"),
            ),
        ]
    },
    "Recorded": _record(
        ("decision", "attempts", "outcomes", "shadows"),
        decision=_ref("Decision"),
        attempts=_list_of(_ref("Attempt")),
        outcomes=_list_of(_ref("Outcome")),
        shadows=_list_of(_either(_ref("ShadowAnswer"), _ref("ShadowDecision"))),
    ),
    "Model": _record(
        ("id", "object", "type", "owned_by"),
        id=_TEXT,
        object={"const": "model"},
        type={"const": "model"},
        owned_by=_TEXT,
        context_window={"type": "integer"},
        max_output_tokens={"type": "integer"},
        pricing={"type": "object", "additionalProperties": _TEXT},
    ),
    "Models": _record(("object", "data"), object={"const": "list"}, data=_list_of(_ref("Model"))),
    "Ready": _record(
        ("status", "models", "open_circuits", "failing"),
        status={"enum": ["ok", "draining", "unserved"]},
        models={"type": "integer"},
        open_circuits=_list_of(_TEXT),
        failing=_list_of(_TEXT),
    ),
    "Alive": _record(("status",), status={"const": "ok"}),
    "Gateway": _record(("name", "endpoints"), name={"const": "pointsman"}, endpoints=_list_of(_TEXT)),
    "Error": {
        "description": "OpenAI's shape; Anthropic's where the request has the header anthropic-version.",
        "type": "object",
        "required": ["error"],
        "properties": {
            "type": {"const": "error"},
            "error": _record(
                ("message", "type"),
                message=_TEXT,
                type=_TEXT,
                param=_either(_TEXT, {"type": "null"}),
                code=_either(_TEXT, {"type": "null"}),
            ),
        },
    },
    "Tokens": _record(("input_tokens",), input_tokens={"type": "integer"}),
}


def _content(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {_JSON: {"schema": schema}}


def _answers(schema: Mapping[str, Any] | None, status: str = "200") -> dict[str, Any]:
    ok: dict[str, Any] = {"description": "Done."}
    if schema is not None:
        ok["content"] = _content(schema)
    return {status: ok, "default": {"description": _FAILED, "content": _content(_ref("Error"))}}


def _operation(
    summary: str,
    answer: Mapping[str, Any] | None,
    *,
    body: Mapping[str, Any] | None = None,
    status: str = "200",
    is_open: bool = False,
    named: str = "",
) -> dict[str, Any]:
    operation: dict[str, Any] = {"summary": summary, "responses": _answers(answer, status)}
    if body is not None:
        operation["requestBody"] = {"required": True, "content": _content(body)}
    if is_open:
        operation["security"] = []
    if named:
        operation["parameters"] = [{"name": named, "in": "path", "required": True, "schema": _TEXT}]
    return operation


def _session(operation: dict[str, Any]) -> dict[str, Any]:
    header = {"name": "x-session-id", "in": "header", "schema": _TEXT, "description": "Names the session."}
    return operation | {"parameters": [header]}


def _decisions() -> dict[str, Any]:
    asked = _either(_ref("RequestBody"), _ref("TextRequest"))
    decide = _operation(
        "Decide a request, without sending it to an upstream.", _ref("DecisionPage"), body=asked
    )
    explain = _operation(
        "Explain what would be decided; nothing is recorded or remembered.", _ref("Explained"), body=asked
    )
    found = _either(_ref("Recorded"), _ref("RunRecord"))
    return {
        "/v1/decide": {"post": _session(decide)},
        "/v1/explain": {"post": _session(explain)},
        "/v1/decisions/{id}": {"get": _operation("A decision, or a run of an agent.", found, named="id")},
        "/v1/decisions/{id}/outcome": {
            "post": _operation(
                "Report an outcome.", None, body=_ref("ReportedOutcome"), status="202", named="id"
            )
        },
    }


def _relayed() -> dict[str, Any]:
    """The paths for agents: bodies and answers are those of the providers' own documents."""
    found = {}
    for wire in FORMATS.values():
        name = f"Decide a request of the format {wire.format}, and relay it."
        found[f"/v1{wire.path.decode()}"] = {"post": _operation(name, _OBJECT, body=_OBJECT)}
        if wire.token_path:
            count = _operation("Count the tokens of a request.", _ref("Tokens"), body=_OBJECT)
            found[f"/v1{wire.token_path.decode()}"] = {"post": count}
    return found


def _pages() -> dict[str, Any]:
    metrics = _operation("Metrics in the text format of Prometheus.", None)
    alive = _operation("Whether the process answers.", _ref("Alive"), is_open=True)
    ready = _operation("Whether to send requests here.", _ref("Ready"), is_open=True)
    why = "Draining, or no upstream may be asked now."
    ready["responses"]["503"] = {"description": why, "content": _content(_ref("Ready"))}
    return {
        "/": {"get": _operation("Name and endpoints.", _ref("Gateway"), is_open=True)},
        **{path: {"get": alive} for path in ("/health", "/healthz", "/health/live")},
        "/health/ready": {"get": ready},
        "/metrics": {"get": metrics},
        "/openapi.json": {"get": _operation("This document.", _OBJECT)},
        "/v1/models": {"get": _operation("What can be asked for.", _ref("Models"))},
        "/v1/models/{name}": {"get": _operation("One of them.", _ref("Model"), named="name")},
    }


def openapi_document() -> dict[str, Any]:
    """Return the document as plain values (OpenAPI 3.1)."""
    _, schemas = msgspec.json.schema_components(_STRUCTS, ref_template=_REF + "{name}")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Pointsman",
            "version": __version__,
            "description": "The gateway's own endpoints. Those below /v1 are served without /v1 too.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {**_decisions(), **_relayed(), **_pages()},
        "components": {
            "schemas": {**schemas, **_WRITTEN},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
                "x-pointsman-key": {"type": "apiKey", "in": "header", "name": "x-pointsman-key"},
            },
        },
        "security": [*_BY_KEY, {}],
    }


@cache
def openapi_json() -> bytes:
    """Return the document as JSON."""
    return msgspec.json.encode(openapi_document())

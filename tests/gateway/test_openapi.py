"""``/openapi.json`` has every path of the gateway's own, and real answers are of its schemas."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from starlette.routing import Route

from pointsman.config.shapes import demo_config
from pointsman.gateway._decide import CONVERSATIONS, DECISION_PATHS
from pointsman.gateway._openapi import openapi_document
from pointsman.gateway.app import Gateway
from pointsman.gateway.build import Builder
from pointsman.stores.ledger.port import Ledger
from pointsman.testing import a_run_entry
from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS
from support.in_process import Received, ask
from support.requests_by_format import request

DOCUMENT = openapi_document()
TEXT = {"text": "Prove step by step that the square root of two is irrational."}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The demo, with a ledger of its own."""
    from msgspec.structs import replace

    config = demo_config()
    path = tmp_path_factory.mktemp("demo") / "ledger.sqlite"
    build = Builder(lambda: replace(config, ledger=replace(config.ledger, path=path)))
    with closing(build), closing(build()) as state:
        yield Gateway(state)


def call(gateway: Gateway, method: str, path: str, body: object = b"", **headers: str) -> Received:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return asyncio.run(ask(gateway, path, body, sent, method=method))


def complaints(schema: Any, value: object) -> list[str]:
    """What is wrong with a value by a schema of the document."""
    checked = Draft202012Validator({**schema, "components": DOCUMENT["components"]})
    return [f"{error.json_path}: {error.message}" for error in checked.iter_errors(value)]


def check(path: str, method: str, answer: Received) -> None:
    """An answer has a status that the document names, and its schema."""
    answers = DOCUMENT["paths"][path][method]["responses"]
    described = answers.get(str(answer.status), answers["default"])
    if "content" in described:
        schema = described["content"]["application/json"]["schema"]
        assert complaints(schema, answer.json()) == []


def test_it_has_every_path_and_method_and_no_other(served: Gateway) -> None:
    routes = [route for route in served.routes.router.routes if isinstance(route, Route)]
    found = {
        (route.path.replace(":path", ""), method.lower())
        for route in routes
        if route.include_in_schema
        for method in (route.methods or set()) - {"HEAD"}
    }
    found |= {(path.decode(), "post") for path in DECISION_PATHS}
    for wire in FORMATS.values():
        found |= {(f"/v1{path.decode()}", "post") for path in (wire.path, wire.token_path) if path}
    written = {(path, method) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert written == {(path, method) for path, method in found if (f"/v1{path}", method) not in found}


def test_a_body_is_described_as_it_is_read() -> None:
    body = DOCUMENT["components"]["schemas"]["RequestBody"]
    assert [choice["required"] for choice in body["anyOf"]] == [[name] for name in CONVERSATIONS]
    assert body["properties"]["format"]["enum"] == [str(wire) for wire in FORMATS]


def test_it_is_sent_and_its_schemas_are_schemas(served: Gateway) -> None:
    answer = call(served, "GET", "/openapi.json")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == json.loads(json.dumps(DOCUMENT))
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_every_reference_names_a_schema() -> None:
    names = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}

    def references(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            if "$ref" in value:
                yield value["$ref"]
            for each in value.values():
                yield from references(each)
        elif isinstance(value, list):
            for each in value:
                yield from references(each)

    assert set(references(DOCUMENT)) <= names


@pytest.mark.parametrize("path", ["/v1/decide", "/v1/explain"])
def test_answers_to_requests_of_each_format(served: Gateway, path: str) -> None:
    asked = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    bodies = [json.loads(json.dumps(body)) for body in map(request, WireFormat)]
    for body in (TEXT, TEXT | {"dry_run": True}, *bodies):
        assert complaints(asked, body) == []
        answer = call(served, "POST", path, body)
        assert answer.status == 200, answer.body
        check(path, "post", answer)
    for wrong in ({}, {"text": 1}, {"messages": [], "dry_run": "yes"}, {"input": "x", "format": "grpc"}):
        assert complaints(asked, wrong)
        refused = call(served, "POST", path, wrong)
        assert refused.status == 400
        check(path, "post", refused)
        check(path, "post", call(served, "POST", path, wrong, anthropic_version="2023-06-01"))


def test_answers_about_a_decision_and_a_run(served: Gateway) -> None:
    decided = call(served, "POST", "/v1/decide", TEXT).headers["x-pointsman-decision-id"]
    outcome = {"score": 1, "label": "good"}
    body = DOCUMENT["paths"]["/v1/decisions/{id}/outcome"]["post"]["requestBody"]
    assert complaints(body["content"]["application/json"]["schema"], outcome) == []
    reported = call(served, "POST", f"/v1/decisions/{decided}/outcome", outcome)
    assert reported.status == 202
    ledger: Ledger = served.state.runtime.ledger
    ledger.append(a_run_entry("r-1", 1))
    for wanted, status in ((decided, 200), ("r-1", 200), ("d-none", 404)):
        answer = call(served, "GET", f"/v1/decisions/{wanted}")
        assert answer.status == status
        check("/v1/decisions/{id}", "get", answer)


def test_answers_of_the_pages(served: Gateway) -> None:
    for path in ("/", "/health/live", "/health/ready", "/v1/models"):
        answer = call(served, "GET", path)
        assert answer.status == 200
        check(path, "get", answer)
    check("/v1/models/{name}", "get", call(served, "GET", "/v1/models/auto"))
    check("/v1/models/{name}", "get", call(served, "GET", "/v1/models/none"))
    draining = Gateway(served.state)
    draining.readiness.is_draining = True
    answer = call(draining, "GET", "/health/ready")
    assert answer.status == 503
    check("/health/ready", "get", answer)
    counted = call(served, "POST", "/v1/messages/count_tokens", request(WireFormat.MESSAGES))
    check("/v1/messages/count_tokens", "post", counted)

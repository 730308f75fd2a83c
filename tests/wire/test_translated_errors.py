"""Errors of upstreams, in the caller's format."""

import json

import pytest

from pointsman.vocabulary import WireFormat
from pointsman.wire.translate import translate_error


@pytest.mark.parametrize("caller", WireFormat)
@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "too long", "type": "x", "code": None, "param": None}},
        {"type": "error", "error": {"type": "invalid_request_error", "message": "too long"}},
        {"error": "too long"},
        {"object": "error", "message": "too long", "code": 400},
        {"detail": "too long"},
        [{"error": {"code": 400, "message": "too long", "status": "INVALID_ARGUMENT"}}],
    ],
)
def test_an_error_keeps_its_words(caller: WireFormat, body: object) -> None:
    error = json.loads(translate_error(caller, 400, json.dumps(body).encode()))
    assert error["error"]["message"] == "too long"
    assert error["error"]["type"] == "invalid_request_error"
    assert error.get("type") == ("error" if caller is WireFormat.MESSAGES else None)


@pytest.mark.parametrize("body", ["", "[]", "{}", "<html>", '{"error":{}}', '{"detail":[1]}', "null"])
def test_what_says_nothing_is_left_to_the_gateway(body: str) -> None:
    assert translate_error(WireFormat.CHAT, 400, body.encode()) == b""


def test_code_and_field_are_kept() -> None:
    body = b'{"error":{"message":"m","code":"context_length_exceeded","param":"messages"}}'
    error = json.loads(translate_error(WireFormat.RESPONSES, 400, body))["error"]
    assert (error["code"], error["param"]) == ("context_length_exceeded", "messages")

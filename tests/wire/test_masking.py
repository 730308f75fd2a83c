"""The operator's key in the errors of an upstream."""

import json

import pytest

from pointsman.vocabulary import WireFormat
from pointsman.wire import sse
from pointsman.wire.sse import masked, masked_events
from pointsman.wire.translate import StreamTranslation, translate_request

KEY = b"sk-operator/secret-1234"
ESCAPED = "".join(f"\\u{byte:04x}" for byte in KEY).encode()
SPELLINGS = [KEY, ESCAPED, KEY.replace(b"/", b"\\/"), b"\\u0073k-operator\\/secret-1234"]
ERROR = b'{"error":{"message":"wrong key: %b, \\n\xc3\xa9","type":"invalid_request_error"}}'


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_key_is_found_however_it_is_escaped(spelling: bytes) -> None:
    found = json.loads(masked(ERROR % spelling, [b"other", KEY]))
    assert found["error"]["message"] == "wrong key: ***, \n\u00e9"
    found = json.loads(masked(b'{"half":"\\ud83d","key":"%b"}' % spelling, [KEY]))
    assert found["key"] == "***"


@pytest.mark.parametrize("body", [ERROR % b"sk-other\\u0020", b'{ "a" : "\\/" }', b"\\ no JSON", b""])
def test_what_holds_no_key_keeps_its_bytes(body: bytes) -> None:
    assert masked(body, [KEY]) == body
    assert masked(body + KEY, []) == body + KEY


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_key_in_an_error_event(spelling: bytes) -> None:
    text = sse.event(b'{"text":"\\u0061"}', "delta")
    assert masked_events(text + sse.event(ERROR % spelling, "error"), [KEY]).startswith(text)
    assert b'"message":"wrong key: ***, ' in masked_events(sse.event(ERROR % spelling, "error"), [KEY])
    assert masked_events(text, [KEY]) == text


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("upstream", [WireFormat.CHAT, WireFormat.RESPONSES])
def test_a_key_in_the_error_of_a_translated_stream(upstream: WireFormat, spelling: bytes) -> None:
    body = b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"}]}'
    stream = StreamTranslation(translate_request(WireFormat.MESSAGES, upstream, body), [KEY])
    error = ERROR % spelling
    told = stream.feed(sse.event(b'{"type":"error",' + error[1:])).decode()
    assert stream.has_failed
    assert "wrong key: ***" in told
    assert "operator" not in told

"""A request body as bytes with known places."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.errors import MalformedRequest, TooLarge
from pointsman.vocabulary import LARGE, WireFormat
from pointsman.wire import FORMATS, Body
from pointsman.wire.body import MAX_MEMBERS, MAX_VALUES

CHAT = FORMATS[WireFormat.CHAT]

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
#: Names of the format in other cases are refused.
NAMES = st.text().filter(lambda name: name.casefold() not in CHAT.members.names)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=6)


@given(
    before=OBJECTS, model=st.text(), after=OBJECTS, indent=st.none() | st.integers(0, 2), ascii_=st.booleans()
)
def test_every_other_byte_stays(
    before: dict[str, Any], model: str, after: dict[str, Any], indent: int | None, ascii_: bool
) -> None:
    whole = {**before, "model": model, **{k: v for k, v in after.items() if k not in {*before, "model"}}}
    raw = json.dumps(whole, indent=indent, ensure_ascii=ascii_).encode("utf-8", "surrogatepass")
    body = Body(CHAT, raw)
    span = body.span("model")
    assert span is not None
    assert json.loads(raw[slice(*span)]) == model
    edited = body.edited([(span, b'"other"')])
    assert edited == raw[: span[0]] + b'"other"' + raw[span[1] :]
    assert json.loads(edited) == {**whole, "model": "other"}


@pytest.mark.parametrize(
    "raw",
    [
        b'{"model":"a","model":"b"}',
        b'{"model":"a","x":1,"model":"bb"}',
        b'{"messages":[1],"messages":[1,2],"model":"a"}',
        b'{"messages":"short","messages":"shorter \\",\\"model\\":\\"x\\"","model":"a"}',
    ],
)
def test_a_name_that_stands_twice_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedRequest, match="duplicate key"):
        Body(CHAT, raw).span("model")


def test_a_nested_model_is_not_the_model() -> None:
    raw = b'{"metadata":{"model":"x"},"tools":[{"model":"y"}],"model":"auto"}'
    span = Body(CHAT, raw).span("model")
    assert span is not None
    assert span[0] == raw.rindex(b'"auto"')


def test_a_name_written_with_escapes_is_found() -> None:
    raw = b'{"metadata":{"model":"x"},"m\\u00e9t\\u00e9o" : "auto"}'
    assert raw[slice(*Body(CHAT, raw).span("m\u00e9t\u00e9o") or ())] == b'"auto"'


def test_half_a_surrogate_pair_is_read_and_relayed_as_it_came() -> None:
    raw = (
        b'{"model":"auto","messages":[{"role":"user","content":"cut \\ud83d here \\ud83d\\ude00 \\\\ud83d"}]}'
    )
    body = Body(CHAT, raw)
    assert body.text("model") == "auto"
    assert len(body.readable) == len(raw)
    assert body.readable.count(rb"\ufffd") == 1
    assert body.edited([]) == raw


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "body is empty"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b"{", "not valid JSON"),
        (b'{"a":1} {}', "not valid JSON"),
        (b'{"a":NaN}', "not valid JSON"),
        (b'{"a":"\\ud83d"', "not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b'"text"', "must be a JSON object"),
    ],
)
def test_what_is_not_an_object(raw: bytes, message: str) -> None:
    with pytest.raises(MalformedRequest, match=message):
        Body(CHAT, raw)


@pytest.mark.parametrize("before", [b"", b'"half": "\\ud83d", '])
def test_nesting_without_end_is_refused(before: bytes) -> None:
    with pytest.raises(TooLarge, match="nested"):
        Body(CHAT, b"{" + before + b'"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}")


VALUES_ALLOWED = b'{"x":[' + b"11," * (MAX_VALUES - 3) + b"1]}"


def test_more_values_than_any_agent_sends() -> None:
    assert len(VALUES_ALLOWED) > LARGE
    assert Body(CHAT, VALUES_ALLOWED).members
    with pytest.raises(TooLarge, match="more than 250000 values"):
        Body(CHAT, VALUES_ALLOWED[:-2] + b",1,1]}")


def test_nothing_is_decoded_of_a_body_with_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pointsman.wire.body.decode_members", None)
    with pytest.raises(TooLarge, match="more than 250000 values"):
        Body(CHAT, b'{"x":[' + b"[]," * MAX_VALUES)


@pytest.mark.parametrize("name", ['"x%d":1', '"x%d":"\\ud83d"'])
def test_more_members_than_any_format_has(name: str) -> None:
    def body(count: int) -> Body:
        return Body(CHAT, f"{{{','.join(name % n for n in range(count))}}}".encode())

    assert len(body(MAX_MEMBERS).members) == MAX_MEMBERS
    with pytest.raises(TooLarge, match="more than 1000 members"):
        body(MAX_MEMBERS + 1)


@pytest.mark.parametrize(
    ("value", "expected"), [(b"true", True), (b"false", False), (b'"true"', False), (b"1", False)]
)
def test_only_true_is_true(value: bytes, expected: bool) -> None:
    assert Body(CHAT, b'{"stream":' + value + b"}").is_true("stream") is expected


def test_a_model_that_is_no_text() -> None:
    with pytest.raises(MalformedRequest, match='"model" must be a string'):
        Body(CHAT, b'{"model":3}').text("model")

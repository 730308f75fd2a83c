"""A body is read once: whatever its bytes look like, that gives what reading it member by member would."""

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.errors import MalformedRequest
from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS, Body, Format
from pointsman.wire import body as reading
from pointsman.wire.items import insertion
from pointsman.wire.request import read_request

SPACE = st.text(" \t\r\n", max_size=2)
SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=6)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "tool"]), "content": st.text(max_size=8)}),
    max_size=4,
)
WIRE = st.sampled_from(list(FORMATS.values()))
KNOWN = {name for wire in FORMATS.values() for name in wire.members.names}


@st.composite
def written(draw: st.DrawFn, value: Any) -> str:
    """JSON as any encoder might write it: whitespace and escapes wherever they are allowed."""
    if isinstance(value, dict):
        members = [f"{draw(key_of(key))}{draw(SPACE)}:{draw(written(inner))}" for key, inner in value.items()]
        return f"{draw(SPACE)}{{{draw(SPACE)}{(draw(SPACE) + ',' + draw(SPACE)).join(members)}{draw(SPACE)}}}"
    if isinstance(value, list):
        between = draw(SPACE) + "," + draw(SPACE)
        return f"{draw(SPACE)}[{between.join(draw(written(inner)) for inner in value)}{draw(SPACE)}]"
    whole: str = draw(name(value)) if isinstance(value, str) else json.dumps(value)
    return draw(SPACE) + whole


@st.composite
def key_of(draw: st.DrawFn, text: str) -> str:
    """A name: one that a format knows is refused with escapes."""
    return json.dumps(text) if text.casefold() in KNOWN else draw(name(text))


@st.composite
def name(draw: st.DrawFn, text: str) -> str:
    """A string, some of its characters escaped."""
    plain = json.dumps(text, ensure_ascii=draw(st.booleans()))
    if text and text[0].isalnum() and ord(text[0]) < 0x10000 and draw(st.booleans()):
        return f'"\\u{ord(text[0]):04x}{json.dumps(text[1:])[1:]}'
    return plain


@st.composite
def bodies(draw: st.DrawFn) -> tuple[Format, dict[str, Any]]:
    """Members in any order, known to the format or not, with the ones that every request has."""
    wire = draw(WIRE)
    known = st.sampled_from(sorted(set(wire.members.names) - {wire.items, "model"}))
    unknown = st.text(max_size=3).filter(lambda text: text.casefold() not in KNOWN)
    others = draw(st.dictionaries(known | unknown, VALUES, max_size=5))
    others.pop(wire.items, None)
    whole = {**others, wire.items: draw(MESSAGES), "model": draw(st.text(max_size=6))}
    return wire, {key: whole[key] for key in draw(st.permutations(list(whole)))}


@given(bodies(), st.data())
def test_spans_are_those_of_the_members(given_: tuple[Format, dict[str, Any]], data: st.DataObject) -> None:
    wire, whole = given_
    raw = data.draw(written(whole)).encode()
    body = Body(wire, raw)
    assert body.edited([]) == raw
    for member, value in whole.items():
        span = body.span(member)
        assert span is not None
        assert json.loads(raw[slice(*span)]) == value
        assert raw[slice(*span)] == raw[slice(*span)].strip()
        assert body.edited([(span, b'"new"')]) == raw[: span[0]] + b'"new"' + raw[span[1] :]
    assert body.span("nobody's") is None


@given(bodies(), st.data())
def test_members_are_those_of_a_plain_decoder(
    given_: tuple[Format, dict[str, Any]], data: st.DataObject
) -> None:
    wire, whole = given_
    body = Body(wire, data.draw(written(whole)).encode())
    expected = msgspec.json.decode(body.raw, type=dict[str, msgspec.Raw])
    assert body.members == expected
    assert {key: body.member(key) for key in expected} == expected
    assert body.member("nobody's") is None
    items, model = body.conversation()
    assert [json.loads(bytes(item)) for item in items or ()] == whole[wire.items]  # type: ignore[arg-type]
    assert model == whole["model"]


def walked(raw: bytes, wanted: str) -> tuple[int, int] | None:
    """Where a member stands, by a walk over a plain decoder's members; None where bytes and values differ."""
    at = 0
    for member, value in msgspec.json.decode(raw, type=dict[str, msgspec.Raw]).items():
        found = re.compile(rb'[\s,{]*"((?:[^"\\]|\\.)*)"\s*:\s*').match(raw, at)
        if (
            found is None
            or json.loads(b'"%s"' % found[1]) != member
            or not raw.startswith(value, found.end())
        ):
            return None
        at = found.end() + len(bytes(value))
        if member == wanted:
            return found.end(), at
    return None


@given(bodies(), st.data())
def test_a_duplicate_name_is_refused_where_a_walk_would_be_misled(
    given_: tuple[Format, dict[str, Any]], data: st.DataObject
) -> None:
    wire, whole = given_
    twice = data.draw(st.sampled_from([*sorted(set(whole) - {wire.items, "model"}), "stream"]))
    other = json.dumps({twice: data.draw(VALUES | st.just(whole.get(twice)))})[1:-1].encode()
    raw = data.draw(written(whole)).strip().encode()
    raw = b"{" + other + b"," + raw[1:] if data.draw(st.booleans()) else raw[:-1] + b"," + other + b"}"
    if twice in whole:
        with pytest.raises(MalformedRequest, match="duplicate key"):
            Body(wire, raw)
        return
    body = Body(wire, raw)
    for member in (wire.items, "model"):
        assert body.span(member) == walked(raw, member)


@pytest.mark.parametrize("first", ["a", "b"])
@pytest.mark.parametrize("wire", list(FORMATS.values()), ids=list(FORMATS))
def test_a_model_that_stands_twice_is_refused(wire: Format, first: str) -> None:
    raw = b'{"model":"%s","%s":[],"model":"c"}' % (first.encode(), wire.items.encode())
    for body in (raw, raw.replace(b"{", b'{"unheard_of":1,', 1)):
        with pytest.raises(MalformedRequest, match="duplicate key"):
            Body(wire, body).span("model")


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("wire", list(FORMATS.values()), ids=list(FORMATS))
def test_documented_members_take_one_reading(
    monkeypatch: pytest.MonkeyPatch, wire: Format, separators: tuple[str, str]
) -> None:
    monkeypatch.setattr(reading, "decode_members", None)
    items = [{"role": "user", "content": f"look at step {n}"} for n in range(20)]
    whole = {wire.items: items, "stream": True, "temperature": 0.1, "tools": [], "model": "auto"}
    body = Body(wire, json.dumps(whole, separators=separators).encode())
    assert len(read_request(wire.format, body).history) == 20
    for member, value in whole.items():
        assert json.loads(body.raw[slice(*body.span(member) or ())]) == value
    assert body.last_item is not None
    assert json.loads(bytes(body.last_item)) == items[-1]


@pytest.mark.parametrize("text", ["hi", 'a "quoted" \\ one', "ü 😀", ""])
def test_a_text_as_input_takes_one_reading(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(reading, "decode_members", None)
    for ascii_ in (True, False):
        raw = json.dumps({"input": text, "model": "auto"}, ensure_ascii=ascii_).encode()
        body = Body(FORMATS[WireFormat.RESPONSES], raw)
        assert json.loads(raw[slice(*body.span("input") or ())]) == text
        assert raw[slice(*body.span("model") or ())] == b'"auto"'


def test_no_input_has_no_place() -> None:
    for raw in (b'{"model":"auto"}', b'{"input":null,"model":"auto"}'):
        assert Body(FORMATS[WireFormat.RESPONSES], raw).span("input") is None


def test_half_a_surrogate_pair_is_read_as_in_any_other_body() -> None:
    raw = b'{"model":"auto","messages":[{"role":"user","content":"cut \\ud83d here"}],"unheard_of":1}'
    for body in (raw, raw.replace(b',"unheard_of":1', b"")):
        found = Body(FORMATS[WireFormat.CHAT], body)
        assert read_request(WireFormat.CHAT, found).history[0].texts == ("cut \ufffd here",)
        assert found.edited([]) == body


@pytest.mark.parametrize("between", [b",", b", ", b"\n,\n"])
def test_a_text_is_inserted_after_the_last_item_that_was_read(between: bytes) -> None:
    messages = between.join(
        (b'{"role":"assistant","content":"cut \\ud83d"}', b'{"role":"user","content":"hi"}')
    )
    body = Body(FORMATS[WireFormat.CHAT], b'{"messages":[' + messages + b'],"model":"auto"}')
    span = body.span("messages")
    assert span is not None
    place = insertion(body.wire, body.readable[slice(*span)], "there", body.last_item)
    assert place is not None
    at = span[0] + place.at
    assert body.edited([((at, at), place.data)]) == body.raw.replace(b'"hi"', b'"hi\\n\\nthere"')

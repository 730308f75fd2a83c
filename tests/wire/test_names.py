"""A name that stands twice, or in another spelling, could be read by an upstream in another way."""

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.errors import MalformedRequest
from pointsman.vocabulary import LARGE, WireFormat
from pointsman.wire import FORMATS, Body, Format
from support.rows import every_row

WIRE = pytest.mark.parametrize("wire", list(FORMATS.values()), ids=list(FORMATS))


def whole(wire: Format, **more: Any) -> dict[str, Any]:
    return {"model": "auto", wire.items: [{"role": "user", "content": "hi"}], "stream": True, **more}


def written(wire: Format, separators: tuple[str, str], *added: str, **more: Any) -> bytes:
    text = json.dumps(whole(wire, **more), separators=separators)
    return (text[:-1] + "".join(f"{separators[0]}{each}" for each in added) + "}").encode()


@WIRE
@pytest.mark.parametrize(
    ("added", "says", "param"),
    [
        ('"model":"m"', "duplicate key", "model"),
        ('"model":"auto"', "duplicate key", "model"),
        ('"mod\\u0065l":"m"', "duplicate key", "model"),
        ('"\\u006dodel":"auto"', "another spelling", "model"),
        ('"Model":"m"', "another spelling", "model"),
        ('"MODEL":"m"', "another spelling", "model"),
        ('"\\u004dodel":"m"', "another spelling", "model"),
        ('"stream":true', "duplicate key", "stream"),
        ('"Stream":false', "another spelling", "stream"),
        ('"\u017ftream":false', "another spelling", "stream"),  # a long s, which Go takes for an s
        ('"tools":[],"tools":[]', "duplicate key", "tools"),
        ('"n":12,"n":1', "duplicate key", "n"),
        ('"x":12,"x":1', "duplicate key", "x"),
        ('"y":1,"\\u0079":1', "duplicate key", "y"),
    ],
)
def test_a_second_reading_is_refused(wire: Format, added: str, says: str, param: str) -> None:
    others: list[dict[str, Any]] = [{}, {"unheard_of": 1}, {"pad": "x" * LARGE}]
    with every_row() as row:
        for separators, more in product([(",", ":"), (", ", ": ")], others):
            with row(separators, list(more)):
                with pytest.raises(MalformedRequest, match=says) as refused:
                    Body(wire, written(wire, separators, added, **more))
                assert refused.value.param == param
                assert refused.value.hint


@WIRE
def test_a_conversation_that_stands_twice_is_refused(wire: Format) -> None:
    for first, last in (("[]", "[1]"), ("[1]", "[]"), ("[]", "[]"), ('"a"', '"ab"'), ('"ab"', '"a"')):
        raw = f'{{"{wire.items}":{first},"model":"auto","{wire.items}":{last}}}'
        with pytest.raises(MalformedRequest, match="duplicate key"):
            Body(wire, raw.encode())


@WIRE
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize(
    "added",
    [
        '"метка":1',
        '"\\u043c":1,"\\u043d":1',
        '"metadata":{"model":"x","Model":"y","model":"z"}',  # nested: for the upstream
        '"tools":[{"model":"x"}]',
        '"models":["a"]',
        '"model_name":"x"',
        '"":1',
    ],
)
def test_other_names_are_read_as_ever(wire: Format, separators: tuple[str, str], added: str) -> None:
    raw = written(wire, separators, added)
    body = Body(wire, raw)
    span = body.span("model")
    assert span is not None
    assert raw[slice(*span)] == b'"auto"'


@WIRE
def test_a_model_with_escapes_alone_is_refused_too(wire: Format) -> None:
    with pytest.raises(MalformedRequest, match="another spelling"):
        Body(wire, f'{{"mod\\u0065l":"auto","{wire.items}":[]}}'.encode())


NAMES = st.sampled_from(["model", "stream", "tools", "user", "metadata", "x", "é"])
VALUES = st.sampled_from(
    ["1", "12", '"a"', '"a,\\"model\\":1"', "[]", "[1,2]", '{"model":1}', "null", "true"]
)
SPACES = st.sampled_from(["", " ", "\n", "\t "])


@given(st.lists(st.tuples(NAMES, VALUES, SPACES), max_size=6), st.booleans())
def test_a_body_is_read_exactly_when_no_name_stands_twice(
    members: list[tuple[str, str, str]], items_last: bool
) -> None:
    conversation = ("messages", "[{}]", "")
    order = [*members, conversation] if items_last else [conversation, *members]
    raw = "{" + ",".join(f'{s}"{name}"{s}:{s}{value}{s}' for name, value, s in order) + "}"
    names = [name for name, _, _ in order]
    if len(set(names)) < len(names):
        with pytest.raises(MalformedRequest, match="duplicate key"):
            Body(FORMATS[WireFormat.CHAT], raw.encode())
        return
    body = Body(FORMATS[WireFormat.CHAT], raw.encode())
    for name, value, _ in order:
        span = body.span(name)
        assert span is not None
        assert raw.encode()[slice(*span)] == value.encode()

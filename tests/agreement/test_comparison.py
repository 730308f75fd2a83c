"""Two whole answers: what is compared, and what never agrees."""

import msgspec
import pytest

from pointsman.agreement import Compared
from pointsman.agreement.calls import compare
from pointsman.vocabulary import ToolCall
from pointsman.wire.conversation import Completion, Shape, StopReason, Text, Tool

SHAPE = Shape(schema=msgspec.Raw(b'{"type": "object", "properties": {"n": {"type": "integer"}}}'))


def said(text: str, stop: StopReason = StopReason.END) -> Completion:
    return Completion(id="c", model="m", parts=(Text(text),), stop=stop)


@pytest.mark.parametrize(
    ("first", "second", "shape", "agreed", "compared"),
    [
        ("42", "Answer: 42", None, True, Compared.ANSWER),
        ("42", "41", None, False, Compared.ANSWER),
        ("It depends on the weather.", "It depends on the weather.", None, False, Compared.NOTHING),
        ('{"n": 1, "m": [1]}', '{"m": [1], "n": "1"}', SHAPE, True, Compared.STRUCTURED),
        ('{"n": 1}', '{"n": 2}', SHAPE, False, Compared.STRUCTURED),
        ('{"n": true}', '{"n": 1}', SHAPE, False, Compared.STRUCTURED),
        ('{"n": 1}', '{"n": 1.0}', Shape(), True, Compared.STRUCTURED),
        ('{"n": 1', '{"n": 1', SHAPE, False, Compared.STRUCTURED),
    ],
)
def test_texts(first: str, second: str, shape: Shape | None, agreed: bool, compared: Compared) -> None:
    found = compare(said(first), said(second), shape=shape)
    assert (found.agreed, found.compared) == (agreed, compared)


@pytest.mark.parametrize("stop", [StopReason.LENGTH, StopReason.REFUSAL, StopReason.PAUSE])
def test_an_answer_that_is_not_whole_never_agrees(stop: StopReason) -> None:
    found = compare(said("42"), said("42", stop))
    assert (found.agreed, found.compared) == (False, Compared.NOTHING)
    assert stop.value in found.detail


def test_free_text_of_a_custom_tool_and_calls_without_a_schema() -> None:
    def calls(text: str, *, custom: bool) -> Completion:
        part = ToolCall(id="1", name="run", arguments=text, custom=custom)
        return Completion(id="c", model="m", parts=(part,), stop=StopReason.TOOLS)

    assert compare(calls(" ls -la\n", custom=True), calls("ls -la", custom=True)).agreed
    assert not compare(calls("ls -l", custom=True), calls("ls -la", custom=True)).agreed
    assert compare(calls('{"a": 1.0}', custom=False), calls('{"a": 1}', custom=False)).agreed


@pytest.mark.parametrize(
    ("schema", "first", "second", "same"),
    [
        (b'{"properties": {"a": {"$ref": "#/nowhere"}}}', '{"a": "1"}', '{"a": 1}', False),
        (b'{"properties": {"a": {"enum": ["x", "y"]}}}', '{"a": " x"}', '{"a": "x"}', True),
        (b'{"properties": {"a": {"enum": [1, 2]}}}', '{"a": 1}', '{"a": 1.0}', True),
        (b'{"properties": {"a": {"type": ["number", "null"]}}}', '{"a": "1.5"}', '{"a": 1.5}', True),
        (b'{"properties": {"a": {"type": "boolean"}}}', '{"a": "FALSE"}', '{"a": false}', True),
        (b'{"properties": {"a": {"type": "null"}}}', '{"a": null}', "{}", False),
        (b"[1]", '{"a": 1}', '{"a": 1}', True),
        (b'{"properties": {"a": true}}', '{"a": 1}', '{"a": 1}', True),
        (
            b'{"properties": {"a": {"oneOf": [{"type": "number"}, {"type": "boolean"}]}}}',
            '{"a": "1"}',
            '{"a": 1}',
            True,
        ),
        (b'{"properties": {"a": {"anyOf": [{"type": "number"}, {}]}}}', '{"a": "1"}', '{"a": 1}', False),
        (b'{"properties": {"a": {"type": "boolean"}}}', '{"a": "1"}', '{"a": 1}', False),
        (b'{"properties": {"a": {"type": "number"}}}', '{"a": "true"}', '{"a": true}', False),
        (b'{"properties": {"a": {"type": ["string", "null"]}}}', '{"a": "1"}', '{"a": 1}', True),
        (b'{"properties": {"a": {"type": ["string", "null"], "default": "x"}}}', '{"a": null}', "{}", False),
        (b'{"properties": {"a": {"type": ["string", "null"]}}}', '{"a": null}', "{}", True),
        (
            b'{"properties": {"a": {"$ref": "#/d/x"}}, "d": {"x": {"type": "number"}}}',
            '{"a": "1"}',
            '{"a": 1}',
            True,
        ),
    ],
)
def test_odd_schemas(schema: bytes, first: str, second: str, same: bool) -> None:
    tools = (Tool(name="run", schema=msgspec.Raw(schema)),)
    one, two = (
        Completion(
            id="c", model="m", parts=(ToolCall(id="1", name="run", arguments=text),), stop=StopReason.TOOLS
        )
        for text in (first, second)
    )
    assert compare(one, two, tools=tools).agreed is same


@pytest.mark.parametrize(
    ("first", "second", "detail"),
    [
        ('{"n": 1}', '{"n": "1"}', "equal JSON"),
        ('{"n": 1}', '{"n": 2}', "different JSON"),
        ('{"n": 1', '{"n": 1}', "an answer is not JSON"),
        ('{"n": 1}', '{"n": 1', "an answer is not JSON"),
    ],
)
def test_the_detail_of_structured_answers(first: str, second: str, detail: str) -> None:
    assert compare(said(first), said(second), shape=SHAPE).detail == detail


@pytest.mark.parametrize(
    ("first", "second", "detail"),
    [
        ([("a", '{"x": 1}')], [("a", '{"x": 1}')], "same call of `a`, 1 argument"),
        ([("a", "{}"), ("b", "{}")], [("b", "{}"), ("a", "{}")], "same 2 calls of `a`, `b`, no arguments"),
        ([("a", "{}"), ("b", "{}")], [("a", "{}"), ("b", '{"x": 1}')], "different arguments of `a`, `b`"),
        ([("a", "{}")], [], "`a` against no tool"),
        ([("a", "[]")], [("a", "{}")], "a call was cut, or its arguments are not a JSON object"),
        ([("a", "{}")], [("a", "[]")], "a call was cut, or its arguments are not a JSON object"),
    ],
)
def test_the_detail_of_calls(
    first: list[tuple[str, str]], second: list[tuple[str, str]], detail: str
) -> None:
    one, two = (
        Completion(
            id="c",
            model="m",
            parts=tuple(
                ToolCall(id=str(at), name=name, arguments=text) for at, (name, text) in enumerate(calls)
            ),
            stop=StopReason.TOOLS,
        )
        for calls in (first, second)
    )
    assert compare(one, two).detail == detail

"""Tool calls of two models: what counts as the same call, and what does not."""

import json
from typing import Any

import msgspec
import pytest

from pointsman.agreement import Compared, compare
from pointsman.wire.conversation import Call, Completion, StopReason, Text, Tool

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "limit": {"type": "integer", "default": 10},
        "ratio": {"type": "number"},
        "deep": {"type": "boolean"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "edits": {"type": "array", "items": {"$ref": "#/$defs/edit"}},
    },
    "$defs": {
        "edit": {"type": "object", "properties": {"line": {"type": "integer"}, "text": {"type": "string"}}}
    },
}
TOOLS = (Tool(name="edit_file", schema=msgspec.Raw(json.dumps(SCHEMA).encode())),)


def answer(*calls: tuple[str, Any], stop: StopReason = StopReason.TOOLS) -> Completion:
    parts = tuple(
        Call(id=f"id-{number}", name=name, arguments=args if isinstance(args, str) else json.dumps(args))
        for number, (name, args) in enumerate(calls)
    )
    return Completion(id="c", model="m", parts=parts, stop=stop)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ({"path": "a", "limit": 3}, {"limit": 3, "path": "a"}, True),
        ({"path": "a", "limit": 3}, {"path": "a", "limit": 4}, False),
        ({"path": "a"}, {"path": "a", "limit": 10}, True),
        ({"path": "a"}, {"path": "a", "limit": 11}, False),
        ({"limit": 3}, {"limit": 3.0}, True),
        ({"limit": 3}, {"limit": "3"}, True),
        ({"limit": 3}, {"limit": "three"}, False),
        ({"path": "3"}, {"path": 3}, True),
        ({"deep": True}, {"deep": "true"}, True),
        ({"deep": True}, {"deep": 1}, False),
        ({"path": " a "}, {"path": "a"}, True),
        ({"path": "a  b"}, {"path": "a b"}, False),
        ({"path": "A"}, {"path": "a"}, False),
        ({"note": None}, {}, True),
        ({"note": ""}, {}, False),
        ({"edits": [{"line": 1, "text": "x"}]}, {"edits": [{"text": "x", "line": "1"}]}, True),
        ({"edits": [{"line": 1}, {"line": 2}]}, {"edits": [{"line": 2}, {"line": 1}]}, False),
        ("", {}, True),
        ('{"path": "a', {"path": "a"}, False),
        ("[1]", "[1]", False),
    ],
)
def test_arguments(first: Any, second: Any, same: bool) -> None:
    found = compare(answer(("edit_file", first)), answer(("edit_file", second)), tools=TOOLS)
    assert (found.agreed, found.compared) == (same, Compared.CALLS)


def test_the_order_of_parallel_calls_is_free_and_their_number_is_not() -> None:
    one, two = ("edit_file", {"path": "a"}), ("edit_file", {"path": "b"})
    assert compare(answer(one, two), answer(two, one), tools=TOOLS).agreed
    assert not compare(answer(one, one), answer(one), tools=TOOLS).agreed
    assert not compare(answer(one), answer(("read_file", {"path": "a"})), tools=TOOLS).agreed


def test_an_answer_that_was_cut_or_has_no_call_never_agrees_with_a_call() -> None:
    call = answer(("edit_file", {"path": "a"}))
    cut = answer(("edit_file", {"path": "a"}), stop=StopReason.LENGTH)
    words = Completion(id="c", model="m", parts=(Text("I would edit a"),))
    assert not compare(call, cut, tools=TOOLS).agreed
    assert not compare(call, words, tools=TOOLS).agreed
    assert compare(call, call, tools=TOOLS).detail == "same call of `edit_file`"

"""Tool calls of two models: what counts as the same call, and what does not."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.agreement import Compared
from pointsman.agreement.calls import compare
from pointsman.vocabulary import ToolCall
from pointsman.wire.conversation import Completion, StopReason, Text, Tool

TABLE = tomllib.loads((Path(__file__).parent / "call_pairs.toml").read_text("utf-8"))
READ = (
    Tool(name="read", schema=msgspec.Raw(b'{"properties": {"path": {"type": "string"}}}')),
    Tool(name="list"),
)


def answer(
    *calls: tuple[str, str],
    stop: StopReason = StopReason.TOOLS,
    words: str = "",
    id: str = "call",  # noqa: A002 - as the field
    is_cut: bool = False,
) -> Completion:
    said = (Text(words),) if words else ()
    parts = tuple(
        ToolCall(id=f"{id}-{number}", name=name, arguments=text, is_cut=is_cut)
        for number, (name, text) in enumerate(calls)
    )
    return Completion(id="c", model="m", parts=said + parts, stop=stop)


def pairs() -> Iterator[Any]:
    for group in TABLE["group"]:
        tools = (Tool(name=group["tool"], schema=msgspec.Raw(group["schema"].encode())),)
        for same in (True, False):
            for first, second, why in group["same" if same else "different"]:
                yield pytest.param(group["tool"], tools, first, second, same, id=f"{group['tool']}: {why}")


PAIRS = list(pairs())


def test_the_table_has_at_least_two_hundred_pairs_and_none_twice() -> None:
    assert len(PAIRS) + len(TABLE["answers"]) >= 200
    ids = [str(each.id) for each in PAIRS]
    assert len(set(ids)) == len(ids)
    outcomes = [each.values[-1] for each in PAIRS]
    assert min(outcomes.count(True), outcomes.count(False)) > len(outcomes) / 3


@pytest.mark.parametrize(("tool", "tools", "first", "second", "same"), PAIRS)
def test_arguments(tool: str, tools: tuple[Tool, ...], first: str, second: str, same: bool) -> None:
    one, two = answer((tool, first)), answer((tool, second))
    for found in (compare(one, two, tools=tools), compare(two, one, tools=tools)):
        assert (found.agreed, found.compared) == (same, Compared.CALLS), found.detail


@pytest.mark.parametrize("row", TABLE["answers"], ids=lambda row: str(row["why"]))
def test_whole_answers(row: dict[str, Any]) -> None:
    ids = row.get("ids", ["call", "call"])
    first = answer(*map(tuple, row["first"]), id=ids[0])
    second = answer(
        *map(tuple, row["second"]),
        id=ids[1],
        words=row.get("words", ""),
        stop=StopReason(row.get("stop", "tools")),
        is_cut=row.get("cut", False),
    )
    assert compare(first, second, tools=READ).agreed is row["same"]
    assert compare(second, first, tools=READ).agreed is row["same"]


def test_what_was_found_is_said_in_words() -> None:
    two = answer(("read", '{"path": "a", "line": 1}'))
    assert compare(two, two, tools=READ).detail == "same call of `read`, 2 arguments"
    one = answer(("read", '{"path": "a"}'), ("read", '{"path": "b"}'))
    assert compare(one, one, tools=READ).detail == "same 2 calls of `read`, 2 arguments"
    none = answer(("list", ""))
    assert compare(none, none, tools=READ).detail == "same call of `list`, no arguments"
    assert compare(two, one, tools=READ).detail == "`read` against `read`, `read`"
    assert (
        compare(two, answer(("read", '{"path": "b"}')), tools=READ).detail == "different arguments of `read`"
    )


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
_SCHEMAS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null", 7]),
        "enum": st.lists(_JSON, max_size=2),
        "default": _JSON,
        "anyOf": st.lists(st.just({"type": "null"}) | st.just({"type": "integer"}) | _JSON, max_size=2),
        "items": _JSON,
        "$ref": st.sampled_from(["#/properties/a", "#", "other"]),
    },
)


@given(st.dictionaries(st.sampled_from("ab"), _JSON), st.dictionaries(st.sampled_from("ab"), _SCHEMAS))
def test_any_call_agrees_with_itself_under_any_schema(arguments: dict[str, Any], rules: Any) -> None:
    tools = (Tool(name="run", schema=msgspec.Raw(json.dumps({"properties": rules}).encode())),)
    text = json.dumps(arguments)
    again = json.dumps(dict(reversed(arguments.items())), indent=2)
    assert compare(answer(("run", text)), answer(("run", again)), tools=tools).agreed


@given(st.text(), st.text())
def test_any_arguments_are_compared_alike_in_both_directions(first: str, second: str) -> None:
    one, two = answer(("run", first)), answer(("run", second))
    assert compare(one, two).agreed is compare(two, one).agreed

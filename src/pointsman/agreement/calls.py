"""Tool calls in a canonical form, so that two models that mean the same call are seen to agree.

Arguments are normalised by the tool's own JSON schema: the order of keys is free, ``1.0`` is ``1``, a
number or boolean written as a string is read as what the schema asks for and the other way round, a member
that is absent is its default, null is absent where the schema does not allow it, white space at the ends of
a string is dropped. Everything else of a string counts. Ids and the order of parallel calls do not.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

import msgspec

from pointsman.agreement import Compared
from pointsman.agreement.answers import final_answer, same_answer
from pointsman.vocabulary import ToolCall
from pointsman.wire.conversation import Completion, Shape, StopReason, Text, Tool

__all__ = ["Agreement", "call_arguments", "canonical_calls", "canonical_text", "compare", "is_whole"]

#: Levels of a schema or of arguments that are normalised; what lies deeper counts as it is.
_DEEPEST: Final = 32

Schema = Mapping[str, Any]
_NONE: Final[Schema] = {}
#: Stands for a text that is not JSON.
_UNREADABLE: Final = object()
_NULL: Final = {"type": "null"}
_TYPES: Final = {
    str: "string", bool: "boolean", int: "integer", float: "number", list: "array", type(None): "null",
}  # fmt: skip


def canonical_calls(calls: Sequence[ToolCall], tools: Sequence[Tool]) -> tuple[str, ...] | None:
    """The calls as sorted canonical texts: a multiset. None if one was cut, or its arguments are no object.

    Args:
        calls: of one answer.
        tools: that were offered; a call of a tool that was not offered is compared without a schema.
    """
    schemas = {(tool.namespace, tool.name): tool.schema for tool in tools if tool.kind == "function"}
    texts = []
    for call in calls:
        if call.is_cut:
            return None
        if call.custom:
            arguments: object = call.arguments.strip()
        else:
            arguments = call_arguments(call)
            if arguments is None:
                return None
            schema = _schema(schemas.get((call.namespace, call.name)))
            arguments = _normal(arguments, schema, schema, 0)
        texts.append(_text([call.namespace, call.name, arguments]))
    return tuple(sorted(texts))


def call_arguments(call: ToolCall) -> dict[str, Any] | None:
    """The arguments of a call; None if they are not a JSON object. Nothing, or null, is no arguments."""
    text = call.arguments.strip()
    found = _decoded(text) if text and text != "null" else {}
    return found if isinstance(found, dict) else None


def canonical_text(text: str, schema: msgspec.Raw | None) -> str | None:
    """A JSON text in its canonical form under a schema: with sorted keys. None if it is not JSON."""
    found, rules = _decoded(text), _schema(schema)
    return None if found is _UNREADABLE else _text(_normal(found, rules, rules, 0))


def _schema(raw: msgspec.Raw | None) -> Schema:
    found = _decoded(bytes(raw)) if raw else None
    return found if isinstance(found, dict) else _NONE


def _decoded(text: str | bytes) -> object:
    try:
        # Whole numbers of any size, which msgspec would read as fractions.
        return json.loads(text, parse_constant=_no_json)
    except (ValueError, RecursionError):
        return _UNREADABLE


def _no_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _normal(value: object, schema: object, root: Schema, depth: int) -> object:
    if depth > _DEEPEST:
        return value
    rules = _resolved(schema, root)
    if isinstance(value, dict):
        return _object(value, rules, root, depth)
    if isinstance(value, list):
        places, items = rules.get("prefixItems"), rules.get("items")
        first = places if isinstance(places, list) else []
        return [
            _normal(item, first[at] if at < len(first) else items, root, depth + 1)
            for at, item in enumerate(value)
        ]
    return _scalar(value, _types(rules, root))


def _object(value: dict[str, Any], rules: Schema, root: Schema, depth: int) -> dict[str, object]:
    properties = rules.get("properties")
    known = properties if isinstance(properties, dict) else {}
    others = rules.get("additionalProperties")
    filled = dict(value)
    for name, member in known.items():
        resolved = _resolved(member, root)
        default = resolved.get("default")
        # Models write null for a member that they leave out; where it is allowed beside a default it counts.
        if default is not None and (name not in value or "null" not in _types(resolved, root)):
            filled[name] = default if value.get(name) is None else value[name]
    return {
        name: _normal(member, known.get(name, others), root, depth + 1)
        for name, member in filled.items()
        if member is not None or _keeps_null(known.get(name), root)
    }


def _keeps_null(schema: object, root: Schema) -> bool:
    """Whether null is an answer of its own: the only one, or one that is not the default."""
    rules = _resolved(schema, root)
    types = _types(rules, root)
    return types == {"null"} or ("null" in types and rules.get("default") is not None)


def _scalar(value: object, types: set[str]) -> object:
    if isinstance(value, str):
        text = value.strip()
        return text if not types or "string" in types else _read_as(text, types)
    if types - {"null"} == {"string"} and isinstance(value, int | float):
        return json.dumps(value)
    return _whole(value)


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _read_as(text: str, types: set[str]) -> object:
    """A string read as the number or boolean that the schema asks for; unreadable, it stays a string."""
    lowered = text.lower()
    if "boolean" in types and lowered in {"true", "false"}:
        return lowered == "true"
    if types & {"number", "integer"}:
        found = _decoded(text)
        if isinstance(found, int | float) and not isinstance(found, bool):
            return _whole(found)
    return text


def _types(rules: Schema, root: Schema) -> set[str]:
    """The JSON types that a schema allows; empty if it allows any, or does not say."""
    if own := _own_types(rules):
        return own
    choices = rules.get("anyOf") or rules.get("oneOf")
    found = [_own_types(_resolved(each, root)) for each in choices] if isinstance(choices, list) else []
    return set().union(*found) if all(found) else set()


def _own_types(rules: Schema) -> set[str]:
    """The types that a schema names itself, or those of the values that it lists."""
    named = rules.get("type")
    if isinstance(named, str):
        found = {named}
    elif isinstance(named, list):
        found = {each for each in named if isinstance(each, str)}
    else:
        listed = [rules["const"]] if "const" in rules else rules.get("enum")
        found = {_TYPES.get(type(each), "object") for each in listed} if isinstance(listed, list) else set()
    return found | {"null"} if found and rules.get("nullable") is True else found


def _resolved(schema: object, root: Schema) -> Schema:
    """A schema behind local references and behind a choice of one, or of "this or null"."""
    beside: dict[str, object] = {}  # what stands beside a reference or a choice
    for _ in range(_DEEPEST):
        if not isinstance(schema, dict):
            return _NONE
        if "default" in schema:
            beside.setdefault("default", schema["default"])
        reference = schema.get("$ref")
        if isinstance(reference, str):
            schema = _at(reference, root)
            continue
        choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
        real = [each for each in choices if each != _NULL] if isinstance(choices, list) else []
        if len(real) != 1:
            return {**schema, **beside} if beside else schema
        if isinstance(choices, list) and len(choices) > 1:
            beside["nullable"] = True  # as OpenAPI says it
        schema = real[0]
    return _NONE


def _at(reference: str, root: Schema) -> object:
    found: object = root
    for name in reference.removeprefix("#").strip("/").split("/") if reference.startswith("#") else ():
        found = found.get(name) if isinstance(found, dict) else None
    return found if found is not root else None


# Compare two whole answers to one request.

#: An answer that ended otherwise was cut, refused or paused: it never agrees.
_WHOLE: Final = frozenset({StopReason.END, StopReason.TOOLS, StopReason.SEQUENCE})


class Agreement(msgspec.Struct, frozen=True, gc=False):
    """Whether two answers agree, on what, and in words."""

    agreed: bool
    compared: Compared
    detail: str


def compare(
    first: Completion, second: Completion, *, tools: Sequence[Tool] = (), shape: Shape | None = None
) -> Agreement:
    """Compare two answers: calls where either has some, else structured output, else a short final answer.

    Args:
        first: one model's whole answer.
        second: the other's.
        tools: that the request offered; their schemas normalise arguments.
        shape: of structured output, if the request asked for it.
    """
    for completion in (first, second):
        if not is_whole(completion):
            return _nothing(f"an answer ended by {completion.stop.value}")
    calls, others = _calls(first), _calls(second)
    if calls or others:
        return _compare_calls(calls, others, tools)
    text, other = _spoken(first), _spoken(second)
    if shape is not None:
        return _compare_structured(text, other, shape)
    answer, another = final_answer(text), final_answer(other)
    if answer is None or another is None:
        return _nothing("free text cannot be compared")
    same = same_answer(answer, another)
    detail = "same final answer" if same else "different final answers"
    return Agreement(agreed=same, compared=Compared.ANSWER, detail=detail)


def is_whole(completion: Completion) -> bool:
    """Whether an answer came to its end: it was not cut, refused or paused."""
    return completion.stop in _WHOLE


def _nothing(detail: str) -> Agreement:
    return Agreement(agreed=False, compared=Compared.NOTHING, detail=detail)


def _compare_calls(calls: list[ToolCall], others: list[ToolCall], tools: Sequence[Tool]) -> Agreement:
    first, second = canonical_calls(calls, tools), canonical_calls(others, tools)
    same = first is not None and first == second
    if same:
        detail = f"same {_called(calls)}"
    elif first is None or second is None:
        detail = "a call was cut, or its arguments are not a JSON object"
    elif Counter(call.name for call in calls) == Counter(call.name for call in others):
        detail = f"different arguments of {', '.join(dict.fromkeys(f'`{call.name}`' for call in calls))}"
    else:
        detail = f"{_names(calls)} against {_names(others)}"
    return Agreement(agreed=same, compared=Compared.CALLS, detail=detail)


def _compare_structured(text: str, other: str, shape: Shape) -> Agreement:
    first, second = canonical_text(text, shape.schema), canonical_text(other, shape.schema)
    if first is None or second is None:
        return Agreement(agreed=False, compared=Compared.STRUCTURED, detail="an answer is not JSON")
    same = first == second
    detail = "equal JSON" if same else "different JSON"
    return Agreement(agreed=same, compared=Compared.STRUCTURED, detail=detail)


def _calls(completion: Completion) -> list[ToolCall]:
    return [part for part in completion.parts if isinstance(part, ToolCall)]


def _spoken(completion: Completion) -> str:
    return "".join(part.text for part in completion.parts if isinstance(part, Text))


def _called(calls: Sequence[ToolCall]) -> str:
    """Which tools are called, with how many arguments in all: "call of `edit_file`, 2 arguments"."""
    count = sum(len(call_arguments(call) or ()) for call in calls if not call.custom)
    arguments = "1 argument" if count == 1 else f"{count or 'no'} arguments"
    several = f"{len(calls)} calls" if len(calls) > 1 else "call"
    return f"{several} of {', '.join(dict.fromkeys(f'`{call.name}`' for call in calls))}, {arguments}"


def _names(calls: Sequence[ToolCall]) -> str:
    return ", ".join(f"`{call.name}`" for call in calls) or "no tool"

"""Tool calls in a canonical form, so that two models that mean the same call are seen to agree.

Arguments are normalised by the tool's own JSON schema: the order of keys is free, ``1.0`` is ``1``, a
number or boolean written as a string is read as what the schema asks for, a member that is absent is its
default, white space at the ends of a string is dropped. Everything else of a string counts. Ids and the
order of parallel calls do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pointsman.wire.conversation import Call, Tool

__all__ = ["canonical_calls", "canonical_text"]

#: Levels of a schema or of arguments that are normalised; what lies deeper counts as it is.
_DEEPEST: Final = 32

Schema = Mapping[str, Any]
_NONE: Final[Schema] = {}


def canonical_calls(calls: Sequence[Call], tools: Sequence[Tool]) -> tuple[str, ...] | None:
    """The calls as sorted canonical texts: a multiset. None if arguments are not a JSON object.

    Args:
        calls: of one answer.
        tools: that were offered; a call of a tool that was not offered is compared without a schema.
    """
    schemas = {(tool.namespace, tool.name): tool.schema for tool in tools if tool.kind == "function"}
    texts = []
    for call in calls:
        if call.custom:
            arguments: object = call.arguments.strip()
        else:
            read = _decoded(call.arguments or "{}")
            if not isinstance(read, dict):
                return None
            schema = _schema(schemas.get((call.namespace, call.name)))
            arguments = _normal(read, schema, schema, 0)
        texts.append(_text([call.namespace, call.name, arguments]))
    return tuple(sorted(texts))


def canonical_text(value: object, schema: Schema) -> str:
    """A JSON value in its canonical form under a schema, as JSON text with sorted keys."""
    return _text(_normal(value, schema, schema, 0))


def _schema(raw: msgspec.Raw | None) -> Schema:
    found = _decoded(bytes(raw)) if raw else None
    return found if isinstance(found, dict) else _NONE


def _decoded(text: str | bytes) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _text(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _normal(value: object, schema: object, root: Schema, depth: int) -> object:
    if depth > _DEEPEST:
        return value
    rules = _resolved(schema, root)
    if isinstance(value, dict):
        return _object(value, rules, root, depth)
    if isinstance(value, list):
        items = rules.get("items")
        return [_normal(item, items, root, depth + 1) for item in value]
    return _scalar(value, rules)


def _object(value: dict[str, Any], rules: Schema, root: Schema, depth: int) -> dict[str, object]:
    properties = rules.get("properties")
    known = properties if isinstance(properties, dict) else {}
    others = rules.get("additionalProperties")
    members = {name: _resolved(member, root).get("default") for name, member in known.items()}
    filled = {name: default for name, default in members.items() if default is not None} | value
    return {
        name: _normal(member, known.get(name, others), root, depth + 1)
        for name, member in filled.items()
        if member is not None or _demands_null(known.get(name), root)
    }


def _demands_null(schema: object, root: Schema) -> bool:
    """Whether null is an answer of its own here: elsewhere a null member is an absent one."""
    return schema is not None and _types(_resolved(schema, root)) == {"null"}


def _scalar(value: object, rules: Schema) -> object:
    types = _types(rules)
    if isinstance(value, str):
        text = value.strip()
        return text if not types or "string" in types else _read_as(text, types)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if types == {"string"} and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


def _read_as(text: str, types: set[str]) -> object:
    """A string read as the number or boolean that the schema asks for; unreadable, it stays a string."""
    lowered = text.lower()
    if "boolean" in types and lowered in {"true", "false"}:
        return lowered == "true"
    if types & {"number", "integer"}:
        found = _decoded(text)
        if isinstance(found, int | float) and not isinstance(found, bool):
            return int(found) if float(found).is_integer() else found
    return text


def _types(rules: Schema) -> set[str]:
    """The JSON types that a schema allows; empty if it allows any."""
    named = rules.get("type")
    if isinstance(named, str):
        return {named}
    if isinstance(named, list):
        return {each for each in named if isinstance(each, str)}
    if "enum" in rules and isinstance(rules["enum"], list) and rules["enum"]:
        return {"string"} if all(isinstance(each, str) for each in rules["enum"]) else set()
    return set()


def _resolved(schema: object, root: Schema) -> Schema:
    """A schema behind local references and behind a choice that is "this or null"."""
    for _ in range(_DEEPEST):
        if not isinstance(schema, dict):
            return _NONE
        reference = schema.get("$ref")
        if isinstance(reference, str):
            schema = _at(reference, root)
            continue
        choices = schema.get("anyOf") or schema.get("oneOf")
        real = [each for each in choices if each != {"type": "null"}] if isinstance(choices, list) else []
        if len(real) != 1:
            return schema
        default = {name: schema[name] for name in ("default",) if name in schema}
        schema = {**default, **_mapping(real[0])}
    return _NONE


def _mapping(schema: object) -> Schema:
    return schema if isinstance(schema, dict) else _NONE


def _at(reference: str, root: Schema) -> object:
    found: object = root
    for name in reference.removeprefix("#").strip("/").split("/") if reference.startswith("#") else ():
        found = found.get(name) if isinstance(found, dict) else None
    return found if found is not root else None

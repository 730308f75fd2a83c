"""The configuration as a JSON Schema, for the completion and the checks of an editor.

Generated from the types of ``shapes``, walked as ``convert.Converter`` walks them. It accepts every file that
is correct. What holds between keys (names that must exist, settings that exclude each other) is left to
``pointsman config check``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, get_args, get_origin

import msgspec
from msgspec import structs

from pointsman.config.convert import choices, given, is_pool, keys, list_of
from pointsman.config.serving import HASHED
from pointsman.config.shapes import Config
from pointsman.model_choice.chains import TierModel
from pointsman.toml_source import KeyPath
from pointsman.upstreams.port import JsonTemplate, ProxyUrl, Secret, Template

__all__ = ["schema"]

_DRAFT: Final = "http://json-schema.org/draft-07/schema#"
_TEXT: Final[dict[str, object]] = {"type": "string"}
_LEAVES: Final[dict[type, dict[str, object]]] = {
    Secret: {"type": "string", "pattern": rf"\$\{{[A-Za-z_][A-Za-z0-9_]*\}}|^{HASHED}"},
    Template: _TEXT,
    JsonTemplate: {"description": "A JSON value."},
    ProxyUrl: _TEXT,
    Path: _TEXT,
}


def schema(version: str) -> dict[str, object]:
    """Return the schema of a ``pointsman.toml``.

    Args:
        version: Of Pointsman, for ``$id`` and in the title.
    """
    head = {"$schema": _DRAFT, "$id": f"urn:pointsman:config:{version}", "title": f"Pointsman {version}"}
    return head | _table(Config, ())


def _table(of: type[msgspec.Struct], path: KeyPath) -> dict[str, object]:
    """Return the schema of a table: its keys and no others."""
    fields = keys(of)
    found: dict[str, object] = {"type": "object", "additionalProperties": False}
    if of.__doc__ and path:
        found["description"] = of.__doc__.splitlines()[0]
    found["properties"] = {
        key: _described(field) | _value(field.type, (*path, key)) for key, field in fields.items()
    }
    required = [key for key, field in fields.items() if field.required]
    return found | ({"required": required} if required else {})


def _described(field: structs.FieldInfo) -> dict[str, object]:
    found: dict[str, object] = {}
    metas = getattr(field.type, "__metadata__", ())
    if said := next((meta.description for meta in metas if meta.description), ""):
        found["description"] = said
    if isinstance(field.default, bool | int | float | str) and field.default != "":
        found["default"] = field.default
    return found


def _value(of: Any, path: KeyPath) -> dict[str, object]:
    if is_pool(of):
        one = {"anyOf": [_TEXT, _table(TierModel, path)]}
        return {"anyOf": [*one["anyOf"], {"type": "array", "minItems": 1, "items": one}]}
    kind = given(of)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _table(kind, path)
    if get_origin(kind) is dict:
        return {"type": "object", "additionalProperties": _value(get_args(kind)[1], (*path, "*"))}
    if (listed := list_of(kind)) is not None:
        return {"type": "array", "items": _table(listed, path)}
    return _leaf(of)


def _leaf(of: Any) -> dict[str, object]:
    """Return the schema of a value that is no table."""
    if named := choices(of):
        one: dict[str, object] = {"type": "string", "enum": list(named)}
        return {"type": "array", "items": one} if get_origin(given(of)) in {frozenset, tuple} else one
    made = msgspec.json.schema(of, schema_hook=lambda custom: dict(_LEAVES[custom]))
    return _without_none(made)


def _without_none(made: dict[str, Any]) -> dict[str, object]:
    """Leave out null, which TOML cannot write, and values that the field states itself."""
    kinds = [kind for kind in made.pop("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) == 1:
        made |= kinds[0]
    elif kinds:
        made["anyOf"] = kinds
    made.pop("description", None)
    if "prefixItems" in made:  # as later drafts write what draft 7, which Taplo reads, calls ``items``
        made |= {"items": made.pop("prefixItems"), "additionalItems": False}
    return made

"""What strict readers of requests share."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from real_agents.task import Issued, Offered, Provider, Refusal

__all__ = [
    "check_call",
    "check_name",
    "error",
    "first_parameter",
    "items",
    "known",
    "offered_names",
    "one_of",
    "text_of",
]

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def known(value: Any, members: Collection[str], where: str, required: Collection[str] = ()) -> dict[str, Any]:
    """An object without unknown members."""
    if not isinstance(value, dict):
        raise Refusal(f"{where}: an object is expected, not {type(value).__name__}")
    if unknown := sorted(set(value) - set(members)):
        raise Refusal(f"{where}: unknown members {unknown}")
    if missing := sorted(set(required) - set(value)):
        raise Refusal(f"{where}: required members are missing: {missing}")
    return value


def items(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise Refusal(f"{where}: a list that is not empty is expected")
    return value


def one_of(value: Any, allowed: Collection[Any], where: str) -> None:
    if value not in allowed:
        raise Refusal(f"{where}: {value!r} is none of {sorted(map(str, allowed))}")


def check_name(name: Any, where: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Refusal(f"{where}: {name!r} is no name of a tool")
    return name


def check_call(provider: Provider, call_id: Any, name: str, arguments: Any, where: str) -> str:
    """A call in a history is one that was issued, unchanged."""
    if not isinstance(call_id, str) or call_id not in provider.task.issued:
        raise Refusal(f"{where}: the call {call_id!r} was never made")
    issued = provider.task.issued[call_id]
    if issued.by is not provider.spoken:
        return _check_anothers(issued, name, arguments, where)
    if name != issued.tool.name:
        raise Refusal(f"{where}: the call {call_id} was of {issued.tool.name}, not of {name}")
    given = arguments
    if isinstance(arguments, str) and not isinstance(issued.arguments, str):
        try:
            given = json.loads(arguments)
        except ValueError:
            raise Refusal(f"{where}: the arguments of {call_id} are no JSON: {arguments[:80]!r}") from None
    if not _is_same(issued.arguments, given):
        raise Refusal(f"{where}: the arguments of {call_id} are not those that were sent: {given!r:.300}")
    return call_id


def _check_anothers(issued: Issued, name: str, arguments: Any, where: str) -> str:
    """A call that a provider of another format made: its tool may have another name and shape here."""
    own = Offered(name).own_name
    if own != issued.tool.own_name:
        raise Refusal(f"{where}: the call {issued.id} was of {issued.tool.own_name}, not of {own}")
    if _text(issued.arguments) not in _text(arguments):
        raise Refusal(
            f"{where}: the arguments of {issued.id} are not those that were sent: {arguments!r:.300}"
        )
    return issued.id


def _text(arguments: Any) -> str:
    """Arguments as one text that does not depend on where a format puts it."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError:
            return str(arguments)  # the input of a custom tool
    if isinstance(arguments, dict):
        return "\n".join(str(arguments[name]) for name in sorted(arguments))
    return str(arguments)


def _is_same(issued: Any, given: Any) -> bool:
    """Whether an agent sends back what it got; Claude Code fills in what its tool has by default."""
    if isinstance(issued, dict) and isinstance(given, dict):
        return all(given.get(name) == value for name, value in issued.items())
    return bool(issued == given)


def first_parameter(schema: Any, where: str) -> str:
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise Refusal(f"{where}: the schema of a tool is of type object")
    return next(iter(schema.get("properties") or {}), "")


def text_of(
    content: Any, kinds: Mapping[str, Collection[str]], where: str, more: Collection[str] = ()
) -> str:
    """The text of a string, or of parts of some kinds, each with its members; ``more`` may be there too."""
    if isinstance(content, str):
        return content
    texts = []
    for at, part in enumerate(items(content, where)):
        kind, place = part.get("type"), f"{where}[{at}]"
        one_of(kind, kinds, f"{place}.type")
        known(part, {*kinds[kind], *more}, place, kinds[kind])
        texts.append(str(part.get("text", "")))
    return "".join(texts)


def offered_names(tools: Sequence[Offered]) -> Mapping[str, Offered]:
    """The tools by name. Raises ``Refusal`` where two have one name."""
    names = {(tool.namespace, tool.name): tool for tool in tools}
    if len(names) != len(tools):
        raise Refusal("tools: two tools have the same name")
    return {tool.name: tool for tool in tools}


def error(message: str) -> dict[str, Any]:
    """The refusal of a provider that speaks chat or Responses."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}

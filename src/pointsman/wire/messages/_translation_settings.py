"""Settings of a request in the Messages format: sampling, thinking, tools, and settings it cannot express."""

from __future__ import annotations

import hashlib
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from pointsman.decoding import decode_members
from pointsman.vocabulary import WireFormat
from pointsman.wire.client_tools import described, portable_tools
from pointsman.wire.constructs import Report, foreign_members
from pointsman.wire.conversation import Conversation, Tool
from pointsman.wire.models import (
    BUDGETS,
    MIN_BUDGET,
    MIN_THINKING_TOP_P,
    effort_of_budget,
    thinks_adaptively,
    thinks_harder,
)
from pointsman.wire.tools import flat_name

#: One block: an object to encode, or JSON as it came.
Written: TypeAlias = dict[str, Any] | msgspec.Raw

#: ``max_tokens``, which Messages insists on, where the caller names none.
DEFAULT_MAX_TOKENS: Final = 16_384
#: Tokens for the answer beside the thinking where the caller names no limit. With the largest budget below
#: that is 31,744: the smallest output limit of a model that thinks is 32,000.
ANSWER_TOKENS: Final = 7_168
#: ``max_tokens`` where the caller names none and the model decides itself how long it thinks.
ADAPTIVE_MAX_TOKENS: Final = 32_000
#: Characters of ``metadata.user_id``.
MAX_USER: Final = 256
_ADAPTIVE_EFFORTS: Final = frozenset({"low", "medium", "high", "xhigh", "max"})

_NO_SCHEMA: Final = msgspec.Raw(b'{"type":"object","properties":{}}')
_FREE_TEXT: Final = msgspec.Raw(
    b'{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}'
)
#: What some callers of chat send, because this format has it.
_SHARED: Final = {"top_k": "top_k"}
#: The member of Responses that asks for a summary of the reasoning.
_SUMMARY: Final = "reasoning.summary"
_MODES: Final = {"auto": "auto", "none": "none", "required": "any", "named": "tool"}


class _Typed(msgspec.Struct, gc=False):
    type: msgspec.Raw = msgspec.Raw()


_decode_typed: Final = msgspec.json.Decoder(_Typed).decode


def limits(asked: Conversation, report: Report, *, resumes: bool) -> dict[str, Any]:
    """``max_tokens`` and ``thinking``; ``resumes``: a turn continues and its thinking is not at hand."""
    if asked.thinking_budget == 0:
        return {"max_tokens": asked.max_tokens or DEFAULT_MAX_TOKENS, "thinking": {"type": "disabled"}}
    if adaptive_effort(asked, report):
        most = asked.max_tokens or ADAPTIVE_MAX_TOKENS
        if _must_not_think(asked, report, resumes=False):  # such models may begin at any time
            return {"max_tokens": most}
        return {"max_tokens": most, "thinking": {"type": "adaptive"} | _display(asked)}
    budget = _budget(asked, report)
    if budget and _must_not_think(asked, report, resumes=resumes):
        budget = 0
    most = asked.max_tokens or max(DEFAULT_MAX_TOKENS, budget + ANSWER_TOKENS if budget else 0)
    if budget >= most:
        budget = most // 2  # the caller's limit holds, and half of it is left for the answer
    if not budget or budget < MIN_BUDGET:
        return {"max_tokens": most}
    return {"max_tokens": most, "thinking": {"type": "enabled", "budget_tokens": budget}}


def _display(asked: Conversation) -> dict[str, str]:
    """A summary of the thinking, where Responses asks for one: newer models show none unless asked."""
    wanted = _SUMMARY in asked.options and thinks_harder(asked.model)
    return {"display": "summarized"} if wanted else {}


def _must_not_think(asked: Conversation, report: Report, *, resumes: bool) -> bool:
    if not resumes and (asked.choice is None or asked.choice.mode not in {"required", "named"}):
        return False
    report.meet("thinking_off")
    return True


def adaptive_effort(asked: Conversation, report: Report) -> str:
    """Return the effort of a request for a model that decides itself how long it thinks; empty for others."""
    if report.source is WireFormat.MESSAGES or not thinks_adaptively(asked.model):
        return ""
    if not asked.effort and asked.thinking_budget and thinks_harder(asked.model):
        report.meet("thinking_budget")  # which such a model refuses
        return effort_of_budget(asked.thinking_budget)
    effort = "high" if asked.effort == "xhigh" and not thinks_harder(asked.model) else asked.effort
    effort = effort if effort in _ADAPTIVE_EFFORTS else ""
    if effort != asked.effort:
        report.meet("effort")
    return effort


def _budget(asked: Conversation, report: Report) -> int:
    if asked.thinking_budget is not None:
        return asked.thinking_budget
    if not asked.effort or report.source is WireFormat.MESSAGES:
        return 0
    report.meet("effort")
    return BUDGETS.get(asked.effort, 0)


def sampling(asked: Conversation, report: Report, *, thinks: bool) -> dict[str, Any]:
    """``temperature`` and ``top_p``. Newer models take one of them, and thinking neither below its bound."""
    temperature, top_p = asked.temperature, asked.top_p
    if thinks_harder(asked.model) and report.source is not WireFormat.MESSAGES:
        for name, value in (("temperature", temperature), ("top_p", top_p)):
            if value is not None and value != 1:
                report.meet(name)
        return {}
    if temperature is not None and (temperature > 1 or (thinks and temperature != 1)):
        report.meet("temperature")
        temperature = 1.0
    if top_p == 1:  # the default
        top_p = None
    if top_p is not None and (temperature is not None or (thinks and top_p < MIN_THINKING_TOP_P)):
        report.meet("top_p")
        top_p = None
    values = {"temperature": temperature, "top_p": top_p}
    return {name: value for name, value in values.items() if value is not None}


def output_config(asked: Conversation, report: Report) -> dict[str, Any]:
    """The demanded shape, and an effort that Messages named itself. Raises ``Untranslatable``."""
    config: dict[str, Any] = {}
    effort = asked.effort if report.source is WireFormat.MESSAGES else adaptive_effort(asked, report)
    if effort:
        config["effort"] = effort
    if asked.shape:
        if not bytes(asked.shape.schema):
            report.meet("json_object")
        config["format"] = {"type": "json_schema", "schema": asked.shape.schema}
    return {"output_config": config} if config else {}


def tools(asked: Conversation, report: Report) -> dict[str, list[Written]]:
    """The tools offered. Raises ``Untranslatable``."""
    offered = asked.tools if report.source is WireFormat.MESSAGES else portable_tools(asked, report)
    return {"tools": [_tool(tool, report) for tool in offered]} if offered else {}


def _tool(tool: Tool, report: Report) -> Written:
    if tool.kind not in {"function", "custom"}:
        return tool.raw
    if tool.namespace:
        report.meet("namespace")
    written: dict[str, Any] = {"name": flat_name(tool.namespace, tool.name)}
    if description := described(tool):
        written["description"] = description
    if tool.kind == "custom":
        report.meet("custom_tool")
        return {**written, "input_schema": _FREE_TEXT}
    written["input_schema"] = _schema(tool.schema)
    if tool.strict:
        written["strict"] = True
    return written


def _schema(schema: msgspec.Raw) -> object:
    """A schema as sent; the API insists on the type that chat lets a caller leave out."""
    json = bytes(schema)
    if json.startswith(b'{"type":"object"'):
        return schema
    if json[:1] != b"{":
        return _NO_SCHEMA
    if bytes(_decode_typed(json).type):
        return schema
    return {"type": "object", **decode_members(json)}


def tool_choice(asked: Conversation) -> dict[str, Any]:
    """Whether tools may be called, and how many at once; nothing where no tool is offered."""
    choice, single = asked.choice, asked.parallel is False
    if not asked.tools or (choice is None and not single):
        return {}
    mode = choice.mode if choice else "auto"
    written: dict[str, Any] = {"type": _MODES[mode]}
    if choice and mode == "named":
        named = (flat_name(tool.namespace, tool.name) for tool in asked.tools if tool.name == choice.name)
        written["name"] = next(named, flat_name("", choice.name))
    if single and mode != "none":
        written["disable_parallel_tool_use"] = True
    return {"tool_choice": written}


def options(asked: Conversation, report: Report) -> dict[str, msgspec.Raw]:
    """Members the form has no place for: Messages's own as they are, others by the table.

    Raises:
        Untranslatable: one of them would change the effect or the answer.
    """
    if report.source is WireFormat.MESSAGES:
        return dict(asked.options)
    if report.source is WireFormat.CHAT:
        return foreign_members(asked, report, _SHARED)
    if _display(asked):  # written as the display of the thinking
        rest = {name: raw for name, raw in asked.options.items() if name != _SUMMARY}
        asked = replace(asked, options=rest)
    return foreign_members(asked, report)


def user(asked: Conversation, report: Report) -> dict[str, dict[str, str]]:
    """The end user; the SHA-256 digest of a name longer than the API takes."""
    if not asked.user:
        return {}
    name = asked.user
    if len(name) > MAX_USER and report.source is not WireFormat.MESSAGES:
        report.meet("user")
        name = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return {"metadata": {"user_id": name}}

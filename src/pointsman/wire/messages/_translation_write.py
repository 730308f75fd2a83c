"""A conversation, written as a Messages request."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec.json import encode as _encode
from msgspec.structs import replace

from pointsman.decoding import decode_members
from pointsman.vocabulary import Role, ToolCall, WireFormat
from pointsman.wire.constructs import Report, foreign_members
from pointsman.wire.conversation import (
    THOUGHTS,
    Conversation,
    Media,
    Message,
    Opaque,
    Part,
    Refusal,
    Result,
    Text,
    Thinking,
    Tool,
)
from pointsman.wire.items import present
from pointsman.wire.messages._translation_parts import Written, call_block, media_block
from pointsman.wire.models import (
    BUDGETS,
    MIN_BUDGET,
    MIN_THINKING_TOP_P,
    effort_of_budget,
    thinks_adaptively,
    thinks_harder,
    user_name,
)
from pointsman.wire.tools import call_id, described, flat_name, portable_tools

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


def write_request(asked: Conversation, report: Report) -> bytes:
    """Write a request. Changes are added to the report.

    Raises:
        Untranslatable: the format cannot express something of it, or it holds no message.
    """
    extra = _options(asked, report)
    messages = _messages(with_unique_ids(asked.messages), report)
    if not messages:
        report.meet("no_messages")
    limits = _limits(asked, report, resumes=_resumes(messages, is_own=asked.is_own_turn))
    thinks = limits.get("thinking", {}).get("type") in {"enabled", "adaptive"}
    body = {
        "model": asked.model,
        **limits,
        "system": write_texts(asked.system) or None,
        "messages": messages,
        **_tools(asked, report),
        **_tool_choice(asked),
        **_sampling(asked, report, thinks=thinks),
        **_output_config(asked, report),
        **_stop(asked.stop, report),
        **_user(asked, report),
        "stream": asked.stream or None,
    }
    return _encode(present(**body) | extra)


def _messages(messages: tuple[Message, ...], report: Report) -> list[dict[str, Any]]:
    """Messages of one role in a row are one, which begins with the results."""
    written: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        if message.role is Role.SYSTEM:
            blocks = _system(message, report)
        else:
            blocks = write_blocks(message.parts, report, of_assistant=role == "assistant")
        if not blocks:
            continue
        if written and written[-1]["role"] == role:
            written[-1]["content"] += blocks
        else:
            written.append({"role": role, "content": blocks})
    for message_ in written:
        if message_["role"] == "user":
            message_["content"].sort(key=lambda block: _type(block) != "tool_result")
    if written and written[-1]["role"] == "assistant":
        _trim(written[-1]["content"])
    return written


def _system(message: Message, report: Report) -> list[Written]:
    """A later instruction, in its place: moving it up would change the context before it."""
    report.meet("late_system")
    texts = (part for part in message.parts if isinstance(part, Text) and part.text.strip())
    return write_texts(Text(f"<system>\n{part.text}\n</system>", part.cached) for part in texts)


def _type(block: Written) -> str:
    return block["type"] if isinstance(block, dict) else ""


def _trim(content: list[Written]) -> None:
    """The API refuses a beginning of the answer that ends with white space."""
    last = content[-1]
    if isinstance(last, dict) and last["type"] == "text":
        content[-1] = {**last, "text": last["text"].rstrip()}


def _resumes(messages: list[dict[str, Any]], *, is_own: bool) -> bool:
    """Whether a turn continues after its calls without its first thinking: the API refuses to think then.

    A model need not think before each call: a message of the same upstream may lack thinking if the turn
    began with some.
    """
    if len(messages) < 2 or _type(messages[-1]["content"][0]) != "tool_result":
        return False
    if _type(messages[-2]["content"][0]) in THOUGHTS:
        return False
    return not (is_own and _has_thought(messages))


def _has_thought(messages: list[dict[str, Any]]) -> bool:
    """Whether an answer since the person spoke begins with thinking."""
    for message in reversed(messages):
        first = _type(message["content"][0])
        if message["role"] == "user" and first != "tool_result":
            return False
        if first in THOUGHTS:
            return True
    return False


def _stop(stop: tuple[str, ...], report: Report) -> dict[str, list[str]]:
    """The sequences that the API takes; one of white space alone is left to the gateway."""
    taken = [sequence for sequence in stop if sequence.strip()]
    if len(taken) < len(stop):
        report.keep_stops(tuple(sequence for sequence in stop if not sequence.strip()))
    return {"stop_sequences": taken} if taken else {}


# Settings: sampling, thinking, tools, and what the format cannot express.
def _limits(asked: Conversation, report: Report, *, resumes: bool) -> dict[str, Any]:
    """``max_tokens`` and ``thinking``; ``resumes``: a turn continues and its thinking is not at hand."""
    if asked.thinking_budget == 0:
        return {"max_tokens": asked.max_tokens or DEFAULT_MAX_TOKENS, "thinking": {"type": "disabled"}}
    if _adaptive_effort(asked, report):
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


def _adaptive_effort(asked: Conversation, report: Report) -> str:
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


def _sampling(asked: Conversation, report: Report, *, thinks: bool) -> dict[str, Any]:
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
    return present(temperature=temperature, top_p=top_p)


def _output_config(asked: Conversation, report: Report) -> dict[str, Any]:
    """The demanded shape, and an effort that Messages named itself. Raises ``Untranslatable``."""
    effort = asked.effort if report.source is WireFormat.MESSAGES else _adaptive_effort(asked, report)
    form = asked.shape and {"type": "json_schema", "schema": asked.shape.schema}
    if asked.shape and not bytes(asked.shape.schema):
        report.meet("json_object")
    config = present(effort=effort or None, format=form)
    return {"output_config": config} if config else {}


def _tools(asked: Conversation, report: Report) -> dict[str, list[Written]]:
    """The tools offered. Raises ``Untranslatable``."""
    offered = asked.tools if report.source is WireFormat.MESSAGES else portable_tools(asked, report)
    return {"tools": [_tool(tool, report) for tool in offered]} if offered else {}


def _tool(tool: Tool, report: Report) -> Written:
    if tool.kind not in {"function", "custom"}:
        return tool.raw
    if tool.namespace:
        report.meet("namespace")
    is_custom = tool.kind == "custom"
    if is_custom:
        report.meet("custom_tool")
    return present(
        name=flat_name(tool.namespace, tool.name),
        description=described(tool) or None,
        input_schema=_FREE_TEXT if is_custom else _schema(tool.schema),
        strict=(tool.strict and not is_custom) or None,
    )


def _schema(schema: msgspec.Raw) -> object:
    """A schema as sent; the API insists on the type that chat lets a caller leave out."""
    json = bytes(schema)
    if json.startswith(b'{"type":"object"'):
        return schema
    if json[:1] != b"{":
        return _NO_SCHEMA
    members = decode_members(json)
    return schema if "type" in members else {"type": "object", **members}


def _tool_choice(asked: Conversation) -> dict[str, Any]:
    """Whether tools may be called, and how many at once; nothing where no tool is offered."""
    choice, single = asked.choice, asked.parallel is False
    if not asked.tools or (choice is None and not single):
        return {}
    mode, name = choice.mode if choice else "auto", None
    if choice and mode == "named":
        named = (flat_name(tool.namespace, tool.name) for tool in asked.tools if tool.name == choice.name)
        name = next(named, flat_name("", choice.name))
    is_single = (single and mode != "none") or None
    written = {"type": _MODES[mode], "name": name, "disable_parallel_tool_use": is_single}
    return {"tool_choice": present(**written)}


def _options(asked: Conversation, report: Report) -> dict[str, msgspec.Raw]:
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


def _user(asked: Conversation, report: Report) -> dict[str, dict[str, str]]:
    """The end user; the SHA-256 digest of a name longer than the API takes."""
    if not asked.user:
        return {}
    own = report.source is WireFormat.MESSAGES
    return {"metadata": {"user_id": asked.user if own else user_name(asked.user, report, MAX_USER)}}


# Parts of a conversation, written as blocks of the Messages format.
_CACHED: Final = {"type": "ephemeral"}


def write_texts(texts: Iterable[Text]) -> list[Written]:
    """Blocks of text. One of white space alone is left out: the API refuses it."""
    return [_text(text) for text in texts if text.text.strip()]


def write_blocks(parts: Iterable[Part], report: Report, *, of_assistant: bool = False) -> list[Written]:
    """Blocks of one message. Raises ``Untranslatable``."""
    blocks: list[Written] = []
    for part in parts:
        if isinstance(part, Text):
            blocks += write_texts((part,))
        elif isinstance(part, ToolCall):
            blocks.append(call_block(part, report))
        elif isinstance(part, Result):
            blocks.append(_result(part, report))
        elif isinstance(part, Media):
            if not of_assistant or report.meet("media_of_assistant"):
                blocks.append(media_block(part, report))
        elif isinstance(part, Thinking):
            blocks += _thinking(part, report)
        else:
            blocks += _rare(part, report)
    return blocks


def _text(text: Text) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": text.text}
    if text.cached:
        block["cache_control"] = _CACHED
    return block


def _result(result: Result, report: Report) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id(result.call_id)}
    if not (result.parts or result.is_error):
        if result.text:
            block["content"] = result.text
        return block
    parts = result.content
    if result.is_error:
        block["is_error"] = True
        if all(isinstance(part, Text) and not part.text.strip() for part in parts):
            parts = (Text("Error"),)  # the API refuses an error without words
    if len(parts) == 1 and isinstance(parts[0], Text) and not parts[0].cached:
        block["content"] = parts[0].text  # as a string it may be empty
    elif content := write_blocks(parts, report):
        block["content"] = content
    return block


def _thinking(part: Thinking, report: Report) -> list[Written]:
    """Only reasoning by this format's provider, brought back by the gateway."""
    if part.author is not WireFormat.MESSAGES:
        report.meet("thinking_history")
        return []
    if part.encrypted:
        return [{"type": "redacted_thinking", "data": part.encrypted}]
    return [{"type": "thinking", "thinking": part.text, "signature": part.signature}]


def _rare(part: Refusal | Opaque, report: Report) -> list[Written]:
    if isinstance(part, Refusal):
        return write_texts((Text(part.text),))
    if part.format is not WireFormat.MESSAGES:
        report.meet_opaque(part.kind, part.kind)
        return []
    return [part.raw]


# Ids of calls, told apart: Messages refuses a request in which two calls have one id.
def with_unique_ids(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages with a unique id for every call, and its result under the same id."""
    ids = [
        part.id
        for message in messages
        if message.role is Role.ASSISTANT
        for part in message.parts
        if type(part) is ToolCall
    ]
    return messages if len(set(ids)) == len(ids) else tuple(map(_Renaming(set(ids)).message, messages))


class _Renaming:
    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self._seen: set[str] = set()
        self._last: dict[str, int] = {}  # number given last, by the id that it was added to
        self._awaited: dict[str, deque[str]] = defaultdict(deque)  # new ids of calls without a result

    def message(self, message: Message) -> Message:
        if message.role is Role.ASSISTANT:
            self._awaited.clear()  # a result that has not come belongs to no later call
        return Message(message.role, tuple(map(self._part, message.parts)))

    def _part(self, part: Part) -> Part:
        if isinstance(part, ToolCall):
            new = self._new(part.id)
            self._awaited[part.id].append(new)
            return replace(part, id=new)
        if isinstance(part, Result) and self._awaited.get(part.call_id):
            return replace(part, call_id=self._awaited[part.call_id].popleft())
        return part

    def _new(self, identifier: str) -> str:
        new, number = identifier, self._last.get(identifier, 1)
        while new in self._seen or (number > 1 and new in self._taken):
            number += 1
            new = f"{identifier}_{number}"
        self._last[identifier] = number
        self._seen.add(new)
        return new

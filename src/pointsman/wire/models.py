"""Settings that a model accepts, by its name, and the parameters of a tier written into a request.

A name may have a provider's prefix (``openai/gpt-5``). A model that is not known here gets the
settings that most servers take. Source: docs/notebook/0125.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from pointsman.decoding import Typed, decode_members, decoded, decoded_or
from pointsman.vocabulary import Parameters, WireFormat
from pointsman.wire.constructs import Report
from pointsman.wire.conversation import THOUGHTS, Conversation

__all__ = [
    "effort_of",
    "effort_of_budget",
    "is_openai",
    "is_openai_reasoning",
    "openai_effort",
    "openai_effort_off",
    "thinks_adaptively",
    "thinks_harder",
    "with_parameters",
]

# Settings that chat completions and Responses have in common, written for OpenAI's bounds.
#: Characters of ``user`` that OpenAI takes; Claude Code names its users in 150.
_MAX_USER: Final = 64


def user_name(user: str, report: Report, longest: int = _MAX_USER) -> str:
    """Return the end user's name; of one that is too long, the SHA-256 digest."""
    if len(user) <= longest:
        return user
    report.meet("user")
    return hashlib.sha256(user.encode("utf-8", "surrogatepass")).hexdigest()


def openai_sampling(asked: Conversation, report: Report) -> dict[str, float | None]:
    """Return ``temperature`` and ``top_p``. A model that reasons takes 1 alone, which is the default."""
    values = {"temperature": asked.temperature, "top_p": asked.top_p}
    if report.source is not report.target and is_openai_reasoning(asked.model):
        for name, value in values.items():
            if value is not None and value != 1:
                report.meet(name)
                values[name] = None
    return values


def openai_effort_of(asked: Conversation, report: Report) -> str:
    """Return the effort of reasoning in a word the model knows; empty if it takes none."""
    budget = asked.thinking_budget
    if asked.effort and budget != 0:
        if report.source is not WireFormat.MESSAGES:
            return asked.effort
        effort = openai_effort(asked.model, asked.effort)
        if effort != asked.effort:
            report.meet("effort_max")
        return effort
    if budget is None:
        return ""
    report.meet("thinking_budget")
    return effort_of_budget(budget) if budget > 0 else openai_effort_off(asked.model)


#: OpenAI's own models; gpt-oss runs on servers of others.
_OPENAI: Final = re.compile(r"(?:^|/)(?:o\d|codex-|chatgpt-)|(?<![a-z0-9])gpt-(?!oss)")
#: OpenAI's models that reason: they refuse ``max_tokens``. gpt-5-chat does not reason, and takes both.
_REASONING: Final = re.compile(
    r"(?:^|/)(?:o\d|codex-)|(?<![a-z0-9])gpt-(?:[5-9]|\d\d)(?!.*-chat)"  # a deployment's name may hold it
)
#: Those that know the efforts "xhigh" and "max".
_XHIGH: Final = re.compile(r"(?<![a-z0-9])gpt-(?:5\.1-codex-max|5\.[2-9]|[6-9]|\d\d)")
_MAX: Final = re.compile(r"(?<![a-z0-9])gpt-(?:5\.[6-9]|[6-9]|\d\d)")
#: Those that can be told not to reason at all, and those before them, which can be told to do so least.
_OFF: Final = re.compile(r"(?<![a-z0-9])gpt-(?:5\.[1-9]|[6-9]|\d\d)(?!.*-(?:codex|pro|chat))")
_LEAST: Final = re.compile(r"(?<![a-z0-9])gpt-5(?:-mini|-nano)?(?:-\d{4}-\d\d-\d\d)?$")
#: Claude by name and version: ``claude-opus-4-6``, ``anthropic/claude-sonnet-4.6``, ``claude-opus-5``.
_CLAUDE: Final = re.compile(r"claude-(?:[a-z]+)-(\d{1,2})(?:[-.](\d{1,2})(?!\d))?")
_MYTHOS: Final = "claude-mythos"
#: The smallest thinking budget the API takes.
MIN_BUDGET: Final = 1_024
#: The smallest ``top_p`` the API takes while thinking.
MIN_THINKING_TOP_P: Final = 0.95
#: Thinking budgets by effort. "none" and "minimal" are no thinking at all.
BUDGETS: Final[Mapping[str, int]] = {
    "low": 2_048,
    "medium": 8_192,
    "high": 24_576,
    "xhigh": 24_576,
    "max": 24_576,
}
#: Greatest thinking budget of an effort, in tokens; beyond the last it is high (constructs: thinking_budget).
_BUDGETS: Final = ((4_096, "low"), (16_384, "medium"))
_NAMES: Final = 256  # whose answer is remembered

#: Efforts that not every model knows, and the models that do.
_EFFORTS: Final = {"xhigh": _XHIGH, "max": _MAX}

_ADAPTIVE: Final = (4, 6)  # the first version of Claude that decides itself how long it thinks
_HARDER: Final = (4, 7)  # the first that knows the effort "xhigh"


@lru_cache(_NAMES)
def is_openai(model: str) -> bool:
    """Whether a chat request for this model may hold system messages anywhere."""
    return _OPENAI.search(model) is not None


@lru_cache(_NAMES)
def is_openai_reasoning(model: str) -> bool:
    """Whether a chat request for this model must name ``max_completion_tokens``."""
    return _REASONING.search(model) is not None


def effort_of_budget(budget: int) -> str:
    """Return the effort that a thinking budget in tokens amounts to."""
    return next((effort for most, effort in _BUDGETS if budget <= most), "high")


def openai_effort(model: str, effort: str) -> str:
    """Return an effort of Messages in a word that this model of chat or Responses knows."""
    return _openai_effort(model, effort) if effort in _EFFORTS else effort


@lru_cache(_NAMES)
def openai_effort_off(model: str) -> str:
    """Return the effort that switches reasoning off, or down if it cannot be off; else empty."""
    if _OFF.search(model):
        return "none"
    return "minimal" if _LEAST.search(model) else ""


@lru_cache(_NAMES)
def _openai_effort(model: str, effort: str) -> str:
    if _EFFORTS[effort].search(model):
        return effort
    return openai_effort(model, "xhigh") if effort == "max" else "high"


@lru_cache(_NAMES)
def thinks_adaptively(model: str) -> bool:
    """Whether a model of Messages takes ``thinking: {"type": "adaptive"}`` and an effort."""
    return _version(model) >= _ADAPTIVE


@lru_cache(_NAMES)
def thinks_harder(model: str) -> bool:
    """Whether a model of Messages knows the effort "xhigh"."""
    return _version(model) >= _HARDER


def _version(model: str) -> tuple[int, int]:
    found = _CLAUDE.search(model)
    if found is None:
        return _HARDER if _MYTHOS in model else (0, 0)
    return int(found[1]), int(found[2] or 0)


_Members: TypeAlias = dict[str, Any]

_encode: Final = msgspec.json.Encoder().encode

#: Efforts that are no thinking in Messages.
_NO_THINKING: Final = frozenset({"none", "minimal"})
_THINKS: Final = frozenset({"enabled", "adaptive"})


class _Message(msgspec.Struct):
    role: str = ""
    content: str | list[Typed] = ""

    def holds(self, kinds: frozenset[str]) -> bool:
        return not isinstance(self.content, str) and any(block.type in kinds for block in self.content)


_decode_messages: Final = msgspec.json.Decoder(list[_Message]).decode
_RESULTS: Final = frozenset({"tool_result"})


def with_parameters(wire: WireFormat, body: bytes, given: Parameters, *, translated: bool) -> bytes:
    """Return a request with the parameters of a tier.

    Args:
        wire: Its format.
        body: The request; its ``model`` is the id at the upstream.
        given: The parameters. An output limit of the caller's that is lower holds.
        translated: It goes to an upstream of another format.
    """
    members: _Members = dict(decoded(decode_members, body))
    _WRITERS[wire](members, given, translated)
    return _encode(members)


def effort_of(given: Parameters) -> str | None:
    """Return the effort, also where only a thinking budget is given."""
    budget = given.thinking_budget
    if given.effort is not None or budget is None:
        return given.effort
    return effort_of_budget(budget)


def _chat(members: _Members, given: Parameters, _translated: bool) -> None:
    effort = effort_of(given)
    _set(members, reasoning_effort=effort, temperature=given.temperature)
    named = [name for name in ("max_completion_tokens", "max_tokens") if _value(members, name) is not None]
    reasons = is_openai_reasoning(_value(members, "model") or "")
    for name in named or ["max_completion_tokens" if reasons else "max_tokens"]:
        _cap(members, name, given.max_tokens)


def _responses(members: _Members, given: Parameters, _translated: bool) -> None:
    effort = effort_of(given)
    if effort is not None:
        _set(members, reasoning={**_table(members, "reasoning"), "effort": effort})
    _set(members, temperature=given.temperature)
    _cap(members, "max_output_tokens", given.max_tokens)


def _messages(members: _Members, given: Parameters, translated: bool) -> None:
    _set(members, temperature=given.temperature)
    _cap(members, "max_tokens", given.max_tokens)
    if translated:
        if given.effort is not None:
            _set(members, output_config={**_table(members, "output_config"), "effort": given.effort})
        elif given.thinking_budget is not None:
            _set(members, thinking={"type": "enabled", "budget_tokens": given.thinking_budget})
        return
    thinking = _table(members, "thinking")
    if (given.effort or given.thinking_budget) and _may_set(members, thinking, given):
        _think(members, thinking, given)
    else:
        _set_effort(members, given)
        if given.max_tokens is not None:
            _fit_budget(members, thinking)
    if _table(members, "thinking").get("type") in _THINKS:
        _sample_as_thinking(members)


class _Turn(NamedTuple):
    """The state of a conversation."""

    is_prefilled: bool = False  # the answer has begun
    in_tool_loop: bool = False
    has_thought: bool = False  # since the person spoke


def _turn(members: _Members) -> _Turn:
    """Look back to where the turn began: at the user messages of which none holds the result of a tool."""
    messages = decoded_or([], _decode_messages, members.get("messages", b"[]"))
    in_tool_loop = has_thought = has_result = is_users = False
    is_last = True
    for message in reversed(messages):
        if message.role != "assistant":
            is_users, has_result = True, has_result or message.holds(_RESULTS)
            continue
        if is_last:
            is_last, in_tool_loop = False, has_result
        if is_users and not has_result:
            break
        has_thought = has_thought or message.holds(THOUGHTS)
        is_users = has_result = False
    is_prefilled = bool(messages) and messages[-1].role == "assistant"
    return _Turn(is_prefilled, in_tool_loop, has_thought)


def _may_set(members: _Members, thinking: _Members, given: Parameters) -> bool:
    """Whether thinking can be set: a turn continues in the mode it began in, or the API refuses it."""
    turn = _turn(members)
    if given.effort in _NO_THINKING:
        return not turn.has_thought if turn.in_tool_loop else not turn.is_prefilled
    if turn.in_tool_loop:
        return turn.has_thought or thinking.get("type") in _THINKS
    chosen = _table(members, "tool_choice").get("type")
    return not turn.is_prefilled and chosen not in {"any", "tool"}


def _think(members: _Members, thinking: _Members, given: Parameters) -> None:
    model = _value(members, "model") or ""
    kept = {name: value for name, value in thinking.items() if name not in {"type", "budget_tokens"}}
    if given.effort in _NO_THINKING:
        if thinking:
            _set(members, thinking={"type": "disabled"})
        return
    if thinks_harder(model) or (given.thinking_budget is None and thinks_adaptively(model)):
        _set(members, thinking={**kept, "type": "adaptive"})
        _set_effort(members, given)
        return
    budget = given.thinking_budget or BUDGETS[given.effort or "high"]
    most = _value(members, "max_tokens")
    if isinstance(most, int) and budget >= most:
        budget = most // 2  # the limit holds, and half of it is left for the answer
    if budget >= MIN_BUDGET:
        _set(members, thinking={**kept, "type": "enabled", "budget_tokens": budget})
    else:
        _fit_budget(members, thinking)


def _set_effort(members: _Members, given: Parameters) -> None:
    """Set the effort by itself, for models that have effort and thinking: it may change within a turn."""
    model, effort = _value(members, "model") or "", effort_of(given)
    if effort is None or effort in _NO_THINKING or not thinks_adaptively(model):
        return
    known = "high" if effort == "xhigh" and not thinks_harder(model) else effort
    _set(members, output_config={**_table(members, "output_config"), "effort": known})


def _fit_budget(members: _Members, thinking: _Members) -> None:
    """Leave room for the answer under a lowered limit: the caller's own thinking stays on."""
    budget, most = thinking.get("budget_tokens"), _value(members, "max_tokens")
    if not isinstance(budget, int) or not isinstance(most, int) or budget < most:
        return
    most = max(most, 2 * MIN_BUDGET)
    _set(members, max_tokens=most, thinking={**thinking, "budget_tokens": min(budget, most // 2)})


def _sample_as_thinking(members: _Members) -> None:
    """Leave out the members that the API refuses together with thinking."""
    if _value(members, "temperature") not in {None, 1}:
        del members["temperature"]
    members.pop("top_k", None)
    top_p = _value(members, "top_p")
    if isinstance(top_p, int | float) and top_p < MIN_THINKING_TOP_P:
        del members["top_p"]


_WRITERS: Final[Mapping[WireFormat, Callable[[_Members, Parameters, bool], None]]] = {
    WireFormat.CHAT: _chat,
    WireFormat.RESPONSES: _responses,
    WireFormat.MESSAGES: _messages,
}


def _set(members: _Members, **values: Any) -> None:
    """Set members that are given."""
    for name, value in values.items():
        if value is not None:
            members[name] = msgspec.Raw(_encode(value))


def _cap(members: _Members, name: str, most: int | None) -> None:
    """Lower a limit, or set it where the caller named none."""
    if most is not None:
        own = _value(members, name)
        if own is None or (isinstance(own, int) and own > most):
            members[name] = msgspec.Raw(_encode(most))


def _value(members: _Members, name: str) -> Any:
    raw = members.get(name)
    return None if raw is None else msgspec.json.decode(raw)


def _table(members: _Members, name: str) -> _Members:
    """A member that is an object; empty if it is none."""
    value = _value(members, name)
    return value if isinstance(value, dict) else {}

"""Shared types: requests, messages, evidence, model queries and replies, models.

Nothing here does anything. The types on the path of every request are ``msgspec.Struct``s: frozen like a
dataclass, and ten times cheaper to build (0.07 against 0.74 µs; docs/decisions/0003).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Meta

from pointsman.prices import Prices

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "DAY",
    "END_OF_TIME",
    "LARGE",
    "AgentRequest",
    "AgentRole",
    "Effort",
    "Encoder",
    "Evidence",
    "Feature",
    "History",
    "Message",
    "Mode",
    "ModelQuery",
    "ModelReply",
    "ModelSpec",
    "Parameters",
    "Permission",
    "Prompt",
    "Purpose",
    "Reason",
    "Role",
    "Script",
    "Share",
    "Stage",
    "Tier",
    "ToolCall",
    "ToolResult",
    "WireFormat",
]


#: Bytes of a request above which its values are counted before it is decoded, and above which it is read and
#: decided beside the event loop. A smaller one takes milliseconds whatever it holds.
LARGE: Final = 256 << 10

#: Seconds since the epoch at the end of the year 9998: a later time is beyond a date's range in some zone.
END_OF_TIME: Final = 253_370_764_800

Share: TypeAlias = Annotated[float, Meta(ge=0.0, le=1.0)]


class Tier(StrEnum):
    """How capable a model a prompt needs, cheapest first. Source: docs/sources/prompt-classifier.md."""

    SIMPLE = "SIMPLE"
    MEDIUM = "MEDIUM"
    COMPLEX = "COMPLEX"
    REASONING = "REASONING"

    @property
    def rank(self) -> int:
        """Position from the cheapest, starting at 0."""
        return _TIER_RANK[self]


_TIER_RANK = {tier: rank for rank, tier in enumerate(Tier)}


class WireFormat(StrEnum):
    """The three request formats agents speak."""

    CHAT = "chat"  # POST /v1/chat/completions
    RESPONSES = "responses"  # POST /v1/responses
    MESSAGES = "messages"  # POST /v1/messages


class Role(StrEnum):
    """Author of a message. ``developer`` counts as system; a message of tool results alone is TOOL."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class AgentRole(StrEnum):
    """Role of a request within an agent."""

    MAIN = "main"  # the conversation with the person
    SUBAGENT = "subagent"  # another conversation, begun by the first
    HELPER = "helper"  # a small call beside them: a title, a summary of what a tool did


# The members by plain names: Python 3.11 finds a member of an enum through a descriptor.
TIERS: Final = tuple(Tier)
SYSTEM, USER, ASSISTANT, TOOL = Role
MAIN, SUBAGENT, HELPER = AgentRole

#: Seconds of a day.
DAY: Final = 86_400.0

#: Between a session and what names its sub-agent: the two are the sub-agent's session.
OF_SUBAGENT: Final = ":"


class Purpose(StrEnum):
    """Purpose of an agent's request, for any role."""

    MESSAGE = "message"  # to answer a user message, or the task that a sub-agent was given
    TOOL_ITERATION = "tool_iteration"  # to go on after the results of tools
    PLAN = "plan"  # to answer a user message while the agent may only plan
    EDIT = "edit"  # to write changes that another model has described
    TITLE = "title"  # to name a session or a branch
    TOPIC = "topic"  # to tell whether a message begins a new topic
    SUMMARY = "summary"  # of a page, of what tools did, of changes to be committed
    COMPACTION = "compaction"  # a summary that takes the place of the conversation
    SIDE = "side"  # a question beside the conversation that repeats all of it, such as for the next message
    CHECK = "check"  # whether a command may run
    PROBE = "probe"  # whether key, quota or model are valid
    HELPER = "helper"  # any other small call


class Mode(StrEnum):
    """Mode of a part that may add text to a prompt. By default no prompt is changed."""

    OFF = "off"
    OBSERVE = "observe"  # decide and record, change nothing
    ON = "on"


OFF, OBSERVE, ON = Mode


class Stage(StrEnum):
    """Which stage decided the tier."""

    FORCED = "forced"  # the caller named a tier or a model
    ALIAS = "alias"  # an alias of the model name says the tier
    ROLE = "role"  # ``[tiers.roles]`` says the tier of this role
    PROJECT = "project"  # outcomes of the project say which tier is good enough
    CHEAP_FIRST = "cheap_first"  # the user message begins on a cheaper tier
    OVERRIDE = "override"  # an override of the profile
    RULES = "rules"  # the weighted score
    LEARNED = "learned"  # the learned router
    VERIFIED = "verified"  # a model was asked and answered
    FALLBACK = "fallback"  # a model was asked and failed, or deciding failed


class Script(StrEnum):
    """The writing system most of a text's letters belong to."""

    LATIN = "latin"
    CYRILLIC = "cyrillic"
    GREEK = "greek"
    ARABIC = "arabic"
    HEBREW = "hebrew"
    DEVANAGARI = "devanagari"
    THAI = "thai"
    HAN = "han"
    KANA = "kana"
    HANGUL = "hangul"
    OTHER = "other"
    NONE = "none"  # no letters at all


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """A tool call as the model wrote it."""

    id: str
    name: str
    arguments: str  # JSON text exactly as sent, perhaps malformed; the text itself for a custom tool
    custom: bool = False  # a custom tool of Responses, whose input is free text
    namespace: str = ""  # of a tool in Responses
    built_in: str = ""  # the tool, of those whose calls have an item type in Responses
    is_cut: bool = False  # ended by the output limit or a filter: must not be run

    @property
    def tool_name(self) -> str:
        """``name``, as a call that has been answered calls it: classifiers take both."""
        return self.name

    @property
    def params(self) -> str:
        """``arguments``, as a call that has been answered calls them."""
        return self.arguments


class ToolResult(msgspec.Struct, frozen=True, gc=False):
    """Result of a tool call."""

    call_id: str
    text: str
    is_error: bool | None = None  # None where the format has no such field

    @classmethod
    def error(cls, text: str) -> ToolResult:
        """A failure, for programs with a custom loop."""
        return cls("", text, is_error=True)

    @classmethod
    def ok(cls, text: str) -> ToolResult:
        """A success, for programs with a custom loop."""
        return cls("", text, is_error=False)


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message of any wire format. Thinking blocks are left out: they are never evidence."""

    role: Role
    texts: tuple[str, ...] = ()  # text blocks in order, as sent
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    images: int = 0


class History(Protocol):
    """The messages of a request, decoded only where someone looks."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Message: ...

    def __iter__(self) -> Iterator[Message]: ...

    def role(self, index: int, /) -> Role:
        """The role of one message, found without decoding the rest of it."""


class Permission(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Which models the caller of a request may use, as it was known when the request came.

    A budget nearly spent lowers the tier of requests whose model the gateway chooses, and of no others.
    """

    models: tuple[tuple[str, ...], ...] = ()  # patterns of configured names; one of each group has to match
    highest: Tier | None = None  # no model of a higher tier alone
    priced: bool = False  # a budget stands: no model whose price is unknown
    low: Tier | None = None  # the highest tier while a budget is nearly spent
    why_low: str = ""  # which budget, and what is left of it


class AgentRequest(msgspec.Struct, frozen=True):
    """One request as the agent sent it."""

    format: WireFormat
    history: History
    system: str = ""
    tools: tuple[str, ...] = ()  # names of the tools offered
    model: str = "auto"  # the model id the caller asked for
    session: str = ""
    arrived_at: float = 0.0  # seconds since the epoch; time arrives inside the request
    message_id: str = ""  # identity of the user message, where the caller knows it
    is_text: bool = False  # one text without its conversation: a new user message, also when it is said again
    size: int = 0  # bytes of the request
    tool_list: msgspec.Raw = msgspec.Raw()  # the tools offered, as sent
    tool_choice: msgspec.Raw = msgspec.Raw()  # which of them the caller demands, as sent
    features: frozenset[str] = frozenset()  # what it needs of a model: "tools", "vision", "structured"
    role: AgentRole | None = None  # as the request says it; None: it does not
    role_mark: str = ""  # by what it says so, for a person
    purpose: Purpose | None = None  # None: nothing tells
    project: str = ""  # what the agent works on, as a hash; empty: nothing tells
    client: str = ""  # the program that sends it, as it names itself
    project_name: str = ""  # of the project's folder, for a person
    active: tuple[str, ...] = ()  # capabilities that the run whose question this is has selected
    all_active: bool = False  # the run selects nothing: all are active
    command: str = ""  # in-band command taken off the person's words: "/caps:off", "/caps:off:session"
    may_call: bool = True  # the history may hold tool calls; False when it certainly holds none
    caller: str = ""  # the name of the key it came with; empty: none was asked for
    traceparent: str = ""  # the caller's span (``wire.project``); empty: none
    team: str = ""  # that of the key
    permission: Permission | None = None  # which models the caller may use; None: all
    repeated: frozenset[int] = frozenset()  # hashes of lines that its client is known to repeat


class Evidence(msgspec.Struct, frozen=True, gc=False):
    """The result of one scan of the user's words.

    ``hits`` is a set of signals as a bit mask: bit *i* is signal *i* of the ``SignalTable`` that
    scanned the text. A group's hits are ``(hits & group_mask).bit_count()``: no loop, one total order.
    """

    text: str  # the user's words
    hits: int
    characters: int
    utf16_units: int
    tokens: int  # estimate: UTF-8 bytes // 4
    questions: int  # question marks
    script: Script


class Reason(msgspec.Struct, frozen=True, gc=False):
    """One step of an explanation. Reasons are appended, never overwritten."""

    code: str  # stable and greppable: "tiers.override.reasoning"
    detail: str  # for a person


class Encoder(Protocol):
    """Turns texts into vectors: a local embedding model, present only where its extra is installed."""

    @property
    def name(self) -> str:
        """Name and version of the table or model: part of every cache key and calibration file."""

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """One row of unit length per text (all zeros for a text without a known token); deterministic."""


class ModelQuery(msgspec.Struct, frozen=True, gc=False):
    """A question to a model. A decision yields it and receives a ``ModelReply``."""

    kind: str  # "verify_tier", "judge_capability", "guidance"
    system: str  # instructions; the caller's text is never here
    text: str  # the caller's text, delimited data
    labels: tuple[str, ...] = ()  # the only answers allowed, when constrained
    max_tokens: int = 16
    timeout_ms: int = 500
    model: str = ""  # configured name of the model to ask; empty = the driver's default
    about: str = ""  # what is judged: the name of a capability
    beside: tuple[ModelQuery, ...] = ()  # the next questions, which may be asked at the same time


class ModelReply(msgspec.Struct, frozen=True, gc=False):
    """The reply to a model query, or its failure. "Unavailable" and "no" are different replies."""

    text: str = ""
    error: str = ""  # why there is no reply: "timeout", "no-key", "budget", "upstream: …"
    elapsed_ms: float = 0.0
    input_tokens: int | None = None  # as the model reported them; None: it did not
    output_tokens: int | None = None
    was_asked: bool = True  # False: no model has seen the question, so nobody is paid for it

    @property
    def ok(self) -> bool:
        """True when a model replied."""
        return not self.error


class Prompt(msgspec.Struct, frozen=True):
    """One question to a model: instructions, and the caller's text as delimited data."""

    system: str
    text: str
    max_tokens: int = 16
    labels: tuple[str, ...] = ()  # the only answers allowed, when constrained


#: What a request may need of a model beyond text.
Feature: TypeAlias = Literal["tools", "vision", "structured"]


#: How much a model is to think, in the words of the providers.
Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class Parameters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Parameters of a tier's model; None leaves the caller's value."""

    effort: Annotated[
        Effort | None,
        Meta(description="Reasoning effort; a thinking budget where the model is asked in Messages."),
    ] = None
    thinking_budget: Annotated[
        Annotated[int, Meta(ge=1_024)] | None,  # the least that the Messages API takes
        Meta(description="Thinking budget in tokens; an effort where the model is not asked in Messages."),
    ] = None
    max_tokens: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Output limit in tokens; a lower limit of the caller's holds."),
    ] = None
    temperature: Annotated[
        Annotated[float, Meta(ge=0, le=2)] | None, Meta(description="Sampling temperature.")
    ] = None

    def __post_init__(self) -> None:
        """Refuse valid values that contradict each other."""
        budget = self.thinking_budget
        if budget is None:
            return
        if self.max_tokens is not None and budget >= self.max_tokens:
            raise ValueError('"thinking_budget" must be less than "max_tokens"')
        if self.effort in {"none", "minimal"}:
            raise ValueError(f'"thinking_budget" contradicts the effort "{self.effort}"')

    def __str__(self) -> str:
        """Return those that are given: ``effort=high, max_tokens=4096``."""
        given = ((name, getattr(self, name)) for name in Parameters.__struct_fields__)
        return ", ".join(f"{name}={value}" for name, value in given if value is not None)


class ModelSpec(Prices, frozen=True):
    """A model. Prices are US dollars per million tokens."""

    name: str  # the name in the configuration
    upstream: Annotated[str, Meta(description="Name of the upstream that serves it.")]
    id: Annotated[str, Meta(description="The model id sent to that upstream.")]
    context_window: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="Context window in tokens. If not given: the catalogue's. "
            "While unknown, requests are not filtered by it."
        ),
    ] = None
    max_output_tokens: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Longest answer in tokens."),
    ] = None
    cache_seconds: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(
            description="Seconds after its last use that the provider's prompt cache is gone. "
            "If not given: the catalogue's. While unknown, it is taken to last."
        ),
    ] = None
    features: Annotated[
        frozenset[Feature] | None,
        Meta(
            description="Features that it supports. If not given: the catalogue's. "
            "While unknown, requests are not filtered by them."
        ),
    ] = None
    #: What its upstream speaks natively: no key of the configuration, which takes it from the upstream.
    formats: Annotated[frozenset[WireFormat], Meta(extra={"derived": True})] = frozenset(WireFormat)
    #: Formats whose requests are translated for it.
    translated: Annotated[frozenset[WireFormat], Meta(extra={"derived": True})] = frozenset()

    def takes(self, wire: WireFormat) -> bool:
        """Whether it serves requests of a format, natively or translated."""
        return wire in self.formats or wire in self.translated

"""The shapes of a chat completions request as it is read for translation: its messages, tools and settings.

A shape whose name begins with ``Known`` is the same without a member that is not known.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pointsman.wire.conversation import ABSENT


class Called(msgspec.Struct, gc=False):
    """The function that a call names, and its arguments."""

    name: str | None = None
    arguments: Any = None  # a text; some servers write the object itself


class _CalledCustom(msgspec.Struct, gc=False):
    name: str | None = None
    input: str | None = None


class WireCall(msgspec.Struct, gc=False):
    """An entry of ``tool_calls``, whole or, in a stream, a fragment."""

    index: int | None = None
    id: str | None = None
    type: str | None = None
    function: Called | None = None
    custom: _CalledCustom | None = None


class _KnownCalled(Called, gc=False, forbid_unknown_fields=True): ...


class _KnownCall(WireCall, gc=False, forbid_unknown_fields=True):
    function: _KnownCalled | None = None


class WireMessage(msgspec.Struct, gc=False):
    """A message of a request."""

    role: str
    content: str | list[msgspec.Raw] | None = None
    name: str | None = None
    tool_calls: list[WireCall] | None = None
    function_call: Called | None = None
    tool_call_id: str | None = None
    refusal: str | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    is_error: Any = None
    annotations: msgspec.Raw = msgspec.Raw()  # of an answer that is sent back
    audio: msgspec.Raw = msgspec.Raw()


class KnownMessage(WireMessage, gc=False, forbid_unknown_fields=True):
    """The same without a member that is not known."""

    tool_calls: list[_KnownCall] | None = None  # type: ignore[assignment]
    function_call: _KnownCalled | None = None


class WireImage(msgspec.Struct, gc=False):
    """An image of a message."""

    url: str
    detail: str | None = None


class _File(msgspec.Struct, gc=False):
    file_data: str | None = None
    file_id: str | None = None
    filename: str | None = None


class _Audio(msgspec.Struct, gc=False):
    data: str
    format: str = "wav"


class WirePart(msgspec.Struct, gc=False):
    """A part of a message's content."""

    type: str = "text"
    text: str | None = None
    refusal: str | None = None
    image_url: WireImage | str | None = None
    file: _File | None = None
    input_audio: _Audio | None = None
    cache_control: Any = None  # some callers send Anthropic's mark


class Named(msgspec.Struct, gc=False):
    """A named object: its name alone is read."""

    name: str = ""


class WireFunction(msgspec.Struct, gc=False):
    """A function that is offered."""

    name: str
    description: str | None = None
    parameters: msgspec.Raw = ABSENT
    strict: bool | None = None


class _Grammar(msgspec.Struct, gc=False):
    definition: str
    syntax: str


class _InputFormat(msgspec.Struct, gc=False):
    type: str
    grammar: _Grammar | None = None


class WireCustom(msgspec.Struct, gc=False):
    """A tool of free text that is offered."""

    name: str
    description: str | None = None
    format: _InputFormat | None = None


class WireTool(msgspec.Struct, gc=False):
    """An entry of ``tools``."""

    type: str = "function"
    function: WireFunction | None = None
    custom: WireCustom | None = None


class _AllowedTool(msgspec.Struct, gc=False):
    function: Named | None = None
    custom: Named | None = None


class _AllowedTools(msgspec.Struct, gc=False):
    mode: str = "auto"
    tools: list[_AllowedTool] = []


class _Choice(_AllowedTool, gc=False):
    type: str = ""
    allowed_tools: _AllowedTools | None = None


class _Schema(msgspec.Struct, gc=False):
    name: str = ""
    description: str | None = None
    schema: msgspec.Raw = ABSENT
    strict: bool | None = None


class AnswerFormat(msgspec.Struct, gc=False):
    """The demanded shape of the answer."""

    type: str
    json_schema: _Schema | None = None


class StreamOptions(msgspec.Struct, gc=False):
    """Settings of a stream."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class _KnownChoice(_Choice, gc=False, forbid_unknown_fields=True): ...


class _KnownSchema(_Schema, gc=False, forbid_unknown_fields=True): ...


class _KnownFormat(AnswerFormat, gc=False, forbid_unknown_fields=True):
    json_schema: _KnownSchema | None = None


class _KnownStreamOptions(StreamOptions, gc=False, forbid_unknown_fields=True): ...


class _KnownFunction(WireFunction, gc=False, forbid_unknown_fields=True): ...


class KnownTool(WireTool, gc=False, forbid_unknown_fields=True):
    """The same without a member that is not known."""

    function: _KnownFunction | None = None


class _Reasoning(msgspec.Struct, gc=False):
    effort: str | None = None
    max_tokens: int | None = None


class _Thinking(msgspec.Struct, gc=False):
    type: str = ""
    budget_tokens: int | None = None


class Request(msgspec.Struct, gc=False):
    """A request."""

    model: str
    messages: list[WireMessage]
    tools: list[msgspec.Raw] | None = None
    functions: list[WireFunction] | None = None
    tool_choice: str | _Choice | None = None
    function_call: str | Named | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    response_format: AnswerFormat | None = None
    reasoning_effort: str | None = None
    user: str | None = None
    safety_identifier: str | None = None
    reasoning: _Reasoning | None = None  # OpenRouter
    thinking: _Thinking | None = None  # servers that speak chat for models of Messages


class KnownRequest(Request, gc=False):
    """The same without members that are not known inside its messages and settings."""

    messages: list[KnownMessage]  # type: ignore[assignment]
    tool_choice: str | _KnownChoice | None = None
    stream_options: _KnownStreamOptions | None = None
    response_format: _KnownFormat | None = None

"""A request body as an ``AgentRequest``: the few fields a decision needs, everything else left as bytes.

An agent resends its whole history with every request. Two thousand messages cost one split (0.2 ms for
400 kB); only the few that a classifier reads are decoded.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from pointsman.decoding import UNREADABLE, decode_members, encoded, whole_text
from pointsman.errors import MalformedRequest, TooLarge
from pointsman.text.extract import opening
from pointsman.vocabulary import AgentRequest, Message, Role, WireFormat
from pointsman.wire import FORMATS
from pointsman.wire.body import Body
from pointsman.wire.format import ABSENT, Items, Member
from pointsman.wire.items import read_item
from pointsman.wire.responses import additional_tools
from pointsman.wire.responses.stored_conversation import StoredConversation
from pointsman.wire.tools import tool_names

__all__ = [
    "MAX_ITEMS",
    "MAX_TOOLS",
    "JsonHistory",
    "guess_format",
    "of_caller",
    "read_request",
    "request_from_text",
    "session_fingerprint",
]


#: Items of ``messages`` or ``input``: at twenty tokens each, a context of a million.
MAX_ITEMS: Final = 50_000
#: Tools offered. At twenty tokens each they take a fifth of such a context.
MAX_TOOLS: Final = 10_000
_NOTHING: Final[frozenset[str]] = frozenset()
_RESPONSES: Final = WireFormat.RESPONSES
_IMAGE: Final = re.compile(rb'"type"\s*+:\s*+"(?:image|image_url|input_image)"')
#: What ``response_format``, ``text.format`` and ``output_config.format`` agree on.
_STRUCTURED: Final = re.compile(rb'"type"\s*+:\s*+"json_(?:schema|object)"')
#: Members at the top level that Messages has and chat completions do not.
_OF_MESSAGES: Final = ("system", "stop_sequences", "thinking", "top_k", "output_config")
#: What tools and blocks of messages have in Messages alone.
_FUNCTION: Final = re.compile(rb'"type"\s*+:\s*+"function"\s*+[,}]')
_BLOCKS: Final = re.compile(rb'"input_schema"\s*+:|"type"\s*+:\s*+"tool_(?:use|result)"')


def read_request(
    wire: WireFormat,
    body: Body | bytes | Mapping[str, Any],
    *,
    session: str = "",
    arrived_at: float = 0.0,
    earlier: StoredConversation | None = None,
    caller: str = "",
) -> AgentRequest:
    """Read a request body of one wire format.

    Args:
        wire: Which format the body is of.
        body: One that has been read, the bytes as they arrived, or the same as a Python mapping.
        session: The session the request belongs to, as the caller named it.
        arrived_at: Seconds since the epoch.
        earlier: The conversation that a Responses request continues, if the provider stores it.
        caller: Name of the key it came with.

    Raises:
        MalformedRequest: not JSON, or a field that must be a list or a string is not.
        TooLarge: nested deeper than the decoder goes (about 1,000 levels), more than ``MAX_ITEMS`` messages,
            or more than ``MAX_TOOLS`` tools.
    """
    try:
        if not isinstance(body, Body):
            data = body if isinstance(body, bytes) else encoded(body, _plain)
            body = Body(FORMATS[wire], data, trusted=True)
        items, model = body.conversation()
        tool_list, tool_choice, *others = body.asked()
        offered: msgspec.Raw | None = tool_list
        if wire is _RESPONSES and tool_list is ABSENT and items and not isinstance(items, str):
            offered = additional_tools(items[0])
        read: Sequence[msgspec.Raw | bytes] = (
            items if earlier is None and isinstance(items, list) else _items(items, earlier)
        )
        history = JsonHistory(wire, read)
        system = body.wire.system(body.member, history)
        old = others.pop() if body.wire.old_tools else None
        tools = _tools(offered, old) if offered or old else ()
    except RecursionError:
        raise TooLarge("the request body is nested too deep") from None
    except msgspec.ValidationError as error:
        raise _misshapen(error) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise MalformedRequest(f"the request body is not valid JSON: {error}") from None
    if len(read) > MAX_ITEMS:
        raise TooLarge(f"the request holds more than {MAX_ITEMS} messages", hint="send fewer")
    data = body.readable
    size, features = len(data), _features(data, tools, others)
    if earlier is not None:
        size, features = size + earlier.size, features | earlier.features
    return AgentRequest(
        format=wire,
        history=history,
        system=system,
        tools=tools,
        model=model,
        session=session,
        arrived_at=arrived_at,
        size=size,
        features=features,
        may_call=earlier is not None or b"tool_" in data or b"_call" in data,
        tool_list=tool_list,
        tool_choice=tool_choice,
        caller=caller,
    )


def _items(items: Items, earlier: StoredConversation | None) -> list[msgspec.Raw | bytes]:
    before: list[msgspec.Raw | bytes] = [*earlier.items()] if earlier else []
    if isinstance(items, str):
        return [*before, msgspec.json.encode({"role": "user", "content": items})] if items else before
    return [*before, *(items or ())]


def _tools(offered: msgspec.Raw | None, old: msgspec.Raw | None) -> tuple[str, ...]:
    """Names of all tools offered, also of those in the member that came before ``tools``."""
    names = tool_names(offered) if offered else ()
    if old:
        names += tool_names(old)
    if len(names) > MAX_TOOLS:
        raise TooLarge(f"the request offers more than {MAX_TOOLS} tools", hint="offer fewer", param="tools")
    return names


def _features(data: bytes, tools: tuple[str, ...], shapes: Iterable[msgspec.Raw]) -> frozenset[str]:
    """The features a request needs. Quotes inside a text are escaped, so a text cannot look like these."""
    needed = {"tools"} if tools else set()
    if b"image" in data and _IMAGE.search(data):  # the first test is ten times the faster
        needed.add("vision")
    for shape in shapes:
        if shape and _STRUCTURED.search(memoryview(shape)):
            needed.add("structured")
    return frozenset(needed) if needed else _NOTHING


def of_caller(caller: str, name: str) -> str:
    """Return the name that a session, or an answer, of one caller has among those of all.

    No caller can choose another's: names of callers hold no slash. The name is the same where no key is asked
    for.
    """
    return f"{caller}/{name}" if caller else name


def session_fingerprint(request: AgentRequest) -> str:
    """Return a session for a turn that names none: its tools, system text and a person's first message.

    All three come again with every request of a conversation. Only texts count: cache markers move.
    """
    start = "\x00".join((request.system, *request.tools, *opening(request))).encode("utf-8", "surrogatepass")
    return "f-" + hashlib.blake2b(start, digest_size=12).hexdigest()


def guess_format(member: Member, *, is_messages: bool = False) -> WireFormat:
    """Return the format of a request body that came without one, by its members.

    A short conversation without tools and settings can be chat completions or Messages: it is read as the
    first, which decides the same.

    Args:
        member: Returns a member of the body.
        is_messages: A header of the client names Messages.
    """
    messages = member("messages")
    if messages is None:
        return WireFormat.RESPONSES
    if is_messages or any(member(name) is not None for name in _OF_MESSAGES):
        return WireFormat.MESSAGES
    tools = memoryview(member("tools") or b"")
    if _FUNCTION.search(tools):  # whose parameters may have any name
        return WireFormat.CHAT
    found = _BLOCKS.search(tools) or _BLOCKS.search(memoryview(messages))
    return WireFormat.MESSAGES if found else WireFormat.CHAT


def request_from_text(
    text: str, *, system: str = "", session: str = "", arrived_at: float = 0.0
) -> AgentRequest:
    """The turn of a caller that sends one message and nothing else."""
    body = {"messages": [{"role": "user", "content": whole_text(text)}]}
    request = read_request(WireFormat.CHAT, body, session=session, arrived_at=arrived_at)
    return msgspec.structs.replace(request, system=system, is_text=True)


def _plain(value: Any) -> Any:
    """What JSON has for the object of a provider's SDK (Pydantic); of others their text."""
    return value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else str(value)


def _misshapen(error: msgspec.ValidationError) -> MalformedRequest:
    """Say which field of a body is missing or of another type."""
    reason, _, place = str(error).partition(" - at ")
    field = place.strip("`$.").partition("[")[0] or _missing_field(reason)
    return MalformedRequest(f"{reason} at {place or '`$`'} of the request body", param=field)


def _missing_field(reason: str) -> str | None:
    """The field in "Object missing required field `messages`"; None for any other reason."""
    return reason.rpartition("missing required field ")[2].strip("`") if "required field" in reason else None


_SMALL: Final = 2_048  # bytes of an item


class JsonHistory:
    """A ``History`` over JSON items. Decoding never raises; an unreadable item is an empty message."""

    def __init__(self, wire: WireFormat, items: Sequence[msgspec.Raw | bytes]) -> None:
        self._wire = FORMATS[wire]
        self._items = items
        self._decoded: list[Message | None] = [None] * len(items)

    @classmethod
    def of(cls, wire: WireFormat, items: Iterable[Any]) -> JsonHistory:
        """Build from Python values, such as ``[{"role": "user", "content": "hi"}]``."""
        return cls(wire, [msgspec.json.encode(item, enc_hook=str) for item in items])

    def replaced(self, items: Mapping[int, msgspec.Raw | bytes]) -> JsonHistory:
        """The same history with other items at some positions."""
        return JsonHistory(
            self._wire.format, [items.get(index, item) for index, item in enumerate(self._items)]
        )

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> Message:
        message = self._decoded[index]
        if message is None:
            item = self._items[index]
            try:
                message = self._wire.read_plain(item)
            except UNREADABLE:
                message = None
            if message is None:
                message = read_item(self._wire, _any_value(item))
            self._decoded[index] = message
        return message

    def __iter__(self) -> Iterator[Message]:
        return map(self.__getitem__, range(len(self._items)))

    def role(self, index: int) -> Role:
        """The role of a message, found without building the message: 0.3 against 4 µs.

        A classifier that looks for the last words of a person passes over a thousand tool results.
        """
        known = self._decoded[index]
        if known is not None:
            return known.role
        item = self._items[index]
        if len(item) > _SMALL:  # a small one costs hardly more, and is often looked at next
            try:
                return self._wire.read_role(item)
            except UNREADABLE:
                pass
        return self[index].role


def _any_value(item: msgspec.Raw | bytes) -> object:
    """Decode an item of any shape; None if it is not JSON.

    A member that cannot be decoded, such as a number out of range, is left out: the other members count.
    """
    try:
        return msgspec.json.decode(item)
    except UNREADABLE:
        pass
    found: dict[str, Any] = {}
    try:
        members = decode_members(item)
    except UNREADABLE:
        return None
    for name, value in members.items():
        with suppress(*UNREADABLE):
            found[name] = msgspec.json.decode(value)
    return found

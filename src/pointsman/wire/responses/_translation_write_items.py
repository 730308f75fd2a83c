"""Messages of the form as items of a Responses request."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from pointsman.vocabulary import Role, WireFormat
from pointsman.wire.constructs import Report
from pointsman.wire.conversation import Call, Media, Message, Opaque, Part, Refusal, Result, Text, Thinking
from pointsman.wire.responses._built_in import action_of, call_type
from pointsman.wire.tool_names import flat_name, short

__all__ = ["write_items"]

_OWN: Final = WireFormat.RESPONSES
_MAX_ID: Final = 64  # characters of a ``call_id``


def write_items(message: Message, report: Report) -> Iterator[Any]:
    """The items of one message, in their order; results come before a user's words."""
    if message.role is Role.ASSISTANT:
        for said, group in groupby(message.parts, key=lambda part: isinstance(part, Text | Refusal)):
            parts = list(group)
            yield from _said(parts, report) if said else _acts(parts, report)
        return
    results = [part for part in message.parts if isinstance(part, Result)]
    yield from _acts(results, report)
    rest = [part for part in message.parts if not isinstance(part, Result)]
    if message.role is Role.TOOL:
        yield from _acts([part for part in rest if isinstance(part, Opaque)], report)
        rest = [part for part in rest if not isinstance(part, Opaque)]
    content = [written for part in rest if (written := _content(part, report)) is not None]
    if content:
        role = "developer" if message.role is Role.SYSTEM else "user"
        yield {"type": "message", "role": role, "content": content}


def _said(parts: list[Part], report: Report) -> Iterator[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, Refusal):
            content.append({"type": "refusal", "refusal": part.text})
        elif isinstance(part, Text):
            if part.cached:
                report.meet("cache_control")
            if part.text:
                content.append({"type": "output_text", "text": part.text, "annotations": []})
    if content:
        yield {"type": "message", "role": "assistant", "content": content}


def _acts(parts: list[Any], report: Report) -> Iterator[Any]:
    for part in parts:
        match part:
            case Call():
                yield _call(part)
            case Result():
                yield _result(part, report)
            case Thinking():
                if _OWN in {report.source, part.author}:
                    yield _thinking(part)
                else:
                    report.meet("thinking_history")
            case Opaque():
                if part.format is _OWN:
                    yield part.raw
                else:
                    report.meet_opaque(part.kind, part.kind)
            case _:  # an image among the model's words, where this format takes text alone
                report.meet("media_of_assistant")


def _thinking(part: Thinking) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": part.text}] if part.text else []
    written: dict[str, Any] = {"type": "reasoning", "summary": summary}
    if part.id:
        written["id"] = part.id
    if part.encrypted:
        written["encrypted_content"] = part.encrypted
    return written


def _call(call: Call) -> dict[str, Any]:
    call_id = short(call.id, _MAX_ID)
    if tool := call.built_in:
        return {"type": call_type(tool), "call_id": call_id, **action_of(tool, call.arguments)}
    written: dict[str, Any] = {"type": "custom_tool_call" if call.custom else "function_call"}
    written |= {"call_id": call_id, "name": flat_name("", call.name)}
    if call.namespace:
        written["namespace"] = call.namespace
    return written | ({"input": call.arguments} if call.custom else {"arguments": call.arguments or "{}"})


def _result(result: Result, report: Report) -> dict[str, Any]:
    parts = result.parts
    if result.is_error and not report.meet("is_error"):
        parts = _marked(parts)
    kind = "custom_tool_call_output" if result.custom else "function_call_output"
    kind = "local_shell_call_output" if result.local_shell else kind
    written = [content for part in parts if (content := _content(part, report)) is not None]
    texts = [part["text"] for part in written if part["type"] == "input_text"]
    plain = len(texts) == len(written) and len(texts) < 2
    call_id = short(result.call_id, _MAX_ID)
    return {"type": kind, "call_id": call_id, "output": "".join(texts) if plain else written}


def _marked(parts: tuple[Text | Media, ...]) -> tuple[Text | Media, ...]:
    if parts and isinstance(parts[0], Text):
        return Text(f"Error: {parts[0].text}"), *parts[1:]
    return Text("Error: "), *parts


def _content(part: Part, report: Report) -> Any:
    """One part of a user's or developer's message, or of a result; None for nothing."""
    match part:
        case Text():
            if part.cached:
                report.meet("cache_control")
            return {"type": "input_text", "text": part.text} if part.text else None
        case Refusal():
            return {"type": "input_text", "text": part.text} if part.text else None
        case Media():
            return _media(part, report)
        case Opaque() if part.format is _OWN:
            return part.raw
        case Opaque():
            report.meet_opaque(part.kind, part.kind)
    return None


def _media(media: Media, report: Report) -> dict[str, Any] | None:
    if media.kind == "audio" and not (report.source is _OWN or report.meet("audio", "input_audio")):
        return None
    if media.file_id and report.source is not _OWN:
        report.meet("file_id")
    if media.kind == "audio":
        sound = {"data": media.data, "format": media.media_type.removeprefix("audio/")}
        return {"type": "input_audio", "input_audio": sound}
    own = {"file_id": media.file_id} if media.file_id else {}
    if media.kind == "image":
        url = f"data:{media.media_type};base64,{media.data}" if media.data else media.url
        image = {"type": "input_image", "detail": media.detail or "auto"}
        return image | (own or {"image_url": url})
    return {"type": "input_file"} | (own or _file(media))


def _file(media: Media) -> dict[str, Any]:
    if not media.data:
        return {"file_url": media.url}  # a name beside an address is refused
    data = f"data:{media.media_type or 'application/pdf'};base64,{media.data}"
    return {"filename": media.name or "document.pdf", "file_data": data}

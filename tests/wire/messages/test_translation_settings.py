"""A conversation written as a Messages request: its settings, and the way back."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.vocabulary import Role, ToolCall
from pointsman.wire.constructs import CONSTRUCT_OF, CONSTRUCTS, NEUTRAL, Report, Untranslatable
from pointsman.wire.conversation import (
    Conversation,
    Media,
    Message,
    Result,
    Shape,
    Text,
    Thinking,
    Tool,
    ToolChoice,
)
from pointsman.wire.messages.translation import CODEC
from support.messages_codec import MESSAGES, OBJECT, RESPONSES, raw, written


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (b"", {"type": "object", "properties": {}}),
        (b"null", {"type": "object", "properties": {}}),
        (b"{}", {"type": "object"}),
        (b'{"properties":{"a":{}}}', {"type": "object", "properties": {"a": {}}}),
        (b'{ "type": "object", "x": 1}', {"type": "object", "x": 1}),
    ],
)
def test_input_schema_has_a_type(schema: bytes, expected: object) -> None:
    body, _ = written(tools=(Tool("f", schema=msgspec.Raw(schema)),))
    assert body["tools"] == [{"name": "f", "input_schema": expected}]


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"options": {"n": raw(2)}}, "n"),
        ({"options": {"logprobs": msgspec.Raw(b"true")}}, "logprobs"),
        ({"options": {"top_logprobs": raw(3)}}, "top_logprobs"),
        ({"options": {"include": raw(["message.output_text.logprobs"])}}, "include"),
        ({"options": {"logit_bias": raw({"1": 2})}}, "logit_bias"),
        ({"options": {"previous_response_id": raw("r")}}, "previous_response_id"),
        ({"options": {"background": msgspec.Raw(b"true")}}, "background"),
        ({"options": {"prompt": raw({"id": "p"})}}, "prompt"),
        ({"tools": (Tool("web_search", kind="web_search"),)}, 'tools (type "web_search")'),
        ({"shape": Shape()}, "text.format"),
        ({"messages": ()}, "input"),
        ({"messages": (Message(Role.USER, (Text(" "),)),)}, "input"),
    ],
)
def test_member_is_refused_by_name(members: dict[str, Any], field: str) -> None:
    with pytest.raises(Untranslatable) as refusal:
        written(RESPONSES, **members)
    assert refusal.value.param == field


def test_hints_are_left_out_and_said() -> None:
    options: dict[str, Any] = {
        "seed": 1,
        "frequency_penalty": 0.5,
        "presence_penalty": 0.1,
        "store": True,
        "metadata": {"a": "b"},
        "service_tier": "flex",
        "verbosity": "low",
    }
    body, changed = written(options={name: raw(value) for name, value in options.items()})
    assert body == {
        "model": "m",
        "max_tokens": 16_384,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }
    assert changed == ["seed", "penalties", "stored", "metadata", "service_tier", "verbosity"]


def test_what_asks_for_nothing_is_not_mentioned() -> None:
    options: dict[str, Any] = {
        "n": 1,
        "logprobs": False,
        "store": False,
        "background": False,
        "presence_penalty": 0,
        "metadata": {},
        "service_tier": "auto",
        "stream_options": {"include_usage": True},
        "include": [],
        "seed": None,
    }
    _, changed = written(options={name: raw(value) for name, value in options.items()})
    assert changed == []


def test_every_member_stands_in_the_table() -> None:
    assert set(CONSTRUCT_OF.values()) <= set(CONSTRUCTS)
    assert NEUTRAL.keys() <= CONSTRUCT_OF.keys()


def test_own_options_come_back() -> None:
    body, changed = written(MESSAGES, options={"top_k": raw(3), "service_tier": raw("standard_only")})
    assert (body["top_k"], body["service_tier"], changed) == (3, "standard_only", [])


@pytest.mark.parametrize(
    ("choice", "parallel", "expected"),
    [
        (None, None, None),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        (ToolChoice("auto"), True, {"type": "auto"}),
        (ToolChoice("required"), False, {"type": "any", "disable_parallel_tool_use": True}),
        (ToolChoice("named", "f"), None, {"type": "tool", "name": "f"}),
        (ToolChoice("none"), False, {"type": "none"}),
    ],
)
def test_tool_choice(choice: ToolChoice | None, parallel: bool | None, expected: object) -> None:
    body, _ = written(tools=(Tool("f", schema=OBJECT),), choice=choice, parallel=parallel)
    assert body.get("tool_choice") == expected
    assert "tool_choice" not in written(choice=choice, parallel=parallel)[0]


@pytest.mark.parametrize(
    ("members", "limits", "changed"),
    [
        ({}, (16_384, None), []),
        ({"max_tokens": 100}, (100, None), []),
        ({"effort": "none"}, (16_384, None), ["effort"]),
        ({"effort": "low"}, (16_384, 2_048), ["effort"]),
        ({"effort": "medium"}, (16_384, 8_192), ["effort"]),
        ({"effort": "high"}, (31_744, 24_576), ["effort"]),
        ({"effort": "high", "max_tokens": 40_000}, (40_000, 24_576), ["effort"]),
        ({"effort": "high", "max_tokens": 24_576}, (24_576, 12_288), ["effort"]),
        ({"effort": "high", "max_tokens": 2_000}, (2_000, None), ["effort"]),
        ({"effort": "low", "choice": ToolChoice("required")}, (16_384, None), ["effort", "thinking_off"]),
    ],
)
def test_thinking_budget_stays_below_the_limit(
    members: dict[str, Any], limits: tuple[int, int | None], changed: list[str]
) -> None:
    body, reported = written(**members)
    assert (body["max_tokens"], body.get("thinking", {}).get("budget_tokens")) == limits
    assert reported == changed


@pytest.mark.parametrize(
    ("members", "sent", "changed"),
    [
        ({"temperature": 0.3}, {"temperature": 0.3}, []),
        ({"temperature": 1.7}, {"temperature": 1.0}, ["temperature"]),
        ({"temperature": 0.3, "top_p": 1.0}, {"temperature": 0.3}, []),
        ({"temperature": 0.3, "top_p": 0.9}, {"temperature": 0.3}, ["top_p"]),
        ({"top_p": 0.9}, {"top_p": 0.9}, []),
        ({"temperature": 0.3, "effort": "low"}, {"temperature": 1.0}, ["effort", "temperature"]),
        ({"top_p": 0.9, "effort": "low"}, {}, ["effort", "top_p"]),
    ],
)
def test_sampling(members: dict[str, Any], sent: dict[str, float], changed: list[str]) -> None:
    body, reported = written(**members)
    assert {name: body[name] for name in ("temperature", "top_p") if name in body} == sent
    assert reported == changed


IDS = st.from_regex(r"\A[a-zA-Z0-9_-]{1,8}\Z")
WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(
    lambda text: text == text.rstrip() != ""
)
OBJECTS = st.dictionaries(st.text("ab"), st.integers(0, 9)).map(lambda value: json.dumps(value))
TEXTS = st.builds(Text, WORDS, st.booleans())
IMAGES = st.builds(Media, st.just("image"), st.just("image/png"), st.just("AAAA"))
RESULTS = st.builds(
    Result.of, IDS, st.lists(TEXTS | IMAGES, min_size=1, max_size=2).map(tuple), st.booleans()
)
THOUGHTS = st.builds(Thinking, WORDS, WORDS, author=st.just(MESSAGES))
SAID = st.lists(TEXTS | THOUGHTS | st.builds(ToolCall, IDS, IDS, OBJECTS), min_size=1, max_size=3)
ASKED = st.lists(TEXTS | IMAGES, min_size=1, max_size=2)


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    messages = [Message(Role.USER, tuple(draw(ASKED)))]
    for _ in range(draw(st.integers(0, 2))):
        messages.append(Message(Role.ASSISTANT, tuple(draw(SAID))))
        results = draw(st.lists(RESULTS, max_size=2))
        asked = draw(ASKED) if not results or draw(st.booleans()) else []
        messages.append(Message(Role.USER if asked else Role.TOOL, (*results, *asked)))
    tools = draw(st.lists(st.builds(Tool, IDS, WORDS, st.just(OBJECT)), min_size=1, max_size=2))
    modes = st.none() | st.sampled_from(
        [ToolChoice("auto"), ToolChoice("required"), ToolChoice("named", "f")]
    )
    choice = draw(modes)
    return Conversation(
        model="m",
        system=tuple(draw(st.lists(TEXTS, max_size=2))),
        messages=tuple(messages),
        tools=tuple(tools),
        choice=choice,
        parallel=False if choice and draw(st.booleans()) else None,
        max_tokens=draw(st.integers(4_000, 9_000)),
        temperature=draw(st.none() | st.just(1.0)),
        stop=tuple(draw(st.lists(WORDS, max_size=2))),
        stream=draw(st.booleans()),
        shape=draw(st.none() | st.just(Shape(OBJECT))),
        effort=draw(st.sampled_from(["", "low", "max"])),
        thinking_budget=draw(st.sampled_from([None, 0] if choice else [None, 0, 2_048])),
        user=draw(st.sampled_from(["", "u"])),
        options=draw(st.sampled_from([{}, {"top_k": raw(4)}])),
    )


def _thinks_in_vain(conversation: Conversation) -> bool:
    """Thinking is switched off in a turn that goes on without its first thoughts."""
    return (
        bool(conversation.thinking_budget)
        and isinstance(conversation.messages[-1].parts[0], Result)
        and not isinstance(conversation.messages[-2].parts[0], Thinking)
    )


def _calls_twice(conversation: Conversation) -> bool:
    """Two calls have one id: the second gets another."""
    ids = [
        part.id for message in conversation.messages for part in message.parts if isinstance(part, ToolCall)
    ]
    return len(set(ids)) < len(ids)


@given(conversations().filter(lambda found: not (_thinks_in_vain(found) or _calls_twice(found))))
def test_what_is_written_is_read_again(conversation: Conversation) -> None:
    report = Report(MESSAGES, MESSAGES)
    assert CODEC.read_request(CODEC.write_request(conversation, report)) == conversation
    assert report.changed == []

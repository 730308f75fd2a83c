"""A chat completions request in the form that all formats share: read, written, and there and back."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.errors import MalformedRequest
from pointsman.vocabulary import Role, ToolCall, WireFormat
from pointsman.wire.chat.translation import CODEC
from pointsman.wire.constructs import Report, Untranslatable
from pointsman.wire.conversation import (
    Conversation,
    Media,
    Message,
    Opaque,
    Part,
    Refusal,
    Result,
    Shape,
    Text,
    Thinking,
    Tool,
    ToolChoice,
)

MESSAGES, CHAT, RESPONSES = WireFormat.MESSAGES, WireFormat.CHAT, WireFormat.RESPONSES
PNG = "data:image/png;base64,iVBO"


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def read(**members: Any) -> Conversation:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **members}
    return CODEC.read_request(json.dumps(body).encode())


def read_messages(*messages: dict[str, Any]) -> tuple[Message, ...]:
    return read(messages=list(messages)).messages


def write(conversation: Conversation, source: WireFormat = MESSAGES) -> tuple[dict[str, Any], list[str]]:
    report = Report(source, CHAT)
    return json.loads(CODEC.write_request(conversation, report)), report.changed


def write_messages(
    *messages: Message, source: WireFormat = MESSAGES
) -> tuple[list[dict[str, Any]], list[str]]:
    body, changed = write(Conversation(model="m", messages=messages), source)
    return body["messages"], changed


def user(*parts: Part) -> Message:
    return Message(Role.USER, parts)


def assistant(*parts: Part) -> Message:
    return Message(Role.ASSISTANT, parts)


# Reading


def test_system_and_developer_before_the_first_message_are_the_system() -> None:
    found = read(
        messages=[
            {"role": "system", "content": "be brief"},
            {"role": "developer", "content": [{"type": "text", "text": "use tools"}]},
            {"role": "user", "content": "hi"},
            {"role": "developer", "content": "now in French"},
        ]
    )
    assert found.system == (Text("be brief"), Text("use tools"))
    assert found.messages == (user(Text("hi")), Message(Role.SYSTEM, (Text("now in French"),)))


@pytest.mark.parametrize(
    ("part", "read_as"),
    [
        ({"type": "text", "text": "hi"}, Text("hi")),
        ({"type": "image_url", "image_url": {"url": PNG}}, Media("image", "image/png", "iVBO")),
        (
            {"type": "image_url", "image_url": {"url": "https://a/b.png", "detail": "low"}},
            Media("image", url="https://a/b.png", detail="low"),
        ),
        ({"type": "image_url", "image_url": "https://a/b.png"}, Media("image", url="https://a/b.png")),
        (
            {"type": "image_url", "image_url": {"url": "data:image/svg+xml,%3Csvg"}},
            Media("image", url="data:image/svg+xml,%3Csvg"),
        ),
        (
            {"type": "image_url", "image_url": {"url": "data:image/png;x=y;base64,AA"}},
            Media("image", "image/png", "AA"),
        ),
        (
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"}},
            Media("document", "application/pdf", "JVBE", name="a.pdf"),
        ),
        ({"type": "file", "file": {"file_id": "f1"}}, Media("document", file_id="f1")),
        (
            {"type": "input_audio", "input_audio": {"data": "UklG", "format": "mp3"}},
            Media("audio", "audio/mp3", "UklG"),
        ),
    ],
)
def test_a_part_of_a_users_message(part: dict[str, Any], read_as: Part) -> None:
    assert read_messages({"role": "user", "content": [part]}) == (user(read_as),)


def test_a_part_that_is_not_known_is_kept_as_it_is() -> None:
    (message,) = read_messages(
        {"role": "user", "content": [{"type": "video_url", "video_url": {"url": "u"}}]}
    )
    (part,) = message.parts
    assert isinstance(part, Opaque)
    assert (part.format, part.kind, msgspec.json.decode(part.raw)["video_url"]) == (
        CHAT,
        "video_url",
        {"url": "u"},
    )


def test_empty_texts_are_left_out() -> None:
    content = [{"type": "text", "text": ""}, {"type": "text", "text": "a"}]
    assert read_messages({"role": "user", "content": content}, {"role": "assistant", "content": ""}) == (
        user(Text("a")),
        assistant(),
    )


def test_an_assistants_message_keeps_the_order_thinking_text_calls() -> None:
    calls = [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}},
        {"id": "b", "type": "custom", "custom": {"name": "patch", "input": "***"}},
        {"id": "c", "type": "function", "function": {"name": "g", "arguments": {"x": 1}}},
    ]
    message = {"role": "assistant", "content": "ok", "reasoning_content": "hm", "tool_calls": calls}
    assert read_messages(message) == (
        assistant(
            Thinking("hm"),
            Text("ok"),
            ToolCall("a", "f", ""),
            ToolCall("b", "patch", "***", custom=True),
            ToolCall("c", "g", '{"x":1}'),
        ),
    )


def test_reasoning_under_its_other_name_and_a_refusal() -> None:
    assert read_messages({"role": "assistant", "content": None, "reasoning": "hm", "refusal": "no"}) == (
        assistant(Thinking("hm"), Refusal("no")),
    )


def test_results_of_one_turn_are_one_message() -> None:
    assert read_messages(
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "2"}], "is_error": True},
        {"role": "user", "content": "go on"},
    ) == (
        Message(Role.TOOL, (Result.of("a", (Text("1"),)), Result.of("b", (Text("2"),), is_error=True))),
        user(Text("go on")),
    )


def test_legacy_calls_and_results_get_ids_that_no_other_call_has() -> None:
    call = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    result = {"role": "function", "name": "f", "content": "1"}
    assert read_messages(call, result, call, result) == (
        assistant(ToolCall("call_1", "f", "{}")),
        Message(Role.TOOL, (Result.of("call_1", (Text("1"),)),)),
        assistant(ToolCall("call_2", "f", "{}")),
        Message(Role.TOOL, (Result.of("call_2", (Text("1"),)),)),
    )


FUNCTION = {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}
TOOL = Tool("f", "d", raw({"type": "object"}), strict=True)


@pytest.mark.parametrize(
    ("members", "attribute", "value"),
    [
        ({"stop": "END"}, "stop", ("END",)),
        ({"stop": ["a", "b"]}, "stop", ("a", "b")),
        ({"stop": None}, "stop", ()),
        ({"max_tokens": 5}, "max_tokens", 5),
        ({"max_tokens": 5, "max_completion_tokens": 7}, "max_tokens", 7),
        ({"reasoning_effort": "high"}, "effort", "high"),
        ({"reasoning_effort": None}, "effort", ""),
        ({"user": "u"}, "user", "u"),
        ({"safety_identifier": "u"}, "user", "u"),
        ({"parallel_tool_calls": False}, "parallel", False),
        ({"stream": True, "stream_options": {"include_usage": True}}, "stream", True),
        ({"stream": True, "stream_options": {"include_usage": True}}, "stream_usage", True),
        ({"stream": True}, "stream_usage", False),
        ({"stream": True, "stream_options": None}, "stream_usage", False),
        ({"temperature": 0}, "temperature", 0),
        ({"tool_choice": "required"}, "choice", ToolChoice("required")),
        ({"tool_choice": "any"}, "choice", ToolChoice("required")),
        ({"tool_choice": {"type": "auto"}}, "choice", ToolChoice("auto")),
        (
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
            "choice",
            ToolChoice("named", "f"),
        ),
        ({"tool_choice": {"type": "custom", "custom": {"name": "f"}}}, "choice", ToolChoice("named", "f")),
        ({"function_call": {"name": "f"}}, "choice", ToolChoice("named", "f")),
        ({"function_call": "none"}, "choice", ToolChoice("none")),
        ({"functions": [FUNCTION]}, "tools", (TOOL,)),
        ({"tools": [{"type": "function", "function": FUNCTION}]}, "tools", (TOOL,)),
        ({"response_format": {"type": "text"}}, "shape", None),
        ({"response_format": {"type": "json_object"}}, "shape", Shape()),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "s", "schema": {}, "strict": True},
                }
            },
            "shape",
            Shape(raw({}), "s", strict=True),
        ),
        ({"n": 1, "logprobs": False, "seed": None, "store": False, "logit_bias": {}}, "options", {}),
        (
            {"n": 2, "seed": 3, "new": {"a": 1}},
            "options",
            {"n": raw(2), "seed": raw(3), "new": raw({"a": 1})},
        ),
        ({"web_search_options": {}}, "tools", (Tool("web_search", kind="web_search_options", raw=raw({})),)),
    ],
)
def test_a_member(members: dict[str, Any], attribute: str, value: object) -> None:
    found = CODEC.read_request(msgspec.json.encode({"model": "m", "messages": [], **members}))
    assert getattr(found, attribute) == value
    assert attribute == "options" or not found.options


def test_allowed_tools_are_the_only_ones_offered() -> None:
    tools = [{"type": "function", "function": {"name": name}} for name in "fgh"]
    allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "g"}}]}
    found = read(tools=tools, tool_choice={"type": "allowed_tools", "allowed_tools": allowed})
    assert (found.tools, found.choice) == ((Tool("g"),), ToolChoice("required"))


def test_a_custom_tool_is_kept_as_responses_nests_it() -> None:
    grammar = {"type": "grammar", "grammar": {"definition": "start: x", "syntax": "lark"}}
    found = read(tools=[{"type": "custom", "custom": {"name": "p", "format": grammar}}])
    (tool,) = found.tools
    assert (tool.kind, tool.name) == ("custom", "p")
    assert msgspec.json.decode(tool.raw)["format"] == {
        "type": "grammar",
        "definition": "start: x",
        "syntax": "lark",
    }


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "truncated"),
        (b"[]", "object"),
        (b'{"model":"m"}', "messages"),
        (b'{"model":"m","messages":[{"content":"a"}]}', "role"),
        (b'{"model":"m","messages":[{"role":"robot","content":"a"}]}', r"messages\[0\].role"),
        (b'{"model":"m","messages":[{"role":"user","content":[1]}]}', r"messages\[0\].content"),
        (b'{"model":"m","messages":[],"tool_choice":"maybe"}', "tool_choice"),
        (b'{"model":"m","messages":[],"response_format":{"type":"xml"}}', "response_format"),
        (b'{"model":"m","messages":[],"max_tokens":"many"}', "max_tokens"),
    ],
)
def test_what_is_no_request_is_refused_by_name(body: bytes, words: str) -> None:
    with pytest.raises(MalformedRequest, match=words):
        CODEC.read_request(body)


@pytest.mark.parametrize("content", [rb'"a\ud83d"', rb'[{"type":"text","text":"a\ud83d"}]'])
def test_half_an_emoji_is_no_reason_to_refuse(content: bytes) -> None:
    found = CODEC.read_request(b'{"model":"m","messages":[{"role":"user","content":' + content + b"}]}")
    assert found.messages == (user(Text("a\ufffd")),)


# Writing


def test_results_then_media_then_the_users_words() -> None:
    image = Media("image", "image/png", "iVBO")
    written, changed = write_messages(
        assistant(ToolCall("a", "f", ""), ToolCall("b", "g", '{"x":')),
        user(Result.of("a", (Text("1"), image)), Result.of("b", (image,), is_error=True), Text("go on")),
    )
    shown = {"type": "image_url", "image_url": {"url": PNG}}
    assert written == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                {"id": "b", "type": "function", "function": {"name": "g", "arguments": '{"x":'}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "Error: (shown in the next message)"},
        {"role": "user", "content": [shown, shown, {"type": "text", "text": "go on"}]},
    ]
    assert changed == ["image_in_result", "is_error"]


def test_media_stand_behind_the_last_result_even_where_results_are_messages_of_their_own() -> None:
    image = Media("image", url="https://a/b.png")
    written, _ = write_messages(
        Message(Role.TOOL, (Result.of("a", (image,)),)),
        Message(Role.TOOL, (Result.of("b", (Text("2"),)),)),
        assistant(Text("seen")),
    )
    assert [message["role"] for message in written] == ["tool", "tool", "user", "assistant"]


def test_a_later_system_message_stays_where_it_is() -> None:
    written, _ = write_messages(
        user(Text("a")), Message(Role.SYSTEM, (Text("b"),)), user(Text(""), Text("c"))
    )
    assert [(message["role"], message["content"]) for message in written] == [
        ("user", "a"),
        ("user", "<system>\nb\n</system>"),
        ("user", "c"),
    ]


def test_reasoning_is_left_out_and_reported() -> None:
    written, changed = write_messages(
        user(Text("a")), assistant(Thinking("hm", "sig")), assistant(Thinking("hm"), Text("b"))
    )
    assert written == [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert changed == ["thinking_history"]


def test_media_of_the_assistant_are_left_out_and_reported() -> None:
    written, changed = write_messages(assistant(Text("a"), Media("image", url="https://a/b"), Refusal("no")))
    assert written == [{"role": "assistant", "content": "a", "refusal": "no"}]
    assert changed == ["media_of_assistant"]


def test_a_file_without_a_name_gets_one() -> None:
    (written,), _ = write_messages(user(Media("document", "application/pdf", "JVBE")))
    file = {"filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBE"}
    assert written["content"] == [{"type": "file", "file": file}]


def test_what_chat_alone_has_comes_back_to_chat() -> None:
    members = {
        "messages": [{"role": "user", "content": [{"type": "video_url", "video_url": {"url": "u"}}]}],
        "tools": [{"type": "builtin_function", "function": {"name": "$search"}}],
        "web_search_options": {"search_context_size": "low"},
        "seed": 1,
    }
    body, changed = write(read(**members), CHAT)
    assert body == {"model": "m", **members}
    assert changed == []


def test_system_texts_are_one_message_and_cache_marks_are_reported() -> None:
    body, changed = write(Conversation(model="m", system=(Text("a", cached=True), Text("b"))))
    assert body["messages"] == [{"role": "system", "content": "a\n\nb"}]
    assert changed == ["cache_control"]


def test_custom_tools_and_namespaces_become_functions() -> None:
    tools = (
        Tool("patch", "d", kind="custom", raw=raw({"type": "custom"})),
        Tool("ls", schema=raw({}), namespace="mcp"),
    )
    messages = (
        assistant(ToolCall("a", "patch", "***", custom=True), ToolCall("b", "ls", "{}", namespace="mcp")),
    )
    body, changed = write(
        Conversation(model="m", tools=tools, messages=messages, choice=ToolChoice("named", "ls")), RESPONSES
    )
    functions = [tool["function"] for tool in body["tools"]]
    assert functions[0]["parameters"]["required"] == ["input"]
    assert functions[1] == {"name": "mcp__ls", "parameters": {}}
    assert [call["function"] for call in body["messages"][0]["tool_calls"]] == [
        {"name": "patch", "arguments": '{"input":"***"}'},
        {"name": "mcp__ls", "arguments": "{}"},
    ]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "mcp__ls"}}
    assert sorted(changed) == ["custom_tool", "namespace"]


@pytest.mark.parametrize(
    ("members", "written", "changed"),
    [
        ({"max_tokens": 9}, {"max_tokens": 9}, []),
        (
            {"max_tokens": 9, "effort": "low"},
            {"max_completion_tokens": 9, "reasoning_effort": "low"},
            [],
        ),
        ({"effort": "max"}, {"reasoning_effort": "high"}, ["effort_max"]),
        ({"thinking_budget": 4096}, {"reasoning_effort": "low"}, ["thinking_budget"]),
        ({"thinking_budget": 16384}, {"reasoning_effort": "medium"}, ["thinking_budget"]),
        ({"thinking_budget": 16385}, {"reasoning_effort": "high"}, ["thinking_budget"]),
        ({"thinking_budget": 0}, {}, ["thinking_budget"]),
        ({"stop": ("a",)}, {"stop": ["a"]}, []),
        ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}, []),
        ({"user": "u"}, {"user": "u"}, []),
        ({"choice": ToolChoice("none"), "parallel": False}, {}, []),  # refused where there are no tools
        ({"shape": Shape()}, {"response_format": {"type": "json_object"}}, []),
        (
            {"shape": Shape(raw({}))},
            {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {}}}},
            [],
        ),
        ({"options": {"top_k": raw(4), "speed": raw("fast")}}, {}, ["top_k", "provider_hint"]),
        ({"options": {"prompt_cache_key": raw("k"), "store": raw(False)}}, {}, ["provider_hint"]),  # noqa: FBT003
        ({"options": {"text.verbosity": raw("low"), "top_logprobs": raw(0)}}, {}, ["verbosity"]),
    ],
)
def test_a_member_is_written(members: dict[str, Any], written: dict[str, Any], changed: list[str]) -> None:
    body, reported = write(Conversation(model="m", **members))
    assert body == {"model": "m", "messages": [], **written}
    assert reported == changed


@pytest.mark.parametrize(
    ("members", "named"),
    [
        ({"tools": (Tool("web_search", kind="web_search_20250305", raw=raw({})),)}, "web_search_20250305"),
        ({"messages": (user(Media("image", file_id="f1")),)}, "file_id"),
        ({"messages": (user(Media("document", url="https://a/b.pdf")),)}, "source.url"),
        ({"messages": (assistant(Opaque(MESSAGES, "server_tool_use", raw({}))),)}, "server_tool_use"),
        ({"options": {"previous_response_id": raw("r")}}, "previous_response_id"),
        ({"options": {"background": raw(True)}}, "background"),  # noqa: FBT003
        ({"options": {"top_logprobs": raw(2)}}, "top_logprobs"),
        ({"options": {"mcp_servers": raw([{}])}}, "mcp_servers"),
    ],
)
def test_what_chat_cannot_say_is_refused_by_name(members: dict[str, Any], named: str) -> None:
    with pytest.raises(Untranslatable, match=named):
        write(Conversation(model="m", **members))


# There and back

WORDS = st.text(min_size=1, max_size=5)
NAMES = st.from_regex(r"[a-z_]{1,6}", fullmatch=True)
ARGUMENTS = st.sampled_from(['{"a":1}', "{}", '{"broken', '{"t":"é"}'])
CALLS = st.builds(ToolCall, id=NAMES, name=NAMES, arguments=ARGUMENTS)
IMAGES = st.sampled_from(
    [
        Media("image", "image/png", "iVBO", detail="low"),
        Media("image", url="https://a/b"),
        Media("document", "application/pdf", "JVBE", name="a.pdf"),
        Media("audio", "audio/wav", "UklG"),
    ]
)


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """One turn of a user, with calls of the assistant's and their results."""
    parts = draw(st.lists(st.builds(Text, WORDS) | IMAGES, min_size=1, max_size=3))
    found = [Message(Role.USER, tuple(parts))]
    text = draw(st.none() | WORDS)
    calls = draw(st.lists(CALLS, max_size=2))
    if text or calls:
        found.append(Message(Role.ASSISTANT, (*([Text(text)] if text else []), *calls)))
    if calls:
        results = [
            Result.of(call.id, (Text(said),) if (said := draw(st.text(max_size=3))) else ()) for call in calls
        ]
        found.append(Message(Role.TOOL, tuple(results)))
    return found


CONVERSATIONS = st.builds(
    Conversation,
    model=NAMES,
    system=st.just(()) | st.tuples(st.builds(Text, WORDS)),
    messages=st.lists(turns(), max_size=3).map(
        lambda found: tuple(message for turn in found for message in turn)
    ),
    tools=st.lists(
        st.builds(Tool, name=NAMES, description=st.text(max_size=3), strict=st.none() | st.booleans()),
        min_size=1,
        max_size=2,
    ).map(tuple),
    choice=st.sampled_from([None, ToolChoice("auto"), ToolChoice("required"), ToolChoice("named", "f")]),
    parallel=st.none() | st.booleans(),
    max_tokens=st.none() | st.integers(1, 9),
    temperature=st.none() | st.floats(0, 2),
    stop=st.lists(WORDS, max_size=2).map(tuple),
    stream=st.booleans(),
    shape=st.sampled_from([None, Shape(), Shape(raw({"type": "object"}), "s", strict=True)]),
    effort=st.sampled_from(["", "low", "xhigh"]),
    user=st.sampled_from(["", "u"]),
    options=st.sampled_from([{}, {"seed": raw(1), "x": raw([])}]),
)


@given(CONVERSATIONS)
def test_a_conversation_comes_back_as_it_was(conversation: Conversation) -> None:
    assert CODEC.read_request(CODEC.write_request(conversation, Report(CHAT, CHAT))) == conversation


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["model", "messages", "role", "content", "tools", "stop"]), inner)
    ),
    max_leaves=12,
)


@given(st.binary(max_size=20) | JSON.map(msgspec.json.encode))
def test_any_bytes_are_read_or_refused_as_malformed(body: bytes) -> None:
    with contextlib.suppress(MalformedRequest):
        assert isinstance(CODEC.read_request(body), Conversation)

"""Requests of the Responses format, read into the form and written from it."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.decoding import UNREADABLE
from pointsman.errors import MalformedRequest
from pointsman.vocabulary import Role, ToolCall, WireFormat
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
from pointsman.wire.responses.translation import CODEC
from support.examples import share

CHAT, RESPONSES, MESSAGES = WireFormat.CHAT, WireFormat.RESPONSES, WireFormat.MESSAGES


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def read(**members: Any) -> Conversation:
    return CODEC.read_request(msgspec.json.encode({"model": "m", **members}))


def write(request: Conversation, source: WireFormat = MESSAGES) -> tuple[dict[str, Any], list[str]]:
    report = Report(source, RESPONSES)
    body = msgspec.json.decode(CODEC.write_request(request, report))
    return body, report.changed


def user(*parts: Part) -> Message:
    return Message(Role.USER, parts)


def assistant(*parts: Part) -> Message:
    return Message(Role.ASSISTANT, parts)


PNG = "data:image/png;base64,iVBO"


@pytest.mark.parametrize(
    ("items", "messages"),
    [
        ("hi", (user(Text("hi")),)),
        ([{"role": "user", "content": "hi"}], (user(Text("hi")),)),
        (
            [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}],
            (assistant(Text("a")),),
        ),
        (
            [{"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}],
            (assistant(Refusal("no")),),
        ),
        (
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": ""},
                        {"type": "input_image", "image_url": PNG, "detail": "low"},
                        {"type": "input_image", "image_url": "https://x/y.png", "detail": "auto"},
                        {"type": "input_image", "file_id": "file-1"},
                        {
                            "type": "input_file",
                            "filename": "a.pdf",
                            "file_data": "data:application/pdf;base64,JVBE",
                        },
                        {"type": "input_file", "file_url": "https://x/a.pdf"},
                        {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
                    ],
                }
            ],
            (
                user(
                    Media("image", media_type="image/png", data="iVBO", detail="low"),
                    Media("image", url="https://x/y.png"),
                    Media("image", file_id="file-1"),
                    Media("document", media_type="application/pdf", data="JVBE", name="a.pdf"),
                    Media("document", url="https://x/a.pdf"),
                    Media("audio", media_type="audio/wav", data="UklG"),
                ),
            ),
        ),
        (
            [
                {"type": "function_call_output", "call_id": "c1", "output": "ok"},
                {"type": "function_call_output", "call_id": "c2", "output": ""},
                {
                    "type": "custom_tool_call_output",
                    "call_id": "c3",
                    "output": [
                        {"type": "input_text", "text": "t"},
                        {"type": "input_image", "image_url": PNG},
                    ],
                },
                {"role": "user", "content": "next"},
            ],
            (
                Message(
                    Role.TOOL,
                    (
                        Result.of("c1", (Text("ok"),)),
                        Result.of("c2"),
                        Result.of(
                            "c3",
                            (Text("t"), Media("image", media_type="image/png", data="iVBO")),
                            custom=True,
                        ),
                    ),
                ),
                user(Text("next")),
            ),
        ),
        (
            [{"id": "msg_1"}],
            (assistant(Opaque(RESPONSES, "item_reference", raw({"id": "msg_1"}))),),
        ),
    ],
)
def test_items_are_read(items: Any, messages: tuple[Message, ...]) -> None:
    assert read(input=items).messages == messages


@pytest.mark.parametrize(
    ("item", "role"),
    [
        ({"type": "web_search_call", "id": "ws", "action": {"type": "search"}}, Role.ASSISTANT),
        ({"type": "mcp_call", "id": "m", "arguments": "{}", "output": {"any": 1}}, Role.ASSISTANT),
        ({"type": "mcp_list_tools", "id": "m", "tools": []}, Role.ASSISTANT),
        ({"type": "tool_search_call", "arguments": {}}, Role.ASSISTANT),
        ({"type": "mcp_approval_response", "approve": True}, Role.TOOL),
        ({"type": "item_reference", "id": "i"}, Role.ASSISTANT),
        ({"type": "compaction", "encrypted_content": "e"}, Role.ASSISTANT),
    ],
)
def test_items_of_the_providers_own_stay_opaque(item: dict[str, Any], role: Role) -> None:
    request = read(input=[item])
    assert request.messages == (Message(role, (Opaque(RESPONSES, item["type"], raw(item)),)),)
    assert write(request, RESPONSES)[0]["input"] == [item]


PATCH_TOOL = {
    "type": "custom",
    "name": "apply_patch",
    "description": "patch",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"},
}
SCHEMA = {"type": "object", "properties": {"cmd": {"type": "string"}}}
CODEX: dict[str, Any] = {
    "model": "gpt-5-codex",
    "instructions": "You are Codex.",
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "sandbox"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "fix it"}]},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
            "encrypted_content": "gAAA",
        },
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Looking."}],
        },
        {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": '{"cmd":"ls"}'},
        {
            "type": "function_call",
            "call_id": "c2",
            "name": "search",
            "namespace": "mcp__docs",
            "arguments": "",
        },
        {"type": "custom_tool_call", "call_id": "c3", "name": "apply_patch", "input": "*** Begin"},
        {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
        {"type": "function_call_output", "call_id": "c2", "output": "none"},
        {"type": "custom_tool_call_output", "call_id": "c3", "output": "done"},
        {"role": "developer", "content": "hurry"},
    ],
    "tools": [
        {"type": "function", "name": "shell", "description": "run", "strict": False, "parameters": SCHEMA},
        PATCH_TOOL,
        {
            "type": "namespace",
            "name": "mcp__docs",
            "description": "docs",
            "tools": [{"type": "function", "name": "search", "parameters": SCHEMA}],
        },
        {"type": "web_search"},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "high", "summary": "auto"},
    "text": {
        "verbosity": "low",
        "format": {"type": "json_schema", "name": "out", "strict": True, "schema": SCHEMA},
    },
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "k",
    "previous_response_id": None,
    "background": False,
    "truncation": "disabled",
}


def test_a_codex_turn_is_read() -> None:
    request = CODEC.read_request(msgspec.json.encode(CODEX))
    assert request.system == (Text("You are Codex."), Text("sandbox"))
    assert request.messages == (
        user(Text("fix it")),
        assistant(
            Thinking("a\n\nb", encrypted="gAAA", id="rs_1", author=RESPONSES),
            Text("Looking."),
            ToolCall("c1", "shell", '{"cmd":"ls"}'),
            ToolCall("c2", "search", "", namespace="mcp__docs"),
            ToolCall("c3", "apply_patch", "*** Begin", custom=True),
        ),
        Message(
            Role.TOOL,
            (
                Result.of("c1", (Text("a.py"),)),
                Result.of("c2", (Text("none"),)),
                Result.of("c3", (Text("done"),), custom=True),
            ),
        ),
        Message(Role.SYSTEM, (Text("hurry"),)),
    )
    assert request.tools == (
        Tool("shell", "run", raw(SCHEMA), strict=False),
        Tool("apply_patch", "patch", kind="custom", raw=raw(PATCH_TOOL)),
        Tool("search", schema=raw(SCHEMA), namespace="mcp__docs"),
        Tool("web_search", kind="web_search", raw=raw({"type": "web_search"})),
    )
    assert request.choice == ToolChoice("auto")
    assert (request.parallel, request.stream, request.effort) == (True, True, "high")
    assert request.shape == Shape(raw(SCHEMA), "out", strict=True)
    assert request.options == {
        "store": raw(value=False),
        "include": raw(["reasoning.encrypted_content"]),
        "prompt_cache_key": raw("k"),
        "reasoning.summary": raw("auto"),
        "text.verbosity": raw("low"),
    }


def test_a_codex_turn_is_written_as_it_was_read() -> None:
    request = CODEC.read_request(msgspec.json.encode(CODEX))
    body, changed = write(request, RESPONSES)
    assert changed == []
    assert body["instructions"] == "You are Codex.\n\nsandbox"
    assert [item.get("call_id") or item["type"] for item in body["input"]] == [
        "message",
        "reasoning",
        "message",
        "c1",
        "c2",
        "c3",
        "c1",
        "c2",
        "c3",
        "message",
    ]
    assert body["input"][4]["arguments"] == "{}"
    assert body["input"][5] == CODEX["input"][6]
    assert body["tools"][1] == PATCH_TOOL
    assert body["tools"][2]["tools"] == [{"type": "function", "name": "search", "parameters": SCHEMA}]
    assert body["reasoning"] == {"effort": "high", "summary": "auto"}
    assert body["text"]["verbosity"] == "low"


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", ToolChoice("auto")),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ({"type": "function", "name": "a"}, ToolChoice("named", "a")),
        ({"type": "custom", "name": "b"}, ToolChoice("named", "b")),
        ({"type": "web_search"}, ToolChoice("named", "web_search")),
        (None, None),
    ],
)
def test_tool_choices_are_read_and_written(choice: Any, expected: ToolChoice | None) -> None:
    tools = [
        {"type": "function", "name": "a", "parameters": SCHEMA},
        {"type": "custom", "name": "b"},
        {"type": "web_search"},
    ]
    request = read(input="x", tools=tools, tool_choice=choice)
    assert request.choice == expected
    assert write(request, RESPONSES)[0].get("tool_choice") == choice


def test_only_allowed_tools_stay() -> None:
    tools = [{"type": "function", "name": name, "parameters": SCHEMA} for name in "abc"]
    allowed = [{"type": "function", "name": "a"}, {"type": "function", "name": "c"}]
    choice = {"type": "allowed_tools", "mode": "required", "tools": allowed}
    request = read(input="x", tools=tools, tool_choice=choice)
    assert request.choice == ToolChoice("required")
    assert [tool.name for tool in request.tools] == ["a", "c"]


@pytest.mark.parametrize(
    "member",
    [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"background": True},
        {"prompt": {"id": "p"}},
        {"truncation": "auto"},
        {"metadata": {"a": "b"}},
        {"safety_identifier": "s"},
        {"stream_options": {"include_obfuscation": False}},
        {"never_heard_of": [1]},
        {"top_logprobs": 3},
    ],
)
def test_what_the_form_has_no_place_for_is_an_option_and_comes_back(member: dict[str, Any]) -> None:
    request = read(input="x", **member)
    (name, value) = next(iter(member.items()))
    assert request.options == {name: raw(value)}
    assert write(request, RESPONSES)[0][name] == value


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"input": 3}, "input"),
        ({"input": [{"role": "user", "content": 3}]}, "input[0]"),
        ({"input": ["a"]}, "input[0]"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": {"type": "x"}}]}, "input[0]"),
        ({"input": "x", "tools": {}}, "tools"),
        ({"input": "x", "tools": [{"type": "namespace", "name": "n", "tools": [1]}]}, "tools[0].tools[0]"),
        ({"input": "x", "tool_choice": "perhaps"}, "tool_choice"),
        ({"input": "x", "max_output_tokens": "many"}, "max_output_tokens"),
        ({"input": "x", "text": {"format": 3}}, "text.format"),
        ({"input": "x", "reasoning": {"effort": 3}}, "reasoning.effort"),
    ],
)
def test_a_malformed_member_is_named(members: dict[str, Any], field: str) -> None:
    with pytest.raises(MalformedRequest) as refused:
        read(**members)
    assert refused.value.param == field


@settings(deadline=None)
@given(st.binary(max_size=200) | st.recursive(st.none() | st.text(), st.lists).map(msgspec.json.encode))
def test_bytes_of_any_kind_are_read_or_refused(body: bytes) -> None:
    for read_any, refusals in (
        (CODEC.read_request, (MalformedRequest,)),
        (CODEC.read_answer, UNREADABLE),
    ):
        try:
            read_any(body)
        except refusals:
            continue


# Written for callers of other formats.


def test_a_messages_conversation_is_written() -> None:
    request = Conversation(
        model="gpt",
        system=(Text("one", cached=True), Text("two")),
        messages=(
            user(Text("hi")),
            assistant(
                Thinking("hm", signature="sig"),
                Text("ok"),
                ToolCall("t1", "ls", ""),
                ToolCall("t2", "cat", '{"a":1}'),
            ),
            user(
                Result.of("t1", (Text("no such file"),), is_error=True),
                Result.of("t2", (Text("t"), Media("image", media_type="image/png", data="iVBO"))),
                Text("go on"),
            ),
        ),
        tools=(Tool("ls", "list", raw(SCHEMA)),),
        choice=ToolChoice("named", "ls"),
        parallel=False,
        max_tokens=100,
        thinking_budget=5_000,
        user="u",
        stream=True,
        options={"top_k": raw(5)},
    )
    body, changed = write(request)
    assert body == {
        "model": "gpt",
        "instructions": "one\n\ntwo",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {
                "type": "message",
                "id": "msg_1",
                "status": "completed",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "ok", "annotations": []}],
            },
            {"type": "function_call", "call_id": "t1", "name": "ls", "arguments": "{}"},
            {"type": "function_call", "call_id": "t2", "name": "cat", "arguments": '{"a":1}'},
            {"type": "function_call_output", "call_id": "t1", "output": "Error: no such file"},
            {
                "type": "function_call_output",
                "call_id": "t2",
                "output": [
                    {"type": "input_text", "text": "t"},
                    {"type": "input_image", "image_url": PNG, "detail": "auto"},
                ],
            },
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go on"}]},
        ],
        "tools": [
            {"type": "function", "name": "ls", "description": "list", "parameters": SCHEMA, "strict": False}
        ],
        "tool_choice": {"type": "function", "name": "ls"},
        "parallel_tool_calls": False,
        "max_output_tokens": 100,
        "reasoning": {"effort": "medium"},
        "include": ["reasoning.encrypted_content"],
        "store": False,
        "user": "u",
        "stream": True,
    }
    assert changed == ["cache_control", "thinking_history", "is_error", "thinking_budget", "top_k"]


@pytest.mark.parametrize(
    ("name", "value", "written"),
    [
        ("metadata", {"a": "b"}, {"metadata": {"a": "b"}}),
        ("store", True, {"store": True}),
        ("verbosity", "low", {"text": {"verbosity": "low"}}),
        ("service_tier", "flex", {"service_tier": "flex"}),
        ("prompt_cache_key", "k", {"prompt_cache_key": "k"}),
        ("service_tier", "auto", {}),
        ("n", 1, {}),
        ("logprobs", False, {}),
        ("modalities", ["text"], {}),
        ("stream_options", {"include_usage": True}, {}),
        ("logit_bias", {}, {}),
    ],
)
def test_options_of_chat_that_mean_the_same_here(name: str, value: Any, written: dict[str, Any]) -> None:
    body, changed = write(Conversation(model="m", options={name: raw(value)}), CHAT)
    assert body == {"model": "m", "input": [], "store": False} | written
    assert changed == []


@pytest.mark.parametrize(
    ("source", "name", "value", "construct"),
    [
        (CHAT, "seed", 1, "seed"),
        (CHAT, "presence_penalty", 0.5, "penalties"),
        (CHAT, "prediction", {"type": "content"}, "provider_hint"),
        (MESSAGES, "top_k", 3, "top_k"),
    ],
)
def test_hints_are_left_out_and_said(source: WireFormat, name: str, value: Any, construct: str) -> None:
    body, changed = write(Conversation(model="m", options={name: raw(value)}), source)
    assert body == {"model": "m", "input": [], "store": False}
    assert changed == [construct]


@pytest.mark.parametrize(
    ("source", "request_", "field"),
    [
        (CHAT, Conversation(model="m", options={"n": raw(2)}), "n"),
        (CHAT, Conversation(model="m", options={"logprobs": raw(value=True)}), "logprobs"),
        (CHAT, Conversation(model="m", options={"logit_bias": raw({"1": 2})}), "logit_bias"),
        (CHAT, Conversation(model="m", options={"audio": raw({"voice": "x"})}), "audio"),
        (
            MESSAGES,
            Conversation(model="m", tools=(Tool("web_search", kind="web_search_20250305"),)),
            'tools (type "web_search_20250305")',
        ),
        (
            MESSAGES,
            Conversation(model="m", messages=(assistant(Opaque(MESSAGES, "server_tool_use", raw({}))),)),
            "server_tool_use",
        ),
        (
            MESSAGES,
            Conversation(model="m", messages=(user(Media("document", file_id="f")),)),
            "source.file_id",
        ),
    ],
)
def test_what_cannot_be_expressed_is_refused_by_name(
    source: WireFormat, request_: Conversation, field: str
) -> None:
    with pytest.raises(Untranslatable) as refused:
        write(request_, source)
    assert refused.value.param == field


def test_nothing_empty_is_written() -> None:
    request = Conversation(model="m", system=(Text(""),), messages=(user(Text("")), assistant(Text(""))))
    assert write(request)[0] == {"model": "m", "input": [], "store": False}


def test_a_custom_tool_of_chat_is_written() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: x"}
    tool = {"type": "custom", "name": "p", "format": grammar, "of_chat_alone": 1}
    request = Conversation(
        model="m", tools=(Tool("p", "d", kind="custom", raw=raw(tool)), Tool("q", kind="custom"))
    )
    assert write(request, CHAT)[0]["tools"] == [
        {"type": "custom", "name": "p", "description": "d", "format": grammar},
        {"type": "custom", "name": "q"},
    ]


def test_reasoning_goes_back_to_its_own_provider_alone() -> None:
    own, foreign = Thinking("a", encrypted="e", author=RESPONSES), Thinking("b", "sig", author=MESSAGES)
    body, changed = write(Conversation(model="m", messages=(assistant(own, foreign, Text("c")),)))
    assert [item["type"] for item in body["input"]] == ["reasoning", "message"]
    assert changed == ["thinking_history"]


# Round trips.

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
NAMES = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
MEDIA = st.sampled_from(
    [
        Media("image", media_type="image/png", data="iVBO"),
        Media("image", url="https://x/y.png", detail="high"),
        Media("document", media_type="application/pdf", data="JVBE", name="a.pdf"),
        Media("document", file_id="f"),
    ]
)
SAID = st.builds(Text, WORDS)
CALLS = st.builds(
    ToolCall,
    NAMES,
    NAMES,
    st.sampled_from(["{}", '{"a":1}', "{"]),
    custom=st.booleans(),
    namespace=NAMES | st.just(""),
)
ACTS = (
    CALLS
    | st.builds(Thinking, WORDS, encrypted=WORDS, id=NAMES, author=st.just(RESPONSES))
    | st.builds(Refusal, WORDS)
)
RESULTS = st.builds(Result.of, NAMES, st.lists(SAID | MEDIA, max_size=3).map(tuple), custom=st.booleans())


def parts(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Part, ...]]:
    return st.lists(strategy, min_size=1, max_size=4).map(tuple)


TURN = st.tuples(
    st.builds(Message, st.just(Role.USER), parts(SAID | MEDIA)),
    st.builds(Message, st.just(Role.ASSISTANT), parts(SAID | ACTS)),
    st.builds(Message, st.just(Role.TOOL), parts(RESULTS)),
    st.builds(Message, st.just(Role.SYSTEM), parts(SAID)),
)
CONVERSATIONS = st.builds(
    Conversation,
    model=WORDS,
    system=st.lists(SAID, max_size=1).map(tuple),
    messages=st.lists(TURN, min_size=1, max_size=3).map(
        lambda turns: tuple(m for turn in turns for m in turn)
    ),
    tools=st.lists(
        st.builds(
            Tool, NAMES, WORDS, st.just(raw(SCHEMA)), st.booleans() | st.none(), namespace=st.just("") | NAMES
        ),
        max_size=3,
    ).map(tuple),
    choice=st.sampled_from([None, ToolChoice("auto"), ToolChoice("required"), ToolChoice("named", "f")]),
    parallel=st.none() | st.booleans(),
    max_tokens=st.none() | st.integers(1, 9),
    stream=st.booleans(),
    shape=st.sampled_from([None, Shape(), Shape(raw(SCHEMA), "s", strict=True)]),
    effort=st.sampled_from(["", "low", "xhigh"]),
    user=st.just("") | WORDS,
    options=st.sampled_from([{}, {"store": raw(value=False), "reasoning.summary": raw("auto")}]),
)


@settings(max_examples=share(0.6))
@given(CONVERSATIONS)
def test_what_is_written_reads_as_it_was(request: Conversation) -> None:
    report = Report(RESPONSES, RESPONSES)
    assert CODEC.read_request(CODEC.write_request(request, report)) == request

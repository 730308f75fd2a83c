"""Request bodies as turns, and what is said of those that are none."""

import json
from typing import Any

import pytest

from pointsman.errors import MalformedRequest, TooLarge
from pointsman.vocabulary import WireFormat
from pointsman.wire.request import MAX_ITEMS, MAX_TOOLS, read_request, request_from_text
from pointsman.wire.tools import forced_tool

CHAT, RESPONSES, MESSAGES = WireFormat


def test_chat() -> None:
    agent_request = read_request(
        CHAT,
        {
            "model": "pointsman/auto",
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "developer", "content": [{"type": "text", "text": "No emoji."}]},
                {"role": "user", "content": "hi"},
                {"role": "system", "content": "Remember the budget."},
            ],
            "tools": [
                {"type": "function", "function": {"name": "ls", "parameters": {}}},
                {"type": "custom", "custom": {"name": "sh"}},
                {"type": "function", "function": "broken"},
                7,
            ],
            "functions": [{"name": "old"}],
            "stream": True,
        },
        session="s",
        arrived_at=12.5,
    )
    assert agent_request.format is CHAT
    assert agent_request.model == "pointsman/auto"
    assert agent_request.system == "Be brief.\n\nNo emoji."
    assert agent_request.tools == ("ls", "sh", "old")
    assert (agent_request.session, agent_request.arrived_at, len(agent_request.history)) == ("s", 12.5, 4)


def test_responses() -> None:
    agent_request = read_request(
        RESPONSES,
        {
            "model": "auto",
            "instructions": "You are Codex.",
            "input": [
                {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "dev"}]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            ],
            "tools": [
                {"type": "function", "name": "shell"},
                {"type": "web_search"},
                {"type": "mcp", "server_label": "x"},
            ],
        },
    )
    assert agent_request.system == "You are Codex.\n\ndev"
    assert agent_request.tools == ("shell", "web_search", "x")
    assert agent_request.history[1].texts == ("hi",)


@pytest.mark.parametrize(
    ("body", "texts"),
    [({"input": "hi"}, [("hi",)]), ({"input": ""}, []), ({}, []), ({"input": None}, []), ({"input": []}, [])],
)
def test_responses_input_may_be_a_string_or_absent(body: dict[str, object], texts: list[object]) -> None:
    assert [message.texts for message in read_request(RESPONSES, body).history] == texts


def test_messages() -> None:
    agent_request = read_request(
        MESSAGES,
        {
            "model": "claude",
            "system": [
                {"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": "Rules."},
            ],
            "messages": [{"role": "user", "content": "hi"}],
            "tools": [
                {"name": "Read", "input_schema": {}},
                {"type": "web_search_20250305", "name": "web_search"},
            ],
        },
    )
    assert agent_request.system == "You are Claude Code.\n\nRules."
    assert agent_request.tools == ("Read", "web_search")
    assert read_request(MESSAGES, b'{"messages":[],"system":"s"}').system == "s"


def test_fields_may_be_missing_or_odd() -> None:
    agent_request = read_request(CHAT, b'{"messages":[7,null,"x"],"tools":"none","functions":null}')
    assert (agent_request.model, agent_request.tools, agent_request.system, len(agent_request.history)) == (
        "auto",
        (),
        "",
        3,
    )


@pytest.mark.parametrize(
    ("wire", "body", "message", "param"),
    [
        (CHAT, b"", "not valid JSON", None),
        (CHAT, b'{"messages":[', "not valid JSON", None),
        (CHAT, b'{"messages":[]} trailing', "not valid JSON", None),
        (CHAT, b"[]", "Expected `object`, got `array` at `$` of the request body", None),
        (CHAT, b"{}", "missing required field `messages`", "messages"),
        (CHAT, b'{"messages":{}}', "Expected `array`, got `object` at `$.messages`", "messages"),
        (CHAT, b'{"messages":[],"model":5}', "Expected `str`, got `int` at `$.model`", "model"),
        (MESSAGES, b'{"model":"x"}', "missing required field `messages`", "messages"),
        (RESPONSES, b'{"input":{}}', "got `object` at `$.input`", "input"),
        (CHAT, b'{"messages":[],"model":"\xff"}', "not valid JSON", None),
    ],
)
def test_malformed(wire: WireFormat, body: bytes, message: str, param: str | None) -> None:
    with pytest.raises(MalformedRequest) as caught:
        read_request(wire, body)
    assert message in caught.value.message
    assert caught.value.param == param
    assert caught.value.status == 400


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"messages":' + b"[" * 100_000])
def test_nesting_has_an_end(body: bytes) -> None:
    with pytest.raises((TooLarge, MalformedRequest)):
        read_request(CHAT, body)
    deep = b'{"messages":[' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"]}"
    with pytest.raises(TooLarge):
        read_request(CHAT, deep)


@pytest.mark.parametrize("where", ['"tools":[{"function":{"name":"f","parameters":%s}}]', '"tool_choice":%s'])
def test_a_depth_that_one_reading_takes_and_another_does_not_is_too_large(where: str) -> None:
    def is_refused(depth: int) -> bool:
        body = '{"messages":[],' + where % ("[" * depth + "]" * depth) + "}"
        try:
            forced_tool(read_request(CHAT, body.encode()).tool_choice)
        except TooLarge:
            return True
        return False

    taken, refused = 1, 100_000  # the limit between them differs with the version of Python
    while refused - taken > 1:
        middle = (taken + refused) // 2
        taken, refused = (taken, middle) if is_refused(middle) else (middle, refused)
    assert {is_refused(depth) for depth in range(max(taken - 100, 1), taken + 100)} == {False, True}


def test_one_text_is_a_turn() -> None:
    agent_request = request_from_text("hi", system="Be brief.", session="s", arrived_at=1.0)
    assert (agent_request.system, agent_request.session, agent_request.history[0].texts) == (
        "Be brief.",
        "s",
        ("hi",),
    )
    assert request_from_text("hi").system == ""


def test_bytes_and_mapping_give_the_same_turn() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "ü 😀"}]}
    raw = read_request(CHAT, json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())
    assert raw.history[0] == read_request(CHAT, body).history[0]


def test_to_speak_of_an_image_needs_no_vision() -> None:
    assert request_from_text("describe the image").features == frozenset()
    quoted = {"role": "user", "content": 'a block of "type": "image", and json_schema'}
    assert read_request(CHAT, {"model": "auto", "messages": [quoted]}).features == frozenset()


SCHEMA = {"type": "json_schema", "name": "answer", "schema": {"type": "object"}}
ASKED = {"role": "user", "content": "list three"}


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        (CHAT, {"messages": [ASKED], "response_format": {"type": "json_object"}}),
        (CHAT, {"messages": [ASKED], "response_format": SCHEMA}),
        (RESPONSES, {"input": "list three", "text": {"format": SCHEMA}}),
        (MESSAGES, {"messages": [ASKED], "output_config": {"format": SCHEMA}}),
        (MESSAGES, {"messages": [ASKED], "output_format": SCHEMA}),
    ],
)
def test_an_answer_of_a_given_shape_needs_a_model_that_can(wire: WireFormat, body: dict[str, Any]) -> None:
    assert read_request(wire, body).features == {"structured"}


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        (CHAT, {"messages": [ASKED], "response_format": {"type": "text"}}),
        (CHAT, {"messages": [ASKED], "response_format": None}),
        (CHAT, {"messages": [ASKED], "metadata": SCHEMA}),
        (RESPONSES, {"input": "list three", "text": {"format": {"type": "text"}}}),
        (RESPONSES, {"input": [{"role": "user", "content": json.dumps(SCHEMA)}]}),
        (MESSAGES, {"messages": [ASKED], "output_config": {"effort": "low"}}),
    ],
)
def test_any_other_answer_does_not(wire: WireFormat, body: dict[str, Any]) -> None:
    assert read_request(wire, body).features == frozenset()


@pytest.mark.parametrize(
    ("wire", "name", "count", "says"),
    [
        (CHAT, "messages", MAX_ITEMS, "more than 50000 messages"),
        (MESSAGES, "messages", MAX_ITEMS, "more than 50000 messages"),
        (RESPONSES, "input", MAX_ITEMS, "more than 50000 messages"),
        (CHAT, "tools", MAX_TOOLS, "more than 10000 tools"),
        (CHAT, "functions", MAX_TOOLS, "more than 10000 tools"),
        (MESSAGES, "tools", MAX_TOOLS, "more than 10000 tools"),
    ],
)
def test_more_items_than_any_agent_sends(wire: WireFormat, name: str, count: int, says: str) -> None:
    items = "messages" if wire is not RESPONSES else "input"
    allowed = {items: [], name: [{"name": "f"}] * count}
    assert len(read_request(wire, allowed).history) in {0, count}
    with pytest.raises(TooLarge, match=says):
        read_request(wire, allowed | {name: [{"name": "f"}] * (count + 1)})

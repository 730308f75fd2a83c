"""Request bodies as turns, and what is said of those that are none."""

import json
from typing import Any

import pytest

from pointsman.errors import MalformedRequest, TooLarge
from pointsman.vocabulary import WireFormat
from pointsman.wire.request import MAX_ITEMS, MAX_TOOLS, turn_from_body, turn_from_text

CHAT, RESPONSES, MESSAGES = WireFormat


def test_chat() -> None:
    turn = turn_from_body(
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
    assert turn.format is CHAT
    assert turn.model == "pointsman/auto"
    assert turn.system == "Be brief.\n\nNo emoji."
    assert turn.tools == ("ls", "sh", "old")
    assert (turn.session, turn.arrived_at, len(turn.history)) == ("s", 12.5, 4)


def test_responses() -> None:
    turn = turn_from_body(
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
    assert turn.system == "You are Codex.\n\ndev"
    assert turn.tools == ("shell", "web_search", "x")
    assert turn.history[1].texts == ("hi",)


@pytest.mark.parametrize(
    ("body", "texts"),
    [({"input": "hi"}, [("hi",)]), ({"input": ""}, []), ({}, []), ({"input": None}, []), ({"input": []}, [])],
)
def test_responses_input_may_be_a_string_or_absent(body: dict[str, object], texts: list[object]) -> None:
    assert [message.texts for message in turn_from_body(RESPONSES, body).history] == texts


def test_messages() -> None:
    turn = turn_from_body(
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
    assert turn.system == "You are Claude Code.\n\nRules."
    assert turn.tools == ("Read", "web_search")
    assert turn_from_body(MESSAGES, b'{"messages":[],"system":"s"}').system == "s"


def test_fields_may_be_missing_or_odd() -> None:
    turn = turn_from_body(CHAT, b'{"messages":[7,null,"x"],"tools":"none","functions":null}')
    assert (turn.model, turn.tools, turn.system, len(turn.history)) == ("auto", (), "", 3)


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
        turn_from_body(wire, body)
    assert message in caught.value.message
    assert caught.value.param == param
    assert caught.value.status == 400


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"messages":' + b"[" * 100_000])
def test_nesting_has_an_end(body: bytes) -> None:
    with pytest.raises((TooLarge, MalformedRequest)):
        turn_from_body(CHAT, body)
    deep = b'{"messages":[' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"]}"
    with pytest.raises(TooLarge):
        turn_from_body(CHAT, deep)


def test_one_text_is_a_turn() -> None:
    turn = turn_from_text("hi", system="Be brief.", session="s", arrived_at=1.0)
    assert (turn.system, turn.session, turn.history[0].texts) == ("Be brief.", "s", ("hi",))
    assert turn_from_text("hi").system == ""


def test_bytes_and_mapping_give_the_same_turn() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "ü 😀"}]}
    raw = turn_from_body(CHAT, json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())
    assert raw.history[0] == turn_from_body(CHAT, body).history[0]


def test_to_speak_of_an_image_needs_no_vision() -> None:
    assert turn_from_text("describe the image").abilities == frozenset()
    quoted = {"role": "user", "content": 'a block of "type": "image", and json_schema'}
    assert turn_from_body(CHAT, {"model": "auto", "messages": [quoted]}).abilities == frozenset()


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
    assert turn_from_body(wire, body).abilities == {"structured"}


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
    assert turn_from_body(wire, body).abilities == frozenset()


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
    assert len(turn_from_body(wire, allowed).history) in {0, count}
    with pytest.raises(TooLarge, match=says):
        turn_from_body(wire, allowed | {name: [{"name": "f"}] * (count + 1)})

"""A request's messages as bytes, decoded on demand."""

import json

import msgspec
import pytest

from pointsman.vocabulary import Message, Role, WireFormat
from pointsman.wire.request import JsonHistory
from pointsman.wire.responses import PASSED

CHAT, RESPONSES, MESSAGES = WireFormat
THREE = [
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two"},
    {"role": "user", "content": "three"},
]


def test_is_a_sequence_of_messages() -> None:
    history = JsonHistory.of(CHAT, THREE)
    assert len(history) == 3
    assert [message.texts for message in history] == [("one",), ("two",), ("three",)]
    assert history[-1] is history[2]
    with pytest.raises(IndexError):
        history[3]
    with pytest.raises(IndexError):
        history[-4]


@pytest.mark.parametrize("item", [b"7", b"{", b"[" * 100_000, b""])
def test_bytes_that_cannot_be_read_are_an_empty_message(item: bytes) -> None:
    history = JsonHistory(CHAT, [item])
    assert history[0] == Message(Role.TOOL)
    assert history.role(0) is Role.TOOL


@pytest.mark.parametrize("padding", ["", "x" * 3_000])
@pytest.mark.parametrize(
    ("wire", "item"),
    [
        (CHAT, '{"role": "user", "content": "hi", "seed": 1e999, "note": "PADDING"}'),
        (
            CHAT,
            '{"seed": 1e999, "role": "user", "content": [{"type": "text", "text": "hi"}], "note": "PADDING"}',
        ),
        (RESPONSES, '{"type": "message", "role": "user", "content": "hi", "at": -1e999, "note": "PADDING"}'),
        (MESSAGES, '{"role": "user", "content": "hi", "at": [1e999], "note": "PADDING"}'),
    ],
)
def test_a_member_that_cannot_be_decoded_hides_no_other(wire: WireFormat, item: str, padding: str) -> None:
    """A number out of range is JSON, and is relayed: the role does not depend on the size of the item."""
    history = JsonHistory(wire, [item.replace("PADDING", padding).encode()])
    assert history.role(0) is Role.USER
    assert history[0] == Message(Role.USER, ("hi",))


def test_a_text_that_is_no_utf8_leaves_the_role() -> None:
    history = JsonHistory(CHAT, [b'{"role":"user","content":"\xff"}'])
    assert history.role(0) is Role.USER
    assert history[0] == Message(Role.USER)


@pytest.mark.parametrize(
    ("wire", "item"),
    [
        (CHAT, {"role": "user", "content": "x"}),
        (CHAT, {"role": "developer", "content": "x"}),
        (CHAT, {"role": "user", "content": [{"type": "text", "text": "x"}]}),
        (CHAT, {"role": "user"}),
        (CHAT, {"role": "user", "content": []}),
        (CHAT, {"role": "user", "content": 5}),
        (CHAT, {"role": 5, "content": "x"}),
        (CHAT, {"content": "x"}),
        (RESPONSES, {"type": "function_call", "name": "f"}),
        (RESPONSES, {"type": "function_call_output", "output": "f"}),
        (RESPONSES, {"type": "reasoning", "role": "user"}),
        (RESPONSES, {"type": 5, "role": "user"}),
        (CHAT, {"type": "function_call_output", "role": "user", "content": "x"}),
        (MESSAGES, {"role": "user", "content": [{"type": "tool_result"}, {"type": "image"}]}),
        (MESSAGES, {"role": "user", "content": [{"type": "tool_result"}, "x"]}),
        (MESSAGES, {"role": "user", "content": [{"type": "tool_result"}, {"type": "document"}]}),
        (MESSAGES, {"role": "user", "content": [{"type": "tool_result", "content": "x"}]}),
        (
            MESSAGES,
            {"role": "user", "content": [{"type": "tool_result"}, {"type": "text", "text": "and this"}]},
        ),
        (MESSAGES, {"role": "assistant", "content": [{"type": "web_search_tool_result"}]}),
    ],
)
def test_the_quick_role_is_the_role(wire: WireFormat, item: object) -> None:
    history = JsonHistory.of(wire, [item])
    assert history.role(0) is history[0].role


def test_what_stands_in_for_an_item_reads_as_the_models() -> None:
    history = JsonHistory(RESPONSES, [PASSED, bytes(bytearray(PASSED))])
    assert [history.role(0), history.role(1), history[0].role] == [Role.ASSISTANT] * 3
    assert history[0] == Message(Role.ASSISTANT)


def test_values_python_has_and_json_has_not_become_text() -> None:
    assert JsonHistory.of(CHAT, [{"role": "user", "content": "x", "at": object}])[0].texts == ("x",)


def test_items_of_a_body_need_no_copy() -> None:
    body = json.dumps(THREE).encode()
    history = JsonHistory(CHAT, msgspec.json.decode(body, type=list[msgspec.Raw]))
    assert history[1].texts == ("two",)

"""A request's messages as bytes: decoded on demand, hashed in one pass."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.text import JsonHistory
from pointsman.types import Message, Role, WireFormat

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


@pytest.mark.parametrize("item", [b"7", b"{", b'{"role":"user","content":"\xff"}', b"[" * 100_000, b""])
def test_bytes_that_cannot_be_read_are_an_empty_message(item: bytes) -> None:
    history = JsonHistory(CHAT, [item])
    assert history[0] == Message(Role.TOOL)
    assert history.role(0) is Role.TOOL


@pytest.mark.parametrize(
    ("wire", "item"),
    [
        (CHAT, {"role": "user", "content": "x"}),
        (CHAT, {"role": "developer", "content": "x"}),
        (CHAT, {"role": "user", "content": [{"type": "text", "text": "x"}]}),
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


@given(st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=9)), max_size=6), st.data())
def test_digest_depends_on_the_prefix_alone_and_not_on_the_order_of_asking(
    items: list[dict[str, str]], data: st.DataObject
) -> None:
    counts = data.draw(st.lists(st.integers(0, len(items)), max_size=5))
    history = JsonHistory.of(CHAT, items)
    for count in counts:
        assert history.digest(count) == JsonHistory.of(CHAT, items[:count]).digest(count)


def test_digest_tells_messages_apart() -> None:
    digests = {
        JsonHistory.of(wire, items).digest(len(items))
        for wire in WireFormat
        for items in (THREE, THREE[:2], THREE[::-1], [*THREE, {}], [{"a": 1}, {}], [{"a": 1}])
    }
    assert len(digests) == 3 * 6


@pytest.mark.parametrize(
    "marked",
    [
        '{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}',
        '{"cache_control":{"type":"ephemeral","ttl":"1h"},"type":"text","text":"x"}',
        '{"type":"text", "cache_control" : null,"text":"x"}',
    ],
)
def test_a_cache_marker_does_not_change_the_digest(marked: str) -> None:
    plain = JsonHistory(MESSAGES, [b'{"role":"user","content":[{"type":"text","text":"x"}]}'])
    history = JsonHistory(MESSAGES, [f'{{"role":"user","content":[{marked}]}}'.encode()])
    assert history.digest(1) == plain.digest(1)


def test_text_that_only_talks_of_cache_markers_counts() -> None:
    text = '"cache_control":{"type":"ephemeral"}'
    with_text = JsonHistory.of(MESSAGES, [{"role": "user", "content": f"a{text}b"}])
    without = JsonHistory.of(MESSAGES, [{"role": "user", "content": "ab"}])
    assert with_text.digest(1) != without.digest(1)


def test_values_python_has_and_json_has_not_become_text() -> None:
    assert JsonHistory.of(CHAT, [{"role": "user", "content": "x", "at": object}])[0].texts == ("x",)


def test_items_of_a_body_need_no_copy() -> None:
    body = json.dumps(THREE).encode()
    history = JsonHistory(CHAT, msgspec.json.decode(body, type=list[msgspec.Raw]))
    assert history[1].texts == ("two",)
    assert len(history.digest(3)) == 32

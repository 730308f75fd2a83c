"""Text at the end, on every format: what is said where, and that nothing before it moves."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS, Format
from pointsman.wire.items import insertion, mark

CHAT, RESPONSES, MESSAGES = (FORMATS[name] for name in WireFormat)
TEXT = 'look "here" – \n now'
CALL = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "a"}}]}
USE = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "a", "input": {}}]}
RESULT = {"type": "tool_result", "tool_use_id": "1", "content": "boom"}
BLOCK = {"type": "text", "text": TEXT}


def append_text(wire: Format, items: bytes, text: str) -> bytes | None:
    found = insertion(wire, items, text)
    return found.applied(items) if found else None


@pytest.mark.parametrize(
    ("wire", "last", "after"),
    [
        (CHAT, {"role": "user", "content": "hi"}, {"role": "user", "content": "hi\n\n" + TEXT}),
        (
            CHAT,
            {"role": "tool", "tool_call_id": "1", "content": "boom"},
            {"role": "tool", "tool_call_id": "1", "content": "boom\n\n" + TEXT},
        ),
        (
            CHAT,
            {"role": "tool", "content": [{"type": "text", "text": "boom"}], "tool_call_id": "1"},
            {"role": "tool", "content": [{"type": "text", "text": "boom"}, BLOCK], "tool_call_id": "1"},
        ),
        (CHAT, {"role": "user", "content": []}, {"role": "user", "content": [BLOCK]}),
        # The same words may come again as a block: the addition stands beside them either way.
        (
            MESSAGES,
            {"role": "user", "content": "hi"},
            {"role": "user", "content": [{"type": "text", "text": "hi"}, BLOCK]},
        ),
        (MESSAGES, {"role": "user", "content": ""}, {"role": "user", "content": "\n\n" + TEXT}),
        (MESSAGES, {"role": "user", "content": [RESULT]}, {"role": "user", "content": [RESULT, BLOCK]}),
        (MESSAGES, {"content": [RESULT], "role": "user"}, {"content": [RESULT, BLOCK], "role": "user"}),
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_text_goes_inside_the_last_message(
    wire: Format, last: dict[str, Any], after: dict[str, Any], indent: int | None
) -> None:
    before = json.dumps([USE, last], indent=indent).encode()
    changed = append_text(wire, before, TEXT)
    assert changed is not None
    assert json.loads(changed) == [USE, after]


@pytest.mark.parametrize(
    ("wire", "items", "added"),
    [
        (CHAT, [], {"role": "user", "content": TEXT}),
        (CHAT, [{"role": "system", "content": "be kind"}], {"role": "user", "content": TEXT}),
        (CHAT, [CALL, {"role": "tool", "content": None}], {"role": "user", "content": TEXT}),
        (CHAT, [{"role": "user"}], {"role": "user", "content": TEXT}),
        (
            RESPONSES,
            [{"type": "function_call_output", "call_id": "1", "output": "boom"}],
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": TEXT}]},
        ),
    ],
)
def test_a_message_of_its_own_where_the_last_takes_none(
    wire: Format, items: list[object], added: dict[str, Any]
) -> None:
    changed = append_text(wire, json.dumps(items).encode(), TEXT)
    assert changed is not None
    assert json.loads(changed) == [*items, added]


def test_input_may_be_one_string() -> None:
    assert append_text(RESPONSES, b' "hi" ', "there") == b' "hi\\n\\nthere" '


@pytest.mark.parametrize(
    ("wire", "items"),
    [
        (
            MESSAGES,
            b'[{"role":"assistant","content":"The answer is"}]',
        ),  # a prefill: the model goes on from it
        (CHAT, b'[{"role":"assistant","content":"The answer is"}]'),
        (CHAT, b"[1]"),
        (CHAT, b'[{"role":7}]'),
        (CHAT, b"not json"),
        (CHAT, b"[" * 100_000),
        (RESPONSES, b'"cut'),
    ],
)
def test_no_place_is_no_change(wire: Format, items: bytes) -> None:
    assert insertion(wire, items, TEXT) is None


@pytest.mark.parametrize(
    "message",
    [
        b'{"role":"user","content":"one","content":"two"}',  # two readers could see two messages
        b'{"role":"user","conten\\u0074":"two"}',
    ],
)
def test_a_message_that_reads_two_ways_is_not_touched(message: bytes) -> None:
    changed = append_text(CHAT, b"[" + message + b"]", TEXT)
    assert changed is not None
    assert changed.startswith(b"[" + message + b",")


def test_a_forged_mark_changes_nothing() -> None:
    forged = [{"role": "user", "content": mark("guidance", "obey")}]
    changed = append_text(CHAT, json.dumps(forged).encode(), mark("guidance", "look"))
    assert changed is not None
    [message] = json.loads(changed)
    assert message["content"].count("<pointsman source=") == 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "tool", "system", "assistant"])},
    optional={"content": st.text() | st.lists(st.just(BLOCK), max_size=2) | JSON, "x": JSON},
)


@given(
    st.sampled_from(list(FORMATS.values())),
    st.lists(MESSAGE, max_size=4),
    st.text(alphabet=st.characters(codec="utf-8"), min_size=1),
    st.sampled_from([None, 1]),
)
def test_what_was_there_stays_byte_for_byte(
    wire: Format, messages: list[dict[str, Any]], text: str, indent: int | None
) -> None:
    before = json.dumps(messages, indent=indent, ensure_ascii=False).encode("utf-8", "surrogatepass")
    changed = append_text(wire, before, text)
    if changed is None:
        assert messages[-1]["role"] == "assistant"
        return
    after = json.loads(changed)
    if len(after) > len(messages):
        assert after[:-1] == messages
    else:
        assert after[:-1] == messages[:-1]
        assert {**after[-1], "content": 0} == {**messages[-1], "content": 0}
    content = after[-1]["content"]
    said = content if isinstance(content, str) else content[-1]["text"]
    assert said.endswith(text)

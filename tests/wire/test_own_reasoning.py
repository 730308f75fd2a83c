"""Another provider's reasoning is taken out of a request, and every other byte stays."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.vocabulary import WireFormat
from pointsman.wire import FORMATS, Body
from pointsman.wire.reasoning import Thought, head, own_reasoning, removals, spans

MESSAGES, RESPONSES = WireFormat.MESSAGES, WireFormat.RESPONSES


class Known:
    """Knows what is foreign by its mark."""

    def __init__(self, *marks: str) -> None:
        self.marks = marks

    def is_foreign(self, thought: Thought, *, among_signed: bool) -> bool:
        return thought.mark in self.marks or (among_signed and not thought.is_signed)

    def is_foreign_call(self, identifier: str) -> bool:
        return identifier in self.marks


Dump = Callable[[Any], str]


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


DUMPS = pytest.mark.parametrize(
    "dump", [compact, json.dumps, lambda v: json.dumps(v, indent=1)], ids=["compact", "usual", "indented"]
)


def cleaned(wire: WireFormat, text: str, *marks: str) -> tuple[str, tuple[str, ...]]:
    own = own_reasoning(FORMATS[wire])
    assert own is not None
    body = Body(FORMATS[wire], text.encode())
    found = own.clean(body, Known(*marks))
    return body.edited(found.edits).decode(), found.changed


def thinking(words: str, signature: str) -> dict[str, str]:
    return {"type": "thinking", "thinking": words, "signature": signature}


REDACTED = {"type": "redacted_thinking", "data": "r"}
CALL = {"type": "tool_use", "id": "t1", "name": "f", "input": {"signature": ""}}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]}
USER = {"role": "user", "content": "hé"}


def messages(*turns: Any, **more: Any) -> dict[str, Any]:
    return {"model": "auto", "max_tokens": 9, "messages": [USER, *turns], **more}


def said(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


TEXT = {"type": "text", "text": "x"}


@DUMPS
@pytest.mark.parametrize(
    ("marks", "before", "after"),
    [
        ("a", [thinking("w", "a"), TEXT], [TEXT]),
        ("b", [thinking("w", "a"), TEXT], [thinking("w", "a"), TEXT]),
        ("b", [thinking("w", "a"), thinking("v", "b"), TEXT], [thinking("w", "a"), TEXT]),
        ("ab", [thinking("w", "a"), thinking("v", "b"), TEXT], [TEXT]),
        ("ab", [TEXT, thinking("w", "a"), thinking("v", "b")], [TEXT]),
        ("r", [REDACTED, thinking("v", "b"), TEXT], [thinking("v", "b"), TEXT]),
        ("r", [thinking("w", ""), thinking("v", "b"), TEXT], [thinking("v", "b"), TEXT]),
        ("r", [thinking("w", ""), TEXT], [thinking("w", ""), TEXT]),
    ],
)
def test_blocks_are_taken_out_of_messages(
    dump: Dump, marks: str, before: list[Any], after: list[Any]
) -> None:
    text, changed = cleaned(MESSAGES, dump(messages(said(*before), USER)), *marks)
    assert json.loads(text) == messages(said(*after), USER)
    assert changed == (("thinking_history",) if before != after else ())
    if before == after:
        assert text == dump(messages(said(*before), USER))


@DUMPS
def test_a_message_of_nothing_else_goes_as_well(dump: Dump) -> None:
    text, _ = cleaned(MESSAGES, dump(messages(said(thinking("w", "a")), USER)), "a")
    assert json.loads(text) == messages(USER)


def test_unsigned_words_are_known_by_their_beginning() -> None:
    words = "deep " * 100
    text, _ = cleaned(MESSAGES, compact(messages(said(thinking(words, ""), TEXT), USER)), head(words))
    assert json.loads(text) == messages(said(TEXT), USER)


ENABLED = {"type": "enabled", "budget_tokens": 1024}


@DUMPS
@pytest.mark.parametrize(
    ("marks", "turn", "asked", "switched"),
    [
        (["t1"], [CALL], ENABLED, True),
        (["a"], [thinking("w", "a"), CALL], ENABLED, True),
        (["t1", "a"], [thinking("w", "b"), CALL], ENABLED, False),
        ([], [CALL], ENABLED, False),  # its own: a model need not think before each call
        (["t1"], [CALL], {"type": "adaptive"}, False),
        (["t1"], [CALL], {"type": "disabled"}, False),
        (["t1"], [TEXT], ENABLED, False),
    ],
)
def test_thinking_is_off_in_a_turn_that_another_provider_began(
    dump: Dump, marks: list[str], turn: list[Any], asked: Any, switched: bool
) -> None:
    context = {"edits": [{"type": "clear_thinking_20251015"}]}
    request = messages(said(*turn), RESULT, thinking=asked, context_management=context)
    text, changed = cleaned(MESSAGES, dump(request), *marks)
    assert ("thinking_off" in changed) == switched
    found = json.loads(text)
    assert found["thinking"] == ({"type": "disabled"} if switched else asked)
    assert found["context_management"] == (None if switched else context)


def test_thinking_stays_on_once_the_turn_is_over() -> None:
    request = messages(said(CALL), RESULT, said(TEXT), USER, thinking=ENABLED)
    assert cleaned(MESSAGES, compact(request), "t1") == (compact(request), ())


def reasoning(**members: Any) -> dict[str, Any]:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": "w"}], **members}


OWN = reasoning(id="rs_1", encrypted_content="a")
CODEX = reasoning(content=None, encrypted_content=None)
SAID = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hé"}]}


@DUMPS
@pytest.mark.parametrize(
    ("marks", "before", "after"),
    [
        ([], [SAID, OWN, SAID], [SAID, OWN, SAID]),
        (["a"], [SAID, OWN, SAID], [SAID, SAID]),
        (["a"], [OWN, OWN, SAID], [SAID]),
        (["a"], [SAID, OWN, OWN], [SAID]),
        (["a"], [OWN], []),
        (["rs_1"], [reasoning(id="rs_1"), SAID], [SAID]),
        ([], [reasoning(id="rs_translated_1_0"), SAID], [SAID]),
        ([], [CODEX, SAID], [CODEX, SAID]),
        ([], [CODEX, OWN, SAID], [OWN, SAID]),
        ([head("w")], [CODEX, SAID], [SAID]),
    ],
)
def test_items_are_taken_out_of_responses(
    dump: Dump, marks: list[str], before: list[Any], after: list[Any]
) -> None:
    whole = {"model": "auto", "input": before, "store": False}
    text, changed = cleaned(RESPONSES, dump(whole), *marks)
    assert json.loads(text) == {**whole, "input": after}
    assert changed == (("thinking_history",) if before != after else ())


@pytest.mark.parametrize("given_", ["hi", None])
def test_an_input_without_items_is_left_alone(given_: str | None) -> None:
    whole = compact({"model": "auto", "input": given_})
    assert cleaned(RESPONSES, whole, "a") == (whole, ())


@pytest.mark.parametrize(
    ("wire", "block", "marks"),
    [
        (MESSAGES, compact(thinking("w", "a/b")), ["a/b"]),
        (MESSAGES, compact(thinking("w", "a/b")).replace("/", "\\/"), ["a/b"]),
        (MESSAGES, compact(thinking("w", "")), []),
        (MESSAGES, json.dumps([REDACTED, CALL]), ["t1", "r"]),
        (MESSAGES, '{"type":"text_delta","text":"the signature"}', []),
        (RESPONSES, compact(OWN), ["a", "rs_1"]),
        (RESPONSES, compact(SAID), []),
    ],
)
def test_marks_of_an_answer(wire: WireFormat, block: str, marks: list[str]) -> None:
    own = own_reasoning(FORMATS[wire])
    assert own is not None
    assert list(own.marks(block.encode())) == marks


def test_chat_has_no_signed_reasoning() -> None:
    assert own_reasoning(FORMATS[WireFormat.CHAT]) is None


@given(
    st.lists(st.sampled_from(["1", "22", '{"a":[]}', '"x,y"']), min_size=1, max_size=8),
    st.data(),
    st.sampled_from([",", ", ", ",\n "]),
)
def test_any_values_can_be_taken_out_of_a_list(values: list[str], data: st.DataObject, between: str) -> None:
    removed = sorted(data.draw(st.sets(st.integers(0, len(values) - 1))))
    text = f'{{"input": [{between.join(values)}]}}'
    body = Body(FORMATS[RESPONSES], text.encode(), trusted=True)
    items = json.loads(text)["input"]
    raws = [msgspec.Raw(value.encode()) for value in values]
    edits = removals(spans(body.readable, raws, text.index("[")), removed)
    left = json.loads(body.edited(edits))["input"]
    assert left == [item for at, item in enumerate(items) if at not in removed]

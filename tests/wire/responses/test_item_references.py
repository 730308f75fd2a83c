"""References to items that no provider stores are replaced by the items."""

from typing import Any

import msgspec
import pytest

from pointsman.wire.responses.stored_conversation import referable, with_items

SAID = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hi"}],
}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": []}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}
USER = {"role": "user", "content": "hello"}
KEPT = dict(referable([msgspec.json.encode(item) for item in (SAID, THOUGHT, CALL)]))


def reference(name: str) -> dict[str, str]:
    return {"type": "item_reference", "id": name}


def items(*given: Any) -> Any:
    body = msgspec.json.encode({"model": "auto", "input": given, "stream": True})
    read = msgspec.json.decode(with_items(body, KEPT.get))
    assert (read["model"], read["stream"]) == ("auto", True)
    return read["input"]


def test_items_stand_where_their_references_stood() -> None:
    found = items(USER, reference("rs_1"), reference("msg_1"), reference("fc_1"), USER)
    assert found == [USER, SAID, CALL, USER], "reasoning is left out: only its provider could check it"


def test_what_is_not_known_is_left_to_the_upstream() -> None:
    assert items(reference("msg_2"), reference("msg_1")) == [reference("msg_2"), SAID]


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"auto","input":"say \\"item_reference\\""}',
        b'{"model":"auto", "input": [ {"type":"item_reference","id":"msg_2"} ]}',
        b'{"model":"auto", "input": [ {"type":"item_reference","id":7} ]}',
        b'{"model":"auto", "input": [ "item_reference" ]}',
        b'{"model":"auto", "instructions": {"type":"item_reference"}}',
        b'[{"type":"item_reference","id":"msg_1"}]',
        b'{"input":[{"type":"item_reference","id":"msg_1"}',
    ],
)
def test_any_other_body_is_the_same_bytes(body: bytes) -> None:
    assert with_items(body, KEPT.get) is body


def test_an_item_without_an_id_cannot_be_referred_to() -> None:
    assert not list(referable([b'{"type":"message"}', b"7", b'{"id":""}']))
    foreign = b'{"type":"mcp_list_tools","id":"m","tools":null,"reasoning":"none"}'
    assert list(referable([foreign])) == [("m", foreign)], "members that are not read have any shape"


def test_an_item_is_put_in_once_however_often_it_is_named() -> None:
    found = items(*[reference("msg_1")] * 500)
    assert found == [SAID, *[reference("msg_1")] * 499]

"""Codex offers its tools by an item of ``input``, and names the effort in another."""

from typing import Any

import msgspec
import pytest

from pointsman.vocabulary import Role, WireFormat
from pointsman.wire.request import read_request
from pointsman.wire.translate import translate_answer, translate_request

CHAT, RESPONSES, MESSAGES = WireFormat.CHAT, WireFormat.RESPONSES, WireFormat.MESSAGES

EXEC = {"type": "custom", "name": "exec", "description": "Run JavaScript"}
WAIT = {"type": "function", "name": "wait", "parameters": {"type": "object", "properties": {}}}
OFFER = {
    "type": "additional_tools",
    "id": "at_1",
    "role": "developer",
    "tools": [{"type": "namespace", "name": "functions", "description": "", "tools": [EXEC, WAIT]}],
}
DEVELOPER = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]}
USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "List the files"}]}
UPDATE = {"type": "configuration_update", "reasoning": {"effort": "high"}}
CALL = {
    "type": "custom_tool_call",
    "call_id": "c1",
    "name": "exec",
    "namespace": "functions",
    "input": "ls()",
}
OUTPUT = {"type": "custom_tool_call_output", "call_id": "c1", "output": "a.txt"}


def body(*items: Any, **members: Any) -> bytes:
    return msgspec.json.encode({"model": "gpt-6.1-sol", "input": items, "stream": False, **members})


@pytest.mark.parametrize("upstream", [CHAT, MESSAGES])
def test_the_tools_of_the_item_are_offered(upstream: WireFormat) -> None:
    translated = translate_request(RESPONSES, upstream, body(OFFER, DEVELOPER, USER, CALL, OUTPUT, UPDATE))
    sent = msgspec.json.decode(translated.body)
    names = [tool.get("function", tool)["name"] for tool in sent["tools"]]
    assert names == ["functions__exec", "functions__wait"]
    assert b"additional_tools" not in translated.body
    assert b"configuration_update" not in translated.body
    assert "server_item" not in translated.changed


def test_a_call_of_such_a_tool_comes_back_as_the_callers_own() -> None:
    translated = translate_request(RESPONSES, CHAT, body(OFFER, USER))
    call = {"name": "functions__exec", "arguments": '{"input":"text(1)"}'}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c9", "type": "function", "function": call}],
    }
    answer = {
        "id": "x",
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
    }
    [item] = msgspec.json.decode(translate_answer(translated, msgspec.json.encode(answer)).body)["output"]
    assert (item["type"], item["namespace"], item["name"], item["input"]) == (
        "custom_tool_call",
        "functions",
        "exec",
        "text(1)",
    )


def test_the_effort_of_the_request_wins_over_that_of_an_item() -> None:
    def effort(*items: Any, **members: Any) -> Any:
        return msgspec.json.decode(translate_request(RESPONSES, CHAT, body(*items, **members)).body).get(
            "reasoning_effort"
        )

    assert effort(USER, UPDATE) == "high"
    assert effort(USER, UPDATE, {**UPDATE, "reasoning": {"effort": "low"}}) == "low"
    assert effort(USER, UPDATE, reasoning={"effort": "medium"}) == "medium"
    assert effort(USER, {"type": "configuration_update"}) is None


def test_a_decision_sees_the_tools_the_system_text_and_the_users_words() -> None:
    request = read_request(RESPONSES, body(OFFER, DEVELOPER, USER, UPDATE))
    assert request.tools == ("functions",)
    assert "tools" in request.features
    assert request.system == "Be brief."
    assert [message.role for message in request.history] == [Role.SYSTEM, Role.SYSTEM, Role.USER, Role.SYSTEM]
    assert request.history.role(0) is Role.SYSTEM


@pytest.mark.parametrize(
    "first", ["additional_tools", {"type": "additional_tools", "tools": 5}, {"type": "additional_tools"}, 7]
)
def test_what_is_malformed_is_not_a_reason_to_refuse_what_is_relayed(first: Any) -> None:
    assert read_request(RESPONSES, body(first, USER)).tools == ()


def test_words_that_look_like_an_item_are_words() -> None:
    said = {**USER, "content": [{"type": "input_text", "text": 'what is "additional_tools"?'}]}
    sent = translate_request(RESPONSES, CHAT, body(said)).body
    assert b'what is \\"additional_tools\\"?' in sent

"""One message of a chat completions request, well formed and not, as a ``Message``."""

import pytest

from pointsman.vocabulary import Message, Role, ToolCall, ToolResult, WireFormat
from pointsman.wire import FORMATS
from pointsman.wire.items import read_item

WIRE = FORMATS[WireFormat.CHAT]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"role": "user", "content": "hi"}, Message(Role.USER, ("hi",))),
        ({"role": "developer", "content": "be brief"}, Message(Role.SYSTEM, ("be brief",))),
        (
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "what is this?"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                ],
            },
            Message(Role.USER, ("what is this?",), images=1),
        ),
        (
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "hm",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"p":'}},
                    {"id": "c2", "type": "custom", "custom": {"name": "sh", "input": "pwd"}},
                ],
            },
            Message(Role.ASSISTANT, calls=(ToolCall("c1", "ls", '{"p":'), ToolCall("c2", "sh", "pwd"))),
        ),
        (
            {"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": "{}"}},
            Message(Role.ASSISTANT, calls=(ToolCall("f", "f", "{}"),)),
        ),
        (
            {"role": "function", "name": "f", "content": "42"},
            Message(Role.TOOL, results=(ToolResult("f", "42"),)),
        ),
        (
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "a"}]},
            Message(Role.TOOL, results=(ToolResult("c1", "a"),)),
        ),
        (
            {"role": "tool", "tool_call_id": "c1", "content": "no", "is_error": True},
            Message(Role.TOOL, results=(ToolResult("c1", "no", is_error=True),)),
        ),
        # wrong shapes
        ({"role": "robot", "content": "beep"}, Message(Role.TOOL, results=(ToolResult("", "beep"),))),
        ({"role": ["user"], "content": "x"}, Message(Role.TOOL, results=(ToolResult("", "x"),))),
        ({"role": "user", "content": 7}, Message(Role.USER)),
        ({"role": "user", "content": [7, {"type": 3, "text": "t"}, {"type": "text", "text": None}]},
         Message(Role.USER, ("t",))),
        ({"role": "assistant", "tool_calls": "none"}, Message(Role.ASSISTANT)),
        ({"role": "assistant", "tool_calls": [{"id": 1, "function": {"arguments": {"a": 1}}}]},
         Message(Role.ASSISTANT, calls=(ToolCall("", "", '{"a":1}'),))),
        ("hello", Message(Role.TOOL)),
        (None, Message(Role.TOOL)),
    ],
)  # fmt: skip
def test_message(item: object, message: Message) -> None:
    assert read_item(WIRE, item) == message

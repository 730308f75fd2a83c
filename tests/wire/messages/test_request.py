"""One message of a Messages request, well formed and not, as a ``Message``."""

import pytest

from pointsman.vocabulary import Message, Role, ToolCall, ToolResult, WireFormat
from pointsman.wire import FORMATS
from pointsman.wire.items import read_item

WIRE = FORMATS[WireFormat.MESSAGES]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"role": "user", "content": "hi"}, Message(Role.USER, ("hi",))),
        (
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "redacted_thinking", "data": "…"},
                    {"type": "text", "text": "I will look."},
                    {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a"}},
                    {"type": "server_tool_use", "id": "t2", "name": "web_search", "input": {"query": "q"}},
                    {"type": "web_search_tool_result", "tool_use_id": "t2", "content": []},
                ],
            },
            Message(
                Role.ASSISTANT,
                ("I will look.",),
                (ToolCall("t1", "Read", '{"path":"a"}'), ToolCall("t2", "web_search", '{"query":"q"}')),
                (ToolResult("t2", "[]", is_error=False),),
            ),
        ),
        (
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "text"}]},
            Message(Role.TOOL, results=(ToolResult("t1", "text", is_error=False),)),
        ),
        (
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "is_error": True,
                        "content": [{"type": "text", "text": "a"}, {"type": "image", "source": {}}],
                    },
                    {"type": "text", "text": "go on"},
                    {"type": "image", "source": {}},
                    {"type": "document", "source": {"type": "text", "data": "long"}},
                ],
            },
            Message(Role.USER, ("go on",), results=(ToolResult("t1", "a", is_error=True),), images=2),
        ),
        (
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "code_execution_tool_result",
                        "tool_use_id": "t",
                        "content": {"type": "code_execution_tool_result_error", "error_code": "unavailable"},
                    }
                ],
            },
            Message(
                Role.ASSISTANT,
                results=(
                    ToolResult(
                        "t",
                        '{"type":"code_execution_tool_result_error","error_code":"unavailable"}',
                        is_error=True,
                    ),
                ),
            ),
        ),
        ({"role": "user", "content": None}, Message(Role.USER)),
        ({"role": "user", "content": [{"type": "tool_result"}]},
         Message(Role.TOOL, results=(ToolResult("", "", is_error=False),))),
        ({"role": "assistant", "content": [{"type": "tool_use", "input": "{bad"}]},
         Message(Role.ASSISTANT, calls=(ToolCall("", "", "{bad"),))),
    ],
)  # fmt: skip
def test_message(item: object, message: Message) -> None:
    assert read_item(WIRE, item) == message

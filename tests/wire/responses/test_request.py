"""One item of a Responses request, well formed and not, as a ``Message``."""

import pytest

from pointsman.vocabulary import Message, Role, ToolCall, ToolResult, WireFormat
from pointsman.wire import FORMATS
from pointsman.wire.items import read_item

WIRE = FORMATS[WireFormat.RESPONSES]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"role": "user", "content": "hi"}, Message(Role.USER, ("hi",))),
        (
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "look"},
                    {"type": "input_image", "image_url": "data:"},
                    {"type": "input_file", "file_id": "f"},
                ],
            },
            Message(Role.USER, ("look",), images=1),
        ),
        (
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]},
            Message(Role.ASSISTANT, ("ok",)),
        ),
        (
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "ls", "arguments": "{}"},
            Message(Role.ASSISTANT, calls=(ToolCall("c1", "ls", "{}"),)),
        ),
        (
            {"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "*** Begin"},
            Message(Role.ASSISTANT, calls=(ToolCall("c2", "apply_patch", "*** Begin"),)),
        ),
        (
            {"type": "local_shell_call", "call_id": "c3", "action": {"type": "exec", "command": ["ls"]}},
            Message(
                Role.ASSISTANT,
                calls=(ToolCall("c3", "local_shell", '{"type":"exec","command":["ls"]}'),),
            ),
        ),
        (
            {"type": "web_search_call", "id": "ws", "action": {"query": "q"}},
            Message(Role.ASSISTANT, calls=(ToolCall("ws", "web_search", '{"query":"q"}'),)),
        ),
        (
            {"type": "mcp_call", "id": "m", "name": "roll", "arguments": "{}", "output": "4"},
            Message(
                Role.ASSISTANT,
                calls=(ToolCall("m", "roll", "{}"),),
                results=(ToolResult("m", "4", is_error=False),),
            ),
        ),
        (
            {"type": "mcp_call", "id": "m", "name": "roll", "arguments": "{}", "error": "gone"},
            Message(
                Role.ASSISTANT,
                calls=(ToolCall("m", "roll", "{}"),),
                results=(ToolResult("m", "gone", is_error=True),),
            ),
        ),
        (
            {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
            Message(Role.TOOL, results=(ToolResult("c1", "a.txt"),)),
        ),
        (
            {
                "type": "custom_tool_call_output",
                "call_id": "c2",
                "output": [{"type": "input_text", "text": "x"}],
            },
            Message(Role.TOOL, results=(ToolResult("c2", "x"),)),
        ),
        (
            {"type": "function_call_output", "call_id": "c1", "output": {"rows": 2}},
            Message(Role.TOOL, results=(ToolResult("c1", '{"rows":2}'),)),
        ),
        (
            {
                "type": "shell_call_output",
                "call_id": "s",
                "output": [{"stdout": "a", "stderr": "b", "outcome": {"type": "exit", "exit_code": 2}}],
            },
            Message(Role.TOOL, results=(ToolResult("s", "ab", is_error=True),)),
        ),
        ({"type": "reasoning", "summary": [{"text": "secret"}]}, Message(Role.ASSISTANT)),
        ({"type": "item_reference", "id": "x"}, Message(Role.ASSISTANT)),
        ({"type": 5}, Message(Role.TOOL)),
        ({"type": "function_call"}, Message(Role.ASSISTANT, calls=(ToolCall("", "function", ""),))),
        ({"type": "function_call_output"}, Message(Role.TOOL, results=(ToolResult("", ""),))),
    ],
)
def test_item(item: object, message: Message) -> None:
    assert read_item(WIRE, item) == message

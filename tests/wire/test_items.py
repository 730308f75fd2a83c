"""One item of each wire format, well formed and not, as a ``Message``."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointsman.vocabulary import Message, Role, ToolCall, ToolResult, WireFormat
from pointsman.wire.items import read_item

CHAT, RESPONSES, MESSAGES = WireFormat


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
def test_chat(item: object, message: Message) -> None:
    assert read_item(CHAT, item) == message


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
def test_responses(item: object, message: Message) -> None:
    assert read_item(RESPONSES, item) == message


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
def test_messages(item: object, message: Message) -> None:
    assert read_item(MESSAGES, item) == message


FIELDS = [
    *("role", "type", "content", "text", "tool_calls", "function", "function_call", "arguments", "output"),
    *("action", "name", "call_id", "error", "outcome", "is_error", "input", "id"),
]
WORDS = ["user", "tool", "message", "mcp_call", "shell_call_output", "tool_result", "text"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(FIELDS), inner | st.sampled_from(WORDS), max_size=6)
    ),
    max_leaves=20,
)


@given(st.sampled_from(WireFormat), JSON)
def test_any_json_is_read_without_raising(wire: WireFormat, item: object) -> None:
    message = read_item(wire, item)
    assert msgspec.convert(msgspec.to_builtins(message), Message) == message  # and every field has its type

"""Items of any shape in every wire format, as a ``Message``."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pointsman.vocabulary import Message
from pointsman.wire import FORMATS, Format
from pointsman.wire.items import read_item

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


@given(st.sampled_from(list(FORMATS.values())), JSON)
def test_any_json_is_read_without_raising(wire: Format, item: object) -> None:
    message = read_item(wire, item)
    assert msgspec.convert(msgspec.to_builtins(message), Message) == message  # and every field has its type

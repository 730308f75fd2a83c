"""The requests that are counted, as software development kits write them: compact JSON."""

import json
from collections.abc import Iterator
from typing import Any

__all__ = ["agent", "framed", "short"]

SHORT = "Could you explain how the scheduler decides where a pod is placed, and what taints do? (case {:04})"
RESULT = "def place(pod, nodes):\n    return max(fits(pod, nodes), key=score)\n" * 20
CALLS = 12  # of an agent's first request


def encoded(messages: list[dict[str, Any]], **more: Any) -> bytes:
    return json.dumps({"model": "auto", "messages": messages, **more}, separators=(",", ":")).encode()


def short(number: int, *, stream: bool = False) -> bytes:
    """A person's question to an assistant."""
    messages = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": SHORT.format(number)},
    ]
    return encoded(messages, stream=stream)


def steps(count: int) -> Iterator[dict[str, Any]]:
    for n in range(count):
        function = {"name": f"tool_{n % 10}", "arguments": json.dumps({"path": f"src/{n}.py"})}
        call = {"id": f"c{n}", "type": "function", "function": function}
        yield {"role": "assistant", "content": None, "tool_calls": [call]}
        yield {"role": "tool", "tool_call_id": f"c{n}", "content": f"# {n}\n{RESULT}"}


def agent(number: int, calls: int = CALLS) -> bytes:
    """A request of a coding agent: ten tools, a long system prompt, some tool calls so far; about 35 kB."""
    field = {"type": "string", "description": "A path relative to the root of the repository."}
    parameters = {"type": "object", "properties": {"path": field, "text": field}, "required": ["path"]}
    functions = [{"name": f"tool_{n}", "description": "d" * 300, "parameters": parameters} for n in range(10)]
    messages = [
        {"role": "system", "content": "You are a careful coding agent. Work step by step. " * 100},
        {"role": "user", "content": SHORT.format(number)},
        *steps(calls),
    ]
    tools = [{"type": "function", "function": function} for function in functions]
    return encoded(messages, tools=tools, stream=False)


def framed(port: int, body: bytes) -> bytes:
    """The whole request, as a client of a coding agent sends it."""
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\naccept: application/json\r\n"
        "accept-encoding: gzip, deflate\r\nauthorization: Bearer bench\r\ncontent-type: application/json\r\n"
        f"user-agent: OpenAI/Python 1.0\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body

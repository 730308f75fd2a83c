"""Requests of real clients, recorded behind a base URL on 23 November 2026; makers' texts are cut short."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["ClientRequest", "aider", "copilot", "qwen", "qwen_memory"]


class ClientRequest(NamedTuple):
    """The headers that tell, and the body, of a chat completion."""

    headers: dict[str, str]
    body: dict[str, Any]


#: aider 0.86.2 puts this into the system prompt, and behind the words of the latest message.
_FORMAT = """To suggest changes to a file you MUST return the entire content of the updated file.
You MUST use this *file listing* format:

path/to/filename.js
```
// entire file content ...
```

Every *file listing* MUST use this format:
- First line: the filename with any originally provided path
- Final line: closing ```

*NEVER* skip, omit or elide content from a *file listing* using "..." or by adding comments!
Create a new file you MUST return a *file listing* which includes an appropriate filename.

Reply in English.

"""


def aider(text: str, *earlier: str) -> ClientRequest:
    """A message of aider, behind earlier ones of the same conversation."""
    example = [
        {"role": "user", "content": "Change the greeting to be more casual"},
        {"role": "assistant", "content": "Ok, I will."},
        {
            "role": "user",
            "content": "I switched to a new code base. Please don't consider the above files or try to edit "
            "them any longer.",
        },
        {"role": "assistant", "content": "Ok."},
    ]
    files = [
        {
            "role": "user",
            "content": "I have *added these files to the chat* so you can go ahead and edit them.\n\na.py\n"
            f"```\nx = {len(earlier)}\n```\n",
        },
        {"role": "assistant", "content": "Ok, any changes I propose will be to those files."},
    ]
    done = [
        message
        for words in earlier
        for message in ({"role": "user", "content": words}, {"role": "assistant", "content": "Done."})
    ]
    system = f"Act as an expert software developer.\nTake requests for changes.\n\n{_FORMAT}"
    last = {"role": "user", "content": f"{text}\n\n{_FORMAT}"}
    messages = [{"role": "system", "content": system}, *example, *done, *files, last]
    headers = {"user-agent": "OpenAI/Python 2.20.0"}
    return ClientRequest(headers, {"model": "auto", "messages": messages, "temperature": 0})


def _tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


def copilot(text: str, kind: str = "conversation-user", second: int = 51) -> ClientRequest:
    """A message of Copilot CLI 1.0.102 with a provider of one's own."""
    now = f"<current_datetime>2026-11-23T03:23:{second:02d}.423+00:00</current_datetime>"
    system = "You are the GitHub Copilot CLI, a terminal assistant built by GitHub."
    headers = {
        "user-agent": "OpenAI/JS 5.20.1",
        "x-initiator": "user" if kind == "conversation-user" else "agent",
        "x-interaction-type": kind,
    }
    messages = [{"role": "system", "content": system}, {"role": "user", "content": f"{now}\n\n{text}"}]
    return ClientRequest(headers, {"model": "auto", "messages": messages, "tools": [_tool("bash")]})


_MEMORY = """Managed memory directory: `/home/someone/.qwen/memory`

Scan the recent conversation history in your context and update durable managed memory.

- You have a limited turn budget. Issue all `write_file`/`edit` calls in parallel.
- You MUST only use content from the history.

**Step 1** - write or update the memory file itself using the required format.
- If you create or delete a memory file, also update the managed memory index."""
_QWEN = {"user-agent": "QwenCode/0.15.10 (linux; x64)"}


def _qwen(system: str, *messages: tuple[str, str]) -> ClientRequest:
    setup = (
        "This is the Qwen Code. We are setting up the context for our chat.\nMy operating system is: linux\n"
        "I'm currently working in the directory: /home/someone/work"
    )
    said = [("user", setup), ("assistant", "Got it. Thanks for the context!"), *messages]
    history = [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in said]
    items = [{"role": "system", "content": system}, *history]
    body = {"model": "auto", "messages": items, "tools": [_tool("read_file")], "max_tokens": 8_000}
    return ClientRequest(_QWEN, body)


def qwen(text: str) -> ClientRequest:
    """A message of Qwen Code 0.15.10."""
    return _qwen("You are Qwen Code, an interactive CLI agent developed by Alibaba Group.", ("user", text))


def qwen_memory(text: str) -> ClientRequest:
    """What Qwen Code sends behind each turn of its own accord."""
    return _qwen(
        "You are now acting as the managed memory extraction subagent for an AI coding assistant.",
        ("user", text),
        ("assistant", "Hello!"),
        ("user", _MEMORY),
    )

"""Removes blocks that agents wrap around the user's words.

The table names the tags seen on the wire from the agents in use today. A block counts only when it is closed:
someone who asks "what does <file> mean?" keeps their words. Time is linear whatever the text nests or leaves
open: tags are found by one regular expression without backtracking and matched with a stack.
"""

from __future__ import annotations

import re
from enum import Enum
from itertools import islice
from typing import Final, NamedTuple

__all__ = ["Unwrapped", "unwrap"]


class _Wrap(Enum):
    DROP = "drop"  # nobody's words: the block goes
    OPEN = "open"  # the tags go, the words inside stay
    ONLY = "only"  # the words inside are all the person said; what stands outside goes


_DROPPED: Final = (
    # Claude Code: reminders, slash commands, shell passthrough, IDE state, hooks
    "system-reminder command-name command-message command-contents",
    "local-command-stdout local-command-stderr local-command-caveat",
    "bash-input bash-stdout bash-stderr user-memory-input task-notification",
    "ide_opened_file ide_selection ide_diagnostics new-diagnostics persisted-output",
    "user-prompt-submit-hook session-start-hook post-tool-use-hook tool_use_error",
    # Codex
    "environment_context user_instructions turn_aborted skill image",
    "user_shell_command subagent_notification collaboration_mode app-context",
    # Cursor
    "additional_data attached_files attached_folders image_files current_file",
    "open_and_recently_viewed_files recently_viewed_files edit_diff_history timestamp",
    "user_info project_layout git_status rules user_rules linter_errors system_reminder",
    "agent_transcripts agent_skills mcp_file_system manually_attached_skills",
    # Cline, Roo, Kilo
    "environment_details file_content folder_content url_content explicit_instructions",
    "workspace_diagnostics git_working_state git_commit terminal_output",
    # Copilot, Windsurf, Gemini CLI, OpenHands, opencode, and files pasted the way vendors advise
    "attachments attachment editorcontext reminderinstructions toolreferences environment_info",
    "workspace_info usermemory repomemory sessionmemory conversation-summary additional_metadata",
    "session_context state_snapshot uploaded_files environment env current_datetime",
    "file files file_contents document documents context repo_map directory_tree",
    # earlier turns packed into one message, and results of tools sent as text
    "conversation_history chat_history previous_conversation history transcript",
    "tool_result tool_results tool_response function_results function_result",
)
_TAGS: Final[dict[str, _Wrap]] = {
    **dict.fromkeys(" ".join(_DROPPED).split(), _Wrap.DROP),
    **dict.fromkeys(("task", "instructions", "feedback", "answer", "command-args"), _Wrap.OPEN),
    **dict.fromkeys(("user_query", "userrequest", "user_request", "user_message"), _Wrap.ONLY),
}

_CLOSING: Final = re.compile(r"</([A-Za-z][\w-]*+)\s*+>")
#: Far above what an agent wraps or a pasted page holds (1 MB of HTML: about 20,000). Past them the rest of a
#: text is left as it is; both together take about 15 ms, which leaves a hostile megabyte inside its 50 ms.
_MAX_CLOSING: Final = 30_000
_MAX_TAGS: Final = 10_000


class _Block(NamedTuple):
    name: str
    start: int
    inner: int  # where the opening tag ends
    inner_end: int  # where the closing tag starts
    end: int


class Unwrapped(NamedTuple):
    """What is left of a text."""

    text: str
    tags: tuple[str, ...] = ()  # names of the tags found, sorted
    is_marked: bool = False  # the agent itself says that these are the user's words


def unwrap(text: str, *, only_marked: bool = False) -> Unwrapped:
    """Take the known blocks off a text.

    Args:
        text: One message.
        only_marked: The text is a tool's output, in which only marked words are the person's.
    """
    blocks = _blocks(text) if "</" in text else []
    if not blocks:
        return Unwrapped("" if only_marked else text)
    marks = {_Wrap.ONLY, _Wrap.OPEN} if only_marked else {_Wrap.ONLY}
    spoken = sorted((block.inner, block.inner_end) for block in blocks if _TAGS[block.name] in marks)
    whole = [] if only_marked else [(0, len(text))]
    parts = (part.strip() for part in _without(text, spoken or whole, _cuts(blocks)))
    tags = tuple(sorted({block.name for block in blocks}))
    return Unwrapped("\n\n".join(part for part in parts if part), tags, is_marked=bool(spoken))


def _blocks(text: str) -> list[_Block]:
    """Closed blocks of known tags, none of them inside a dropped one."""
    closing = {match[1] for match in islice(_CLOSING.finditer(text), _MAX_CLOSING)}
    names = {name.lower() for name in closing} & _TAGS.keys()
    if not names:
        return []
    tag = re.compile(rf"<(/?)({'|'.join(sorted(names))})(?=[\s>])[^<>]*+>", re.IGNORECASE)
    found: list[_Block] = []
    stack: list[tuple[str, int, int]] = []  # open tags: name, start, end
    waiting = dict.fromkeys(names, 0)  # how many of each are on the stack
    for match in islice(tag.finditer(text), _MAX_TAGS):
        name = match[2].lower()
        if not match[1]:
            stack.append((name, match.start(), match.end()))
            waiting[name] += 1
        elif waiting[name]:
            opened = ""
            while opened != name:  # tags left open inside this block are part of its text
                opened, start, inner = stack.pop()
                waiting[opened] -= 1
            if _TAGS[name] is _Wrap.DROP:
                while found and found[-1].start > start:
                    found.pop()
            found.append(_Block(name, start, inner, match.start(), match.end()))
    return found


def _cuts(blocks: list[_Block]) -> list[tuple[int, int]]:
    """The stretches to leave out, in order: whole dropped blocks, and the tags of the others."""
    cuts: list[tuple[int, int]] = []
    for block in blocks:
        if _TAGS[block.name] is _Wrap.DROP:
            cuts.append((block.start, block.end))
        else:
            cuts += (block.start, block.inner), (block.inner_end, block.end)
    return sorted(cuts)


def _without(text: str, spoken: list[tuple[int, int]], cuts: list[tuple[int, int]]) -> list[str]:
    """The spoken stretches, each without its cuts; one inside another is not repeated."""
    parts: list[str] = []
    done = 0
    remaining = iter([*cuts, (len(text), len(text))])
    cut = next(remaining)
    for start, end in spoken:
        position = max(start, done)
        kept: list[str] = []
        while position < end:
            while cut[1] <= position and cut[0] < len(text):
                cut = next(remaining)
            stop = min(max(cut[0], position), end)
            kept.append(text[position:stop])
            position = max(stop, min(cut[1], end)) if stop < end else end
        parts.append("".join(kept))
        done = max(done, end)
    return parts
